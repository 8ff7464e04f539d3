# SPDX-License-Identifier: Apache-2.0
"""Gradients of depthwise convolutions are depthwise convolutions, and layers with several outputs a channel: bit for
bit those of the oracle, in few cycles."""

import itertools
import os
import random
import subprocess
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
REACH = 64 if DEVICE.banks * DEVICE.bank_words >= 16384 else 32
# channels, kernel, stride, dilation, padding, images, size: around a cell group, a piece of the kernel, a block
CASES = {
    "a cell group": (32, (3, 3), 1, 1, 1, 1, (5, 6)),
    "one more": (33, (3, 2), 1, 1, 1, 1, (5, 4)),
    "two channels, pieces": (2, (5, 4), 1, 1, 2, 2, (7, 9)),
    "stride": (5, (3, 3), 2, 1, 1, 2, (9, 8)),
    "dilation": (4, (3, 3), 1, 2, 2, 1, (8, 9)),
    "as many phases as may be": (2, (3, 1), 1, (32, 1), 0, 1, (112, 2)),
    "one more phase": (2, (3, 1), 1, (33, 1), 0, 1, (116, 2)),
    "stride and dilation": (3, (2, 3), (3, 2), (1, 2), (1, 0), 1, (9, 11)),
    "stride, and dilation": (3, (3, 4), (2, 1), (1, 2), (1, 3), 2, (9, 11)),
    "a stride as large as the kernel": (4, (3, 2), (3, 2), 1, 0, 1, (10, 9)),
    "a stride beyond the kernel": (4, (2, 1), 3, 1, 0, 1, (9, 7)),
    "phases of six and five columns": (2, (2, 11), 2, 1, (0, 5), 1, (6, 140)),
    "a small block's rows": (2, (3, 3), 1, 1, 1, 1, (32, 3)),
    "one row more": (2, (3, 3), 1, 1, 1, 1, (33, 3)),
    "a block's rows": (2, (3, 3), 1, 1, 1, 1, (64, 3)),
    "another row more": (2, (3, 3), 1, 1, 1, 1, (65, 3)),
    "columns of blocks": (2, (1, 3), (1, 2), 1, (0, 1), 2, (3, 131)),
    "a kernel of one position": (3, (1, 1), 1, 1, 0, 1, (4, 5)),
}


def pair(value):
    return value if isinstance(value, tuple) else (value, value)


def conv(x, w, groups, **geometry):
    spread = geometry.get("input_dilation", (1, 1))
    size = [
        (
            (x.shape[2 + i] - 1) * spread[i]
            + sum(pair(geometry["padding"][i]))
            - geometry["dilation"][i] * (w.shape[2 + i] - 1)
        )
        // geometry["stride"][i]
        + 1
        for i in (0, 1)
    ]
    made = operators.conv2d(bits(x).tolist(), bits(w).tolist(), groups=groups, **geometry, **CHIP)
    return floats(made, (x.shape[0], w.shape[0], *size))


def weight_gradient(x, g, kernel, stride, dilation, padding, each=1):
    """docs/numerics.md 5: the gradient as the kernel, image by image, block by block. each: outputs of a channel."""
    block, total = [max(1, (REACH if each <= 2 else 32) // s) for s in stride], None
    for n in range(len(x)):
        for y in range(0, g.shape[2], block[0]):
            for v in range(0, g.shape[3], block[1]):
                own = g[n : n + 1, :, y : y + block[0], v : v + block[1]].transpose(0, 1)
                low = [p - at * s for p, at, s in zip(padding, (y, v), stride)]
                # as much behind as the kernel's last position needs
                edges = tuple(
                    (lo, (k - 1) * d + (size - 1) * s + 1 - lo - whole)
                    for lo, k, d, size, s, whole in zip(low, kernel, dilation, own.shape[2:], stride, x.shape[2:])
                )
                one = conv(x[n : n + 1], own, len(own), stride=dilation, dilation=stride, padding=edges)
                total = one if total is None else total + one
    return total.transpose(0, 1)


def gradients(x, w, g, **kwargs):
    x, w = (t.to("presil").requires_grad_() for t in (x, w))
    return [t.cpu() for t in torch.autograd.grad(F.conv2d(x, w, groups=x.shape[1], **kwargs), (x, w), g.to("presil"))]


@pytest.mark.parametrize("case", CASES)
def test_gradients_equal_the_oracle_bit_for_bit(case):
    channels, kernel, stride, dilation, padding, images, size = CASES[case]
    stride, dilation, padding = pair(stride), pair(dilation), pair(padding)
    x, w = torch.randn(images, channels, *size), torch.randn(channels, 1, *kernel)
    y = F.conv2d(x, w, None, stride, padding, dilation, channels)
    g = torch.randn(y.shape)
    gx, gw = gradients(x, w, g, stride=stride, padding=padding, dilation=dilation)
    assert torch.equal(gw, weight_gradient(x, g, kernel, stride, dilation, padding))
    edges = [d * (k - 1) - p for d, k, p in zip(dilation, kernel, padding)]
    edges = tuple((e, n + p - 1 - (o - 1) * s) for e, n, p, o, s in zip(edges, size, padding, g.shape[2:], stride))
    geometry = dict(stride=(1, 1), dilation=dilation, input_dilation=stride, padding=edges)
    assert torch.equal(gx, conv(g, w.flip(2, 3), channels, **geometry))


@pytest.mark.parametrize("last", [False, True], ids=["first", "last"])
@pytest.mark.parametrize(
    "channels, each", [(2, 2), (16, 2), (17, 2), (5, 4), (9, 8), (3, 32), (5, 3), (23, 3), (3, 31), (3, 33), (2, 64)]
)
def test_several_outputs_of_a_channel(channels, each, last):
    """As the oracle's: cells without an output, one channel for all of them, and for several cell groups."""
    layout = torch.channels_last if last else torch.contiguous_format
    x = torch.randn(2, channels, 5, 6).contiguous(memory_format=layout)
    w, b = torch.randn(channels * each, 1, 3, 2), torch.randn(channels * each)
    y = F.conv2d(x.to("presil"), w.to("presil"), b.to("presil"), padding=1, groups=channels).cpu()
    bare = F.conv2d(x.to("presil"), w.to("presil"), padding=1, groups=channels).cpu()
    edges = dict(stride=(1, 1), dilation=(1, 1), padding=((1, 1), (1, 1)))
    assert torch.equal(bare, conv(x, w, channels, **edges))
    assert torch.equal(y, bare + b[None, :, None, None])
    g = torch.randn(y.shape).contiguous(memory_format=layout)
    gx, gw = gradients(x, w, g, padding=1)
    for k in range(each):
        assert torch.equal(gw[k::each], weight_gradient(x, g[:, k::each], (3, 2), (1, 1), (1, 1), (1, 1), each))
    assert torch.equal(gx, input_gradient(g, w, channels, ((1, 1), (0, 0))))


@pytest.mark.parametrize("each", (2, 3))
def test_blocks_of_several_outputs(each):
    x, w = torch.randn(1, 2, 2, 35), torch.randn(2 * each, 1, 1, 2)
    g = torch.randn(1, 2 * each, 2, 34)
    _, gw = gradients(x, w, g)
    for k in range(each):
        own = weight_gradient(x, g[:, k::each], (1, 2), (1, 1), (1, 1), (0, 0), each)
        other = weight_gradient(x, g[:, k::each], (1, 2), (1, 1), (1, 1), (0, 0), 5 - each)
        assert torch.equal(gw[k::each], own) and not (REACH > 32 and torch.equal(own, other))


def input_gradient(g, w, channels, edges, rows=slice(None), columns=slice(None)):
    """docs/numerics.md 5: outputs as rows, part by part. edges: of the kernel that `rows` and `columns` leave."""
    each = len(w) // channels
    most = -(-each // -(-each // max(1, 64 // w.shape[2])))
    w = w.reshape(channels, each, *w.shape[2:])[:, :, rows, columns].flip(2, 3)
    g, total = g.reshape(len(g), channels, each, *g.shape[2:]), None
    for own_w, own_g in zip(w.split(most, 1), g.split(most, 2)):
        count = own_w.shape[1]
        tall, long = own_w.transpose(1, 2).flatten(1, 2).unsqueeze(1), own_g.transpose(2, 3).flatten(2, 3)
        above = tuple(count * edge for edge in edges[0])
        one = conv(long, tall, channels, stride=(count, 1), dilation=(1, 1), padding=(above, edges[1]))
        total = one if total is None else total + one
    return total


@pytest.mark.parametrize("each", (2, 3, 22))
def test_phases_of_several_outputs(each):
    """3x4 with strides 2 and 3, no padding: a phase has rows 0 and 2 of the kernel or 1, columns 0 and 3 or 1 or 2."""
    x, w = torch.randn(2, 5, 9, 10), torch.randn(5 * each, 1, 3, 4)
    g = torch.randn(2, 5 * each, 4, 3)
    gx, _ = gradients(x, w, g, stride=(2, 3))
    for y, v in itertools.product(range(2), range(3)):
        rows, columns = slice(y, None, 2), slice(v, None, 3)
        own = gx[:, :, y::2, v::3]
        edges = [len(range(k)[s]) - 1 for k, s in ((3, rows), (4, columns))]
        sizes = zip(own.shape[2:], g.shape[2:], edges)
        edges = [(before, outputs - inputs) for outputs, inputs, before in sizes]
        assert torch.equal(own, input_gradient(g, w, 5, edges, rows, columns)), (y, v)


@pytest.mark.parametrize("rows, each", [(2, 32), (3, 22), (3, 64), (5, 13), (64, 2), (65, 2)])
def test_the_tallest_kernel(rows, each):
    """One row more than an array walks: two kernels, or a convolution in groups."""
    x, w = torch.randn(1, 2, rows + 1, 2), torch.randn(2 * each, 1, rows, 1)
    g = torch.randn(1, 2 * each, 2, 2)
    gx, _ = gradients(x, w, g)
    edges = ((rows - 1, rows - 1), (0, 0))
    in_rows = input_gradient(g, w, 2, edges)
    grouped = conv(g, w.view(2, each, rows, 1).flip(2, 3), 2, stride=(1, 1), dilation=(1, 1), padding=edges)
    assert not torch.equal(in_rows, grouped)
    assert torch.equal(gx, in_rows if rows <= 64 else grouped)


def test_a_block_and_results_that_do_not_fit_the_scratchpad():
    """127 x 127 positions of input and 64 x 64 of gradient: by tiles of results."""
    x, g = torch.randn(1, 3, 127, 127).bfloat16(), torch.randn(1, 3, 64, 64).bfloat16()
    torch.presil.synchronize()
    _C.collect_reports(True)
    _, gw = gradients(x, torch.zeros(3, 1, 64, 64).bfloat16(), g)
    reports = [r for r in _C.take_reports() if r["label"] == "conv2d_weight_grad"]
    _C.collect_reports(False)
    exact = torch.stack([F.conv2d(x[0, c].double()[None, None], g[0, c].double()[None, None])[0] for c in range(3)])
    torch.testing.assert_close(gw.double(), exact, rtol=2**-8, atol=2**-8)
    assert [r["macs"] for r in reports] == [3 * 64**4]


def test_a_smaller_chip_has_smaller_blocks():
    """The cases above on `tiny`, whose scratchpad has 4096 words."""
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", __file__, "-k", "equal_the_oracle"]
    environment = {**os.environ, "PRESIL_CHIP": "tiny", "PRESIL_MODE": "rtl"}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=600)
    assert f"{len(CASES)} passed" in done.stdout, done.stdout[-4000:]


BITS = {torch.float32: 2**-22, torch.bfloat16: 2**-8, torch.float16: 2**-11}


@pytest.mark.parametrize("seed", range(24))
def test_random_layers(seed):
    r = random.Random(f"depthwise {seed}")
    torch.manual_seed(seed)
    dtype, outputs, transposed = r.choice([*BITS]), r.choice((1, 1, 2, 3, 4)), r.random() < 0.25
    channels, images = r.choice((2, 5, 8, 31, 32, 33, 64, 70)), r.choice((1, 1, 2))
    kernel = (r.choice((1, 2, 3, 5, 7)), r.choice((1, 3, 4)))
    args = dict(stride=(r.choice((1, 1, 2, 3)), r.choice((1, 2))), dilation=(r.choice((1, 1, 2)), r.choice((1, 1, 3))))
    args["padding"] = (0, 0) if transposed else (r.randint(0, 3), r.randint(0, 3))
    size = [max(r.choice((1, 7, 33)), d * (k - 1) + 1) for d, k in zip(args["dilation"], kernel)]
    x = torch.randn(images, channels, *size, dtype=dtype)
    w = torch.randn(channels * (1 if transposed else outputs), 1, *kernel, dtype=dtype)
    if r.random() < 0.5:
        x = x.contiguous(memory_format=torch.channels_last)
    f = F.conv_transpose2d if transposed else F.conv2d

    def run(x, w, g):
        x, w = x.requires_grad_(), w.requires_grad_()
        y = f(x, w, groups=channels, **args)
        return torch.autograd.grad(y, (x, w), torch.ones_like(y) if g is None else g)

    g = torch.randn(f(x.float(), w.float(), groups=channels, **args).shape).to(dtype)
    got = run(x.to("presil"), w.to("presil"), g.to("presil"))
    expected = run(x.double(), w.double(), g.double())
    magnitude = run(x.double().abs(), w.double().abs(), g.double().abs())
    for mine, e, m in zip(got, expected, magnitude):
        bound = 2**-19 * m + BITS[dtype] * e.abs() + 1e-7
        assert bool(((mine.cpu().double() - e).abs() <= bound).all()), seed


def test_every_product_is_done_once():
    x, w = torch.randn(2, 40, 20, 68), torch.randn(40, 1, 3, 3)
    y = F.conv2d(x, w, padding=1, groups=40)
    torch.presil.synchronize()
    _C.collect_reports(True)
    gradients(x.bfloat16(), w.bfloat16(), torch.randn(y.shape).bfloat16(), padding=1)
    torch.presil.synchronize()
    reports = _C.take_reports()
    _C.collect_reports(False)
    for label in ("conv2d_input_grad", "conv2d_weight_grad"):
        assert sum(r["macs"] for r in reports if r["label"] == label) == y.numel() * 9, label
    assert sum(r["label"] == "conv2d_weight_grad" for r in reports) == 2 * 2  # images, blocks


def test_rtl_equals_twin(verify):
    for dtype in (torch.float32, torch.bfloat16, torch.float16):
        for kwargs in (dict(padding=1), dict(stride=2, padding=1), dict(dilation=2), dict(each=2), dict(each=4)):
            each = kwargs.pop("each", 1)
            for last in (False, True):
                x, w = torch.randn(2, 36, 9, 67, dtype=dtype), torch.randn(each * 36, 1, 3, 3, dtype=dtype)
                if last:
                    x, w = (t.contiguous(memory_format=torch.channels_last) for t in (x, w))
                gradients(
                    x, w, torch.randn(F.conv2d(x.float(), w.float(), groups=36, **kwargs).shape).to(dtype), **kwargs
                )
