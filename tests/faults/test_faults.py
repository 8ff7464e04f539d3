# SPDX-License-Identifier: Apache-2.0
"""Faults: each gives a clear error, leaves memory intact, and the next layer runs correctly. One process a fault,
because some of them end it."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

PRELUDE = (
    f"import sys; sys.path.append({str(Path(__file__).parents[1] / 'bench')!r})"
    + """
import os, signal, time
from in_launch import when_in_launch
os.environ.setdefault("PRESIL_CHIP", "tiny")
os.environ["PRESIL_MODE"] = "rtl"
import torch, torch_presil
from torch_presil import _C
torch.manual_seed(0)
x = torch.randn(1, 20, 12, 12).to(torch.bfloat16).contiguous(memory_format=torch.channels_last)
w = torch.randn(24, 20, 3, 3).to(torch.bfloat16)
X, W = x.to("presil"), w.to("presil")
def layer():
    y = torch.nn.functional.conv2d(X, W, padding=1)
    torch.presil.synchronize()
    return y
with torch.backends.presil.flags(mode="model"):
    expected = layer().cpu()
reference = torch.nn.functional.conv2d(x.float(), w.float(), padding=1)
torch.testing.assert_close(expected.float(), reference, rtol=2e-2, atol=2e-1)
def check():
    assert torch.equal(X.cpu(), x) and torch.equal(W.cpu(), w), "memory changed"
    assert torch.backends.presil.mode != "model" and torch.equal(layer().cpu(), expected), "not the twin's bits"
    print("RECOVERED")
def fails(text, call=layer):
    try:
        call()
    except RuntimeError as e:
        message = str(e)
        print("ERROR:", message)
        assert any(t in message for t in text.split("|")), message
        return message
    raise AssertionError("no error")
check()
"""
)


def run(code: str, timeout: float = 240, **environment) -> str:
    done = subprocess.run(
        [sys.executable, "-c", PRELUDE + code],
        capture_output=True,
        text=True,
        timeout=timeout,
        env={**os.environ, **environment},
    )
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-3000:]
    assert done.stdout.count("RECOVERED") >= 2, done.stdout
    return done.stdout


def test_out_of_device_memory():
    run("""
fails("bytes", lambda: torch.empty(1 << 40, device="presil"))
check()
""")


@pytest.mark.parametrize("kind", ["slverr", "decerr"])
def test_bus_error_in_the_middle_of_a_layer(kind):
    run(f"""
_C.inject(0, f"{kind}@{{_C.device_address(0, X.data_ptr() + 2000)}}")
message = fails("READ_BUS|bus")
_C.inject(0, "")
check()
""")


def test_fatal_inside_the_simulator_is_an_error():
    run("""
_C.inject(0, "fatal@400")
fails("fatal|stopped")
_C.inject(0, "")
check()
""")


def test_ctrl_c_cancels_the_launch():
    """The real signal: the launch ends, KeyboardInterrupt arrives, and the device works on."""
    run("""
signal.signal(signal.SIGINT, signal.default_int_handler)  # as a terminal gives it, also in a background job
_C.inject(0, "slow=100000000")  # ten cycles a second: not over before its time
when_in_launch(lambda: os.kill(os.getpid(), signal.SIGINT))
try:
    fails("cancel")
    time.sleep(30)  # Python's own exception ends it
    raise SystemExit("no KeyboardInterrupt")
except KeyboardInterrupt:
    print("INTERRUPTED")
_C.inject(0, "")
check()
""")


def shared_memory() -> set:
    """But for the semaphores of other programs that use Python's multiprocessing."""
    return {name for name in os.listdir("/dev/shm") if not name.startswith("sem.mp-")}


def test_killed_process_leaves_nothing_behind():
    code = (
        PRELUDE
        + """
_C.inject(0, "slow=100000000")
when_in_launch(lambda: print("READY", flush=True))
layer()
print("FINISHED", flush=True)
"""
    )
    before = shared_memory()
    child = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
    said = [child.stdout.readline(), child.stdout.readline()]
    assert said == ["RECOVERED\n", "READY\n"], said
    child.send_signal(signal.SIGKILL)
    child.wait(timeout=100)
    assert child.stdout.read() == "", "the launch was over before the kill"
    assert shared_memory() <= before
    run("check()")


def test_verify_covers_in_place_residual_and_overlapping_views():
    run("""
torch.backends.presil.mode = "verify"
a = torch.randn(1, 16, 6, 6, device="presil").contiguous(memory_format=torch.channels_last)
k = torch.randn(16, 16, 3, 3, device="presil")
with torch.presil.reports() as reports:
    y = torch.ops.presil.conv2d(a, k, None, [1, 1], [1, 1], [1, 1], 1, a, "relu")
    flat = torch.randn(64, device="presil")
    overlapping = flat.as_strided((20, 16), (2, 1))
    overlapping @ k.view(16, -1)
    taken = reports.take()
assert len(taken) == 2 and all(r["verified"] == 1 for r in taken), taken
torch.backends.presil.mode = "rtl"
check()
""")


def test_a_hang_says_who_waits_for_whom():
    """A memory that never answers; the text and the rows say the same, and the device works on."""
    out = run("""
torch.backends.presil.watchdog_cycles = 3000
assert _C.last_hang(0) is None
torch.backends.presil.memory_model = "r=dead"
message = fails("no progress for 3000 cycles: hung; ")
assert "it never answers; oldest open: read of 0x" in message, message
torch.backends.presil.memory_model = "default"
hang = _C.last_hang(0)
rows = {row["who"]: row for row in hang["rows"]}
assert hang["verdict"] == "hung" and rows["memory"]["forever"] and rows["LOAD"]["by"] == "COMMAND", hang
assert rows["COMMAND"]["by"] == "memory" and rows["memory"]["by"] is None and not rows["memory"]["in_circle"], hang
check()
""")
    assert out.count("ERROR:") == 1


def test_faults_of_a_context_end_with_it():
    run("""
with torch.presil.inject("write-slverr@3"):
    fails("bus error on a write")
check()
with torch.presil.inject("late=3000,slow=100"):
    check()
try:
    with torch.presil.inject("slverr@"):
        raise SystemExit("taken")
except ValueError as e:
    assert "expected at most 8 of" in str(e), e
check()
""")
