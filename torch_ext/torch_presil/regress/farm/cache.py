# SPDX-License-Identifier: Apache-2.0
"""Artifacts on a worker's machine: fetched once, whichever of its workers comes first. Runs inside the workers; knows
the standard library and regress/untar.py alone."""

import contextlib
import fcntl
import hashlib
import os
import shutil
import tarfile
import tempfile
import time
from pathlib import Path

from ..untar import untar

WHERE = "PRESIL_FARM_CACHE"
BYTES = "PRESIL_FARM_CACHE_BYTES"
MOST_BYTES = 8 << 30


def folder() -> Path:
    """Of the machine; of another user's or a read-only home: one in the temporary files."""
    home = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    places = [Path(os.environ[WHERE])] if os.environ.get(WHERE) else [Path(home, "presil", "farm")]
    places += [Path(tempfile.gettempdir(), f"presil-farm-{os.getuid()}")]
    for place in places:
        with contextlib.suppress(OSError):
            place.mkdir(parents=True, exist_ok=True)
            if os.access(place, os.W_OK):
                return place
    raise OSError(f"no folder for artifacts can be written: {', '.join(map(str, places))} ({WHERE} names another)")


class Cache:
    """fetch(digest, offset) -> (piece, size of the whole), or None: nobody has it."""

    def __init__(self, place: Path, fetch):
        self.place, self.fetch = place, fetch
        for name in ("files", "trees", "locks"):
            (place / name).mkdir(parents=True, exist_ok=True)

    @contextlib.contextmanager
    def _one_at_a_time(self, digest: str):
        with (self.place / "locks" / digest).open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield

    def file(self, digest: str) -> Path:
        """The artifact as it is."""
        path = self.place / "files" / digest
        if not path.exists():
            with self._one_at_a_time(digest):
                if not path.exists():
                    self._bring(digest, path)
        os.utime(path)
        return path

    def tree(self, digest: str) -> Path:
        """The artifact, a tar archive, as a folder."""
        path = self.place / "trees" / digest
        if not path.exists():
            with self._one_at_a_time(digest):
                if not path.exists():
                    self._unpack(digest, path)
        os.utime(path)
        return path

    def _bring(self, digest: str, path: Path) -> None:
        self.make_room()
        part, hashed, offset, size = path.with_name(f".{digest}.{os.getpid()}"), hashlib.sha256(), 0, 1
        try:
            with part.open("wb") as file:
                while offset < size:
                    found = self.fetch(digest, offset)
                    if found is None:
                        raise OSError(f"the scheduler has no artifact {digest[:12]} (was it started anew?)")
                    data, size = found
                    file.write(data)
                    hashed.update(data)
                    offset += len(data)
            if hashed.hexdigest() != digest:
                raise OSError(f"artifact {digest[:12]} came with other bytes ({hashed.hexdigest()[:12]})")
            part.chmod(0o555)
            os.replace(part, path)
        finally:
            part.unlink(missing_ok=True)

    def _unpack(self, digest: str, path: Path) -> None:
        archive, part = self.place / "files" / digest, path.with_name(f".{digest}.{os.getpid()}")
        try:
            self._bring(digest, archive)
            with tarfile.open(archive) as tar:
                untar(tar, part)
            os.replace(part, path)
        finally:
            archive.unlink(missing_ok=True)
            shutil.rmtree(part, ignore_errors=True)

    def make_room(self) -> None:
        """Ends what was not used for longest, above PRESIL_FARM_CACHE_BYTES; nothing of the last hour."""
        most = int(os.environ.get(BYTES) or MOST_BYTES)
        found = [p for name in ("files", "trees") for p in (self.place / name).iterdir() if not p.name.startswith(".")]
        sized = sorted((p.stat().st_mtime, _bytes(p), p) for p in found)
        total = sum(size for _, size, _ in sized)
        for used, size, path in sized:
            if total <= most or used > time.time() - 3600:
                break
            shutil.rmtree(path) if path.is_dir() else path.unlink(missing_ok=True)
            total -= size


def _bytes(path: Path) -> int:
    if path.is_file():
        return path.stat().st_size
    return sum(p.stat().st_size for p in path.rglob("*") if p.is_file())


def link_tree(source: Path, target: Path) -> None:
    """The same files under another folder."""
    for path in source.rglob("*"):
        to = target / path.relative_to(source)
        if path.is_dir():
            to.mkdir(parents=True, exist_ok=True)
        elif path.is_symlink():
            to.parent.mkdir(parents=True, exist_ok=True)
            to.symlink_to(os.readlink(path))
        else:
            to.parent.mkdir(parents=True, exist_ok=True)
            os.link(path, to)
