# SPDX-License-Identifier: Apache-2.0
"""oracle.numerics against IEEE float32 of the host (where the flush rules don't matter), exact fractions and the
stated bounds."""

from fractions import Fraction

import numpy as np
from hypothesis import given, settings, strategies as st

from oracle import numerics as n
from oracle.support import CORNERS16, CORNERS32, any32, bf16, fp32, pairs32, rng

TINY = np.float32(2.0**-126)


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


def exact_dot(a, w):
    return sum((n.value16(x) * n.value16(y) for x, y in zip(a, w)), Fraction(0))


def dot_bound(a, w, v):
    """Section 4's error of one block."""
    largest = max(abs(n.value16(x) * n.value16(y)) for x, y in zip(a, w))
    lanes = len(a)
    return (
        (lanes - 1) * Fraction(2) ** -(n.guard_bits(lanes) + 14) * largest
        + Fraction(2) ** -24 * abs(v)
        + Fraction(2) ** -126
    )


def test_dot_within_its_bound():
    r, cancelled, inexact = rng("dot"), 0, 0
    for _ in range(6_000):
        lanes, spread = r.choice((8, 12, 32, 32, 64)), r.choice((0, 3, 12, 40, 100))
        a = [bf16(r, 127 - spread, 127 + spread) if r.random() < 0.9 else 0 for _ in range(lanes)]
        w = [bf16(r, 127 - spread, 127 + spread) for _ in range(lanes)]
        if r.random() < 0.3:  # every second lane cancels the one before
            a[1::2], w[1::2] = [x ^ 0x8000 for x in a[::2]], w[::2]
            cancelled += 1
        got = n.bf16_dot(a, w)
        if n.is_inf32(got):
            assert abs(exact_dot(a, w)) >= Fraction(2) ** 127
            continue
        v, exact = n.value32(got), exact_dot(a, w)
        assert abs(v - exact) <= dot_bound(a, w, v)
        inexact += v != exact
    assert cancelled > 1_000 and inexact > 500


def test_dot_of_few_bits_is_exact():
    """Products within 10 bits of each other and 24 bits of sum: no rounding anywhere."""
    r = rng("exact dot")
    for _ in range(2_000):
        lanes = r.choice((8, 12, 32))
        a = [n.round32(Fraction(r.randint(-7, 7)), precision=8) >> 16 for _ in range(lanes)]
        w = [n.round32(Fraction(r.randint(-7, 7)), precision=8) >> 16 for _ in range(lanes)]
        assert n.value32(n.bf16_dot(a, w)) == exact_dot(a, w)


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


@settings(max_examples=500, deadline=None)
@given(
    st.lists(
        st.tuples(
            st.sampled_from(CORNERS16) | st.integers(0, 65535), st.sampled_from(CORNERS16) | st.integers(0, 65535)
        ),
        min_size=2,
        max_size=32,
    ),
    st.booleans(),
    st.booleans(),
    st.randoms(use_true_random=False),
)
def test_dot_does_not_depend_on_lane_order(lanes, skip, absent, r):
    shuffled = lanes[:]
    r.shuffle(shuffled)
    assert n.bf16_dot(*zip(*lanes), skip_special=skip, absent=absent) == n.bf16_dot(
        *zip(*shuffled), skip_special=skip, absent=absent
    )
    swapped = [(w, a) for a, w in lanes]
    if not absent:
        assert n.bf16_dot(*zip(*swapped), skip_special=skip) == n.bf16_dot(*zip(*lanes), skip_special=skip)


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
