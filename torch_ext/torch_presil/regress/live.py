# SPDX-License-Identifier: Apache-2.0
"""What a run shows while it goes on: on a terminal a table of what runs, with the time left; elsewhere a line a case
that has ended, and now and then one that says how far it is."""

import time

from rich.console import Console, Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from .exit_codes import BAD

STYLES = {"passed": "green", "skipped": "dim", "cycles": "yellow", "infrastructure": "magenta"}
PLAIN_SECONDS = 10.0


def clock(seconds: float) -> str:
    seconds = int(seconds)
    return (
        f"{seconds // 3600}:{seconds // 60 % 60:02}:{seconds % 60:02}"
        if seconds >= 3600
        else (f"{seconds // 60}:{seconds % 60:02}")
    )


def style(status: str) -> str:
    return STYLES.get(status, "red" if status in BAD else "")


class Remaining:
    """Seconds left, from what each case took in an earlier run, else from what cases took in this one."""

    def __init__(self, earlier: dict[str, float]):
        self.earlier, self.sum, self.count = earlier, 0.0, 0

    def add(self, record: dict) -> None:
        if record["status"] != "skipped":
            self.sum, self.count = self.sum + record["seconds"], self.count + 1

    def of(self, runner) -> float | None:
        mean = self.sum / self.count if self.count else None
        left = 0.0
        for job in runner.waiting:
            seconds = self.earlier.get(job.key, mean)
            if seconds is None:
                return None
            left += seconds
        for running in runner.running:
            left += max(0.0, (self.earlier.get(running.job.key, mean) or 0.0) - running.seconds)
        return left / max(1, runner.at_once)


class Display:
    def __init__(self, console: Console, total: int, earlier: dict[str, float], done: int = 0):
        self.console, self.total, self.done = console, total, done
        self.counts, self.remaining, self.began = {}, Remaining(earlier), time.monotonic()
        self.shown = self.told = time.monotonic()
        self.live = Live(console=console, auto_refresh=False, transient=True) if console.is_terminal else None

    def __enter__(self):
        if self.live:
            self.live.start()
        return self

    def __exit__(self, *exc):
        if self.live:
            self.live.stop()
        return False

    def started(self, running) -> None:
        pass

    def ended(self, record: dict) -> None:
        self.done += 1
        self.counts[record["status"]] = self.counts.get(record["status"], 0) + 1
        self.remaining.add(record)
        text = Text(f"{record['status']:<14}", style(record["status"]))
        cycles = f"  {record['cycles']:,} cycles" if record.get("cycles") else ""
        text.append(f" {record['key']}  {record['seconds']:.1f} s{cycles}", "")
        if record["status"] != "passed" and record["message"]:
            text.append(f"  {record['message'][:200]}", "dim")
        self.console.print(text, soft_wrap=True, highlight=False)
        self.told = time.monotonic()

    def line(self, runner) -> str:
        left = self.remaining.of(runner)
        parts = [f"{self.done} of {self.total}"]
        parts += [f"{count} {status}" for status, count in self.counts.items()]
        parts += [clock(time.monotonic() - self.began), f"about {clock(left)} left" if left is not None else ""]
        return ", ".join(filter(None, parts))

    def tick(self, runner) -> None:
        now = time.monotonic()
        if self.live and now - self.shown >= 0.25:
            self.shown = now
            self.live.update(self._table(runner), refresh=True)
        elif not self.live and now - self.told >= PLAIN_SECONDS:
            self.told = now
            names = ", ".join(f"{r.job.key} {r.seconds:.0f} s" for r in runner.running)
            self.console.print(
                f"  {self.line(runner)}; running: {names}", soft_wrap=True, highlight=False, markup=False
            )

    def _table(self, runner) -> Group:
        table = Table(box=None, pad_edge=False, expand=True)
        table.add_column("running", no_wrap=True)
        table.add_column("time", justify="right", no_wrap=True)
        table.add_column("says", ratio=1, no_wrap=True, overflow="ellipsis")
        for running in runner.running[:12]:
            table.add_row(running.job.key, clock(running.seconds), Text(running.says(), "dim"))
        return Group(table, Text(self.line(runner), "bold"))
