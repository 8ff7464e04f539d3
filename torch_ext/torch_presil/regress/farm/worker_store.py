# SPDX-License-Identifier: Apache-2.0
"""A worker's timing store (docs/hybrid.md): it begins as the client's, and after a case tells what it has that the
client lacks. Runs inside the workers; knows the standard library alone."""

import os
import shutil
import subprocess
import threading
from pathlib import Path


class WorkerStore:
    """file: for the cases. known: what the client has, or was told. begin: the client's, None if it has none."""

    def __init__(self, place: Path, begin: Path | None):
        place.mkdir()
        self.file, self.known, self.lock = place / "timings.sqlite", place / "known.sqlite", threading.Lock()
        for path in (self.file, self.known) if begin else ():
            shutil.copyfile(begin, path)  # the cache's can't be written

    def new(self, program: str, environment: dict, out: Path) -> tuple[str, bytes]:
        """(why it can't be told, a store of the new launches); each is told once."""
        if not self.file.exists():
            return "", b""

        def ask(*words) -> subprocess.CompletedProcess:
            told = {"capture_output": True, "text": True, "env": {**os.environ, **environment}}
            return subprocess.run([program, "--store", *map(str, words)], check=False, **told)

        since = ["--new-since", self.known] if self.known.exists() else []
        with self.lock:  # another thread's case would tell the same ones
            done = ask(self.file, "--json", "export", out, *since)
            if done.returncode:
                return done.stderr.strip() or f"{program} ends with {done.returncode}", b""
            if done.stdout.strip() == '{"exported": 0}':
                return "", b""
            if ask(self.known, "merge", out).returncode:  # other numbers: a sample has emptied the store since
                self.known.unlink(missing_ok=True)
        return "", out.read_bytes()
