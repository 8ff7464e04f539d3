# SPDX-License-Identifier: Apache-2.0
"""Cases as processes of this machine. What a Runner runs jobs on: this, or a farm (farm/machine.py)."""

import subprocess
import time
from dataclasses import dataclass
from pathlib import Path

from . import process
from .kinds import resolve
from .outcome import Ended
from .run_list import Job
from .signatures import last_line

POLL_SECONDS = 0.02


def jobs_of_each(at_once: int, runs: int, cores: int) -> int:
    """Processes of a case that can have several, so that few cases take all cores, too."""
    return max(1, cores // max(1, min(at_once, runs)))


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

    def says(self) -> str:
        return last_line(self.log)


class Here:
    """at_once: so many may run; jobs: processes of one that can have several; running: what does."""

    def __init__(self, at_once: int, jobs: int = 1):
        self.at_once, self.jobs, self.running = at_once, jobs, []

    def begin(self, job: Job, folder: Path, log: Path) -> Running:
        """Raises Skip, UsageError, OSError: it can't be begun."""
        started, began = time.time(), time.monotonic()
        command = resolve(job, folder, self.jobs)
        with process.uninterrupted():
            begun = process.start(command.argv, command.directory, command.environment, log)
            self.running.append(Running(job, begun, folder, log, started, began))
        return self.running[-1]

    def ended(self) -> list[Ended]:
        """What has ended since it was asked last; it no longer runs."""
        found = []
        for running in list(self.running):
            status, wall = running.process.poll(), False
            if status is None and running.seconds > running.job.timeout_seconds > 0:
                wall = True
            if status is None and not wall:
                continue
            seconds = running.seconds
            self.running.remove(running)
            process.end(running.process, str(running.folder))
            found.append(Ended(running.job, running.folder, running.log, running.started, seconds, status, wall))
        return found

    def end_all(self) -> None:
        """Ends what still runs, all at once, so that Ctrl-C takes no longer with many."""
        for running in self.running:
            process.ask_to_end(running.process)
        deadline = time.monotonic() + process.GRACE
        while time.monotonic() < deadline and any(r.process.poll() is None for r in self.running):
            time.sleep(POLL_SECONDS)
        for running in self.running:
            process.end(running.process, str(running.folder), grace=0)
        self.running = []
