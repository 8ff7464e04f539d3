# SPDX-License-Identifier: Apache-2.0
"""Operators of others on the device: a C++ library with kernels of its own through presil/torch.h, and Python ones
composed of existing operators."""

import sys
from pathlib import Path

import pytest
import torch
import torch_presil  # noqa: F401
from torch_presil import _C

sys.path.insert(0, str(Path(__file__).parents[1] / "libtorch"))
from cmake_project import built  # noqa: E402


@pytest.fixture(scope="module", autouse=True)
def library(tmp_path_factory):
    torch.manual_seed(0)
    folder = built(Path(__file__).parent, tmp_path_factory.mktemp("extension"))
    torch.ops.load_library(str(folder / "libexample_ops.so"))
    return folder


# opcheck's test_autograd_registration raises NotImplementedError for every device but CPU, CUDA and XPU; the others
# are the same for ours.
EVERYWHERE = ("test_schema", "test_faketensor", "test_aot_dispatch_dynamic")
CHECKS = {"cpu": (*EVERYWHERE, "test_autograd_registration"), "presil": EVERYWHERE}


def close(got, expected, tolerance=1e-5):
    assert got.dtype == expected.dtype and got.shape == expected.shape
    assert (got.cpu().float() - expected.float()).abs().max() <= tolerance * expected.float().abs().max()


@pytest.mark.parametrize("dtype, tolerance", [(torch.float32, 1e-5), (torch.bfloat16, 1e-2), (torch.float64, 1e-12)])
def test_chip_operator(dtype, tolerance):
    a, b = torch.randn(17, 40).to(dtype), torch.randn(40, 9).to(dtype)
    close(torch.ops.example.matmul_relu(a.to("presil"), b.to("presil")), torch.ops.example.matmul_relu(a, b), tolerance)
    close(
        torch.ops.example.matmul_relu(a.to("presil"), b.t().contiguous().to("presil").t()),
        torch.ops.example.matmul_relu(a, b),
        tolerance,
    )


def test_its_launch_is_one_and_named():
    a = torch.randn(8, 8, device="presil")
    _C.collect_reports(True)
    try:
        torch.ops.example.matmul_relu(a, a)
        torch.presil.synchronize()
        assert [r["label"] for r in _C.take_reports()] == ["example::matmul_relu"]
    finally:
        _C.collect_reports(False)


def test_autograd_of_the_chip_operator():
    a, b = torch.randn(6, 7), torch.randn(7, 5)
    results = []
    for device in ("cpu", "presil"):
        x, y = (t.clone().to(device).requires_grad_() for t in (a, b))
        torch.ops.example.matmul_relu(x, y).square().sum().backward()
        results.append((x.grad, y.grad))
    for got, expected in zip(results[1], results[0]):
        close(got, expected)
    assert torch.autograd.gradcheck(
        torch.ops.example.matmul_relu, [t.double().to("presil").requires_grad_() for t in (a, b)]
    )


def test_host_operator_waits_counts_and_obeys_strict():
    x = torch.randn(5, 33)
    d = x.to("presil")
    _C.reset_host_operators()
    produced = torch.ops.example.matmul_relu(
        d, torch.eye(33).to("presil")
    )  # still in the queue when the host operator comes
    assert torch.equal(torch.ops.example.running_max(produced).cpu(), torch.ops.example.running_max(torch.relu(x)))
    counted = _C.host_operators()["example::running_max"]
    assert counted["calls"] == 1 and counted["seconds"] > 0
    with torch.backends.presil.flags(strict=True), pytest.raises(RuntimeError, match="example::running_max"):
        torch.ops.example.running_max(d)
    with pytest.raises(ValueError, match="at least one dimension"):
        torch.ops.example.running_max(torch.tensor(1.0, device="presil"))


def test_weights_written_by_the_extension_are_packed_again():
    weight, x = torch.randn(4, 4, device="presil"), torch.randn(2, 4, device="presil")
    torch.nn.functional.linear(x, weight)
    weight.copy_(torch.ops.example.running_max(weight))
    close(torch.nn.functional.linear(x, weight), torch.nn.functional.linear(x.cpu(), weight.cpu()))


@pytest.mark.parametrize("device", ["cpu", "presil"])
def test_opcheck(device):
    a, b = torch.randn(4, 6, device=device), torch.randn(6, 3, device=device)
    torch.library.opcheck(torch.ops.example.matmul_relu, (a, b))
    torch.library.opcheck(
        torch.ops.example.matmul_relu,
        (a.clone().requires_grad_(), b.clone().requires_grad_()),
        test_utils=CHECKS[device],
    )
    torch.library.opcheck(torch.ops.example.running_max, (a,))


def test_bad_operands():
    a = torch.randn(4, 6, device="presil")
    with pytest.raises(ValueError, match=r"\(m, k\) and \(k, n\), got \[4, 6\] and \[4, 6\]"):
        torch.ops.example.matmul_relu(a, a)
    with pytest.raises((RuntimeError, ValueError), match="device"):
        torch.ops.example.matmul_relu(a, torch.randn(6, 4))


# ---- Python


@torch.library.custom_op("example_python::scaled_linear", mutates_args=())
def scaled_linear(x: torch.Tensor, weight: torch.Tensor, scale: float) -> torch.Tensor:
    return torch.nn.functional.linear(x, weight) * scale


@scaled_linear.register_fake
def _(x, weight, scale):
    return x.new_empty(*x.shape[:-1], weight.shape[0])


def _backward(ctx, grad):
    x, weight = ctx.saved_tensors
    return ctx.scale * grad @ weight, ctx.scale * grad.t() @ x, None


def _setup(ctx, inputs, output):
    ctx.save_for_backward(*inputs[:2])
    ctx.scale = inputs[2]


scaled_linear.register_autograd(_backward, setup_context=_setup)


def test_python_operator():
    x, w = torch.randn(5, 8), torch.randn(3, 8)
    d = [t.to("presil").requires_grad_() for t in (x, w)]
    h = [t.clone().requires_grad_() for t in (x, w)]
    for operands in (d, h):
        scaled_linear(*operands, 0.5).square().sum().backward()
    for got, expected in zip(d, h):
        close(got.grad, expected.grad)
    torch.library.opcheck(scaled_linear, (d[0], d[1], 0.5), test_utils=CHECKS["presil"])
    torch.library.opcheck(scaled_linear, (h[0], h[1], 0.5), test_utils=CHECKS["cpu"])


class Clipped(torch.autograd.Function):
    @staticmethod
    def forward(context, x, w):
        y = x @ w
        context.save_for_backward(x, w, y)
        return y.clamp(-1, 1)

    @staticmethod
    def backward(context, grad):
        x, w, y = context.saved_tensors
        grad = grad * (y.abs() <= 1)
        return grad @ w.t(), x.t() @ grad


def test_autograd_function():
    x, w = torch.randn(5, 8), torch.randn(8, 4)
    results = []
    for device in ("cpu", "presil"):
        a, b = (t.clone().to(device).requires_grad_() for t in (x, w))
        Clipped.apply(a, b).sum().backward()
        results.append((a.grad, b.grad))
    for got, expected in zip(results[1], results[0]):
        close(got, expected)
