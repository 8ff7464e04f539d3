# SPDX-License-Identifier: Apache-2.0
"""Runs jobs, N at a time, each in its own process, and records each as it ends. No end of a job touches another.
Where they run is the machine's: here.py, or a farm."""

import shutil
import time

from .baseline import Baselines
from .exit_codes import BAD, UsageError
from .here import POLL_SECONDS
from .kinds import Skip
from .outcome import Ended, record
from .records import Run
from .run_list import Job


class Runner:
    """`machine` has begin(), ended(), end_all(), running, at_once (here.Here); `events` is told: started(running),
    ended(record), tick(runner)."""

    def __init__(self, run: Run, jobs: list[Job], machine, known: Baselines, events, most_failures: int = 0):
        self.run, self.waiting, self.machine, self.known, self.events = run, list(jobs), machine, known, events
        self.most_failures, self.failures = most_failures, 0
        self.records, self.versions = [], run.plan.get("versions", {})

    @property
    def running(self) -> list:
        return self.machine.running

    @property
    def at_once(self) -> int:
        return self.machine.at_once

    @property
    def stopped(self) -> bool:
        return bool(self.most_failures) and self.failures >= self.most_failures

    def go(self) -> None:
        """Until all are done, or --max-failures is reached. KeyboardInterrupt ends what runs, unrecorded."""
        try:
            while self.running or (self.waiting and not self.stopped):
                while len(self.running) < self.at_once and self.waiting and not self.stopped:
                    self._start(self.waiting.pop(0))
                self.events.tick(self)
                found = self.machine.ended()
                for ended in found:
                    self._done(ended)
                if not found:
                    time.sleep(POLL_SECONDS)
        finally:
            self.machine.end_all()

    def _start(self, job: Job) -> None:
        folder = self.run.folder_of(job)
        shutil.rmtree(folder, ignore_errors=True)  # of an earlier, unfinished try
        folder.mkdir(parents=True)
        log, started = folder / "log", time.time()
        log.touch()
        try:
            running = self.machine.begin(job, folder, log)
        except (Skip, UsageError, OSError) as error:
            log.write_text(f"{error}\n")
            self._done(Ended(job, folder, log, started, 0.0, None, reason=str(error)))
            return
        self.events.started(running)

    def _done(self, ended: Ended) -> None:
        told = record(ended, self.run.path, self.versions, self.known)
        self.run.append(told)
        self.records.append(told)
        self.failures += told["status"] in BAD
        self.events.ended(told)
