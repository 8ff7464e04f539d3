# SPDX-License-Identifier: Apache-2.0
"""What somebody who waits is shown, and the schedule of bench --only jobs."""

import contextlib
import functools
import io
import os
import signal
import sys

import pytest
import torch
from job_processes import processes
from torch_presil import _C, bench_jobs
from torch_presil.device.progress import jobs_line, show_while_waiting


class Terminal(io.StringIO):
    """Does something when it is first shown something."""

    def __init__(self, at_first):
        super().__init__()
        self.at_first = at_first

    def isatty(self):
        return True

    def write(self, text):
        first = not self.getvalue()
        super().write(text)
        if first:
            self.at_first()
        return len(text)


def tell(number: signal.Signals) -> None:
    for pid in processes():
        os.kill(pid, number)


@contextlib.contextmanager
def launches(count: int):
    """That wait for two processes, which stand still."""
    x = torch.randn(16, 16, dtype=torch.bfloat16).to("presil")
    with torch.backends.presil.flags(mode="verify", jobs=2):
        tell(signal.SIGSTOP)
        try:
            for _ in range(count):
                (x @ x).cpu()
            yield
        finally:
            tell(signal.SIGCONT)


def test_who_waits_sees_how_far_it_is():
    with launches(24):
        terminal = Terminal(lambda: tell(signal.SIGCONT))
        show_while_waiting(0, terminal, patience=0.05)
        assert _C.jobs_ready(0, 0) and _C.jobs_stats(0)["waiting"] == 0
        quiet = io.StringIO()
        show_while_waiting(0, quiet, patience=0.05)
    lines = terminal.getvalue().split("\r")
    assert lines[1].startswith("presil: 0 of 24 launches compared on 2 processes"), lines
    assert lines[-1] == "" and not lines[-2].strip() and quiet.getvalue() == "", lines


def seconds_left() -> float:
    return _C.jobs_stats(0)["seconds_left"]


def test_how_long_the_rest_takes_is_told_from_what_has_ended():
    """About: the launches that wait, at the rate of those that ended, over two processes."""
    x = torch.randn(64, 64, dtype=torch.bfloat16).to("presil")
    with torch.backends.presil.flags(mode="verify", jobs=2):
        assert seconds_left() == 0 and "s left" not in jobs_line(0)  # nothing has ended: not known
        for _ in range(6):
            (x @ x).cpu()
        torch.presil.synchronize()
        stats = _C.jobs_stats(0)
        each = stats["busy_seconds"] / stats["launches"]
        assert stats["launches"] == 6 and each > 0 and seconds_left() == 0, stats
        tell(signal.SIGSTOP)
        try:
            told = {}
            for count in range(1, 41):
                (x @ x).cpu()
                told[count] = seconds_left()
            line = jobs_line(0, 6)
        finally:
            tell(signal.SIGCONT)
        assert told[1] == pytest.approx(each, rel=0.01)  # one launch can't be shared
        for count in (2, 20, 40):
            assert told[count] == pytest.approx(each * count / 2, rel=0.01), told
        assert line == f"0 of 40 launches compared on 2 processes, {told[40]:.0f} s left"
        torch.presil.synchronize()
        assert seconds_left() == 0 and "s left" not in jobs_line(0)


class Shown(Exception):
    pass


def test_who_waits_sees_what_the_twin_has_not_run_yet():
    def shown():
        raise Shown

    x = torch.randn(512, 512, dtype=torch.bfloat16).to("presil")
    with launches(0):
        product = x @ x
        with pytest.raises(Shown):
            show_while_waiting(0, Terminal(shown), patience=0.001)
        torch.presil.reset_device()
        torch.presil.synchronize()
        del product


def test_interrupt_on_a_terminal_leaves_nothing_to_be_raised_later(monkeypatch):
    with launches(6):
        monkeypatch.setattr(torch.presil, "show_while_waiting", functools.partial(show_while_waiting, patience=0.05))
        monkeypatch.setattr(sys, "stderr", Terminal(lambda: signal.raise_signal(signal.SIGINT)))
        with pytest.raises(KeyboardInterrupt) as interrupt:
            torch.presil.synchronize()
        assert "6 launches were not compared" in str(interrupt.value.__cause__)
        torch.presil.synchronize()


def test_error_output_that_is_no_file(monkeypatch):
    with torch.backends.presil.flags(mode="verify", jobs=2):
        for output in (None, object()):
            monkeypatch.setattr(sys, "stderr", output)
            torch.presil.synchronize()


def test_without_jobs_nobody_looks_for_a_terminal(monkeypatch):
    """It is a system call, and half of what waiting for nothing costs."""

    class Output:
        def isatty(self):
            raise AssertionError

    monkeypatch.setattr(sys, "stderr", Output())
    torch.presil.synchronize()
    with torch.backends.presil.flags(mode="verify", jobs=2), pytest.raises(AssertionError):
        torch.presil.synchronize()


def test_schedules():
    run = bench_jobs.schedule
    assert run([1, 1, 1, 3], 2) == 4 and run([1, 1, 1, 3], 2, longest_first=True) == 3
    assert run([2, 2], 8) == 2 and run([2, 2], 8, ready=[0, 5]) == 7
    assert run([4, 1, 1], 1) == 6 and run([1, 5], 1, ready=[0, 0.5], longest_first=True) == 6
