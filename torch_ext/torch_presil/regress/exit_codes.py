# SPDX-License-Identifier: Apache-2.0
"""Exit codes, as of every tool of Presil that runs a chip, and what a case can come to."""

import os
import signal
from dataclasses import dataclass

PASS, MISMATCH, USAGE, HANG, INTERNAL, CYCLES, SKIP, INTERRUPTED = 0, 1, 2, 3, 4, 5, 77, 130

# What a case came to: the exit code that it gives the run.
STATUSES = {
    "passed": PASS,
    "failed": MISMATCH,
    "hung": HANG,
    "crashed": INTERNAL,
    "error": INTERNAL,
    "infrastructure": INTERNAL,
    "unusable": USAGE,
    "cycles": CYCLES,
    "skipped": SKIP,
}
BAD = [status for status in STATUSES if status not in ("passed", "skipped")]
GRAVITY = (MISMATCH, HANG, INTERNAL, USAGE, CYCLES)  # of several, the run's exit code is the first

_OF_EXIT = {PASS: "passed", MISMATCH: "failed", USAGE: "unusable", HANG: "hung", INTERNAL: "error", CYCLES: "cycles"}
_OF_EXIT[SKIP] = "skipped"
_FROM_OUTSIDE = {signal.SIGKILL, signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGXCPU, signal.SIGXFSZ}


class UsageError(Exception):
    """A wrong call or suite: nothing was run."""


class Lost(Exception):
    """Where cases ran is gone; what had ended is recorded."""


@dataclass(frozen=True)
class Verdict:
    status: str
    signal: int | None
    text: str  # of a death by signal; else ""


def verdict(returncode: int) -> Verdict:
    """Of a process's return code as subprocess gives it. A shell's 128 + N is the signal N too."""
    number = -returncode if returncode < 0 else returncode - 128 if 128 < returncode < 128 + 65 else None
    if number is not None:
        try:
            name = signal.Signals(number).name
        except ValueError:
            return Verdict("failed", None, "")
        if number in _FROM_OUTSIDE:
            return Verdict("infrastructure", number, f"ended from outside by {name} (no memory left? see dmesg)")
        return Verdict("crashed", number, name)
    return Verdict(_OF_EXIT.get(returncode, "failed"), None, "")


def exit_code(statuses) -> int:
    """Of a run: its gravest outcome; 77 if everything was skipped."""
    codes = {STATUSES[status] for status in statuses}
    for code in GRAVITY:
        if code in codes:
            return code
    return PASS if PASS in codes else SKIP


def of_error(error: BaseException) -> tuple[int, dict]:
    """Of an exception out of a co-simulation, by what the driver or the tool says: (exit code, {"message": line})."""
    from torch_presil.models import ModelError

    text = str(error).strip() or type(error).__name__
    first = text.splitlines()[0]
    if isinstance(error, ModelError):
        return USAGE, {"message": first}
    for word, status in (("EHUNG", HANG), ("EMISMATCH", MISMATCH), ("ETIMING", MISMATCH), ("ENODEV", USAGE)):
        if word in text or (word == "EMISMATCH" and "RTL and model differ" in text):
            return status, {"message": first}
    return INTERNAL, {"message": f"{type(error).__name__}: {first}"}


def cores() -> int:
    return len(os.sched_getaffinity(0))
