# SPDX-License-Identifier: Apache-2.0
"""oracle.numerics against IEEE float32 of the host (where the flush rules don't matter), exact fractions and the
stated bounds."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from oracle import numerics as n
from oracle.support import CORNERS16, CORNERS32, CORNERS_FP16, any32, float16, fp32, pairs32, rng

TINY = np.float32(2.0**-126)
FORMATS = pytest.mark.parametrize("form", n.FORMATS.values(), ids=list(n.FORMATS))
CORNERS = {"BF16": CORNERS16, "FP16": CORNERS_FP16}


def floats(patterns):
    return np.array(patterns, dtype=np.uint32).view(np.float32)


def is_subnormal(x):
    return (np.abs(x) < TINY) & (x != 0)


def against_numpy(operation, reference, count):
    pairs = pairs32(rng(operation.__name__), count)
    a, b = floats([p[0] for p in pairs]), floats([p[1] for p in pairs])
    with np.errstate(all="ignore"):
        want = reference(a, b)
    nan = np.isnan(want)
    # at 2^-126 exactly IEEE's subnormal rounding and ours (24 bits) may differ
    same = ~is_subnormal(a) & ~is_subnormal(b) & (nan | (np.abs(want) > TINY) | (want == 0))
    checked = 0
    for (x, y), use, bits, is_nan in zip(pairs, same, want.view(np.uint32), nan):
        if use:
            assert operation(x, y) == (n.NAN32 if is_nan else int(bits)), f"{x:#010x} {y:#010x}"
            checked += 1
    return checked


def test_add_is_ieee():
    assert against_numpy(n.add, np.add, 150_000) >= 100_000


def test_mul_is_ieee():
    assert against_numpy(n.mul, np.multiply, 160_000) >= 100_000


def test_flush_boundary():
    """Results around 2^-126: rounded to 24 bits with unbounded exponent first, then flushed if still below."""
    just_below = n.mul(0x00FFFFFF, 0x3F000000)  # (2 - 2^-23) 2^-126 / 2: 24 bits hold it, below 2^-126
    assert just_below == 0
    r, rounded_up = rng("flush"), 0
    for _ in range(20_000):
        a, b = fp32(r, 1, 140), fp32(r, 1, 140)
        exact = n.value32(a) * n.value32(b)
        exponent, significand = n.round_bits(abs(exact), 24)
        want_zero = Fraction(significand) * Fraction(2) ** (exponent - 23) < Fraction(2) ** -126
        got = n.mul(a, b)
        assert (got & 0x7FFFFFFF == 0) == want_zero
        assert got >> 31 == a >> 31 ^ b >> 31
        rounded_up += not want_zero and abs(exact) < Fraction(2) ** -126
    # a product that rounds up to exactly 2^-126: (1 + 2^-23)(1 - 2^-23) 2^-126 = 2^-126 - 2^-172
    assert n.mul(0x00800001, 0x3F7FFFFE) == 0x00800000


def test_i2f_is_ieee():
    r = rng("i2f")
    values = [0, 1, -1, 16777217, 2**31 - 1, -(2**31), 33554431, -33554433] + [
        r.getrandbits(r.randint(1, 32)) - r.getrandbits(31) for _ in range(20_000)
    ]
    values = [n.int32(v) for v in values]
    for v, want in zip(values, np.array(values, dtype=np.int32).astype(np.float32).view(np.uint32)):
        assert n.i2f(v) == int(want)


def test_f2i():
    r = rng("f2i")
    for bits in CORNERS32 + [any32(r) for _ in range(5_000)] + [fp32(r, 110, 160) for _ in range(20_000)]:
        got, x = n.f2i(bits), float(floats([bits])[0])
        if np.isnan(x):
            assert got == 0
        else:
            assert got == max(-(2**30), min(2**30, int(np.rint(np.clip(x, -(2.0**40), 2.0**40)))))


def test_f2b():
    """The nearest of the two bf16 neighbours, the even one in a tie."""
    r = rng("f2b")
    for bits in CORNERS32 + [any32(r) for _ in range(20_000)]:
        got = n.f2b(bits)
        if n.is_nan32(bits):
            assert got == 0x7FC0
        elif bits >> 23 & 255 == 0:
            assert got == bits >> 31 << 15
        elif n.is_inf32(bits):
            assert got == bits >> 16
        else:
            low = bits >> 16
            up, x = low + 1, abs(n.value32(bits))
            distance_low = x - abs(n.value16(low))
            distance_up = (Fraction(2) ** 128 if up & 0x7FFF == 0x7F80 else abs(n.value16(up))) - x
            want = low if distance_low < distance_up or (distance_low == distance_up and low & 1 == 0) else up
            assert got == want


def test_h2f_is_ieee():
    """All codes, which numpy widens exactly."""
    wide = np.arange(1 << 16, dtype=np.uint16).view(np.float16).astype(np.float32)
    for code, (want, is_nan) in enumerate(zip(wide.view(np.uint32), np.isnan(wide))):
        assert n.h2f(code) == (n.NAN32 if is_nan else int(want)), f"{code:#x}"
        if not n.FP16.special(code):
            assert n.value_fp16(code) == Fraction(float(wide[code]))


def test_f2h_is_ieee():
    """Every exponent, with ties of every length and what is next to them."""
    r, patterns = rng("f2h"), list(CORNERS32)
    for exponent in range(256):
        for bit in range(23):
            tie = r.getrandbits(22 - bit) << bit + 1 | 1 << bit if bit < 22 else 1 << 22
            patterns += [
                r.getrandbits(1) << 31 | exponent << 23 | fraction & 0x7FFFFF
                for fraction in (tie, tie - 1, tie + 1, 0x7FFFFF ^ tie, r.getrandbits(23))
            ]
    with np.errstate(all="ignore"):
        want = floats(patterns).astype(np.float16)
    for bits, code, is_nan in zip(patterns, want.view(np.uint16), np.isnan(want)):
        assert n.f2h(bits) == (0x7E00 if is_nan else int(code)), f"{bits:#010x}"
    kinds = {"zero": want == 0, "subnormal": (want != 0) & (np.abs(want) < 2.0**-14), "infinite": np.isinf(want)}
    assert all(np.sum(some) > 500 for some in kinds.values())


def test_f2h_by_hand():
    half = Fraction(1, 1 << 25)
    for value, code in (
        (half, 0x0000),  # a tie, to the even one
        (3 * half, 0x0002),
        (Fraction(2047, 1 << 25), 0x0400),  # from the largest subnormal one to 2^-14
        (Fraction(65519), 0x7BFF),
        (Fraction(65520), 0x7C00),
        (Fraction(2) ** 127, 0x7C00),
        (Fraction(2) ** -126, 0x0000),
    ):
        bits = n.round32(value)
        assert n.value32(bits) == value
        assert (n.f2h(bits), n.f2h(bits | 1 << 31)) == (code, code | 0x8000), float(value)
    assert [n.f2h(v) for v in (n.INF32, n.INF32 | 1 << 31, 0xFF800001, 0x80000001)] == [0x7C00, 0xFC00, 0x7E00, 0x8000]
    assert n.f2h(n.round32(Fraction(65519) + Fraction(255, 256))) == 0x7BFF


def test_less():
    r = rng("less")
    with np.errstate(all="ignore"):
        for a, b in pairs32(r, 20_000):
            x, y = floats([a, b])
            if not is_subnormal(np.array([x, y])).any():
                assert n.less(a, b) == bool(x < y)


def test_split_is_exact():
    """Section 6: x = t0 + t1 + t2 for |x| >= 2^-102, at most 8 bits each, zeros of t1 and t2 positive, terms shrink."""
    r = rng("split")
    values = (
        [c for c in CORNERS32 if 25 <= (c >> 23 & 255) <= 254]
        + [fp32(r, 25, 254) for _ in range(40_000)]
        + [fp32(r, 25, 26) for _ in range(2_000)]
    )
    for x in values:
        t0, t1, t2 = n.split(x)
        assert n.value16(t0) + n.value16(t1) + n.value16(t2) == n.value32(x)
        assert t1 != 0x8000 and t2 != 0x8000 and not any(n.is_special16(t) for t in (t0, t1, t2))
        assert abs(n.value16(t1)) <= abs(n.value16(t0)) / 128 and abs(n.value16(t2)) <= abs(n.value16(t1)) / 128
    for x in [fp32(r, 1, 24) for _ in range(5_000)]:  # below: the error is below 2^-126 a term
        error = n.value32(x) - sum(map(n.value16, n.split(x)))
        assert abs(error) < 2 * Fraction(2) ** -126


def value(form, code):
    return n.value32(form.widen(code))


def exact_dot(form, a, w):
    return sum((value(form, x) * value(form, y) for x, y in zip(a, w)), Fraction(0))


def dot_bound(form, a, w, v):
    """Section 4's error of one block; nothing of fp16 is flushed."""
    largest = max(abs(value(form, x) * value(form, y)) for x, y in zip(a, w))
    lanes = len(a)
    return (
        (lanes - 1) * Fraction(2) ** -(n.guard_bits(lanes) + 14) * largest
        + Fraction(2) ** -24 * abs(v)
        + (Fraction(2) ** -126 if form is n.BF16 else 0)
    )


@FORMATS
def test_dot_within_its_bound(form):
    r, cancelled, inexact = rng(f"dot {form.name}"), 0, 0
    for _ in range(6_000):
        lanes, spread = r.choice((8, 12, 32, 32, 64)), r.choice((0, 3, 12, 40, 100))
        a = [float16(r, form.name, spread) if r.random() < 0.9 else 0 for _ in range(lanes)]
        w = [float16(r, form.name, spread) for _ in range(lanes)]
        if r.random() < 0.3:  # every second lane cancels the one before
            a[1::2], w[1::2] = [x ^ 0x8000 for x in a[::2]], w[::2]
            cancelled += 1
        got, exact = n.float_dot(form, a, w), exact_dot(form, a, w)
        if n.is_inf32(got):
            assert form is n.BF16 and abs(exact) >= Fraction(2) ** 127
            continue
        v = n.value32(got)
        assert abs(v - exact) <= dot_bound(form, a, w, v)
        assert form is n.BF16 or v == 0 or abs(v) >= Fraction(2) ** -72
        inexact += v != exact
    assert cancelled > 1_000 and inexact > 500


@FORMATS
def test_dot_of_few_bits_is_exact(form):
    """Products within 10 bits of each other and 24 bits of sum: no rounding anywhere."""
    r, narrow = rng(f"exact dot {form.name}"), {"BF16": n.f2b, "FP16": n.f2h}[form.name]
    for _ in range(2_000):
        lanes = r.choice((8, 12, 32))
        a, w = [[narrow(n.round32(Fraction(r.randint(-7, 7)))) for _ in range(lanes)] for _ in range(2)]
        assert n.value32(n.float_dot(form, a, w)) == exact_dot(form, a, w)


def test_dot_of_few_subnormals_is_exact():
    """fp16, integers below 2^8 as multiples of 2^-24, all subnormal, or of 2^-20, some: sums have 19 bits."""
    r = rng("subnormal dot")
    for unit in (Fraction(1, 1 << 24), Fraction(1, 1 << 20)):
        for _ in range(1_000):
            a = [n.f2h(n.round32(unit * r.randint(-255, 255))) for _ in range(8)]
            w = [n.f2h(n.round32(unit * r.randint(-255, 255))) for _ in range(8)]
            assert n.value32(n.fp16_dot(a, w)) == exact_dot(n.FP16, a, w)


def test_dot_is_of_values():
    """What is a number in both formats has the same sums."""
    r, both = rng("values"), []
    for code in range(1 << 16):
        wide = n.h2f(code)
        if not n.FP16.special(code) and n.widen(wide >> 16) == wide:
            both.append((code, wide >> 16))
    assert len(both) == 2 * (30 * 128 + 512)
    for _ in range(4_000):
        lanes = [(r.choice(both), r.choice(both)) for _ in range(r.choice((2, 8, 32, 64)))]
        fp16, bf16 = [[[x[side], y[side]] for x, y in lanes] for side in (0, 1)]
        assert n.fp16_dot(*zip(*fp16)) == n.bf16_dot(*zip(*bf16))


def test_dot_specials():
    one, inf, nan, zero = 0x3F80, 0x7F80, 0x7FC0, 0
    assert n.bf16_dot([inf, one], [one, one]) == n.INF32
    assert n.bf16_dot([inf, one], [0xBF80, one]) == n.INF32 | 1 << 31
    assert n.bf16_dot([inf, inf], [one, 0xBF80]) == n.NAN32
    assert n.bf16_dot([inf, one], [0x0040, one]) == n.NAN32  # a subnormal is zero: infinity x zero
    assert n.bf16_dot([nan, one], [zero, one]) == n.NAN32
    assert n.bf16_dot([nan, one], [one, one], skip_special=True) == 0x3F800000
    assert n.bf16_dot([one, one], [inf, one], skip_special=True) == 0x3F800000
    assert n.bf16_dot([inf, one], [1, one], absent=True) == 0x3F800000
    assert n.bf16_dot([inf, one], [1, one]) == n.NAN32  # without `absent` the code is a subnormal zero
    assert n.bf16_dot([inf, one], [0x8001, one], absent=True) == n.NAN32
    assert n.bf16_dot([0, 0x8000], [one, one]) == 0
    assert n.bf16_dot([one, one], [one, 0xBF80]) == 0
    tiny = 0x0080
    assert n.bf16_dot([tiny | 0x8000, zero], [0x3F00, zero]) == 0x80000000  # flushed to zero of its sign
    assert n.bf16_dot([0x7F7F, 0x7F7F], [0x7F7F, one]) == n.INF32


def test_fp16_dot_specials():
    one, inf, absent, minus, sum_of_one = 0x3C00, 0x7C00, 0x7C01, 0x8000, 0x3F800000
    dot = n.fp16_dot
    assert dot([inf, one], [one, one]) == n.INF32
    assert dot([inf, one], [one | minus, one]) == n.INF32 | 1 << 31
    assert dot([inf, inf], [one, one | minus]) == n.NAN32
    assert dot([inf, one], [0x0001, one]) == n.INF32  # a subnormal is a number
    assert dot([inf, one], [0x8000, one]) == n.NAN32
    for nan in (absent, 0x7E00, 0xFE00, 0x7FFF, 0xFC01):
        assert dot([0, one], [nan, one]) == dot([nan, one], [0, one]) == n.NAN32
        assert dot([one, one], [nan, one], skip_special=True) == sum_of_one
        assert dot([nan, one], [one, one], skip_special=True) == sum_of_one
        assert dot([0x7E00, one], [nan, one], absent=True) == (sum_of_one if nan == absent else n.NAN32)
        assert dot([nan, one], [one, one], absent=True) == n.NAN32  # of weights alone
    assert dot([inf, inf], [absent, absent], absent=True) == 0
    assert dot([inf, one], [0x0001, one], skip_special=True) == sum_of_one
    assert dot([one], [0x0001], absent=True) == 0x33800000  # bf16's code of absence
    assert dot([0, 0x8000], [one, one]) == dot([one, one], [one, one | minus]) == 0
    assert dot([0x8001], [0x0001]) == (127 - 48) << 23 | 1 << 31
    assert dot([0x7BFF] * 64, [0x7BFF] * 64) == n.round32(Fraction(64 * 65504**2))
    assert dot([0x7BFF, 1], [0x7BFF, 1]) == n.round32(Fraction(65504**2))


def test_fp16_lanes_are_rounded_half_up():
    """Beside 1, products of 2^-25 count as 2^-24 each, smaller ones as nothing."""
    one, least, half, less = 0x3C00, 0x0200, 0x1400, 0x13FF
    assert n.fp16_dot([one, least, least], [one, half, half]) == 0x3F800001
    assert n.fp16_dot([one, least, least], [one, less, less]) == 0x3F800000
    assert n.fp16_dot([one, least | 0x8000, 0], [one, half, 0]) == 0x3F7FFFFF  # 1 - 2^-24


@FORMATS
@settings(max_examples=500, deadline=None)
@given(data=st.data(), skip=st.booleans(), absent=st.booleans(), r=st.randoms(use_true_random=False))
def test_dot_does_not_depend_on_lane_order(form, data, skip, absent, r):
    code = st.sampled_from(CORNERS[form.name]) | st.integers(0, 65535)
    lanes = data.draw(st.lists(st.tuples(code, code), min_size=2, max_size=32))
    dot = lambda lanes, **flags: n.float_dot(form, *zip(*lanes), skip_special=skip, **flags)
    shuffled = lanes[:]
    r.shuffle(shuffled)
    assert dot(lanes, absent=absent) == dot(shuffled, absent=absent)
    swapped = [(w, a) for a, w in lanes]
    assert dot(swapped) == dot(lanes)


def test_int8_dot_wraps():
    assert n.int8_dot([-128] * 64, [-128] * 64) == 64 * 16384
    assert n.int8_dot([0x80] * 64, [0x80] * 64, 2**31 - 1) == n.int32(2**31 - 1 + 64 * 16384) < 0
    assert n.int8_dot([127, -1], [-128, 1], -5) == -127 * 128 - 1 - 5


def test_epilogue_by_hand():
    e = n.Epilogue
    one, two, half = 0x3F800000, 0x40000000, 0x3F000000
    assert n.epilogue(-5, False, e()) == 0xFFFFFFFB
    assert n.epilogue(2**31 - 1, False, e(bias=1)) == 0x80000000
    assert n.epilogue(7, False, e(out="INT8", scale=half, out_zp=3)) == 7  # 3.5 -> 4, + 3
    assert n.epilogue(5, False, e(out="INT8", scale=half, out_zp=-3)) == 0xFF  # 2.5 -> 2, - 3
    assert n.epilogue(1000, False, e(out="INT8", out_zp=10)) == 127
    assert n.epilogue(-1000, False, e(out="INT8", out_zp=10, int_lo=10)) == 10  # ReLU: int_lo = zero point
    assert (
        n.epilogue(4, False, e(out="INT8", residual=0xFE, res_type="INT8", res_zp=2, res_scale=two)) == 0xFC
    )  # 4 + (-4)*2
    assert n.epilogue(two, True, e(out="FP32", residual=0x3F80, res_type="BF16")) == 0x40400000
    assert n.epilogue(0xBF800000, True, e(out="BF16", clamp=(0, n.INF32))) == 0
    assert n.epilogue(0x80000000, True, e(out="FP32", clamp=(0, n.INF32))) == 0x80000000
    assert n.epilogue(0xFFC00001, True, e(out="BF16", bias=one)) == 0x7FC0
    assert n.epilogue(n.NAN32, True, e(out="INT8", out_zp=5)) == 5
    assert n.epilogue(n.INF32, True, e(out="INT8", clamp=(0, 0x40C00000))) == 6


def test_fp16_epilogue_by_hand():
    e = n.Epilogue
    one, minus = 0x3F800000, 0x80000000
    assert n.epilogue(one, True, e(out="FP16", residual=0x3C00, res_type="FP16")) == 0x4000
    assert n.epilogue(minus, True, e(out="FP32", residual=0x8000, res_type="FP16")) == minus
    assert n.epilogue(0, True, e(out="FP32", residual=0x8001, res_type="FP16")) == 0xB3800000  # -2^-24
    assert n.epilogue(0, True, e(out="FP16", residual=0x83FF, res_type="FP16")) == 0x83FF
    assert n.epilogue(0, True, e(out="BF16", residual=0x7C01, res_type="FP16")) == 0x7FC0
    assert n.epilogue(one, True, e(out="FP16", residual=0xFC00, res_type="FP16")) == 0xFC00
    assert n.epilogue(n.INF32, True, e(out="FP16", residual=0xFC00, res_type="FP16")) == 0x7E00
    assert n.epilogue(0xFFC00001, True, e(out="FP16", clamp=(0, one))) == 0x7E00
    assert n.epilogue(n.INF32, True, e(out="FP16", clamp=(0, one))) == 0x3C00
    assert n.epilogue(65519, False, e(out="FP16")) == 0x7BFF
    assert n.epilogue(-65520, False, e(out="FP16")) == 0xFC00
    assert n.epilogue(-3, False, e(out="FP16", scale=0x33000000)) == 0x8002  # -1.5 units: a tie
    assert n.epilogue(5, False, e(out="INT8", residual=0x4100, res_type="FP16")) == 8  # 7.5
