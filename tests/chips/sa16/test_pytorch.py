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
from torch_presil.quantize import AverageOfCodes, QuantizedLayer, quantize  # noqa: E402

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
    weight, codes = layer.weight.double(), x.double()
    if layer.geometry is None:
        acc, shape = F.linear(codes, weight), [-1]
    else:
        stride, padding, dilation, groups = layer.geometry
        p = [padding[1], padding[1], padding[0], padding[0]]
        codes = F.pad(codes, p, value=float(layer.x.zero_point))
        acc, shape = F.conv2d(codes, weight, None, stride, 0, dilation, groups), [1, -1, 1, 1]
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
        fp32 = self.layer._on_host(x, residual)
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
    pools = [r["label"] for r in taken if r["label"] in ("max_pool2d", "avg_pool2d_int8")]  # launches of their own
    assert len(taken) - len(pools) == layers, f"{layers} layers, {len(taken) - len(pools)} launches"
    means = sum(isinstance(m, AverageOfCodes) for m in model.modules())
    assert pools.count("avg_pool2d_int8") == means == (name != "autoencoder"), pools
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


@pytest.mark.parametrize("name", [name for name in ALL if name != "autoencoder"])
def test_the_average_pooling_of_a_network_is_pytorchs(name):
    """Its own quantized one, of uint8 codes, which are 128 more."""
    model, x = quantized(name)
    (pool,) = [m for m in model.modules() if isinstance(m, AverageOfCodes)]
    seen = []
    pool.register_forward_hook(lambda _, args, out: seen.append((args[0].cpu(), out.cpu())))
    with torch.inference_mode(), torch.backends.presil.flags(mode="rtl"):
        model.to("presil")(x.to("presil"))
    ((codes, found),) = seen
    engine, torch.backends.quantized.engine = torch.backends.quantized.engine, "qnnpack"
    try:
        shifted = (codes.to(torch.int16) + 128).to(torch.uint8)
        quint8 = torch._make_per_tensor_quantized_tensor(shifted, 0.1, pool.q.zero_point + 128)
        expected = F.avg_pool2d(quint8, tuple(codes.shape[2:]))
    finally:
        torch.backends.quantized.engine = engine
    assert torch.equal(found.to(torch.int16) + 128, expected.int_repr().to(torch.int16))
    assert found.unique().numel() > 4, found


def test_means_of_codes_on_the_chip_and_what_it_refuses():
    """Odd zero points of an even number of codes are the host's, with the reason; both are exact."""
    draw = torch.Generator().manual_seed(6)
    x = torch.randint(-128, 128, (2, 20, 9, 8), generator=draw, dtype=torch.int8)
    last = x.contiguous(memory_format=torch.channels_last)
    forms = last, last[:, :16, 1:], last[1:].transpose(2, 3), x, x[0], x[:0]
    windows = ((3, 3), (2, 1), (1, 1)), ((2, 2), (2, 2), (0, 0)), ((9, 8), (1, 1), (0, 0)), ((5, 1), (2, 3), (1, 0))
    for codes in forms:
        for window in windows:
            for zero_point in (-128, -3, 0, 5, 127):
                if any(k > s for k, s in zip(window[0], codes.shape[-2:], strict=True)):
                    continue
                want = torch.ops.presil.avg_pool2d_int8(codes, *window, zero_point=zero_point)
                torch.presil.reset_host_operators()
                with torch.backends.presil.flags(mode="verify"):
                    found = torch.ops.presil.avg_pool2d_int8(codes.to("presil"), *window, zero_point=zero_point)
                assert torch.equal(found.cpu(), want) and found.stride() == want.stride()
                counted = torch.presil.host_operators()
                even = window[0][0] * window[0][1] % 2 == 0
                reasons = [row["reason"] for row in counted.values()]
                if codes is not last:  # as they lie: some are planes, which it does not pool
                    continue
                if zero_point % 2 and even:
                    assert "whose zero point is odd" in reasons[0]
                else:
                    assert not counted, (window, zero_point, counted)


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
