# SPDX-License-Identifier: Apache-2.0
"""Convolutions over three dimensions: every multiply-accumulate on the chip, forward and backward, right against
float64."""

import random

import pytest
import torch
import torch.nn.functional as F
from grad_oracle import weight_gradient_3d
from torch_presil import _C

from test_conv_backward import check, grad_like


def random_case(seed):
    r = random.Random(seed)
    groups = r.choice([1, 1, 2, 3])
    kernel = [r.choice([1, 2, 3]), r.choice([1, 2, 3]), r.choice([1, 3])]
    dilation = [r.randint(1, 2) for _ in kernel]
    stride = [r.randint(1, 3) for _ in kernel]
    # Padding beyond the kernel makes planes that meet nothing else; the CPU refuses it only when transposed.
    padding = [
        r.randint(0, d * (k - 1) + (i == 0 and r.random() < 0.3)) for i, (d, k) in enumerate(zip(dilation, kernel))
    ]
    size = [max(1, d * (k - 1) + 1 - 2 * p) + r.randint(0, 4) for d, k, p in zip(dilation, kernel, padding)]
    dtype = r.choice([torch.float32, torch.float32, torch.bfloat16, torch.float16])
    case = dict(
        n=r.choice([1, 2, 9]),
        c=groups * r.choice([1, 3, 8]),
        o=groups * r.choice([1, 2, 20]),
        size=size,
        kernel=kernel,
        bias=r.random() < 0.6,
        last=r.random() < 0.5,
        still=r.random() < 0.2,
        dtype=dtype,
    )
    return r, case, dict(stride=stride, padding=padding, dilation=dilation, groups=groups)


def run(f, tensors, c, args, seed):
    if c["last"]:
        tensors = [
            t.contiguous(memory_format=torch.channels_last_3d) if t is not None and t.dim() == 5 else t for t in tensors
        ]
    _C.collect_reports(True)
    try:
        got = check(lambda x, w, b=None: f(x, w, b, **args), tensors, grad_like(c["still"], False), c["dtype"], seed)
        torch.presil.synchronize()
        labels = {r["label"] for r in _C.take_reports()}
    finally:
        _C.collect_reports(False)
    name = f.__name__
    assert labels >= {name, f"{name}_input_grad", f"{name}_weight_grad"}, (seed, labels)
    return got


@pytest.mark.parametrize("seed", range(50))
def test_random_conv3d(seed):
    r, c, args = random_case(seed)
    g = torch.Generator().manual_seed(seed)
    x = torch.randn(c["n"], c["c"], *c["size"], generator=g)
    w = torch.randn(c["o"], c["c"] // args["groups"], *c["kernel"], generator=g)
    b = torch.randn(c["o"], generator=g) if c["bias"] else None
    with torch.no_grad():
        y = F.conv3d(*(None if t is None else t.to("presil", c["dtype"]) for t in (x, w, b)), **args)
        exact = F.conv3d(*(None if t is None else t.to(c["dtype"]).double() for t in (x, w, b)), **args)
        magnitude = F.conv3d(*(None if t is None else t.to(c["dtype"]).double().abs() for t in (x, w, b)), **args)
    bits = {torch.float32: 2**-21, torch.bfloat16: 2**-8, torch.float16: 2**-10}[c["dtype"]]
    assert bool(((y.cpu().double() - exact).abs() <= 2**-19 * magnitude + bits * exact.abs() + 1e-7).all()), seed
    run(F.conv3d, [x, w, b], c, args, seed)


@pytest.mark.parametrize("seed", range(30))
def test_random_conv_transpose3d(seed):
    r, c, args = random_case(1000 + seed)
    g = torch.Generator().manual_seed(seed)
    args["padding"] = [min(p, d * (k - 1)) for p, d, k in zip(args["padding"], args["dilation"], c["kernel"])]
    args["output_padding"] = [r.randint(0, max(s, d) - 1) for s, d in zip(args["stride"], args["dilation"])]
    x = torch.randn(c["n"], c["c"], *c["size"], generator=g)
    w = torch.randn(c["c"], max(1, c["o"] // args["groups"]), *c["kernel"], generator=g)
    b = torch.randn(w.shape[1] * args["groups"], generator=g) if c["bias"] else None
    sizes = [
        (n - 1) * s - 2 * p + d * (k - 1) + o + 1
        for n, s, p, d, k, o in zip(
            c["size"], args["stride"], args["padding"], args["dilation"], c["kernel"], args["output_padding"]
        )
    ]
    if min(sizes) < 1:
        args["padding"] = [0, 0, 0]
    run(F.conv_transpose3d, [x, w, b], c, args, seed)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("kernel,stride", [(3, 1), (3, 2), (1, 2)])
def test_the_host_only_turns_layouts_in_backward(dtype, kernel, stride):
    conv = torch.nn.Conv3d(6, 8, kernel, stride, kernel // 2).to("presil", dtype)
    x = torch.randn(2, 6, 5, 9, 9, dtype=dtype).to("presil").requires_grad_()
    y = conv(x)
    grad = torch.ones_like(y)
    torch.presil.synchronize()
    _C.reset_host_operators()
    with torch.presil.explain() as report:
        y.backward(grad)
    host = {r["reason"] for r in report.rows if r["where"] == "host"}
    assert _C.host_operators() == {} and host == {"conversion to another layout"}, (_C.host_operators(), host)


def test_channels_last_stays_and_weights_are_packed_once():
    _C.clear_weights_cache()
    x, w = torch.randn(2, 4, 4, 6, 6).to("presil"), torch.randn(5, 4, 3, 3, 3).to("presil")
    y = F.conv3d(x, w, padding=1)
    assert y.is_contiguous() and _C.weights_cache_entries() == 3
    z = F.conv3d(x.contiguous(memory_format=torch.channels_last_3d), w, padding=1)
    assert z.is_contiguous(memory_format=torch.channels_last_3d) and _C.weights_cache_entries() == 3
    assert torch.equal(y.cpu(), z.cpu())
    w.mul_(2)
    assert torch.equal(F.conv3d(x, w, padding=1).cpu(), 2 * y.cpu())


def test_double_backward():
    tensors = [torch.randn(2, 4, 3, 6, 5), torch.randn(4, 4, 2, 3, 2), torch.randn(4)]
    results = []
    for device, dtype in (("cpu", torch.float64), ("presil", torch.float32)):
        x, w, b = (t.to(device, dtype).requires_grad_() for t in tensors)
        gx, gw = torch.autograd.grad(F.conv3d(x, w, b, stride=2, padding=1).sum(), (x, w), create_graph=True)
        (gx.square().sum() + (gw * 0.5).pow(3).sum()).backward()
        results.append([x.grad, w.grad])
    for expected, got in zip(*results):
        torch.testing.assert_close(got.cpu().double(), expected, rtol=2e-5, atol=2e-4)


@pytest.mark.parametrize(("images", "planes"), [(1, 3), (5, 2)])
def test_weight_gradient_equals_the_oracle_bit_for_bit(images, planes):
    """Image by image, and plane by plane."""
    x, w = torch.randn(images, 2, planes, 4, 5), torch.randn(3, 2, 3, 3, 3).to("presil").requires_grad_()
    y = F.conv3d(x.to("presil"), w, padding=1)
    g = torch.randn(y.shape)
    y.backward(g.to("presil"))
    assert torch.equal(w.grad.cpu(), weight_gradient_3d(x, g, (3, 3, 3), padding=1))


def test_rtl_equals_twin(verify):
    for dtype in (torch.float32, torch.bfloat16):
        for kwargs in (dict(padding=1), dict(stride=2, padding=1, groups=2)):
            x = torch.randn(2, 8, 3, 7, 6, dtype=dtype).to("presil").requires_grad_()
            w = torch.randn(36, 8 // kwargs.get("groups", 1), 3, 3, 3, dtype=dtype).to("presil").requires_grad_()
            y = F.conv3d(x, w, torch.zeros(36, dtype=dtype, device="presil", requires_grad=True), **kwargs)
            y.backward(torch.ones_like(y))
    F.conv_transpose3d(
        torch.randn(1, 4, 2, 5, 5).to("presil").requires_grad_(),
        torch.randn(4, 3, 2, 3, 3).to("presil").requires_grad_(),
        stride=2,
    ).sum().backward()
