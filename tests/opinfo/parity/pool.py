# SPDX-License-Identifier: Apache-2.0
"""Worker processes under a watchdog: a crash or a hang becomes a failure with the name of what ran, and the rest goes
on."""

import json
import os
import selectors
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from .worker import PROGRESS_BYTES

# MKL's results otherwise depend on the alignment of its operands, on the CPU alone too.
REPRODUCIBLE = {"MKL_CBWR": "COMPATIBLE"}
HERE = Path(__file__).resolve().parents[1]


def cpu_seconds(pid: int) -> float:
    """Processor time of a process; on a busy machine a task that gets none does not hang."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    except OSError:
        return 0.0
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


class Worker:
    def __init__(self, folder: Path, number: int, module: str):
        self.number, self.task = number, None
        self.progress, self.log = folder / f"progress{number}", folder / f"log{number}"
        self.progress.write_bytes(b" " * PROGRESS_BYTES)
        environment = {
            **os.environ,
            "OMP_NUM_THREADS": "1",
            **REPRODUCIBLE,
            "PYTHONPATH": f"{HERE}{os.pathsep}{os.environ.get('PYTHONPATH', '')}",
            "PYTHONWARNINGS": "ignore",
        }
        self.process = subprocess.Popen(
            [sys.executable, "-m", module, str(self.progress)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self.log.open("wb"),
            env=environment,
        )
        self.seen, self.seen_cpu, self.seen_wall = b"", 0.0, time.monotonic()

    def give(self, task: dict) -> None:
        self.task, self.seen_wall, self.seen_cpu = task, time.monotonic(), cpu_seconds(self.process.pid)
        try:
            self.process.stdin.write((json.dumps(task) + "\n").encode())
            self.process.stdin.flush()
        except BrokenPipeError:
            pass  # seen as the end of its answers

    def where(self) -> tuple[int, str]:
        """(index of the sample, check) that it last began."""
        words = self.progress.read_bytes().decode(errors="replace").split()
        return (int(words[1]), words[2]) if len(words) >= 3 else (0, "start")

    def stuck(self, cpu_limit: float, wall_limit: float) -> bool:
        now = self.progress.read_bytes()
        if now != self.seen:
            self.seen, self.seen_cpu, self.seen_wall = now, cpu_seconds(self.process.pid), time.monotonic()
        return (
            cpu_seconds(self.process.pid) - self.seen_cpu > cpu_limit or time.monotonic() - self.seen_wall > wall_limit
        )

    def end(self) -> int:
        self.process.kill()
        return self.process.wait()


def cores() -> int:
    """Processors that this process may use, no more than the memory of a small machine has workers for."""
    return min(8, len(os.sched_getaffinity(0)))


def run(
    tasks: list[dict],
    module: str = "parity.worker",
    workers: int = cores(),
    cpu_limit: float = 60,
    wall_limit: float = 300,
    told=None,
) -> list[dict]:
    """Runs each task (JSON; as the module's main() takes it) and gives its answer: the task with what the worker added.

    A check may use cpu_limit seconds of processor and wall_limit seconds of time. A task whose process died, or was
    ended for that, is answered with
    {"crash": text, "at": [sample, check]} and not repeated. told(done, of, answer): called after each.
    """
    waiting, answers = list(reversed(tasks)), []
    with tempfile.TemporaryDirectory(prefix="presil-parity-") as name, selectors.DefaultSelector() as selector:
        running, started = [], 0

        def start():
            nonlocal started
            worker = Worker(Path(name), started, module)
            started += 1
            running.append(worker)
            selector.register(worker.process.stdout, selectors.EVENT_READ, worker)

        def finish(worker, answer):
            answers.append(answer)
            if told:
                told(len(answers), len(tasks), answer)

        def lose(worker, reason):
            selector.unregister(worker.process.stdout)
            running.remove(worker)
            status = worker.end()
            log = worker.log.read_text(errors="replace")[-800:]
            if worker.task is None:
                raise RuntimeError(f"a worker ended with status {status} before its first task:\n{log}")
            index, check = worker.where()
            finish(
                worker,
                worker.task
                | {
                    "samples": 0,
                    "ran": {},
                    "failed": {},
                    "seconds": 0,
                    "at": [index, check],
                    "crash": f"{reason or f'ended with status {status}'} in sample {index}, {check}; "
                    f"{log.strip()[-300:]}",
                },
            )

        try:
            while waiting or any(w.task for w in running):
                while waiting and len(running) < workers:
                    start()
                for key, _ in selector.select(timeout=1):
                    worker = key.data
                    line = worker.process.stdout.readline()
                    if not line:
                        lose(worker, "")
                        continue
                    answer = json.loads(line)
                    if not answer.get("ready"):
                        finish(worker, answer)
                    worker.task = None
                    if waiting:
                        worker.give(waiting.pop())
                for worker in list(running):
                    if worker.task and worker.stuck(cpu_limit, wall_limit):
                        lose(worker, f"no end after {cpu_limit:.0f} s of processor time or {wall_limit:.0f} s")
        finally:
            for worker in running:
                worker.end()
    return answers
