# SPDX-License-Identifier: Apache-2.0
"""Ctrl-C ends a launch, whoever has set which handler since the device was opened."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

PRELUDE = (
    f"import sys; sys.path.append({str(Path(__file__).parents[1] / 'bench')!r})"
    + """
import asyncio, os, signal, time, torch, torch_presil
from in_launch import when_in_launch
signal.signal(signal.SIGINT, signal.default_int_handler)  # as a terminal gives it, also in a background job
x = torch.eye(16, device="presil")
def launch():
    y = x @ x
    torch.presil.synchronize()
    return y
def slow_launch():
    torch_presil._C.inject(0, "slow=100000000")  # ten cycles a second: not over before its time
    when_in_launch(lambda: print("INTERRUPT", flush=True))
    try:
        launch()
        return print("FINISHED", flush=True)
    except RuntimeError as error:
        print("CANCELLED" if "ECANCELLED" in str(error) else repr(error), flush=True)
    finally:
        torch_presil._C.inject(0, "")
    time.sleep(5)  # Python's own exception comes here
launch()
"""
)
# Of a program: what it does around the launch that is interrupted.
PROGRAMS = {
    "plain": """
try: slow_launch()
except KeyboardInterrupt: print("KEYBOARD", flush=True)
""",
    "asyncio": """
async def main(): slow_launch()
try: asyncio.run(main())
except KeyboardInterrupt: print("KEYBOARD", flush=True)
""",
    # What ipykernel does around every cell (Kernel.pre_handler_hook and post_handler_hook).
    "kernel": """
signal.signal(signal.SIGINT, signal.SIG_IGN)
def cell(run):
    saved = signal.signal(signal.SIGINT, signal.default_int_handler)
    try: run()
    except KeyboardInterrupt: print("KEYBOARD", flush=True)
    finally: signal.signal(signal.SIGINT, saved)
cell(launch)
cell(slow_launch)
""",
    # A handler that found ours before it, and that we find before ours: neither calls the other for ever.
    "chained": """
import faulthandler
faulthandler.register(signal.SIGINT, all_threads=False, chain=True)
launch()
try: slow_launch()
except KeyboardInterrupt: print("KEYBOARD", flush=True)
""",
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_ctrl_c_ends_a_launch(name):
    process = subprocess.Popen(
        [sys.executable, "-c", PRELUDE + PROGRAMS[name] + 'launch(); print("WORKS", flush=True)'],
        env={**os.environ, "PRESIL_MODE": "rtl", "PRESIL_CHIP": "tiny", "PRESIL_MEMORY": "1G"},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stdout.readline() == "INTERRUPT\n", process.stderr.read()[-2000:]
        start = time.monotonic()
        process.send_signal(signal.SIGINT)
        out, error = process.communicate(timeout=100)
    finally:
        process.kill()
    lines = out.split()
    assert process.returncode == 0 and lines[-1] == "WORKS", out + error[-3000:]
    assert "KEYBOARD" in lines or name == "asyncio", "Python's handler runs as well"
    assert error.count("Stack (most recent call first)") == (name == "chained"), error
    assert lines[0] in ("CANCELLED", "KEYBOARD") and time.monotonic() - start < 60, out
