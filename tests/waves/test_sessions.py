# SPDX-License-Identifier: Apache-2.0
"""A build that is given up leaves no process (waves/sessions.py)."""

import os
import signal
import subprocess
import sys

import pytest
from torch_presil.waves import sessions

# Starts, like Ninja, a child in a process group of its own, which answers SIGTERM like this.
PARENT = """import subprocess, sys
child = subprocess.Popen([sys.executable, "-c", sys.argv[1]], process_group=0, stdout=subprocess.PIPE)
child.stdout.readline()
print(flush=True)
child.wait()
"""
SLOW = "signal.signal(signal.SIGTERM, lambda *_: (time.sleep(0.5), sys.exit()))"
DEAF = "signal.signal(signal.SIGTERM, signal.SIG_IGN)"


@pytest.mark.parametrize("answer", [SLOW, DEAF])
def test_nothing_of_it_is_left(monkeypatch, answer):
    monkeypatch.setattr(sessions, "PATIENCE", 2)
    child = f"import signal, sys, time\n{answer}\nprint(flush=True)\nwhile True: time.sleep(0.01)"
    parent = subprocess.Popen(
        [sys.executable, "-c", PARENT, child], stdout=subprocess.PIPE, text=True, start_new_session=True
    )
    parent.stdout.readline()
    assert len(sessions.members(parent.pid)) == 2
    sessions.end(parent)
    assert sessions.members(parent.pid) == [] and parent.returncode is not None


def test_ctrl_c_while_it_is_started(monkeypatch):
    """The process is there, Popen has not returned."""
    begun = []

    class Slow(subprocess.Popen):
        def __init__(self, *given, **named):
            super().__init__(*given, **named)
            begun.append(self)
            signal.raise_signal(signal.SIGINT)

    monkeypatch.setattr(subprocess, "Popen", Slow)
    with (
        pytest.raises(KeyboardInterrupt),
        sessions.running([sys.executable, "-c", "import time; time.sleep(60)"], dict(os.environ)),
    ):
        pytest.fail("the interrupt was lost")
    assert len(begun) == 1 and sessions.members(begun[0].pid) == []
