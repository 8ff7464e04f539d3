# SPDX-License-Identifier: Apache-2.0
"""Runs jobs, N at a time, each in its own process, and records each as it ends. No end of a job touches another."""

import shutil
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path

from . import process
from .baseline import Baselines
from .exit_codes import BAD, UsageError
from .run_list import Job
from .kinds import Skip, resolve
from .outcome import Ended, record
from .records import Run

POLL_SECONDS = 0.02


@dataclass
class Running:
    job: Job
    process: subprocess.Popen
    folder: Path
    log: Path
    started: float
    began: float

    @property
    def seconds(self) -> float:
        return time.monotonic() - self.began


class Runner:
    """`events` is told: started(running), ended(record), tick(runner)."""

    def __init__(self, run: Run, jobs: list[Job], at_once: int, known: Baselines, events, most_failures: int = 0):
        self.run, self.waiting, self.at_once, self.known, self.events = run, list(jobs), at_once, known, events
        self.most_failures, self.failures, self.running = most_failures, 0, []
        self.records, self.versions = [], run.plan.get("versions", {})

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
                if not self._collect():
                    time.sleep(POLL_SECONDS)
        finally:
            self._end_all()

    def _start(self, job: Job) -> None:
        folder = self.run.folder_of(job)
        shutil.rmtree(folder, ignore_errors=True)  # of an earlier, unfinished try
        folder.mkdir(parents=True)
        log, started, began = folder / "log", time.time(), time.monotonic()
        log.touch()
        try:
            command = resolve(job, folder)
            with process.uninterrupted():
                begun = process.start(command.argv, command.directory, command.environment, log)
                self.running.append(Running(job, begun, folder, log, started, began))
        except (Skip, UsageError, OSError) as error:
            log.write_text(f"{error}\n")
            self._done(Ended(job, folder, log, started, 0.0, None, reason=str(error)))
            return
        self.events.started(self.running[-1])

    def _collect(self) -> bool:
        """Records what has ended; whether anything had."""
        found = False
        for running in list(self.running):
            status, wall = running.process.poll(), False
            if status is None and running.seconds > running.job.timeout_seconds > 0:
                wall = True
            if status is None and not wall:
                continue
            seconds = running.seconds
            self.running.remove(running)
            process.end(running.process, str(running.folder))
            self._done(Ended(running.job, running.folder, running.log, running.started, seconds, status, wall))
            found = True
        return found

    def _done(self, ended: Ended) -> None:
        told = record(ended, self.run.path, self.versions, self.known)
        self.run.append(told)
        self.records.append(told)
        self.failures += told["status"] in BAD
        self.events.ended(told)

    def _end_all(self) -> None:
        """Ends what still runs, all at once, so that Ctrl-C takes no longer with many."""
        for running in self.running:
            process.ask_to_end(running.process)
        deadline = time.monotonic() + process.GRACE
        while time.monotonic() < deadline and any(r.process.poll() is None for r in self.running):
            time.sleep(POLL_SECONDS)
        for running in self.running:
            process.end(running.process, str(running.folder), grace=0)
        self.running = []
