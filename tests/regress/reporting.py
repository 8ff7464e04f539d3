# SPDX-License-Identifier: Apache-2.0
"""What a case of `presil regress` tells its runner: PRESIL_REGRESS_RESULT and the exit codes (docs/regress.md)."""

import json
import os
import sys
from pathlib import Path

PASS, MISMATCH, USAGE, HANG, INTERNAL = 0, 1, 2, 3, 4


def finish(status: int, **told) -> None:
    """Writes the result, prints the last line, and ends the process."""
    if path := os.environ.get("PRESIL_REGRESS_RESULT"):
        Path(path).write_text(json.dumps({key: value for key, value in told.items() if value is not None}) + "\n")
    if told.get("message"):
        print(told["message"])
    word = "PASS" if status == PASS else "FAIL"
    print(f"RESULT {word} cycles={told.get('cycles') or 0} checks={told.get('checks') or 0}", flush=True)
    sys.exit(status)


def limit() -> int:
    """The simulated cycles that the case may take; 0: any number."""
    return int(os.environ.get("PRESIL_REGRESS_TIMEOUT_CYCLES") or 0)


def over(cycles: int) -> str | None:
    """The text of a time-out, if the case has taken more simulated cycles than it may."""
    most = limit()
    return f"time-out: {cycles:,} simulated cycles, timeout_cycles = {most:,}" if most and cycles > most else None


def first_line(error: BaseException) -> str:
    return (str(error).strip() or type(error).__name__).splitlines()[0]
