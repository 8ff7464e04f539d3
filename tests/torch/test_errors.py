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
    yield request.param
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


LAUNCHES = 200
LIBRARY = compile(
    "def inside(n, f): return f() if n == 0 else inside(n - 1, f)",
    str(Path(torch.__file__).parent / "made_up.py"),
    "exec",
)


def deep(n, f):
    return f() if n == 0 else deep(n - 1, f)


def effort(nest, depth):
    """Frames looked at, and times that the GIL was taken, for each of LAUNCHES launches under that many more frames."""

    def enqueue():
        before = _C.frame_effort()
        for _ in range(LAUNCHES):
            _C.nop(0)
        return [(b - a) / LAUNCHES for a, b in zip(before, _C.frame_effort())]

    for _ in range(2):  # the first meets code that nobody has seen
        found = nest(depth, enqueue)
        P.synchronize()
    return found


def test_noting_the_line_is_cheap(frames):
    """A launch looks at the user's innermost three frames, and at no more than 64 where all are torch's; it takes the
    GIL only where frames can't be read without."""
    direct = sys.version_info[:2] == (3, 11) and frames == "as they lie"
    names = {}
    exec(LIBRARY, names)
    for depth in (0, 500):
        assert effort(deep, depth) == [3, 0 if direct else 1]
    assert effort(names["inside"], 500) == [64, 0 if direct else 1]
