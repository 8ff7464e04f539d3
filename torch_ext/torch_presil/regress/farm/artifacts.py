# SPDX-License-Identifier: Apache-2.0
"""What goes to the farm as bytes: folders as archives, files as they are, each called by its SHA-256."""

import gzip
import hashlib
import io
import os
import subprocess
import tarfile
from pathlib import Path

from ..exit_codes import UsageError
from . import isa

CHUNK = 4 << 20
MOST_TREE = 1 << 30
CODE = (".so", "")  # of files that may be compiled: libraries, programs


class Store:
    """Artifacts of this client: digest -> bytes, or the file that has them."""

    def __init__(self):
        self.archives, self.files, self._of = {}, {}, {}
        self.needs = {}  # path -> what the machine must have, of libraries and programs

    def file(self, path: Path) -> str:
        path = path.resolve()
        facts = path.stat()
        key = (path, facts.st_size, facts.st_mtime_ns)
        if key not in self._of:
            digest = hashlib.sha256()
            with path.open("rb") as file:
                while data := file.read(CHUNK):
                    digest.update(data)
            self._of[key] = digest.hexdigest()
            self._look(path)
        self.files[self._of[key]] = path
        return self._of[key]

    def tree(self, files: dict[str, Path]) -> str:
        """An archive of these, whose bytes depend on names and contents alone."""
        total, out = 0, io.BytesIO()
        with gzip.GzipFile(fileobj=out, mode="wb", compresslevel=1, mtime=0) as packed:
            with tarfile.open(fileobj=packed, mode="w", format=tarfile.PAX_FORMAT) as tar:
                for name, path in sorted(files.items()):
                    data = path.read_bytes()
                    total += len(data)
                    if total > MOST_TREE:
                        raise UsageError(
                            f"--farm: {path.parent} and what is beside it has more than {MOST_TREE >> 20} MB: a "
                            "suite's folder goes to the farm as a whole; keep large files elsewhere"
                        )
                    entry = tarfile.TarInfo(name)
                    entry.size, entry.mode = len(data), 0o755 if os.access(path, os.X_OK) else 0o644
                    tar.addfile(entry, io.BytesIO(data))
                    self._look(path, data)
        archive = out.getvalue()
        digest = hashlib.sha256(archive).hexdigest()
        self.archives[digest] = archive
        return digest

    def _look(self, path: Path, data: bytes | None = None) -> None:
        if path.suffix in CODE or ".so." in path.name:
            found = isa.needs(path.read_bytes() if data is None else data)
            if found.machine:
                self.needs[path] = found

    def digests(self) -> list[str]:
        return [*self.archives, *self.files]

    def pieces(self, digest: str):
        """(offset, bytes, is it the last)"""
        if digest in self.archives:
            data = self.archives[digest]
            for offset in range(0, max(1, len(data)), CHUNK):
                yield offset, data[offset : offset + CHUNK], offset + CHUNK >= len(data)
            return
        path, offset = self.files[digest], 0
        size = path.stat().st_size
        with path.open("rb") as file:
            while True:
                data = file.read(CHUNK)
                last = offset + len(data) >= size or not data
                yield offset, data, last
                offset += len(data)
                if last:
                    return


def below(folder: Path, without=("build", "__pycache__", ".git", ".venv")) -> dict[str, Path]:
    """All files in a folder: of a git tree those that it tracks or could."""
    words = ["git", "-C", str(folder), "ls-files", "-zco", "--exclude-standard"]
    try:
        done = subprocess.run(words, capture_output=True, check=True)
        names = [name for name in done.stdout.decode().split("\0") if name]
        found = {name: folder / name for name in names if (folder / name).is_file()}
        if found:
            return found
    except (OSError, subprocess.CalledProcessError):
        pass
    found = {}
    for place, folders, names in os.walk(folder):
        folders[:] = [name for name in folders if name not in without]
        for name in names:
            path = Path(place, name)
            if path.is_file() and path.suffix != ".pyc":
                found[str(path.relative_to(folder))] = path
    return found
