# SPDX-License-Identifier: Apache-2.0
"""A farm as a Runner sees it: begin(), ended(), end_all(), as here.Here has them."""

import contextlib
import os
import queue
import secrets
import signal
import sys
import threading
import time
import zlib
from dataclasses import dataclass
from pathlib import Path

from ..exit_codes import Lost, UsageError
from ..outcome import Ended
from ..run_list import Job
from .task import Packer

PATIENCE = "PRESIL_FARM_PATIENCE"  # seconds without a worker that is fit
WATCH_SECONDS = 1.0
BRIEF_SECONDS = 1.0  # cases that take less are sent ahead
AHEAD = 4  # for each that runs


@dataclass
class Running:
    job: Job
    folder: Path
    log: Path
    future: object
    farm: "Farm"
    made: dict
    began: float

    @property
    def seconds(self) -> float:
        return time.monotonic() - self.began

    def says(self) -> str:
        return self.farm.where.get(self.future.key, "waits for a worker")


class Farm:
    """An opened farm with what the jobs of one run need."""

    def __init__(self, opened, jobs: list[Job], tell):
        from . import bootstrap

        self.opened, self.client, self.tell = opened, opened.client, tell
        self.token, (self.package, texts) = secrets.token_hex(6), bootstrap.package()
        self.node = sys.modules[f"{self.package}.farm.node"]
        self.packer, self.there = Packer(jobs, tell), set()
        self.needed = sorted({self.packer.profile(job) for job in jobs})
        self.running, self.done = [], queue.SimpleQueue()
        self.by_key, self.where, self.verdicts, self.told = {}, {}, {}, set()
        self.slots, self.count, self.seconds, self.alone_since = 0, 0, 0.0, time.monotonic()
        self.patience = float(os.environ.get(PATIENCE) or 600)
        asked = {"trees": self.packer.trees, "marks": self.packer.marks, "environment": self.packer.environment}
        asked["timings"] = self.packer.timings_asked()
        asked["profiles"] = {name: value for name, value in self.packer.profiles().items() if name in self.needed}
        self.client.register_plugin(bootstrap.OnScheduler(self.package, texts))
        self._bring(self.packer.store.digests())
        self.plugin = bootstrap.OnWorker(self.package, texts, self.token, asked)
        self.client.register_plugin(self.plugin)
        self._look()
        self._refuse_at_once()
        self.ends = threading.Event()
        self.watcher = threading.Thread(target=self._watch, daemon=True)
        self.watcher.start()

    # ---- artifacts ----

    def _hub(self, name: str, **what):
        return self.client.sync(getattr(self.client.scheduler, f"presil_{name}"), **what)

    def _bring(self, digests: list[str]) -> None:
        new = [digest for digest in digests if digest not in self.there]
        for digest in self._hub("lacks", digests=new) if new else []:
            for offset, data, last in self.packer.store.pieces(digest):
                why = self._hub("put", digest=digest, owner=self.token, offset=offset, data=data, last=last)
                if why:
                    raise UsageError(f"--farm {self.opened.name}: the scheduler does not keep an artifact: {why}")
        self.there.update(new)

    # ---- workers ----

    def _look(self) -> None:
        """Who is there, fit for what, and which case is where."""
        self.verdicts = self.client.run(self.node.verdict, self.token, on_error="ignore")
        threads = self.client.nthreads()
        fit = [address for address in self.verdicts if not self._why(address)]
        self.slots = sum(threads.get(address, 0) for address in fit)
        for address in sorted(set(self.verdicts) - set(fit) - self.told):
            self.told.add(address)
            self.tell(f"worker {self._named(address)} is left out: {self._why(address)}")
        names = {key: self._named(address) for address, keys in self.client.processing().items() for key in keys}
        self.where = names
        if self.slots:
            self.alone_since = time.monotonic()

    def _why(self, address: str) -> str:
        refused = self.verdicts[address]["refused"]
        return "its part of presil did not start" if refused is None else next(filter(None, refused.values()), "")

    def _named(self, address: str) -> str:
        return f"{self.verdicts.get(address, {}).get('host', '')} ({address})"

    def _refuse_at_once(self) -> None:
        """Of a farm whose workers are there already, none of which is fit."""
        if self.opened.fixed and self.verdicts and not self.slots:
            lines = [f"  {self._named(address)}: {self._why(address)}" for address in sorted(self.verdicts)]
            raise UsageError(f"--farm {self.opened.name}: none of its workers is fit:\n" + "\n".join(lines))

    def _watch(self) -> None:
        while not self.ends.wait(WATCH_SECONDS):
            with contextlib.suppress(Exception):  # the farm may be gone: told by its futures
                self._look()

    # ---- as a Runner wants it ----

    @property
    def at_once(self) -> int:
        brief = self.count and self.seconds / self.count < BRIEF_SECONDS
        return max(1, self.slots * (AHEAD if brief else 1))

    def begin(self, job: Job, folder: Path, log: Path) -> Running:
        task = self.packer.task(job, folder)
        made = task.pop("made_here")
        self._bring(list(task["files"]))
        profile = self.node.resource(self.token, self.packer.profile(job))
        key = f"presil-case-{secrets.token_hex(16)}"
        future = self.client.submit(self.node.run, self.token, task, key=key, resources={profile: 1}, pure=False)
        running = Running(job, folder, log, future, self, made, time.monotonic())
        self.by_key[key] = running
        self.running.append(running)
        future.add_done_callback(self.done.put)
        return running

    def ended(self) -> list[Ended]:
        futures = []
        with contextlib.suppress(queue.Empty):
            while True:
                futures.append(self.done.get_nowait())
        if not futures:
            self._patient()
            return []
        found, fine = [], [future for future in futures if future.status == "finished"]
        results = dict(zip((f.key for f in fine), self.client.gather(fine, errors="raise") if fine else []))
        for future in futures:
            running = self.by_key.pop(future.key)
            self.running.remove(running)
            found.append(self._of(running, future, results.get(future.key)))
        return found

    def _of(self, running: Running, future, told: dict | None) -> Ended:
        ended = Ended(running.job, running.folder, running.log, time.time(), running.seconds, None)
        if future.status in ("cancelled", "lost"):
            raise Lost(f"the farm {self.opened.name} is gone: its scheduler no longer answers")
        if told is None:
            ended.lost = _why_lost(future.exception())
            return ended
        self.count, self.seconds = self.count + 1, self.seconds + told["seconds"]
        for name, (packed, data) in told["files"].items():
            _write(running.folder / name, zlib.decompress(data) if packed else data)
        for mark, data in told["made"].items():
            _write(Path(running.made[mark]), data)
        ended.started, ended.seconds, ended.returncode = told["started"], told["seconds"], told["returncode"]
        ended.wall, ended.reason, ended.host = told["wall"], told["reason"], told["host"]
        if ended.returncode in (-signal.SIGILL, 128 + signal.SIGILL):
            ended.lost = f"illegal instruction on {ended.host}: what it ran was compiled for another processor"
        if self.packer.timings:
            self.packer.timings.take(ended, *told["timings"])
        if ended.reason:
            running.log.write_text(f"{ended.reason}\n")
        return ended

    def _patient(self) -> None:
        alone = time.monotonic() - self.alone_since
        if self.running and not self.slots and alone > self.patience:
            reasons = {self._why(address) for address in self.verdicts} or {"there is none"}
            raise Lost(f"the farm {self.opened.name} has had no fit worker for {alone:.0f} s: {'; '.join(reasons)}")

    def end_all(self) -> None:
        """Takes back what it has not done; workers end what they run, and are free for others."""
        futures = [running.future for running in self.running]
        self.running, self.by_key = [], {}
        if futures:
            with contextlib.suppress(Exception):  # it may be gone
                self.client.cancel(futures, force=True)
                deadline = time.monotonic() + 10
                while time.monotonic() < deadline:
                    self._look()
                    if not any(verdict["running"] for verdict in self.verdicts.values()):
                        break
                    time.sleep(0.1)

    def close(self) -> None:
        self.ends.set()
        with contextlib.suppress(Exception):
            self.client.unregister_worker_plugin(self.plugin.name)
        if self.packer.timings:
            self.packer.timings.close()


def _why_lost(error: BaseException) -> str:
    if type(error).__name__ == "KilledWorker":
        return f"the farm's workers died each time that they ran it (no memory left?): {error}"
    return f"the farm has no result: {type(error).__name__}: {error}"


def _write(path: Path, data: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}-{os.getpid()}")
    try:
        temporary.write_bytes(data)
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)


@contextlib.contextmanager
def opened(text: str, jobs: list[Job], at_once: int | None, cores: int, tell):
    """A farm for these jobs; on leaving it is as it was before."""
    from .address import connect

    place = connect(text, at_once, cores)
    try:
        farm = Farm(place, jobs, tell)
        try:
            yield farm
        finally:
            farm.close()
    finally:
        place.close()
