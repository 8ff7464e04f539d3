# SPDX-License-Identifier: Apache-2.0
"""Every worked example of docs/numerics.md: the text is in the document as quoted here, and the oracle computes it."""

from fractions import Fraction
from pathlib import Path

import pytest

from oracle import numerics as n
from oracle.order import Reduction, pieces

DOCUMENT = " ".join((Path(__file__).resolve().parents[2] / "docs" / "numerics.md").read_text().split())
ONE = 0x3F800000


def bf16(value):
    return n.round32(Fraction(value), precision=8) >> 16


def clause_4_example():
    a = [bf16(1), bf16(Fraction(1, 4096))] + [0] * 30
    w = [bf16(1), bf16(1)] + [0] * 30
    return n.value32(n.bf16_dot(a, w)), n.guard_bits(32), n.value32(n.bf16_dot(a[:2], w[:2]))


def largest_significand():
    codes = [(f, code) for f in n.FORMATS.values() for code in range(1 << 15) if not f.special(code)]
    return max(n.significand11(f.widen(code))[1] for f, code in codes)


def least_fp16_unit():
    """The exponent of what clause 4.6 counts in, where emax is that of two of the least operands."""
    exponent, _ = n.significand11(n.h2f(0x0001))
    return 2 * exponent - 268 - (n.guard_bits(2) - 1)


def int8_limit(k):
    total = k * 128 * 128
    return n.int32(total) == total


EXAMPLES = [
    ("1", "fp32 `0x00400000` (2^-127) + 0 = `0x00000000`", lambda: n.add(0x00400000, 0), 0),
    ("1", "`0x80400000` × 1.0 = `0x80000000`", lambda: n.mul(0x80400000, ONE), 0x80000000),
    (
        "1",
        "NaN produced by any operation is `0x7fc00000` (fp32) or `0x7fc0` (bf16), whatever the operand's sign "
        "and payload",
        lambda: (n.add(0xFF800001, 0), n.mul(ONE, 0x7FFFFFFF), n.f2b(0xFFC12345)),
        (0x7FC00000, 0x7FC00000, 0x7FC0),
    ),
    (
        "2.1",
        "`0x3f800000` + `0x33800000` (1 + 2^-24) = `0x3f800000` (tie to even)",
        lambda: n.add(0x3F800000, 0x33800000),
        0x3F800000,
    ),
    (
        "2.1",
        "x + (−x) = +0; (−0) + (−0) = −0; +0 + −0 = +0; inf − inf, or a NaN operand: NaN",
        lambda: (
            n.add(ONE, ONE | 1 << 31),
            n.add(1 << 31, 1 << 31),
            n.add(0, 1 << 31),
            n.add(n.INF32, n.INF32 | 1 << 31),
        ),
        (0, 1 << 31, 0, n.NAN32),
    ),
    ("2.2", "`0x00800000` × `0x3f000000` = `0x00000000`", lambda: n.mul(0x00800000, 0x3F000000), 0),
    (
        "2.2",
        "inf × 0, or a NaN operand: NaN",
        lambda: (n.mul(n.INF32, 0), n.mul(0x80000001, n.INF32)),
        (n.NAN32, n.NAN32),
    ),
    ("2.3", "16777217 gives `0x4b800000`", lambda: n.i2f(16777217), 0x4B800000),
    ("2.3", "0 gives +0", lambda: n.i2f(0), 0),
    ("2.4", "2.5 gives 2, −0.5 gives 0", lambda: (n.f2i(0x40200000), n.f2i(0xBF000000)), (2, 0)),
    (
        "2.4",
        "saturated to ±2^30; NaN gives 0",
        lambda: (n.f2i(0x7F800000), n.f2i(0xFF7FFFFF), n.f2i(0x7FC00000)),
        (1 << 30, -(1 << 30), 0),
    ),
    (
        "2.5",
        "`0x3f808000` gives `0x3f80`, `0x3f818000` gives `0x3f82`",
        lambda: (n.f2b(0x3F808000), n.f2b(0x3F818000)),
        (0x3F80, 0x3F82),
    ),
    (
        "2.6",
        "`0x33000000` (2^-25, a tie) gives `0x0000`, `0x33000001` gives `0x0001`; `0x477fefff` gives `0x7bff`, "
        "`0x477ff000` `0x7c00`",
        lambda: [n.f2h(x) for x in (0x33000000, 0x33000001, 0x477FEFFF, 0x477FF000)],
        [0x0000, 0x0001, 0x7BFF, 0x7C00],
    ),
    (
        "2.6",
        "RNE to a multiple of 2^-24 below 2^-14 and to 11 bits from there, overflow to infinity, NaN `0x7e00`, "
        "exponent field 0 to zero of the sign",
        lambda: [
            n.f2h(x) for x in (0x387FDFFF, 0x387FE000, 0x387FA000, 0x3F801000, 0x3F803000, 0xFFFFFFFF, 0x807FFFFF)
        ],
        [0x03FF, 0x0400, 0x03FE, 0x3C00, 0x3C02, 0x7E00, 0x8000],
    ),
    (
        "1",
        "Operands are the fp32 value that they equal (`h2f`), a zero of the same sign, infinity, or NaN",
        lambda: [n.h2f(x) for x in (0x0001, 0x83FF, 0x3555, 0x8000, 0xFC00, 0xFC01)],
        [0x33800000, 0xB87FC000, 0x3EAAA000, 0x80000000, 0xFF800000, n.NAN32],
    ),
    ("3", "K ≤ 131,071 at −128 × −128", lambda: (int8_limit(131071), int8_limit(131072)), (True, False)),
    (
        "4",
        "a = (1.0, 2^-12), w = (1.0, 1.0): emax 254, t = (2^24, ((2^20·2^5 >> 12) + 1) >> 1 = 2^12); S = 2^24 + "
        "2^12, v = 1 + 2^-12 exactly",
        clause_4_example,
        (1 + Fraction(1, 4096), 11, 1 + Fraction(1, 4096)),
    ),
    (
        "4.1",
        "w_i has the code `0x0001` (bf16) or `0x7c01` (fp16",
        lambda: [
            [n.float_dot(f, [code], [weight], absent=True) for weight in (0x0001, 0x7C01)]
            for f, code in ((n.BF16, 0x7F80), (n.FP16, 0x7C00))
        ],
        [[0, n.INF32], [n.INF32, 0]],
    ),
    ("4.3", "0 ≤ m_i < 2^22", lambda: largest_significand() ** 2 < 1 << 22, True),
    ("4.6", "Of fp16 operands |v| is 0 or at least 2^-72", least_fp16_unit, -72),
    ("6", "`0x3f8fffff`: t0 = `0x3f90`, t1 = `0xb400`, t2 = 0", lambda: n.split(0x3F8FFFFF), (0x3F90, 0xB400, 0)),
    ("6", "the largest finite value of the sign (`0x7f7f`)", lambda: n.split(0xFF7FFFFF)[0], 0xFF7F),
    (
        "6",
        "x infinite or NaN: t0 = infinity or `0x7fc0`, others +0",
        lambda: (n.split(0xFF800000), n.split(0xFF800001)),
        ((0xFF80, 0, 0), (0x7FC0, 0, 0)),
    ),
    ("6", "x with exponent field 0: t0 = zero of its sign, others +0", lambda: n.split(0x807FFFFF), (0x8000, 0, 0)),
]


@pytest.mark.parametrize(
    "clause, text, compute, expected", EXAMPLES, ids=[f"{c}-{i}" for i, (c, *_) in enumerate(EXAMPLES)]
)
def test_worked_example(clause, text, compute, expected):
    assert text in DOCUMENT, f"clause {clause} no longer says this; adapt the example"
    assert compute() == expected


def test_every_worked_line_is_covered():
    """Each `Worked:` of the document is quoted by an example here (recognised by how it begins)."""
    starts = [part[:14] for part in DOCUMENT.replace("Worked, n = 32:", "Worked:").split("Worked: ")[1:]]
    assert len(starts) >= 8
    for start in starts:
        assert any(start in text for _, text, *_ in EXAMPLES), start


def test_packing_text():
    """Section 5 packing on the first layer of a ResNet (7x7, 3 channels) and the cases on both sides of each limit."""
    base = Reduction(3, (7, 7), 1, 64, 32, 64)
    assert base.packed and base.packed_rows == 3
    assert [{ky for ky, *_ in b} for b in base.blocks(0)] == [{0, 1, 2}, {3, 4, 5}, {6}]
    few_outputs = Reduction(3, (7, 7), 2, 64, 32, 32)  # LOAD would bound runs
    assert [{ky for ky, *_ in b} for b in few_outputs.blocks(0)] == [{y} for y in range(7)]
    cut_slice = Reduction(16, (3, 9), 2, 64, 32, 64)  # 144 elements a slice in blocks of 32: slice block outermost
    assert [(b[0][0], b[0][1:]) for b in cut_slice.blocks(0)] == [
        (y, (x, 0, 16)) for x in (0, 2, 4, 6, 8) for y in range(3)
    ]
    assert not Reduction(17, (3, 3), 2, 64, 32, 64).packed
    assert not Reduction(16, (1, 1), 2, 64, 32, 64).packed
    assert not Reduction(16, (3, 3), 2, 64, 32, 64, groups=2).packed
    assert not Reduction(16, (3, 3), 2, 64, 32, 64, dilation=(1, 2)).packed
    assert Reduction(16, (3, 3), 2, 64, 32, 64, dilation=(2, 1)).packed
    assert not Reduction(16, (3, 3), 2, 64, 32, 64, input_dilation=(2, 1)).packed


def test_runs_text():
    """Section 5, runs: the three layers that it names."""
    first = Reduction(3, (7, 7), 2, 64, 32, 64)
    assert first.runs == ((16, 2), (5, 4)) and len(first.blocks(0)) == 6
    assert [{ky for ky, *_ in b} for b in first.blocks(0)] == [{0, 1}, {2, 3}, {4, 5}, {6}, {0, 1, 2, 3}, {4, 5, 6}]
    assert first.blocks(0)[3] == (*((6, x, 0, 3) for x in range(5)), (6, 5, 0, 1))
    assert first.blocks(0)[4][:2] == ((0, 5, 1, 3), (0, 6, 0, 3))
    assert Reduction(16, (3, 3), 2, 64, 32, 64).runs == ((32, 1), (16, 2))
    assert len(Reduction(16, (3, 3), 2, 64, 32, 64).blocks(0)) == 5
    assert len(Reduction(3, (16, 16), 2, 64, 32, 768).blocks(0)) == 24
    assert not Reduction(3, (7, 7), 1, 64, 32, 64).runs  # int8: 3 blocks either way


def test_group_blocks():
    """Section 5 groups: the blocks that hold an input channel of any group of the cell group."""
    far = dict(groups=96, input_dilation=(2, 2))  # no depthwise mode
    r = Reduction(96, (1, 1), 1, 64, 32, 96, **far)  # cell group 1 is channels 32..63, in block 0 only
    assert [b[0][2:] for b in r.blocks(1)] == [(0, 64)]
    assert [b[0][2:] for b in r.blocks(2)] == [(64, 96)]
    half = Reduction(128, (1, 1), 1, 64, 32, 48, groups=2)  # cell group 0: outputs 0..31 span both groups
    assert [b[0][2:] for b in half.blocks(0)] == [(0, 64), (64, 128)]
    assert [b[0][2:] for b in half.blocks(1)] == [(64, 128)]


def test_depthwise_text():
    """Section 5 depthwise: the pieces of a kernel, their order, and both sides of each limit."""
    assert "(11: 4, 4, 3)" in DOCUMENT
    assert [len(r) for r in pieces(11)] == [4, 4, 3]
    assert [[len(r) for r in pieces(k)] for k in range(1, 9)] == [[1], [2], [3], [4], [5], [3, 3], [4, 3], [4, 4]]
    listed = lambda *axis: [list(r) for r in pieces(*axis)]
    assert listed(3, 2) == [[0, 1, 2]] and listed(5, 2) == [[0, 1, 2, 3, 4]]
    assert listed(3, 3) == [[0], [1], [2]] and listed(12, 2) == [[0, 2, 4], [6, 8, 10], [1, 3, 5], [7, 9, 11]]
    assert listed(6, 2) == [[0, 2, 4], [1, 3, 5]]
    assert listed(2, 7) == [[0], [1]]
    apart, window = [[0], [1], [2]], [[0, 1, 2]]
    assert listed(3, 1, 2, 2) == apart and listed(3, 1, 2, 3) == window  # 3 outputs make two phases
    assert listed(3, 1, 4, 5) == apart and listed(3, 1, 4, 6) == window
    assert listed(3, 1, 32, 48) == window and listed(3, 1, 33, 99) == apart
    assert listed(3, 2, 4, 3) == window and listed(3, 4, 2, 1) == window  # strides of one dilation, and of two
    assert listed(6, 4, 2, 1) == [[0, 2, 4], [1, 3, 5]]
    base = dict(channels=96, element_bytes=2, lanes=64, cells=32, out_channels=96, groups=96)
    r = Reduction(kernel=(6, 1), **base)
    assert r.blocks(r.cell_group(40)) == [
        ((0, 0, 40, 41), (1, 0, 40, 41), (2, 0, 40, 41)),
        ((3, 0, 40, 41), (4, 0, 40, 41), (5, 0, 40, 41)),
    ]
    assert [len(b) for b in Reduction(kernel=(5, 5), **base).blocks(0)] == [25]
    four = Reduction(kernel=(1, 2), **base | dict(out_channels=384))
    assert [four.blocks(four.cell_group(o)) for o in (3, 4)] == [[((0, 0, c, c + 1), (0, 1, c, c + 1))] for c in (0, 1)]
    seven = Reduction(kernel=(7, 7), **base)
    corners = [(b[0][:2], b[-1][:2]) for b in seven.blocks(0)]
    assert corners == [((0, 0), (3, 3)), ((0, 4), (3, 6)), ((4, 0), (6, 3)), ((4, 4), (6, 6))]
    three = Reduction(kernel=(1, 2), **base | dict(out_channels=288))
    assert [three.blocks(three.cell_group(o))[0][0][2] for o in (2, 3, 287)] == [0, 1, 95]
    outputs = [dict(out_channels=96 * n, cells=cells) for n in (2, 3, 31, 32, 33, 64) for cells in (31, 32)]
    spread = [dict(input_dilation=(1, 2)), dict(input_dilation=(2, 3), dilation=(1, 2))]
    kernels = [dict(kernel=(64, 1)), dict(kernel=(3, 1), input_dilation=(2, 2), dilation=(1, 2))]
    for same in (dict(stride=(2, 1)), dict(stride=(1, 3)), dict(dilation=(1, 2)), *spread, *kernels, *outputs):
        assert Reduction(**dict(kernel=(1, 1)) | base | same).depthwise
    for other in (
        dict(kernel=(1, 65)),
        dict(input_dilation=(2, 1), dilation=(2, 1)),
        dict(input_dilation=(2, 1), element_bytes=1),
        dict(cells=33),
        dict(groups=48),
        dict(channels=1, out_channels=1, groups=1),
    ):
        assert not Reduction(**dict(kernel=(3, 3)) | base | other).depthwise
