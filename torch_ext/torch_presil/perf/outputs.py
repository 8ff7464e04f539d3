# SPDX-License-Identifier: Apache-2.0
"""The files that a run writes: tried before it, which may take hours, and written one by one after it, so that one that
fails takes no other with it."""

import importlib.util
import os
import stat
import tempfile
from dataclasses import dataclass
from pathlib import Path

__all__ = ["Output", "check", "check_folder", "write"]


@dataclass
class Output:
    """what: in words; path: "" or None: not wanted; function(path) writes it; suffixes, package: that it needs."""

    what: str
    path: str | None
    function: object
    suffixes: tuple = ()
    package: str | None = None


def _is_plain(path: Path) -> bool:
    """A file that can be replaced, or nothing yet; not /dev/stdout, a pipe."""
    try:
        return stat.S_ISREG(path.stat().st_mode)
    except FileNotFoundError:
        return True


def check_folder(path: Path) -> None:
    """Makes it. OSError: it can't be made, or no file can be in it."""
    path.mkdir(parents=True, exist_ok=True)
    with tempfile.NamedTemporaryFile(dir=path, prefix=".presil-"):
        pass


def _check_one(output: Output) -> None:
    path = Path(output.path)
    if output.suffixes and path.suffix.lower() not in output.suffixes:
        raise ValueError(f"{output.what} {path}: a name that ends in {' or '.join(output.suffixes)} was expected")
    if output.package and importlib.util.find_spec(output.package) is None:
        raise ValueError(
            f"{output.what} {path} needs the Python package {output.package}, which is not installed: pip install "
            f"{output.package}"
        )
    try:
        if path.is_dir():
            raise IsADirectoryError(21, "there is a folder of this name")
        if _is_plain(path):
            check_folder(path.parent)
        elif not os.access(path, os.W_OK):
            raise PermissionError(13, "it may not be written")
    except OSError as error:
        raise ValueError(f"{output.what} {path} can't be written: {error.strerror or error}") from error


def check(outputs: list) -> None:
    """ValueError: a name, a folder or a package that would fail once all is measured; nothing is written."""
    seen = {}
    for output in filter(lambda o: o.path, outputs):
        _check_one(output)
        place = Path(output.path).resolve()
        if place in seen and _is_plain(place):
            raise ValueError(f"{output.what} and {seen[place]} would both be {output.path}: two names were expected")
        seen[place] = output.what


def _write_one(output: Output) -> None:
    path = Path(output.path)
    if not _is_plain(path):
        return output.function(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    # Beside it, with its suffix, then in its place: a full disk leaves the old one whole.
    handle, name = tempfile.mkstemp(prefix=f".{path.stem}-", suffix=path.suffix, dir=path.parent)
    os.close(handle)
    try:
        output.function(Path(name))
        os.chmod(name, path.stat().st_mode & 0o777 if path.exists() else 0o666 & ~_umask())
        os.replace(name, path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


def write(outputs: list, tell) -> list:
    """Writes what is wanted, tells each; the failures, in words."""
    failed = []
    for output in filter(lambda o: o.path, outputs):
        try:
            _write_one(output)
        except OSError as error:
            failed.append(f"{output.what} {output.path} can't be written: {error.strerror or error}")
        else:
            tell(f"{output.what}: {output.path}")
    return failed
