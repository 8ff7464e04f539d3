# SPDX-License-Identifier: Apache-2.0
"""Values for the oracle's tests: deterministic by seed, with the corners of the formats."""

import os
import random

SEED = int(os.environ.get("PRESIL_SEED", "20261121"))
CORNERS32 = [
    0,
    1,
    0x7FFFFF,
    0x800000,
    0x800001,
    0xFFFFFF,
    0x1000000,
    0x33800000,
    0x34000000,
    0x3F7FFFFF,
    0x3F800000,
    0x3F800001,
    0x3F808000,
    0x3F818000,
    0x40200000,
    0x4B800000,
    0x4E800000,
    0x4F000000,
    0x7E800000,
    0x7F000000,
    0x7F7F8000,
    0x7F7FFFFF,
    0x7F800000,
    0x7F800001,
    0x7FC00000,
    0x7FFFFFFF,
    0x0C7FFFFF,
    0x0C800000,
]
CORNERS32 += [c | 1 << 31 for c in CORNERS32]
CORNERS16 = sorted(
    {c >> 16 for c in CORNERS32}
    | {0x0001, 0x8001, 0x007F, 0x0080, 0x7F7F, 0xFF7F, 0x7F80, 0xFF80, 0x7F81, 0x3F80, 0x3FFF}
)
CORNERS_FP16 = [
    0x0000,
    0x0001,
    0x0002,
    0x0200,
    0x03FF,
    0x0400,
    0x0401,
    0x1400,
    0x3BFF,
    0x3C00,
    0x3C01,
    0x7800,
    0x7BFF,
    0x7C00,
    0x7C01,
    0x7DFF,
    0x7E00,
    0x7FFF,
]
CORNERS_FP16 += [c | 1 << 15 for c in CORNERS_FP16]


def rng(name):
    """A generator of its own for each test; the seed is in the failure's output."""
    print(f"PRESIL_SEED={SEED} ({name})")
    return random.Random(f"{SEED} {name}")


def fp32(r, low=1, high=254):
    """A random fp32 pattern with exponent field low..high and a fraction that is often sparse."""
    fraction = r.choice(
        (
            r.getrandbits(23),
            0,
            0x7FFFFF,
            1 << r.randrange(23),
            0x7FFFFF ^ (1 << r.randrange(23)),
            r.getrandbits(8) << 15,
        )
    )
    return r.getrandbits(1) << 31 | r.randint(low, high) << 23 | fraction


def bf16(r, low=1, high=254):
    return r.getrandbits(1) << 15 | r.randint(low, high) << 7 | r.choice((r.getrandbits(7), 0, 127))


def fp16(r, low=0, high=30):
    """Exponent field low..high; 0 is a subnormal number or zero."""
    return (
        r.getrandbits(1) << 15 | r.randint(low, high) << 10 | r.choice((r.getrandbits(10), 0, 1023, r.getrandbits(3)))
    )


def float16(r, name, spread):
    """A finite code of the numerics.Format of that name, its exponent at most `spread` away from that of 1."""
    if name == "BF16":
        return bf16(r, 127 - spread, 127 + spread)
    return fp16(r, max(0, 15 - spread), min(30, 15 + spread))


def any32(r):
    return r.choice((r.getrandbits(32), fp32(r), r.choice(CORNERS32)))


def near32(r, a):
    """A pattern whose exponent is close to that of a, so that cancellation and ties happen."""
    exponent = max(0, min(255, (a >> 23 & 255) + r.randint(-26, 26)))
    return r.getrandbits(1) << 31 | exponent << 23 | (fp32(r) & 0x7FFFFF)


def pairs32(r, count):
    """Operand pairs: all corners with each other, then random ones."""
    out = [(a, b) for a in CORNERS32 for b in CORNERS32]
    while len(out) < count:
        a = any32(r)
        out.append((a, r.choice((any32(r), near32(r, a), a ^ 1 << 31, (a ^ 1 << 31) + 1 & 0xFFFFFFFF))))
    return out
