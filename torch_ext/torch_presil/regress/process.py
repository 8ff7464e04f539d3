# SPDX-License-Identifier: Apache-2.0
"""A case's process: a session of its own, which ends with all that it started, and with the runner."""

import contextlib
import ctypes
import os
import signal
import subprocess
import threading
import time
from pathlib import Path

MARK = "PRESIL_REGRESS_DIR"  # in the environment of everything that a case starts
GRACE = 2.0  # seconds between asking a case to end and ending it
_LIBC = ctypes.CDLL(None)
_PR_SET_PDEATHSIG = 1
_INTERRUPTS = {signal.SIGINT, signal.SIGTERM}


@contextlib.contextmanager
def uninterrupted():
    """Ctrl-C comes behind it: else a case that has just begun may be known to nobody. Not by a mask of this thread: the
    signal then goes to another one (a live table's, say), and Python raises here all the same."""
    if threading.current_thread() is not threading.main_thread():
        yield  # nothing is raised here
        return
    came = []
    before = {number: signal.signal(number, lambda number, frame: came.append(number)) for number in _INTERRUPTS}
    try:
        yield
    finally:
        for number, handler in before.items():
            if handler is not None:  # else it is not Python's
                signal.signal(number, handler)
        for number in came[:1]:
            signal.raise_signal(number)


@contextlib.contextmanager
def blocked(number: int):
    """In this thread, and in the threads and processes that it starts."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {number})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _begin() -> None:
    """In the child: Ctrl-C as by default (a shell starts background jobs without), and death with the runner."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, _INTERRUPTS)
    _LIBC.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def python_path() -> dict:
    """What is relative in it is so to this folder, not to the case's."""
    given = os.environ.get("PYTHONPATH")
    return {"PYTHONPATH": os.pathsep.join(map(os.path.abspath, given.split(os.pathsep)))} if given else {}


def start(argv: list, directory: str, environment: dict, log: Path) -> subprocess.Popen:
    with log.open("ab") as output:
        return subprocess.Popen(
            argv,
            cwd=directory,
            env={**os.environ, **python_path(), **environment},
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            preexec_fn=_begin,
        )


def marked(place: str, below: bool = False) -> list[int]:
    """Processes whose environment names the case's folder; below: or one inside it."""
    wanted = f"{MARK}={place}".encode()
    found = []
    for entry in os.scandir("/proc"):
        if not entry.name.isdigit() or int(entry.name) == os.getpid():
            continue
        try:
            environment = Path(entry.path, "environ").read_bytes().split(b"\0")
        except OSError:
            continue
        if any(word == wanted or (below and word.startswith(wanted + b"/")) for word in environment):
            found.append(int(entry.name))
    return found


def kill_marked(place: str, below: bool = False) -> int:
    """Ends what is left of a case, also in other sessions. How many there were."""
    found = marked(place, below)
    for number in found:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(number, signal.SIGKILL)
    return len(found)


def ask_to_end(process: subprocess.Popen) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGTERM)


def end(process: subprocess.Popen, place: str, grace: float = GRACE) -> None:
    """Ends a case with everything that it started."""
    if process.poll() is None and grace:
        ask_to_end(process)
        deadline = time.monotonic() + grace
        while process.poll() is None and time.monotonic() < deadline:
            time.sleep(0.02)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    kill_marked(place)
