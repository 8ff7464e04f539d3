# SPDX-License-Identifier: Apache-2.0
"""int8 operators equal PyTorch's quantized CPU kernels (engine qnnpack) bit for bit."""

import random
import warnings

import pytest
import torch

warnings.filterwarnings("ignore", category=UserWarning)
warnings.filterwarnings("ignore", category=DeprecationWarning)


def parameters(r, per_channel, o):
    sx, so = r.uniform(0.01, 0.1), r.uniform(0.02, 0.5)
    sw = torch.tensor([r.uniform(0.001, 0.05) for _ in range(o if per_channel else 1)]).expand(o).contiguous()
    return torch.tensor(sx).float(), r.randint(0, 255), sw, torch.tensor(so).float(), r.randint(0, 255)


def chip_parameters(w, b, sx, zx, sw, so):
    """bias with the zero point folded in, and scale: docs/numerics.md section 7."""
    product = sx * sw
    bias = (b * (1.0 / product)).round().to(torch.int64) - (zx - 128) * w.flatten(1).to(torch.int64).sum(1)
    return bias.to(torch.int32), product * (1.0 / so)


@pytest.mark.parametrize("seed", range(60))
def test_conv_equals_qnnpack(seed):
    r = random.Random(seed)
    torch.backends.quantized.engine = "qnnpack"
    groups = r.choice([1, 1, 2, 4])
    c, o = groups * r.choice([1, 3, 8, 20]), groups * r.choice([2, 5, 16])
    k, stride, padding, dilation = r.choice([1, 3, 5, 7]), r.randint(1, 2), r.randint(0, 3), r.randint(1, 2)
    size = dilation * (k - 1) + 1 + r.randint(0, 9)
    sx, zx, sw, so, zo = parameters(r, seed % 2 == 0, o)
    extreme = seed % 5 == 0
    codes = (
        torch.full((2, c, size, size), 255 if seed % 10 else 0, dtype=torch.uint8)
        if extreme
        else torch.randint(0, 256, (2, c, size, size), dtype=torch.uint8)
    )
    w = (
        torch.full((o, c // groups, k, k), -128, dtype=torch.int8)
        if extreme
        else torch.randint(-128, 128, (o, c // groups, k, k), dtype=torch.int8)
    )
    b = torch.randn(o)
    relu = r.random() < 0.5
    qx = torch._make_per_tensor_quantized_tensor(codes, float(sx), zx)
    qw = torch._make_per_channel_quantized_tensor(w, sw.double(), torch.zeros(o, dtype=torch.long), 0)
    packed = torch.ops.quantized.conv2d_prepack(qw, b, [stride] * 2, [padding] * 2, [dilation] * 2, groups)
    operator = torch.ops.quantized.conv2d_relu if relu else torch.ops.quantized.conv2d
    expected = operator(qx, packed, float(so), zo).int_repr()
    bias, scale = chip_parameters(w, b, sx, zx, sw, so)
    x = (codes.to(torch.int16) - 128).to(torch.int8).to("presil")
    got = torch.ops.presil.conv2d_int8(
        x,
        w.to("presil"),
        bias.to("presil"),
        scale.to("presil"),
        [stride] * 2,
        [padding] * 2,
        [dilation] * 2,
        groups,
        zx - 128,
        zo - 128,
        relu=relu,
    )
    assert torch.equal((got.cpu().to(torch.int16) + 128).to(torch.uint8), expected)


@pytest.mark.parametrize("seed", range(20))
def test_linear_equals_qnnpack(seed):
    r = random.Random(100 + seed)
    torch.backends.quantized.engine = "qnnpack"
    k, o, m = r.choice([1, 30, 64, 200]), r.choice([1, 8, 33, 100]), r.choice([1, 7, 40])
    sx, zx, sw, so, zo = parameters(r, True, o)
    codes, w, b = (
        torch.randint(0, 256, (m, k), dtype=torch.uint8),
        torch.randint(-128, 128, (o, k), dtype=torch.int8),
        torch.randn(o),
    )
    qx = torch._make_per_tensor_quantized_tensor(codes, float(sx), zx)
    qw = torch._make_per_channel_quantized_tensor(w, sw.double(), torch.zeros(o, dtype=torch.long), 0)
    expected = torch.ops.quantized.linear(qx, torch.ops.quantized.linear_prepack(qw, b), float(so), zo).int_repr()
    bias, scale = chip_parameters(w, b, sx, zx, sw, so)
    x = (codes.to(torch.int16) - 128).to(torch.int8).to("presil")
    got = torch.ops.presil.linear_int8(x, w.to("presil"), bias.to("presil"), scale.to("presil"), zx - 128, zo - 128)
    assert torch.equal((got.cpu().to(torch.int16) + 128).to(torch.uint8), expected)


def test_fused_residual_is_numerics_section_7():
    from torch_presil.fused_layer import FusedLayer
    from torch_presil.quantize import QuantizationParameters, QuantizedLayer

    layer = FusedLayer("x", torch.nn.Conv2d(12, 10, 3, padding=1))
    layer.activation, layer.has_residual = "relu", True
    q = QuantizedLayer(
        layer, QuantizationParameters(0.03, -5), QuantizationParameters(0.02, 7), QuantizationParameters(0.05, 11)
    )
    x, residual = (
        torch.randint(-128, 128, (2, 12, 9, 8), dtype=torch.int8),
        torch.randint(-128, 128, (2, 10, 9, 8), dtype=torch.int8),
    )
    expected = q(x, residual)
    got = q.to("presil")(x.to("presil"), residual.to("presil"))
    assert torch.equal(got.cpu(), expected)


@pytest.mark.parametrize("module", [torch.nn.Linear(8, 40), torch.nn.Conv2d(8, 40, 1)], ids=["linear", "conv2d"])
def test_relu6_ends_at_the_code_of_6(module):
    from torch_presil.fused_layer import FusedLayer
    from torch_presil.quantize import QuantizationParameters, QuantizedLayer

    layer = FusedLayer("x", module)
    layer.activation = "relu6"
    q = QuantizedLayer(layer, QuantizationParameters(0.5, 3), QuantizationParameters(0.2, -100), None)
    x = torch.randint(-128, 128, (2, 8, 8, 8), dtype=torch.int8)
    expected = q(x)
    assert (expected.min(), expected.max()) == (-100, -70)
    assert torch.equal(q.to("presil")(x.to("presil")).cpu(), expected)


def test_rtl_equals_twin(verify):
    for c, o, k in ((3, 16, 7), (64, 40, 3), (100, 33, 1)):
        x = torch.randint(-128, 128, (1, c, 15, 14), dtype=torch.int8).to("presil")
        w = torch.randint(-128, 128, (o, c, k, k), dtype=torch.int8).to("presil")
        torch.ops.presil.conv2d_int8(
            x,
            w,
            torch.zeros(o, dtype=torch.int32, device="presil"),
            torch.full((o,), 1e-3, device="presil"),
            [2, 2],
            [k // 2] * 2,
            [1, 1],
            1,
            -3,
            4,
            relu=True,
        ).cpu()
