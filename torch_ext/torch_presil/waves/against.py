# SPDX-License-Identifier: Apache-2.0
"""The simulator to compare with: a library, or one that is built of other RTL, a folder or a commit."""

import fcntl
import hashlib
import io
import os
import re
import shutil
import subprocess
import sys
import tarfile
import time
from dataclasses import dataclass
from pathlib import Path

from rich.markup import escape

from . import sessions, sibling
from .replay import SOURCE_TREE, is_library
from .trace import WavesError
from .view import View, load, views

TAIL = 12  # lines of a failed build that are shown


@dataclass(frozen=True)
class Other:
    """A simulator library in its build `trace`; its RTL, if that is known; the seconds that building it took."""

    library: Path
    rtl: Path | None = None
    seconds: float = 0.0


def _view(chip: str, path) -> View:
    """That whose `library` builds the bundle's chip."""
    candidates = [load(path)] if path else list(map(load, views()))
    for view in candidates:
        if view.library and view.library["chip"] == chip:
            return view
    raise WavesError(
        f"--against: RTL of the chip {chip} can't be built: no view says how ([library], docs/waves.md); "
        "name a simulator library (.so) in its build `trace`"
    )


def _git(folder: Path, *words: str) -> bytes:
    git = shutil.which("git")
    if not git:
        raise WavesError("--against COMMIT needs git, which is not installed: name a folder with the other RTL instead")
    done = subprocess.run([git, "-C", str(folder), *words], capture_output=True, check=False)
    if done.returncode:
        raise WavesError(done.stderr.decode(errors="replace").strip())
    return done.stdout


def _commit(name: str, rtl: Path, places: Path) -> Path:
    """The folder `rtl` as it is in a commit: beside it nothing else of that commit."""
    try:
        commit = _git(rtl, "rev-parse", "--verify", "--quiet", f"{name}^{{commit}}").decode().strip()
    except WavesError as error:
        raise WavesError(
            str(error) or f"--against {name}: neither a file, nor a folder, nor a commit of {rtl.resolve()}"
        ) from None
    target = places / commit[:12] / rtl.name
    if not target.is_dir():
        archive = tarfile.open(fileobj=io.BytesIO(_git(rtl, "archive", "--format=tar", commit, ".")))
        partial = target.with_name(f".{os.getpid()}")
        sibling("regress.untar").untar(archive, partial)
        try:
            partial.rename(target)
        except OSError:  # another process was faster
            shutil.rmtree(partial)
    return target


def _folder(path: Path, rtl: Path) -> Path:
    """A folder of RTL, or a tree that has one where this one has it."""
    inside = path / rtl.name
    return (inside if inside.is_dir() else path).resolve()


def _hash(rtl: Path) -> str:
    digest = hashlib.sha256()
    for path in sorted(p for p in rtl.rglob("*") if p.is_file() and "__pycache__" not in p.parts):
        digest.update(f"{path.relative_to(rtl)}\0".encode() + path.read_bytes())
    return digest.hexdigest()[:12]


def _step(command: list, log: Path, console, what: str, start: float) -> None:
    """Runs it with a line of progress; WavesError with the end of the log if it fails."""
    environment = {**os.environ, "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', '')}"}
    told = time.monotonic()
    with (
        open(log, "w") as text,
        console.status(what) as status,
        sessions.running(list(map(str, command)), environment) as process,
    ):
        for line in process.stdout:
            text.write(line)
            now = time.monotonic()
            shown = f"{what}  {now - start:.0f} s  {escape(line.strip()[:80])}"
            status.update(shown)
            if not console.is_terminal and now - told >= 5:
                told = now
                console.print(shown, highlight=False, soft_wrap=True)
        failed = process.wait()
    if failed:
        tail = "\n".join(re.findall(r"\S.*", log.read_text(errors="replace"))[-TAIL:])
        raise WavesError(f"{what} failed (status {failed}), the end of {log}:\n{tail}")


def _build(view: View, config: str, rtl: Path, name: str, places: Path, console) -> Other:
    place = places / f"{config}-{_hash(rtl)}"
    place.mkdir(parents=True, exist_ok=True)
    library = place / "lib" / f"libpresil_sim_{config}_trace.so"
    start, what = time.monotonic(), f"building the simulator of {escape(name)}"
    with open(place / ".lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        fresh = not library.exists()
        if not (place / "build.ninja").exists():
            # A copy: the user goes on editing, and another folder with the same files needs no build of its own.
            shutil.copytree(rtl, place / "rtl", dirs_exist_ok=True, ignore=shutil.ignore_patterns("__pycache__"))
            options = [f"-DRTL_DIR={place / 'rtl'}", f"-DCONFIG={config}", f"-DPython3_EXECUTABLE={sys.executable}"]
            project = ["cmake", "-S", view.library["project"], "-B", place, "-G", "Ninja", *options]
            _step(project, place / "configure.log", console, what, start)
        _step(["cmake", "--build", place], place / "build.log", console, what, start)
    seconds = time.monotonic() - start
    if fresh:
        text = f"built the simulator of {escape(name)} in {seconds:.0f} s: {escape(str(library))}"
        console.print(text, highlight=False, soft_wrap=True)
    return Other(library, rtl, seconds if fresh else 0.0)


def resolve(name: str, chip: str, config: str, view_path, console) -> Other:
    """name: a simulator library, a folder of RTL (or a tree with one), or a commit."""
    path = Path(name)
    if path.is_file():
        if not is_library(path):
            raise WavesError(
                f"{name}: --against of a bundle: a simulator library, a folder of RTL or a commit expected"
            )
        return Other(path)
    view = _view(chip, view_path)
    places = (SOURCE_TREE / "build" if (SOURCE_TREE / "CMakeLists.txt").is_file() else _cache()) / "against"
    rtl = _folder(path, view.rtl[0]) if path.is_dir() else _commit(name, view.rtl[0], places)
    return _build(view, config, rtl, name, places, console)


def _cache() -> Path:
    """An installed package's."""
    home = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(os.environ.get("PRESIL_CACHE") or Path(home) / "presil")
