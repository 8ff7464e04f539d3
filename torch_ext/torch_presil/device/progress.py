# SPDX-License-Identifier: Apache-2.0
"""How far the processes of `jobs` are, while somebody waits for them (docs/jobs.md)."""

from torch_presil import _C

__all__ = ["jobs_line", "show_while_waiting"]

PATIENCE, REFRESH = 2.0, 0.5  # seconds


def jobs_line(index: int, before: int = 0) -> str:
    """ "12 of 54 launches compared, 3 s left"; before: launches that are not counted."""
    s = _C.jobs_stats(index)
    done = s["launches"] - before
    left = f", {s['seconds_left']:.0f} s left" if s["seconds_left"] else ""
    return f"{done} of {done + s['waiting']} launches compared on {s['jobs']} processes{left}"


def show_while_waiting(index: int, to, patience: float = PATIENCE) -> None:
    """Returns when all that was launched is compared (or cancelled); from `patience` on, a line to `to`, a terminal."""
    before, shown = _C.jobs_stats(index)["launches"], 0
    try:
        while not _C.jobs_ready(index, REFRESH if shown else patience):
            line = f"presil: {jobs_line(index, before)}"
            to.write("\r" + line.ljust(shown))
            to.flush()
            shown = len(line)
    finally:
        if shown:
            to.write("\r" + " " * shown + "\r")
            to.flush()
