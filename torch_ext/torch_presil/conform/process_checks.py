# SPDX-License-Identifier: Apache-2.0
"""Level chip: two processes, each with a device of its own, at once."""

import subprocess
import sys
from pathlib import Path

from .checks import check, expect_equal
from .chip_checks import _bench, _open, _small_work

CHIP = "driver/include/presil_chip.h"
ROUNDS = 6


@check(
    "two-processes",
    "two processes at once: the same results and cycles as alone",
    CHIP,
    "devices of one process and of several share nothing",
    "chip",
)
def two_processes(context) -> int:
    with _open(context) as device, _bench(context, device) as bench:
        alone = _small_work(context, device).run(bench).cycles
    chip = str(context.chip) if context.chip else "-"
    described = str(context.description.path) if context.description else "-"
    program = Path(__file__).resolve().with_name("launch_by_launch.py")
    command = [sys.executable, str(program), str(context.library), chip, described]
    running = [
        subprocess.Popen([*command, str(seed)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        for seed in (0, 1000)
    ]
    try:
        _told(running, "ready", "each has had a launch, and keeps its device")
        for n in range(ROUNDS):
            for process in running:
                process.stdin.write("go\n")
                process.stdin.flush()
            _told(running, str(alone), f"cycles of launch {n} in two processes at once")
    finally:
        for process in running:
            process.kill()
            process.communicate()
    return 2 * ROUNDS


def _told(running: list, expected: str, what: str) -> None:
    """A line of each, so that neither is ahead of the other by more than a launch."""
    told = [process.stdout.readline().strip() for process in running]
    expect_equal(told, [expected] * len(running), what)
