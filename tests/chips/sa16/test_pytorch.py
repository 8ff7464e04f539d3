# SPDX-License-Identifier: Apache-2.0
"""Networks of PyTorch on sa16: the RTL equals the twin bit for bit, and both equal integers computed here from the
quantized network; how far that is from PyTorch's requantisation in fp32 is counted."""

import os

import pytest

os.environ["PRESIL_CHIP"] = "sa16"
os.environ.setdefault("PRESIL_MEMORY", str(1 << 30))

torch = pytest.importorskip("torch")
import torch_presil  # noqa: E402,F401
from networks import network  # noqa: E402
from torch import nn  # noqa: E402
from torch.nn import functional as F  # noqa: E402
from torch_presil.fuse import fuse  # noqa: E402
from torch_presil.quantize import QuantizedLayer, quantize  # noqa: E402

ALL = ("resnet8", "ds_cnn", "mobilenet_v1_025", "autoencoder")


def quantized(name):
    model, x = network(name)
    return quantize(fuse(model, x), [x]), x


def fixed_point(scale: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """scale = multiplier / 2^(shift + 16), multiplier of 31 bits."""
    mantissa, exponent = torch.frexp(scale.double())
    return (mantissa * 2.0**31).to(torch.int64), (15 - exponent).to(torch.int64)


def integer_layer(layer: QuantizedLayer, x, residual=None):
    """README.md, "Requantisation", of a whole layer."""
    g, weight, codes = layer.geometry, layer.weight.double(), x.double()
    if layer.linear:
        acc, shape = F.linear(codes, weight), [-1]
    else:
        p = [g.padding[1], g.padding[1], g.padding[0], g.padding[0]]
        codes = F.pad(codes, p, value=float(layer.x.zero_point))
        acc, shape = F.conv2d(codes, weight, None, g.stride, 0, g.dilation, g.groups), [1, -1, 1, 1]
    total = (acc.to(torch.int64) + layer.bias.view(shape)).to(torch.int32).to(torch.int64)
    multiplier, shift = (t.view(shape) for t in fixed_point(layer.scale))
    q = (total * multiplier) >> shift
    if residual is not None:
        q = q + (residual.to(torch.int64) - layer.residual.zero_point) * round(layer.residual_scale * 65536)
    code = ((q + 0x7FFF + ((q >> 16) & 1)) >> 16) + layer.out.zero_point
    return code.clamp(layer.out.zero_point if layer.activation != "none" else -128, 127).to(torch.int8)


class Integers(nn.Module):
    """In a layer's place: what the chip should give; counts where PyTorch's fp32 would give something else."""

    def __init__(self, layer, counts):
        super().__init__()
        self.layer, self.counts = layer, counts

    def forward(self, x, residual=None):
        exact = integer_layer(self.layer, x, residual)
        fp32 = self.layer._forward_host(x, residual)
        difference = (exact.int() - fp32.int()).abs()
        self.counts.append((exact.numel(), int((difference > 0).sum()), int(difference.max())))
        return exact


def with_integers(model):
    counts = []
    for name, layer in list(model.named_modules()):
        if isinstance(layer, QuantizedLayer):
            model.set_submodule(name, Integers(layer, counts))
    return model, counts


def run_on_chip(name, mode):
    model, x = quantized(name)
    layers = sum(isinstance(m, QuantizedLayer) for m in model.modules())
    with torch.inference_mode(), torch.backends.presil.flags(mode=mode), torch.presil.reports() as reports:
        found = model.to("presil")(x.to("presil")).cpu()
        taken = reports.take()
    labels = [r["label"] for r in taken if r["label"] != "max_pool2d"]  # a launch of its own
    assert len(labels) == layers, f"{layers} layers, {len(labels)} launches"
    return found, taken


def wanted(name):
    model, x = quantized(name)
    model, counts = with_integers(model)
    with torch.inference_mode():
        return model(x), counts


def check_network(name):
    found, reports = run_on_chip(name, "verify")
    expected, counts = wanted(name)
    assert torch.equal(found, expected)
    assert all(r["verified"] == 1 and r["cycles"] > 0 for r in reports)
    total, different, most = (sum(c[0] for c in counts), sum(c[1] for c in counts), max(c[2] for c in counts))
    cycles = sum(r["cycles"] for r in reports)
    print(f"\n{name}: {len(reports)} layers, {cycles} cycles, {different} of {total} not as with fp32, by {most}")
    assert most <= 1 and different <= total / 1000


@pytest.mark.parametrize("name", ALL)
def test_network(name):
    check_network(name)


def test_what_it_refuses_runs_on_the_host_and_is_counted():
    torch.presil.reset_host_operators()
    conv, x = nn.Conv2d(3, 8, 3), torch.randn(1, 3, 9, 9)
    with torch.inference_mode():
        expected = conv(x)
        found = conv.to("presil")(x.to("presil")).cpu()
    assert torch.allclose(found, expected, atol=1e-5)
    counted = torch.presil.host_operators()
    assert any("conv" in name and row["calls"] for name, row in counted.items()), counted
    assert any("int8 alone" in str(row["reason"]) for row in counted.values()), counted


def test_an_int8_layer_that_it_refuses_has_the_bits_of_fp32_requantisation():
    """Groups of three channels: the host computes docs/numerics.md 7, not the chip's own requantisation."""
    torch.presil.reset_host_operators()
    draw = torch.Generator().manual_seed(5)
    x, r = (torch.randint(-128, 128, size, generator=draw, dtype=torch.int8) for size in ((2, 9, 7, 6), (2, 6, 4, 4)))
    w = torch.randint(-128, 128, (6, 3, 3, 2), generator=draw, dtype=torch.int8)
    bias = torch.randint(-(2**31), 2**31, (6,), generator=draw).to(torch.int32)
    scale = torch.rand(6, generator=draw) * 1e-3
    given = ([2, 2], [1, 1], [1, 1], 3, -7, 5)
    on_chip = [t.to("presil") for t in (x, w, bias, scale)]
    found = torch.ops.presil.conv2d_int8(*on_chip, *given, r.to("presil"), 0.37, 11, True).cpu()
    padded = F.pad(x.double(), [1, 1, 1, 1], value=-7.0)
    total = F.conv2d(padded, w.double(), None, 2, 0, 1, 3).to(torch.int64) + bias.view(1, -1, 1, 1)
    y = ((total + 2**31) % 2**32 - 2**31).float() * scale.view(1, -1, 1, 1) + (r.int() - 11).float() * 0.37
    assert torch.equal(found, (y.round() + 5).clamp(5, 127).to(torch.int8))
    assert any("conv2d_int8" in name for name in torch.presil.host_operators()), torch.presil.host_operators()
