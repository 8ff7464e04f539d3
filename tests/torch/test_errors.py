# SPDX-License-Identifier: Apache-2.0
"""What goes wrong becomes the right exception, names the operator and the user's line, and leaves the device usable."""

import re
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from torch_presil import _C

P = torch.presil
ROOT = Path(__file__).parents[2]


@pytest.fixture
def rtl():
    with torch.backends.presil.flags(mode="rtl"):
        P.synchronize()
        yield
        _C.inject(0, "")


@pytest.fixture(params=["as they lie", "public interface"])
def frames(request):
    """Both ways to the user's lines; the second is that of CPython 3.12 and later."""
    _C.use_public_frames(request.param == "public interface")
    yield
    _C.use_public_frames(False)


def launch(x):
    return x @ x  # the user's line


def inject(fault, x):
    """From now on: `slverr` for reads of x, `fatal` in the next launch."""
    _C.inject(0, f"slverr@{_C.device_address(0, x.data_ptr())}" if fault == "slverr" else "fatal@1")


LINE = launch.__code__.co_firstlineno + 1


def test_the_table_in_the_documentation_is_the_table_in_the_code():
    rows = re.findall(r"^\| `(E\w+)` \| `([\w.]+)` \| (.+?) \|$", (ROOT / "docs" / "runtime.md").read_text(), re.M)
    assert rows == [(status, exception, meaning) for status, exception, meaning in _C.error_table()]
    header = (ROOT / "driver" / "include" / "presil.h").read_text()
    assert {r[0] for r in rows} == {"E" + s for s in re.findall(r"PRESIL_E([A-Z]+) = -", header)}


@pytest.mark.usefixtures("frames")
@pytest.mark.parametrize("fault, status", [("slverr", "EBUS"), ("fatal", "ESTOPPED")])
def test_a_fault_names_the_operator_and_the_line(rtl, fault, status):
    x = torch.eye(16, device="presil")
    inject(fault, x)
    y = launch(x)
    with pytest.raises(torch.AcceleratorError) as caught:
        y.cpu()
    text = str(caught.value)
    assert f"[{status}]" in text and len(re.findall(r"\bmm: ", text)) == 1, text
    assert f'launched by File "{__file__}", line {LINE}, in launch' in text, text
    assert "called from" in text and "test_a_fault_names" in text
    _C.inject(0, "")
    assert torch.equal(launch(x).cpu(), torch.eye(16)), "the device is usable"


@pytest.mark.usefixtures("frames")
def test_a_fault_in_a_backward_pass_names_the_node_and_the_forward_line(rtl):
    x = torch.eye(16, device="presil", requires_grad=True)
    y = launch(x)
    P.synchronize()
    inject("slverr", x)
    with pytest.raises(torch.AcceleratorError) as caught:
        y.sum().backward()
        P.synchronize()
    text = str(caught.value)
    assert re.search(r"launched by the backward pass, in \S*MmBackward0, whose forward was", text), text
    assert f"line {LINE}, in launch" in text, text


def test_launch_blocking_raises_where_it_was_launched(rtl):
    x = torch.eye(16, device="presil")
    with torch.backends.presil.flags(launch_blocking=True):
        inject("slverr", x)
        with pytest.raises(torch.AcceleratorError, match="EBUS"):
            launch(x)
        _C.inject(0, "")
        launch(x)
    code = "import torch, torch_presil; assert torch.backends.presil.launch_blocking"
    assert (
        subprocess.run(
            [sys.executable, "-c", code], env={**__import__("os").environ, "PRESIL_LAUNCH_BLOCKING": "1"}, timeout=120
        ).returncode
        == 0
    )


def test_error_codes_are_the_drivers(rtl):
    x = torch.eye(16, device="presil")
    inject("slverr", x)
    launch(x)
    with pytest.raises(torch.AcceleratorError) as caught:
        P.synchronize()
    assert caught.value.error_code == 6


def test_other_exceptions():
    with pytest.raises(ValueError, match="mode must be"):
        torch.backends.presil.mode = "fast"
    with pytest.raises(torch.OutOfMemoryError):
        torch.empty(1 << 45, device="presil")
    with pytest.raises(ValueError, match="no block starts|list of CPUs"):
        torch.backends.presil.affinity = "x"
    with pytest.raises(RuntimeError, match="no stream"):
        P.set_stream(torch.Stream(stream_id=77777, device_index=0, device_type=P.current_stream().device_type))


def test_an_unread_error_does_not_hide_later_results(rtl):
    x = torch.eye(16, device="presil")
    inject("slverr", x)
    launch(x)
    with pytest.raises(torch.AcceleratorError):
        torch.ones(3, device="presil").sum()  # the host waits for the chip first
    assert torch.ones(3, device="presil").sum().item() == 3


@pytest.mark.usefixtures("frames")
def test_lines_of_code_that_is_gone_are_safe(rtl):
    """The code objects that a launch notes outlive their functions."""
    x = torch.eye(16, device="presil")
    for i in range(50):
        names = {}
        exec(compile(f"def f(x):\n    return x @ x  # {i}\n", f"<made up {i}>", "exec"), names)
        names["f"](x)
    inject("slverr", x)
    names["f"](x)
    del names
    with pytest.raises(torch.AcceleratorError, match=r'File "<made up 49>", line 2, in f'):
        P.synchronize()


def test_noting_the_line_is_cheap():
    """Below 200 ns a launch, measured as the difference of an empty launch's enqueue with and without 8 Python frames
    on the stack, and printed."""
    import time

    def deep(n, f):
        return f() if n == 0 else deep(n - 1, f)

    def enqueue():
        start = time.perf_counter_ns()
        for _ in range(200):
            _C.nop(0)
        took = (time.perf_counter_ns() - start) / 200
        P.synchronize()
        return took

    shallow, deeper = (min(deep(n, enqueue) for _ in range(30)) for n in (0, 50))
    print(f"enqueue of an empty launch: {shallow:.0f} ns, under 50 more frames {deeper:.0f} ns")
    assert (
        deeper - shallow < 1000
    )  # of this loaded machine; what a launch notes is three lines of the user's, so depth costs little
