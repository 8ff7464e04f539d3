# SPDX-License-Identifier: Apache-2.0
"""Backward of convolutions and matrix products: every multiply-accumulate on the chip, nothing on the host but turns of
layouts, right against float64."""

import random

import pytest
import torch
import torch.nn.functional as F
from grad_oracle import weight_gradient
from torch_presil import _C

BITS = {torch.float32: 2**-21, torch.bfloat16: 2**-8, torch.float16: 2**-10}


def gradients(f, tensors, grad, host=None):
    """host: a set that gains the host operators of the backward pass."""
    leaves = [None if t is None else t.detach().requires_grad_() for t in tensors]
    y = f(*leaves)
    g = grad(y)
    _C.reset_host_operators()
    y.backward(g)
    if host is not None:
        host.update(_C.host_operators())
    return [None if leaf is None else leaf.grad for leaf in leaves]


def check(f, tensors, grad, dtype, seed):
    """Against float64 on the operands as rounded; the error allowed is that of docs/numerics.md 6 for the sum of
    magnitudes. The host computes nothing in backward."""
    host = set()
    tensors = [None if t is None else t.to(dtype) for t in tensors]
    exact = gradients(f, [None if t is None else t.double() for t in tensors], grad)
    magnitude = gradients(f, [None if t is None else t.double().abs() for t in tensors], lambda y: grad(y).abs())
    got = gradients(f, [None if t is None else t.to("presil") for t in tensors], lambda y: grad(y).to("presil"), host)
    assert host == set(), (seed, host)
    for e, m, g in zip(exact, magnitude, got):
        if e is None:
            continue
        assert g.dtype == dtype and g.shape == e.shape
        bound = 2**-19 * m + BITS[dtype] * e.abs() + 1e-7
        assert bool(((g.cpu().double() - e).abs() <= bound).all()), (
            seed,
            float(((g.cpu().double() - e).abs() - bound).max()),
        )
    return got


def random_case(seed):
    r = random.Random(seed)
    groups = r.choice([1, 1, 1, 2, 5])
    c, o = groups * r.choice([1, 2, 3, 8, 17]), groups * r.choice([1, 3, 8, 20])
    if r.random() < 0.15:
        groups = c
        o = c * r.choice([1, 2])
    kernel = (r.choice([1, 2, 3, 5]), r.choice([1, 2, 3, 7]))
    stride, dilation = (r.randint(1, 3), r.randint(1, 3)), (r.randint(1, 2), r.randint(1, 2))
    padding = tuple(r.randint(0, d * (k - 1)) for d, k in zip(dilation, kernel))
    size = tuple(d * (k - 1) + 1 + r.randint(0, 9) for d, k in zip(dilation, kernel))
    dtype = r.choice([torch.float32, torch.float32, torch.bfloat16, torch.float16])
    return r, dict(
        n=r.choice([1, 2, 3, 20]),
        c=c,
        o=o,
        size=size,
        kernel=kernel,
        groups=groups,
        dtype=dtype,
        last=r.random() < 0.5,
        still=r.random() < 0.2,
        args=dict(stride=stride, padding=padding, dilation=dilation, groups=groups),
        bias=r.random() < 0.6,
    )


def grad_like(still, last):
    def make(y):
        if still:
            return torch.full((), 0.75, dtype=y.dtype, device="cpu").expand(y.shape)
        g = (
            torch.linspace(-1, 1, y.numel(), dtype=torch.float64)
            .mul(37)
            .sin()
            .reshape(y.shape)
            .to(torch.bfloat16)
            .to(y.dtype)
        )
        return g.contiguous(memory_format=torch.channels_last) if last else g

    return make


@pytest.mark.parametrize("seed", range(70))
def test_random_conv2d(seed):
    r, c = random_case(seed)
    g = torch.Generator().manual_seed(seed)
    x = torch.randn(c["n"], c["c"], *c["size"], generator=g)
    w = torch.randn(c["o"], c["c"] // c["groups"], *c["kernel"], generator=g)
    if c["last"]:
        x, w = (t.contiguous(memory_format=torch.channels_last) for t in (x, w))
    b = torch.randn(c["o"], generator=g) if c["bias"] else None
    got = check(
        lambda x, w, b=None: F.conv2d(x, w, b, **c["args"]),
        [x, w, b],
        grad_like(c["still"], c["last"]),
        c["dtype"],
        seed,
    )
    if c["last"] and min(x.shape[1:]) > 1:
        assert got[0].is_contiguous(memory_format=torch.channels_last)


@pytest.mark.parametrize("seed", range(40))
def test_random_conv_transpose2d(seed):
    r, c = random_case(1000 + seed)
    g = torch.Generator().manual_seed(seed)
    x = torch.randn(c["n"], c["c"], *[min(s, 12) for s in c["size"]], generator=g)
    w = torch.randn(c["c"], max(1, c["o"] // c["groups"]), *c["kernel"], generator=g)
    args = dict(
        c["args"],
        output_padding=tuple(r.randint(0, max(s, d) - 1) for s, d in zip(c["args"]["stride"], c["args"]["dilation"])),
    )
    b = torch.randn(w.shape[1] * c["groups"], generator=g) if c["bias"] else None
    check(
        lambda x, w, b=None: F.conv_transpose2d(x, w, b, **args),
        [x, w, b],
        grad_like(c["still"], c["last"]),
        c["dtype"],
        seed,
    )


def test_one_dimension_and_unbatched():
    x, w, b = torch.randn(2, 6, 30), torch.randn(10, 3, 4), torch.randn(10)
    check(
        lambda x, w, b: F.conv1d(x, w, b, stride=2, padding=1, groups=2),
        [x, w, b],
        grad_like(False, False),
        torch.float32,
        0,
    )
    check(
        lambda x, w: F.conv_transpose1d(x, w, stride=2),
        [torch.randn(6, 9), torch.randn(6, 4, 3)],
        grad_like(True, False),
        torch.float32,
        0,
    )


@pytest.mark.parametrize("memory_format", [torch.contiguous_format, torch.channels_last])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("kernel,stride,groups", [(3, 1, 1), (3, 2, 1), (1, 1, 1), (1, 2, 1), (3, 2, 12)])
def test_the_host_computes_nothing(memory_format, dtype, kernel, stride, groups):
    conv = (
        torch.nn.Conv2d(12, 24, kernel, stride, kernel // 2, groups=groups)
        .to("presil", dtype)
        .to(memory_format=memory_format)
    )
    x = torch.randn(2, 12, 14, 14, dtype=dtype).to("presil").contiguous(memory_format=memory_format).requires_grad_()
    y = conv(x)
    grad = torch.ones_like(y)
    torch.presil.synchronize()
    _C.clear_weights_cache()
    _C.reset_host_operators()
    _C.collect_reports(True)
    y.backward(grad)
    torch.presil.synchronize()
    reports = _C.take_reports()
    _C.collect_reports(False)
    assert _C.host_operators() == {} and _C.weights_cache_entries() == 0
    labels = {r["label"] for r in reports}
    assert labels == {"conv2d_input_grad", "conv2d_weight_grad", "conv2d_bias_grad"}
    assert sum(r["macs"] for r in reports if r["label"] == "conv2d_weight_grad") == y.numel() * 12 // groups * kernel**2
    assert x.grad.is_contiguous(memory_format=memory_format) and conv.weight.grad.is_contiguous(
        memory_format=memory_format
    )


def test_matmul_backward_on_the_chip():
    a, b, bias = (torch.randn(*s).to("presil").requires_grad_() for s in ((37, 50), (50, 21), (21,)))
    batch = torch.randn(3, 21, 40).to("presil").requires_grad_()
    y = torch.addmm(bias, a, b).expand(3, 37, 21) @ batch
    torch.presil.synchronize()
    _C.reset_host_operators()
    y.sum().backward()
    torch.presil.synchronize()
    host = {name for name in _C.host_operators() if "mm" in name or "layout" in name}
    assert not host, host
    c = [t.detach().cpu().double().requires_grad_() for t in (a, b, bias, batch)]
    (torch.addmm(c[2], c[0], c[1]).expand(3, 37, 21) @ c[3]).sum().backward()
    for got, expected in zip((a, b, bias, batch), c):
        torch.testing.assert_close(got.grad.cpu().double(), expected.grad, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("transposed", [False, True])
def test_double_backward(transposed):
    f = F.conv_transpose2d if transposed else F.conv2d
    tensors = [torch.randn(2, 4, 6, 5), torch.randn(4, 4, 3, 2), torch.randn(4)]
    results = []
    for device, dtype in (("cpu", torch.float64), ("presil", torch.float32)):
        x, w, b = (t.to(device, dtype).requires_grad_() for t in tensors)
        y = f(x, w, b, stride=2, padding=1)
        gx, gw = torch.autograd.grad(y.sum(), (x, w), create_graph=True)
        (gx.square().sum() + (gw * 0.5).pow(3).sum()).backward()
        results.append([x.grad, w.grad])
    for expected, got in zip(*results):
        torch.testing.assert_close(got.cpu().double(), expected, rtol=2e-5, atol=2e-4)


# Columns, images, rows along the lanes; a line longer than a block; groups.
ORACLE = {
    "columns": ((1, 2, 5, 5), (3, 2, 3, 3), dict(padding=1)),
    "images": ((6, 2, 2, 2), (3, 2, 3, 3), dict(padding=1)),
    "rows, stride": ((1, 4, 13, 5), (6, 4, 3, 2), dict(stride=2, padding=1)),
    "pieces, dilation": ((1, 2, 4, 40), (3, 2, 2, 3), dict(dilation=2)),
    "groups": ((2, 4, 4, 7), (6, 2, 3, 3), dict(groups=2, padding=1)),
}


@pytest.mark.parametrize("case", ORACLE)
def test_weight_gradient_equals_the_oracle_bit_for_bit(case):
    shape, kernel, kwargs = ORACLE[case]
    x, w = torch.randn(shape), torch.randn(kernel).to("presil").requires_grad_()
    y = F.conv2d(x.to("presil"), w, **kwargs)
    g = torch.randn(y.shape)
    y.backward(g.to("presil"))
    assert torch.equal(w.grad.cpu(), weight_gradient(x, g, kernel[2:], **kwargs))


def test_rtl_equals_twin(verify):
    for dtype in (torch.float32, torch.bfloat16, torch.float16):
        for memory_format in (torch.contiguous_format, torch.channels_last):
            for kwargs in (dict(padding=1), dict(stride=2, padding=1), dict(groups=4), dict(dilation=2)):
                x = (
                    torch.randn(2, 8, 9, 11, dtype=dtype)
                    .to("presil")
                    .contiguous(memory_format=memory_format)
                    .requires_grad_()
                )
                w = (
                    torch.randn(36, 8 // kwargs.get("groups", 1), 3, 3, dtype=dtype)
                    .to("presil")
                    .contiguous(memory_format=memory_format)
                    .requires_grad_()
                )
                y = F.conv2d(x, w, torch.zeros(36, dtype=dtype, device="presil", requires_grad=True), **kwargs)
                y.backward(torch.ones_like(y))
        F.conv_transpose2d(
            torch.randn(1, 8, 5, 5, dtype=dtype).to("presil").requires_grad_(),
            torch.randn(8, 3, 3, 3, dtype=dtype).to("presil").requires_grad_(),
            stride=2,
        ).sum().backward()
    a = torch.randn(9, 40).to("presil").requires_grad_()
    (a @ torch.randn(40, 8).to("presil").requires_grad_()).sum().backward()
