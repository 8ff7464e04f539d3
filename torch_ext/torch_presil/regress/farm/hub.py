# SPDX-License-Identifier: Apache-2.0
"""The scheduler's part: artifacts, by the SHA-256 of their bytes, which the client brings once and each worker's
machine fetches once. Runs inside the scheduler; knows the standard library alone."""

import hashlib
import os
import shutil
import tempfile
import time
from pathlib import Path

CHUNK = 4 << 20


class Hub:
    """One in a scheduler, whichever clients come."""

    def __init__(self, scheduler):
        self.scheduler = scheduler
        self.folder = Path(tempfile.mkdtemp(prefix="presil-farm-hub-"))
        self.served = {}  # digest -> how often its beginning was fetched

    def close(self) -> None:
        shutil.rmtree(self.folder, ignore_errors=True)

    async def lacks(self, digests=()):
        return [digest for digest in digests if not (self.folder / digest).exists()]

    async def put(self, digest="", owner="", offset=0, data=b"", last=False):
        """A piece of an artifact; "" or why it can't be kept."""
        part = self.folder / f"{digest}.{owner}"
        try:
            with part.open("r+b" if offset else "wb") as file:
                file.seek(offset)
                file.write(data)
            if last:
                found = hashlib.sha256(part.read_bytes()).hexdigest()
                if found != digest:
                    return f"{digest[:12]} came with other bytes ({found[:12]})"
                os.replace(part, self.folder / digest)
        except OSError as error:
            part.unlink(missing_ok=True)
            return f"{error}; {self.folder} of the scheduler needs room for all artifacts (TMPDIR: elsewhere)"
        return ""

    async def get(self, digest="", offset=0):
        """(piece, size of the whole); None where there is no such artifact."""
        try:
            with (self.folder / digest).open("rb") as file:
                file.seek(offset)
                data = file.read(CHUNK)
                size = os.fstat(file.fileno()).st_size
        except FileNotFoundError:
            return None
        if offset == 0:
            self.served[digest] = self.served.get(digest, 0) + 1
        return data, size

    async def ready(self, worker=""):
        """A worker has said for what it is fit: cases that waited for one may go. dask looks only when a worker comes,
        and it says so a moment later."""
        state = self.scheduler.workers.get(worker)
        if state in self.scheduler.running:
            found = self.scheduler.bulk_schedule_unrunnable_after_adding_worker(state)
            self.scheduler.transitions(found, f"presil-ready-{time.monotonic()}")

    async def told(self):
        return dict(self.served)


def install(scheduler) -> None:
    """Its functions as the scheduler's, called presil_…"""
    if not hasattr(scheduler, "presil_hub"):
        scheduler.presil_hub = hub = Hub(scheduler)
        for name in ("lacks", "put", "get", "ready", "told"):
            scheduler.handlers[f"presil_{name}"] = getattr(hub, name)


def remove(scheduler) -> None:
    if hasattr(scheduler, "presil_hub"):
        scheduler.presil_hub.close()
