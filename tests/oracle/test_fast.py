# SPDX-License-Identifier: Apache-2.0
"""oracle.fast equals oracle.numerics."""

from oracle import fast, numerics as n
from oracle.support import CORNERS16, CORNERS32, any32, bf16, fp32, pairs32, rng


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


def test_dot():
    r, compared = rng("fast dot"), 0
    for _ in range(12_000):
        lanes, spread = r.choice((2, 8, 12, 32, 64)), r.choice((0, 4, 14, 126))
        pick = lambda: r.choice(CORNERS16) if r.random() < 0.1 else bf16(r, 127 - spread, 127 + spread)
        a, w = [pick() for _ in range(lanes)], [pick() for _ in range(lanes)]
        if any(n.is_special16(x) for x in a + w):
            continue
        compared += 1
        table = fast.TABLES["BF16"]
        decoded = [[part[x] for x in side] for side in (a, w) for part in table[:2]]
        assert fast.dot(*decoded, n.guard_bits(lanes)) == n.bf16_dot(a, w)
        assert n.bf16_dot(a, w, skip_special=True) == n.bf16_dot(a, w)
    assert compared > 4_000
