# SPDX-License-Identifier: Apache-2.0
"""Convolutions on the chip against the CPU: every combination that the operator gets."""

import itertools
import random

import pytest
import torch
import torch.nn.functional as F


def close(got, expected, dtype=torch.float32):
    scale = expected.float().abs().max().item() if expected.numel() else 0
    tolerance = (
        dict(rtol=1e-5, atol=3e-6 * scale + 1e-12) if dtype == torch.float32 else dict(rtol=1e-2, atol=1e-2 * scale)
    )
    torch.testing.assert_close(got.cpu(), expected, **tolerance)


def random_case(seed):
    r = random.Random(seed)
    groups = r.choice([1, 1, 1, 2, 4])
    case = dict(
        n=r.choice([1, 1, 2, 3]),
        c=groups * r.choice([1, 2, 3, 8, 17, 40]),
        o=groups * r.choice([1, 3, 8, 20]),
        h=r.randint(1, 14),
        w=r.randint(1, 14),
        kh=r.choice([1, 1, 2, 3, 5]),
        kw=r.choice([1, 1, 2, 3, 7]),
        stride=(r.randint(1, 3), r.randint(1, 3)),
        padding=(r.randint(0, 3), r.randint(0, 3)),
        dilation=(r.randint(1, 2), r.randint(1, 2)),
        groups=groups,
        bias=r.random() < 0.5,
        last=r.random() < 0.5,
        bf16=r.random() < 0.4,
    )
    return case


def fits(c):
    return all(
        c[s] + 2 * p >= d * (k - 1) + 1
        for s, p, d, k in (
            ("h", c["padding"][0], c["dilation"][0], c["kh"]),
            ("w", c["padding"][1], c["dilation"][1], c["kw"]),
        )
    )


@pytest.mark.parametrize("seed", range(120))
def test_random_conv2d(seed):
    c = random_case(seed)
    if not fits(c):
        c["padding"] = (c["dilation"][0] * c["kh"], c["dilation"][1] * c["kw"])
    dtype = torch.bfloat16 if c["bf16"] else torch.float32
    x = torch.randn(c["n"], c["c"], c["h"], c["w"]).to(dtype)
    if c["last"]:
        x = x.contiguous(memory_format=torch.channels_last)
    w = torch.randn(c["o"], c["c"] // c["groups"], c["kh"], c["kw"]).to(dtype)
    b = torch.randn(c["o"]).to(dtype) if c["bias"] else None
    args = (c["stride"], c["padding"], c["dilation"], c["groups"])
    expected = F.conv2d(x.float(), w.float(), None if b is None else b.float(), *args).to(dtype)
    got = F.conv2d(x.to("presil"), w.to("presil"), None if b is None else b.to("presil"), *args)
    if min(x.shape[1:]) > 1:  # otherwise both layouts have the same strides
        assert got.is_contiguous(memory_format=torch.channels_last if c["last"] else torch.contiguous_format)
    close(got, expected, dtype)


@pytest.mark.parametrize("seed", range(40))
def test_random_transposed(seed):
    r = random.Random(1000 + seed)
    groups = r.choice([1, 1, 2, 3])
    x = torch.randn(r.choice([1, 2]), groups * r.choice([1, 3, 16]), r.randint(1, 9), r.randint(1, 9))
    w = torch.randn(x.shape[1], r.choice([1, 2, 9]), r.choice([1, 2, 3, 4]), r.choice([1, 2, 3]))
    stride, dilation = r.randint(1, 3), r.randint(1, 2)
    padding, output_padding = r.randint(0, 2), r.randint(0, max(stride, dilation) - 1)
    size = [
        (x.shape[2 + i] - 1) * stride - 2 * padding + dilation * (w.shape[2 + i] - 1) + output_padding + 1
        for i in range(2)
    ]
    if min(size) < 1:
        padding = 0
    expected = F.conv_transpose2d(x, w, None, stride, padding, output_padding, groups, dilation)
    close(
        F.conv_transpose2d(x.to("presil"), w.to("presil"), None, stride, padding, output_padding, groups, dilation),
        expected,
    )


def test_one_and_three_dimensions_and_unbatched():
    x, w = torch.randn(2, 6, 30), torch.randn(5, 6, 3)
    close(F.conv1d(x.to("presil"), w.to("presil"), padding=1), F.conv1d(x, w, padding=1))
    close(F.conv1d(x[0].to("presil"), w.to("presil"), padding="same"), F.conv1d(x[0], w, padding="same"))
    x, w = torch.randn(1, 3, 5, 6, 7), torch.randn(4, 3, 2, 3, 3)
    close(F.conv3d(x.to("presil"), w.to("presil"), padding=1), F.conv3d(x, w, padding=1))
    x, w = torch.randn(3, 8, 9), torch.randn(4, 3, 3, 3)
    close(F.conv2d(x.to("presil"), w.to("presil")), F.conv2d(x, w))


def test_zero_strides_and_other_dtypes():
    x, w = torch.randn(1, 4, 1, 1).expand(2, 4, 6, 6), torch.randn(3, 1, 1, 1).expand(3, 4, 3, 3)
    close(F.conv2d(x.to("presil"), w.to("presil")), F.conv2d(x, w))
    device = torch.randn(1, 4, 1, 1, device="presil").expand(2, 4, 6, 6)
    close(F.conv2d(device, w.to("presil")), F.conv2d(device.cpu(), w))
    x, w = torch.randn(1, 2, 5, 5, dtype=torch.float64), torch.randn(2, 2, 3, 3, dtype=torch.float64)
    close(F.conv2d(x.to("presil"), w.to("presil")), F.conv2d(x, w))


@pytest.mark.parametrize("mask", [m for m in itertools.product([False, True], repeat=3) if any(m)])
@pytest.mark.parametrize("transposed", [False, True])
def test_backward_for_every_output_mask(mask, transposed):
    f = F.conv_transpose2d if transposed else F.conv2d
    tensors = [torch.randn(2, 4, 7, 6), torch.randn(4, 4, 3, 3), torch.randn(4)]
    results = []
    for device in ("cpu", "presil"):
        leaves = [t.to(device).detach().requires_grad_(m) for t, m in zip(tensors, mask)]
        y = f(*leaves, stride=2, padding=1)
        y.sum().backward()
        results.append([leaf.grad for leaf in leaves])
    for expected, got in zip(*results):
        assert (expected is None) == (got is None)
        if got is not None:
            close(got, expected)


def test_weights_are_packed_once_and_dropped_when_they_change():
    from torch_presil import _C

    _C.clear_weights_cache()
    x, w = torch.randn(1, 3, 8, 8), torch.randn(4, 3, 3, 3)
    X, W = x.to("presil"), w.to("presil")
    first = F.conv2d(X, W).cpu()
    F.conv2d(X, W)
    assert _C.weights_cache_entries() == 1
    for change in (
        lambda t: t.mul_(2),
        lambda t: t.data.add_(1),
        lambda t: t[1].fill_(0),
        lambda t: t.copy_(w.to(t.device)),
    ):
        change(W)
        change(w)
        close(F.conv2d(X, W), F.conv2d(x, w))
    assert first.shape == (1, 4, 6, 6)
    del W
    F.conv2d(X, torch.randn(2, 3, 1, 1).to("presil"))
    assert _C.weights_cache_entries() <= 1


def test_fused_operators():
    x, w, b, r = torch.randn(1, 8, 9, 9), torch.randn(6, 8, 3, 3), torch.randn(6), torch.randn(1, 6, 9, 9)
    d = [t.to("presil") for t in (x, w, b, r)]
    got = torch.ops.presil.conv2d(d[0], d[1], d[2], [1, 1], [1, 1], [1, 1], 1, d[3], "relu")
    close(got, F.relu(F.conv2d(x, w, b, padding=1) + r))
    got = torch.ops.presil.conv2d(d[0], d[1], None, [2, 2], [1, 1], [1, 1], 1, None, "relu6")
    close(got, F.relu6(F.conv2d(x, w, None, 2, 1)))
    y, v, c = torch.randn(3, 5, 20), torch.randn(7, 20), torch.randn(7)
    close(
        torch.ops.presil.linear(y.to("presil"), v.to("presil"), c.to("presil"), None, "relu"), F.relu(F.linear(y, v, c))
    )
    with pytest.raises(ValueError, match="activation"):
        torch.ops.presil.conv2d(d[0], d[1], activation="tanh")


def test_rtl_equals_twin(verify):
    for dtype in (torch.float32, torch.bfloat16):
        x = torch.randn(1, 20, 13, 11).to(dtype).to("presil")
        for kwargs in (dict(padding=1), dict(stride=2), dict(dilation=2, padding=2)):
            F.conv2d(x, torch.randn(37, 20, 3, 3).to(dtype).to("presil"), **kwargs).cpu()
        F.conv2d(x, torch.randn(40, 1, 3, 3).to(dtype).to("presil"), groups=20).cpu()
        F.conv_transpose2d(x, torch.randn(20, 8, 3, 3).to(dtype).to("presil"), stride=2).cpu()
    F.conv2d(torch.randn(1, 3, 40, 40).to("presil"), torch.randn(16, 3, 7, 7).to("presil"), stride=2, padding=3).cpu()


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32])
def test_what_lies_between_the_elements_of_a_dilated_input_is_no_product(dtype):
    """docs/numerics.md 5, phases: an infinite weight reaches the outputs that meet an element with it, and no other."""
    x, w = torch.rand(1, 3, 5, 5).to(dtype) + 1, torch.rand(3, 4, 4, 4).to(dtype)
    w[:, 0, 1, 2] = float("inf")
    got = F.conv_transpose2d(x.to("presil"), w.to("presil"), None, 2, 1).cpu()
    expected = F.conv_transpose2d(x, w, None, 2, 1)
    assert expected[0, 0].isinf().sum() == 25 and got[0, 1:].isfinite().all()
    assert torch.equal(got[0, 0].isinf(), expected[0, 0].isinf()) and not got.isnan().any()
    close(got.nan_to_num(posinf=0), expected.nan_to_num(posinf=0), dtype)


def test_a_transposed_convolution_multiplies_no_zeros():
    """64 → 64 channels, 4×4 with stride 2 at 32²: 67.1 M products, 1,024 of them a cycle."""
    x, w = (torch.randn(s).bfloat16().to("presil") for s in ((1, 64, 32, 32), (64, 64, 4, 4)))
    with torch.backends.presil.flags(mode="rtl"), torch.presil.reports() as reports:
        F.conv_transpose2d(x.contiguous(memory_format=torch.channels_last), w, None, 2, 1)
        torch.presil.synchronize()
        (row,) = reports.take()
    assert row["macs"] == 64 * 64 * 64 * 64 * 4 and row["cycles"] < row["macs"] / 1024 / 0.9
