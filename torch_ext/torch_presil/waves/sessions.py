# SPDX-License-Identifier: Apache-2.0
"""Builds that are given up: every process of them is gone before anybody goes on in their folder."""

import os
import signal
import subprocess
import time
from contextlib import contextmanager, suppress
from pathlib import Path

from . import sibling

PATIENCE = 20  # seconds, for each signal


def members(session: int) -> list[int]:
    """Running processes of a session. Ninja gives each command a group of its own, the session is what they share."""
    found = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            state, _, _, own = stat.read_text().rpartition(")")[2].split()[:4]
            if int(own) == session and state != "Z":
                found.append(int(stat.parent.name))
    return found


def end(process: subprocess.Popen) -> None:
    """Of a process that was started with start_new_session, and of all that it started: SIGTERM, and SIGKILL for who
    is there after PATIENCE. Returns when none is left."""
    for sign in (signal.SIGTERM, signal.SIGKILL):
        told, deadline = set(), time.monotonic() + PATIENCE
        while (left := members(process.pid)) and time.monotonic() < deadline:
            for pid in set(left) - told:
                with suppress(ProcessLookupError):
                    os.kill(pid, sign)
            told |= set(left)
            process.poll()
            time.sleep(0.02)
    process.wait()


@contextmanager
def running(command: list[str], environment: dict):
    """The process of a command in a session of its own, with all that it says in stdout. When the block is left,
    whatever the cause, nothing of it runs."""
    uninterrupted = sibling("regress.process").uninterrupted
    process = None
    try:
        with uninterrupted():  # a Ctrl-C within Popen would leave a process that nobody knows
            process = subprocess.Popen(
                command,
                env=environment,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                errors="replace",
                start_new_session=True,
            )
        yield process
    finally:
        if process:
            with uninterrupted():  # a second Ctrl-C
                end(process)
