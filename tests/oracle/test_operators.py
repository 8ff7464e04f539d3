# SPDX-License-Identifier: Apache-2.0
"""oracle.operators against plain convolutions: exact integers (int8), fractions with the stated bounds (floats)."""

import time
from fractions import Fraction
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from oracle import numerics as n, operators
from oracle.order import Reduction
from oracle.support import bf16, float16, fp32, rng

CHIPS = {"tiny": (16, 8), "odd": (24, 20), "base": (64, 32)}


def tensor(r, shape, value):
    """Nested lists of value(r)."""
    return value(r) if not shape else [tensor(r, shape[1:], value) for _ in range(shape[0])]


def naive(
    x,
    w,
    value,
    *,
    stride=(1, 1),
    padding=(0, 0),
    dilation=(1, 1),
    groups=1,
    input_dilation=(1, 1),
    pad=0,
    absolute=False,
):
    """{coordinate: list of exact products} by the textbook formula on a padded and dilated copy of the input; no
    order, no blocks."""
    batch, channels, h, v = len(x), len(x[0]), len(x[0][0]), len(x[0][0][0])
    rows, cols = (h - 1) * input_dilation[0] + 1, (v - 1) * input_dilation[1] + 1
    ky, kx, per_group = len(w[0][0]), len(w[0][0][0]), len(w) // groups
    grid = [
        [[[pad] * (cols + 2 * padding[1]) for _ in range(rows + 2 * padding[0])] for _ in range(channels)]
        for _ in range(batch)
    ]
    for b, c, i, j in product(range(batch), range(channels), range(h), range(v)):
        grid[b][c][i * input_dilation[0] + padding[0]][j * input_dilation[1] + padding[1]] = value(x[b][c][i][j])
    oh = (rows + 2 * padding[0] - dilation[0] * (ky - 1) - 1) // stride[0] + 1
    ow = (cols + 2 * padding[1] - dilation[1] * (kx - 1) - 1) // stride[1] + 1
    for b, o, i, j in product(range(batch), range(len(w)), range(oh), range(ow)):
        g = o // per_group
        yield (
            (b, o, i, j),
            [
                grid[b][g * len(w[0]) + c][i * stride[0] + y * dilation[0]][j * stride[1] + z * dilation[1]]
                * value(w[o][c][y][z])
                for c in range(len(w[0]))
                for y in range(ky)
                for z in range(kx)
            ],
        )


def int8(r):
    return r.choice((r.randint(-128, 127), -128, 127, 0))


@st.composite
def convolutions(draw):
    """A convolution with a non-empty output: (shapes, options)."""
    groups = draw(st.sampled_from((1, 1, 1, 2, 3)))
    channels, outputs = groups * draw(st.integers(1, 9)), groups * draw(st.integers(1, 8))
    if draw(st.integers(0, 3)) == 0:  # depthwise
        channels = groups = draw(st.integers(2, 12))
        outputs = channels * draw(st.sampled_from((1, 1, 2, 3, 4)))
    kernel = draw(st.tuples(st.integers(1, 5), st.integers(1, 5)))
    options = dict(
        stride=draw(st.tuples(st.integers(1, 3), st.integers(1, 3))),
        padding=draw(st.tuples(st.integers(0, 3), st.integers(0, 3))),
        dilation=draw(st.sampled_from(((1, 1), (1, 1), (2, 1), (1, 2), (3, 2)))),
        groups=groups,
        input_dilation=draw(st.sampled_from(((1, 1), (1, 1), (2, 1), (1, 3)))),
    )
    size = [
        draw(st.integers(max(1, d * (k - 1) + 1 - 2 * p), d * (k - 1) + 4))
        for d, k, p in zip(options["dilation"], kernel, options["padding"])
    ]
    return (draw(st.integers(1, 2)), channels, *size), (outputs, channels // groups, *kernel), options


@pytest.mark.parametrize("chip", CHIPS)
@settings(max_examples=120, deadline=None)
@given(conv=convolutions(), pad=st.sampled_from((0, 0, -128, 5)), r=st.randoms(use_true_random=False))
def test_int8_conv_is_exact(chip, conv, pad, r):
    """Packing, groups, blocks and padding change nothing in int8: it is the integer convolution, mod 2^32."""
    x_shape, w_shape, options = conv
    x, w = tensor(r, x_shape, int8), tensor(r, w_shape, int8)
    want = {at: sum(p) & 0xFFFFFFFF for at, p in naive(x, w, int, pad=pad, **options)}
    lanes, cells = CHIPS[chip]
    got = operators.conv2d(x, w, dtype="int8", lanes=lanes, cells=cells, pad=pad, **options)
    assert got == list(want.values()) and len(got) > 0
    some = list(want)[::3]
    assert operators.conv2d(
        np.array(x), np.array(w), dtype="int8", lanes=lanes, cells=cells, pad=pad, elements=some, **options
    ) == [want[e] for e in some]


def check_blocks(reduction):
    """Every weight of every channel occurs in exactly one lane of its cell group, no block has more than n lanes."""
    ky, kx = reduction.kernel
    for o in range(reduction.out_channels):
        low, high = reduction.group(o)
        seen = [
            (y, x, c)
            for block in reduction.blocks(reduction.cell_group(o))
            for y, x, c0, c1 in block
            for c in range(c0, c1)
        ]
        assert len(seen) == len(set(seen))
        assert set(product(range(ky), range(kx), range(low, high))) <= set(seen)
        most = 25 if reduction.depthwise else reduction.n
        blocks = reduction.blocks(reduction.cell_group(o))
        assert all(sum(c1 - c0 for *_, c0, c1 in block) <= most for block in blocks)


@settings(max_examples=400, deadline=None)
@given(
    st.integers(1, 4),
    st.integers(1, 40),
    st.integers(1, 40),
    st.integers(1, 7),
    st.integers(1, 11),
    st.sampled_from(list(CHIPS.values())),
    st.sampled_from((1, 2)),
)
def test_blocks_cover_the_kernel_once(groups, channels, outputs, ky, kx, chip, element_bytes):
    check_blocks(Reduction(groups * channels, (ky, kx), element_bytes, *chip, groups * outputs, groups))


def error_bound(products, dtype, blocks, n_lanes):
    """Sections 4 and 6; accumulation of bf16 is bounded as there: (blocks + 1) roundings of at most sum|a*w| and a
    bit."""
    total, largest = sum(map(abs, products)), max(map(abs, products), default=0)
    alignment = blocks * (n_lanes - 1) * Fraction(2) ** -(n.guard_bits(n_lanes) + 14) * largest * Fraction(33, 32)
    rounding = Fraction(11, 10) * (blocks + 1) * Fraction(2) ** -24 * total
    return alignment + rounding + (Fraction(2) ** -23 * total if dtype == "fp32" else 0) + Fraction(2) ** -120


@pytest.mark.parametrize("chip", CHIPS)
@pytest.mark.parametrize("dtype", ["bf16", "fp16", "fp32", "fp32_bf16"])
@settings(max_examples=40, deadline=None)
@given(conv=convolutions(), spread=st.sampled_from((0, 5, 30)), r=st.randoms(use_true_random=False))
def test_float_conv_within_its_bound(chip, dtype, conv, spread, r):
    x_shape, w_shape, options = conv
    if dtype in ("bf16", "fp16"):
        pick = lambda r: float16(r, dtype.upper(), spread)
    else:
        pick = lambda r: fp32(r, 127 - spread, 127 + spread)
    values = {"bf16": n.value16, "fp16": n.value_fp16, "fp32": n.value32}
    value = values.get(dtype, lambda x: n.value16(n.split(x)[0]))
    x, w = tensor(r, x_shape, pick), tensor(r, w_shape, pick)
    lanes, cells = CHIPS[chip]
    want = dict(naive(x, w, value, **options))
    some = r.sample(sorted(want), min(8, len(want)))
    conv2d = operators.Convolution(x, w, dtype=dtype, lanes=lanes, cells=cells, **options)
    for at, bits in zip(some, conv2d.outputs(some)):
        blocks = len(conv2d.blocks(conv2d.reduction.cell_group(at[1]), conv2d.met(*at[2:])))
        error = abs(n.value32(bits) - sum(want[at]))
        assert error <= error_bound(want[at], dtype, blocks, max(9, conv2d.reduction.n)), (at, float(error))


def reference_accumulator(dtype, passes, blocks, absent):
    """The passes with oracle.numerics alone, on code lists."""
    acc, dot = 0, n.fp16_dot if dtype == "fp16" else n.bf16_dot
    for number, (ta, tw) in enumerate(passes):
        for a, w in blocks:
            v = dot(a[ta], w[tw], skip_special=number < len(passes) - 1, absent=absent)
            acc = n.float_accumulate(acc, v, first=(number == 0 and a is blocks[0][0]))
    return acc


def test_specials_reach_the_slow_path():
    """Infinity, NaN and absent lanes through whole convolutions, bit for bit as numerics alone gives them."""
    r, kinds = rng("specials"), set()
    for _ in range(80):
        groups = r.choice((1, 2, 6))  # 6: depthwise
        dtype = r.choice(("bf16", "fp16", "fp32", "fp32_bf16"))

        def pick(r):
            special = r.random() < 0.04
            if dtype == "bf16":
                return r.choice((0x7F80, 0xFF80, 0x7FC1, 0x0001, 0x8000)) if special else bf16(r, 120, 134)
            if dtype == "fp16":
                return r.choice((0x7C00, 0xFC00, 0x7C01, 0x0001, 0x8000)) if special else float16(r, "FP16", 7)
            return (
                r.choice((0x7F800000, 0xFF800000, 0x7F800001, 0x00000001, 0x7F7FFFFF)) if special else fp32(r, 120, 134)
            )

        x, w = tensor(r, (1, 6, 4, 4), pick), tensor(r, (6 if groups == 6 else 4, 6 // groups, 2, 2), pick)
        conv = operators.Convolution(x, w, dtype=dtype, lanes=16, cells=8, groups=groups, padding=(1, 0))
        elements = list(conv.coordinates())
        for at, got in zip(elements, conv.accumulators(elements)):
            a = conv.activations(at[0], at[2], at[3], conv.reduction.cell_group(at[1]))
            pairs = [(x.codes, y.codes) for x, y in zip(a, conv.weight_blocks(at[1]))]
            assert got == reference_accumulator(dtype, operators.PASSES[dtype], pairs, groups == 2)
            kinds.add("nan" if n.is_nan32(got) else "inf" if n.is_inf32(got) else "finite")
    assert kinds == {"nan", "inf", "finite"}


def test_fp32_specials_have_ieee_class():
    """Section 6: infinity and NaN give the class that IEEE fp32 gives."""
    r, seen = rng("classes"), set()
    for _ in range(400):
        k = r.choice((3, 20))
        a = [
            r.choice((0x7F800000, 0xFF800000, 0x7FC00000, 0)) if r.random() < 0.08 else fp32(r, 110, 140)
            for _ in range(k)
        ]
        b = [r.choice((0x7F800000, 0xFF800000, 0)) if r.random() < 0.08 else fp32(r, 110, 140) for _ in range(k)]
        with np.errstate(all="ignore"):
            want = np.sum(
                np.array(a, dtype=np.uint32).view(np.float32).astype(np.float64)
                * np.array(b, dtype=np.uint32).view(np.float32)
            )
        got = operators.matmul([[a]], [[[v] for v in b]], dtype="fp32", lanes=16, cells=8)[0]
        kind = "nan" if np.isnan(want) else "inf" if want == np.inf else "-inf" if want == -np.inf else "finite"
        assert kind == ("nan" if n.is_nan32(got) else ("-inf" if got >> 31 else "inf") if n.is_inf32(got) else "finite")
        seen.add(kind)
    assert seen == {"nan", "inf", "-inf", "finite"}


@pytest.mark.parametrize("dtype, inf", [("bf16", 0x7F80), ("fp16", 0x7C00)])
def test_other_groups_cannot_reach_a_cell(dtype, inf):
    """Infinity in group 0's input leaves group 1's output alone, though they share blocks."""
    r = rng("groups")
    x, w = [tensor(r, shape, lambda r: float16(r, dtype.upper(), 1)) for shape in ((1, 4, 2, 2), (4, 2, 1, 1))]
    plain = operators.conv2d(x, w, dtype=dtype, lanes=16, cells=8, groups=2)
    x[0][0][0][0], x[0][1][1][1] = inf, 0x7FC0
    dirty = operators.conv2d(x, w, dtype=dtype, lanes=16, cells=8, groups=2)
    assert dirty[8:] == plain[8:] and dirty[:8] != plain[:8]


def test_a_true_weight_is_never_absent():
    """fp16: a NaN with the code of absence makes its own group NaN, and no other; with one group it is one as well."""
    x = [[[[0x3C00]]] * 4]
    for groups in (1, 2):
        w = [[[[0x3C00]]] * (4 // groups) for _ in range(4)]
        w[0][0] = [[0x7C01]]
        got = operators.conv2d(x, w, dtype="fp16", lanes=16, cells=8, groups=groups)
        assert got == [n.NAN32] + [n.i2f(4 // groups)] * 3


def test_fp16_output_is_rounded_once():
    """1 + 2^-11 + 2^-23 in fp32 is above a tie of fp16."""
    a, b = [[0x3C00, 0x1000, 0x0400]], [[0x3C00], [0x3C00], [0x1800]]
    matmul = lambda out: operators.matmul(
        [a], [b], dtype="fp16", lanes=16, cells=8, epilogue=operators.Epilogue(out=out)
    )
    assert matmul("FP32") == [n.round32(1 + Fraction(1, 1 << 11) + Fraction(1, 1 << 23))]
    assert matmul("FP16") == [0x3C01]
    residual = operators.Epilogue(out="FP16", residual=[[[0xBC01]]], res_type="FP16")
    assert operators.matmul([a], [b], dtype="fp16", lanes=16, cells=8, epilogue=residual) == [n.f2h(0xB9FFF000)]


def test_order_matters_where_it_should():
    """The packed and the unpacked order round differently in bf16 (else the order of section 5 is not tested by
    anything)."""
    r, different = rng("order"), 0
    for _ in range(30):
        x, w = (
            tensor(r, (1, 3, 5, 5), lambda r: bf16(r, 117, 137)),
            tensor(r, (2, 3, 3, 3), lambda r: bf16(r, 117, 137)),
        )
        packed = operators.conv2d(x, w, dtype="bf16", lanes=64, cells=32)
        narrow = operators.conv2d(x, w, dtype="bf16", lanes=16, cells=8)
        different += packed != narrow
    assert different > 20


def test_a_depthwise_block_is_the_kernel():
    """bf16 on tiny: nine positions are one block, of more lanes than the array has; with stride 3 they are nine."""
    small = 0x3300  # 2^-25: nothing beside 1 in a sum of its own, and half of a unit of 1 in a block
    plane = [[0x3F80, small, small], [small] * 3, [small] * 3]
    x, w = [[plane, plane]], [[[[0x3F80] * 3] * 3]] * 2
    one = dict(dtype="bf16", lanes=16, cells=8, groups=2)
    assert operators.conv2d(x, w, **one) == [0x3F800004] * 2  # each of the eight is rounded up to 2^-24: 2^-21 in all
    assert operators.conv2d(x, w, stride=(3, 3), **one) == [0x3F800000] * 2


@pytest.mark.parametrize("dtype", ["int8", "bf16", "fp16", "fp32"])
def test_matmul_is_a_1x1_convolution(dtype):
    r = rng("matmul")
    floats = {"fp16": lambda r: float16(r, "FP16", 7), "fp32": lambda r: fp32(r, 120, 134)}
    pick = {"int8": int8, "bf16": lambda r: bf16(r, 120, 134), **floats}[dtype]
    for m, k, cols in ((1, 1, 1), (3, 17, 9), (2, 50, 5)):
        a, b = tensor(r, (2, m, k), pick), tensor(r, (2, k, cols), pick)
        got = operators.matmul(a, b, dtype=dtype, lanes=24, cells=20)
        a_t = [[[row[i] for row in one] for i in range(k)] for one in a]
        b_t = [[[row[j] for row in one] for j in range(cols)] for one in b]
        assert operators.matmul(a_t, b, dtype=dtype, lanes=24, cells=20, transpose_a=True) == got
        assert operators.matmul(a, b_t, dtype=dtype, lanes=24, cells=20, transpose_b=True) == got
        for i in range(2):
            x, w = (
                [[[[a[i][y][c]] for y in range(m)] for c in range(k)]],
                [[[[b[i][c][o]]] for c in range(k)] for o in range(cols)],
            )
            conv = operators.conv2d(x, w, dtype=dtype, lanes=24, cells=20)
            assert [conv[o * m + y] for y in range(m) for o in range(cols)] == got[i * m * cols : (i + 1) * m * cols]
        sample = [(1, m - 1, cols - 1), (0, 0, 0)]
        assert operators.matmul(a, b, dtype=dtype, lanes=24, cells=20, elements=sample) == [got[-1], got[0]]


def test_transposed_convolution_scatters():
    """int8: input pixel times kernel, added where torch's conv_transpose2d puts it."""
    r = rng("transposed")
    for groups, stride, padding, extra, dilation in (
        (1, (2, 2), (1, 1), (1, 1), (1, 1)),
        (2, (3, 1), (0, 2), (0, 0), (1, 2)),
        (1, (1, 1), (3, 0), (0, 0), (1, 1)),
    ):
        channels, per_group, (h, v), (ky, kx) = 4, 3, (6, 5), (3, 2)
        x, w = tensor(r, (1, channels, h, v), int8), tensor(r, (channels, per_group, ky, kx), int8)
        oh, ow = [
            (s - 1) * st_ - 2 * p + d * (k - 1) + e + 1
            for s, st_, p, d, k, e in zip((h, v), stride, padding, dilation, (ky, kx), extra)
        ]
        want = [[[0] * ow for _ in range(oh)] for _ in range(groups * per_group)]
        for c, i, j, o, y, z in product(range(channels), range(h), range(v), range(per_group), range(ky), range(kx)):
            row, col = i * stride[0] + y * dilation[0] - padding[0], j * stride[1] + z * dilation[1] - padding[1]
            if 0 <= row < oh and 0 <= col < ow:
                want[c // (channels // groups) * per_group + o][row][col] += x[0][c][i][j] * w[c][o][y][z]
        got = operators.conv_transpose2d(
            x,
            w,
            dtype="int8",
            lanes=16,
            cells=8,
            stride=stride,
            padding=padding,
            output_padding=extra,
            dilation=dilation,
            groups=groups,
        )
        assert got == [v & 0xFFFFFFFF for plane in want for row in plane for v in row]


def test_epilogue_indices():
    """Bias and scale by output channel, residual by coordinate."""
    r = rng("epilogue")
    x, w = tensor(r, (2, 3, 3, 3), int8), tensor(r, (5, 3, 1, 1), int8)
    bias, scale, res = (
        [r.randint(-9999, 9999) for _ in range(5)],
        [fp32(r, 110, 120) & 0x7FFFFFFF for _ in range(5)],
        tensor(r, (2, 5, 3, 3), int8),
    )
    common = dict(dtype="int8", lanes=16, cells=8)
    acc = operators.conv2d(x, w, **common)
    got = operators.conv2d(
        x,
        w,
        epilogue=operators.Epilogue(
            out="INT8",
            bias=bias,
            scale=scale,
            residual=res,
            res_type="INT8",
            res_zp=3,
            res_scale=0x3F000000,
            out_zp=-7,
            int_lo=-100,
        ),
        **common,
    )
    for (b, o, y, z), a, bits in zip(product(range(2), range(5), range(3), range(3)), acc, got):
        one = n.Epilogue("INT8", bias[o], scale[o], res[b][o][y][z] & 255, "INT8", 3, 0x3F000000, None, -7, -100, 127)
        assert bits == n.epilogue(a, False, one)
    assert len(set(got)) > 20


@pytest.mark.parametrize("dtype, goal", [("int8", 2e6), ("bf16", 2e5)])
def test_speed(dtype, goal):
    """A 3x3 layer of base: slower than this and the sweeps don't fit into the test budget."""
    r = rng("speed")
    pick = int8 if dtype == "int8" else lambda r: bf16(r, 110, 140)
    x, w = tensor(r, (1, 64, 6, 6), pick), tensor(r, (16, 64, 3, 3), pick)
    best = 0.0
    for _ in range(3):
        start = time.process_time()
        count = len(operators.conv2d(x, w, dtype=dtype, lanes=64, cells=32))
        best = max(best, count * 576 / (time.process_time() - start))
    print(f"{dtype}: {best:.3g} MAC/s")
    assert best >= goal
