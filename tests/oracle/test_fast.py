# SPDX-License-Identifier: Apache-2.0
"""oracle.fast equals oracle.numerics."""

from fractions import Fraction

import pytest
from oracle import fast, numerics as n
from oracle.support import CORNERS16, CORNERS32, CORNERS_FP16, any32, float16, fp32, pairs32, rng

FORMATS = pytest.mark.parametrize("form", n.FORMATS.values(), ids=list(n.FORMATS))
CORNERS = {"BF16": CORNERS16, "FP16": CORNERS_FP16}


def test_add_and_mul():
    for a, b in pairs32(rng("fast pairs"), 60_000):
        assert fast.add(a, b) == n.add(a, b), f"{a:#x} + {b:#x}"
        assert fast.mul(a, b) == n.mul(a, b), f"{a:#x} * {b:#x}"


def test_conversions():
    r = rng("fast conversions")
    for x in (
        CORNERS32
        + [any32(r) for _ in range(30_000)]
        + [fp32(r, 1, 30) for _ in range(10_000)]
        + [fp32(r, 250, 254) for _ in range(5_000)]
    ):
        assert fast.f2b(x) == n.f2b(x), f"{x:#x}"
        assert fast.split(x) == n.split(x), f"{x:#x}"
        assert fast.i2f(x) == n.i2f(x), f"{x:#x}"


@FORMATS
def test_tables(form):
    """Of every code: the value, in 11 bits, and whether it is special."""
    table = fast.TABLES[form.name]
    for code in range(1 << 16):
        significand, exponent = table.significand[code], table.exponent[code]
        assert table.special[code] == form.special(code)
        value = Fraction(0) if form.special(code) else n.value32(form.widen(code))
        assert significand * Fraction(2) ** (exponent - 137) == value
        assert 1024 <= abs(significand) < 2048 or (significand, exponent) == (0, fast.EXP0)


@FORMATS
def test_dot(form):
    r, compared, table = rng(f"fast dot {form.name}"), 0, fast.TABLES[form.name]
    for _ in range(12_000):
        lanes, spread = r.choice((2, 8, 12, 32, 64)), r.choice((0, 4, 14, 126))
        pick = lambda: r.choice(CORNERS[form.name]) if r.random() < 0.1 else float16(r, form.name, spread)
        a, w = [pick() for _ in range(lanes)], [pick() for _ in range(lanes)]
        if any(form.special(x) for x in a + w):
            continue
        compared += 1
        decoded = [[part[x] for x in side] for side in (a, w) for part in table[:2]]
        for guard in (n.guard_bits(lanes), 10):
            assert fast.dot(*decoded, guard) == n.float_dot(form, a, w, guard=guard)
        assert n.float_dot(form, a, w, skip_special=True) == n.float_dot(form, a, w)
    assert compared > 3_000
