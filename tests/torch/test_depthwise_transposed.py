# SPDX-License-Identifier: Apache-2.0
"""Transposed convolutions whose channels have kernels of their own: depthwise ones for each phase of the stride
(docs/numerics.md 5), bit for bit those of the oracle, forward and backward."""

import random
import sys
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from grad_oracle import bits, floats
from torch_presil import _C

sys.path.insert(0, str(Path(__file__).parents[1]))
from oracle import operators  # noqa: E402

DEVICE = torch.presil.get_device_properties(0)
CHIP = dict(dtype="fp32", lanes=DEVICE.lanes, cells=DEVICE.cells)


def drawn(seed):
    """(x, w, arguments) of a layer: kernels below, at and above the stride, one axis that may be dilated instead."""
    r = random.Random(f"transposed {seed}")
    torch.manual_seed(seed)
    stride = r.choice([(2, 2), (2, 1), (1, 3), (3, 2), (2, 2)])
    dilation = tuple(1 if s > 1 else r.choice((1, 2)) for s in stride)
    kernel = (r.randint(1, 7), r.choice((1, 2, 3, 4, 11)))
    reach = [d * (k - 1) for d, k in zip(dilation, kernel)]
    channels, each = r.choice((2, 5, 31, 32, 33)), r.choice((1, 1, 2, 3))
    size = (r.randint(1, 4), r.choice((1, 5, 40 if channels < 31 else 9)))
    padding = tuple(min(r.randint(0, e), (n - 1) * s // 2) for e, n, s in zip(reach, size, stride))
    more = tuple(r.randint(0, max(s, d) - 1) for s, d in zip(stride, dilation))
    x = torch.randn(r.choice((1, 2)), channels, *size)
    if r.random() < 0.5:
        x = x.contiguous(memory_format=torch.channels_last)
    arguments = dict(stride=stride, padding=padding, dilation=dilation, output_padding=more, groups=channels)
    return x, torch.randn(channels, each, *kernel), arguments


@pytest.mark.parametrize("seed", range(32))
def test_as_the_oracle(seed):
    x, w, arguments = drawn(seed)
    y = F.conv_transpose2d(x.to("presil"), w.to("presil"), **arguments).cpu()
    made = operators.conv_transpose2d(bits(x).tolist(), bits(w).tolist(), **arguments, **CHIP)
    assert torch.equal(y, floats(made, y.shape)), (seed, x.shape, w.shape, arguments)
    exact = F.conv_transpose2d(x.double(), w.double(), **arguments)
    torch.testing.assert_close(y.double(), exact, rtol=1e-5, atol=1e-4)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_rtl_equals_twin_with_all_that_a_layer_has(verify, dtype):
    """Bias, gradients, a layer without positions of the kernel in most phases; in a compiled graph with packed
    weights, too."""
    layers = [
        torch.nn.ConvTranspose2d(36, 36, 4, 2, 1, groups=36),
        torch.nn.ConvTranspose2d(36, 72, 3, 2, 1, output_padding=1, groups=36),
        torch.nn.ConvTranspose2d(36, 36, 1, 3, groups=36, bias=False),
    ]
    for layer in layers:
        x = torch.randn(2, 36, 5, 21)
        exact_layer, exact_x = layer.double(), x.to(dtype).double().requires_grad_()
        exact = exact_layer(exact_x)
        g = torch.randn(exact.shape).to(dtype)
        expected = torch.autograd.grad(exact, (exact_x, *exact_layer.parameters()), g.double())
        layer = layer.to(dtype).to("presil")
        given = x.to(dtype).to("presil").requires_grad_()
        y = layer(given)
        got = torch.autograd.grad(y, (given, *layer.parameters()), g.to("presil"))
        tolerance = {torch.float32: 1e-4, torch.bfloat16: 4e-2, torch.float16: 1e-2}[dtype]
        for mine, true in zip((y, *got), (exact, *expected)):
            scale = true.abs().max().item()
            assert (mine.detach().cpu().double() - true.detach()).abs().max().item() <= tolerance * scale
        with torch.no_grad():
            compiled = torch.compile(layer, backend="presil")(given)
            assert torch.equal(compiled, y)


def test_every_product_is_done_once():
    x, w = torch.randn(1, 40, 9, 11).bfloat16(), torch.randn(40, 1, 4, 4).bfloat16()
    torch.presil.synchronize()
    _C.collect_reports(True)
    y = F.conv_transpose2d(x.to("presil"), w.to("presil"), stride=2, padding=1, groups=40)
    torch.presil.synchronize()
    reports = _C.take_reports()
    _C.collect_reports(False)
    assert [(r["label"], r["macs"]) for r in reports] == [("conv_transpose2d", y.numel() * 4)]
