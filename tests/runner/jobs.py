# SPDX-License-Identifier: Apache-2.0
"""Runs stages on the machine's cores: one more at once than there are cores, as many of them wait half their time."""

import contextlib
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

from runner.results import Outcome, count, judge
from runner.stages import ROOT, Stage, commands, environment_of, room

SPINNER = "|/-\\"


def end_group(process: subprocess.Popen) -> None:
    """Ends a command with everything that it started."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, number)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(5)


def default_interrupt() -> None:
    """A shell starts its background jobs with SIGINT ignored, and tests of Ctrl-C would inherit that."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def last_line(log: Path) -> str:
    with log.open("rb") as file:
        file.seek(max(0, log.stat().st_size - 600))
        lines = [line for line in re.split(r"[\r\n]+", file.read().decode(errors="replace")) if line.strip()]
    return "".join(c for c in lines[-1] if c.isprintable()) if lines else ""


class Run:
    """One stage under way: its commands one after the other."""

    def __init__(self, stage: Stage, logs: Path, environment: dict, extra: list[str], jobs: int):
        self.stage, self.log, self.report = stage, logs / f"{stage.name}.log", logs / f"{stage.name}.xml"
        self.log.write_bytes(b"")
        self.report.unlink(missing_ok=True)
        self.environment = environment_of(stage, environment)
        self.left = commands(stage, self.report, extra, jobs)
        self.start = time.monotonic()
        self.process: subprocess.Popen | None = None
        self.processor = 0.0
        self._next()

    def _next(self) -> None:
        command = self.left.pop(0)
        with self.log.open("ab") as output:
            output.write(f"$ {shlex.join(command)}\n".encode())
            output.flush()
            self.process = subprocess.Popen(
                command,
                cwd=ROOT,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                env=self.environment,
                start_new_session=True,
                preexec_fn=default_interrupt,
            )

    @property
    def seconds(self) -> float:
        return time.monotonic() - self.start

    def _status(self) -> int | None:
        """The command's exit status once it has ended; what processor time it took, with all that it waited for."""
        if self.process.returncode is None:
            ended, status, usage = os.wait4(self.process.pid, os.WNOHANG)
            if ended:
                self.process.returncode = os.waitstatus_to_exitcode(status)
                self.processor += usage.ru_utime + usage.ru_stime
        return self.process.returncode

    def poll(self) -> Outcome | None:
        """The outcome once it is over."""
        status = self._status()
        if status is None and self.seconds <= self.stage.timeout:
            return None
        if status == 0 and self.left:
            end_group(self.process)
            self._next()
            return None
        return self.end(status)

    def end(self, status: int | None, interrupted: bool = False) -> Outcome:
        end_group(self.process)
        outcome = Outcome(self.stage.name, log=str(self.log.relative_to(ROOT)), interrupted=interrupted)
        outcome.seconds, outcome.processor = round(self.seconds, 1), round(self.processor, 1)
        if self.report.exists():
            count(self.stage, self.report, outcome)
        judge(self.stage, outcome, status)
        return outcome


class Progress:
    """A live line on a terminal, elsewhere a line every ten seconds for each stage that runs."""

    def __init__(self) -> None:
        self.beat, self.told = 0, time.monotonic() - 8
        self.live = sys.stdout.isatty()

    def show(self, running: list[Run]) -> None:
        if self.live:
            parts = [f"{run.stage.name} {run.seconds:.0f} s  {last_line(run.log)}" for run in running]
            width = max(20, (shutil.get_terminal_size().columns - 4) // max(1, len(parts)) - 3)
            text = " | ".join(part[:width].ljust(width) for part in parts)
            sys.stdout.write(f"\r\033[K{SPINNER[self.beat % 4]} {text}")
            self.beat += 1
        elif time.monotonic() - self.told >= 10:
            self.told = time.monotonic()
            for run in running:
                print(f"  {run.stage.name:<12} {run.seconds:6.1f} s  {last_line(run.log)}"[:150])
        sys.stdout.flush()

    def clear(self) -> None:
        if self.live:
            sys.stdout.write("\r\033[K")


def run_stages(stages: list[Stage], logs: Path, environment: dict, extra: list[str], jobs: int):
    """Yields outcomes as they come. First those whose tests run in parallel, with one stage of one core beside them;
    a stage that wants more room than is free is overtaken by those that fit.

    When interrupted it yields what the stages under way had come to, and raises KeyboardInterrupt.
    """
    waiting, running, progress = sorted(stages, key=lambda stage: not stage.parallel), [], Progress()
    try:
        while waiting or running:
            for stage in list(waiting):
                free = room(jobs) - sum(run.stage.slots(jobs) for run in running)
                if stage.slots(jobs) <= free:
                    waiting.remove(stage)
                    running.append(Run(stage, logs, environment, extra, jobs))
            progress.show(running)
            time.sleep(0.25)
            for run in list(running):
                outcome = run.poll()
                if outcome:
                    running.remove(run)
                    progress.clear()
                    yield outcome
    except KeyboardInterrupt:
        progress.clear()
        for run in running:
            yield run.end(None, interrupted=True)
        running = []
        raise
    finally:
        for run in running:
            end_group(run.process)
