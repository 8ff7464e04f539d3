# SPDX-License-Identifier: Apache-2.0
"""Where random programs live: DRAM islands 2^31 bytes apart around multiples of 2^31, so that strides of multiples
of 2^31 lead from one to another and rows cross 4 GiB; and the values in them."""

import random
from functools import cache

from bits.values import Stream, family_values

WINDOW_BASE, WINDOW_BYTES = 0x4000_0000, 0x2_0000_0000
ISLANDS, APART = 4, 1 << 31
RING_AREA = 0x1_4000_0000  # 64 KiB-aligned rings are put behind it
ADDRESS_MASK = (1 << 40) - 1
IMAGES = 24
ABSENT = {"bf16": 0x0001, "fp16": 0x7C01}  # numerics.md 4.1


def island_bytes(config):
    return 1 << (16 if config.word_bytes <= 32 else 18 if config.word_bytes <= 64 else 20)


def output_bytes(config):
    """Of an output island: room for a row of more than 2^16 bytes."""
    return island_bytes(config) + (1 << 17)


def input_island(config, k):
    """First byte of input island k; its middle is a multiple of 2^31."""
    return (k + 1) * APART - island_bytes(config) // 2


def output_island(config, k):
    return (k + 1) * APART + (1 << 24) - island_bytes(config) // 2


@cache
def image(seed, index, count):
    """`count` bytes for an input island: stretches of integers, bf16, fp16 and fp32 of every kind."""
    s, r = Stream(seed, index, "image"), random.Random(f"{seed} {index}")
    piece, out = 2048, bytearray()
    while len(out) < count:
        dtype = r.choice(("int8", "bf16", "bf16", "fp16", "fp16", "fp32", "fp32"))
        size = {"int8": 1, "bf16": 2, "fp16": 2, "fp32": 4}[dtype]
        if dtype == "int8":
            family = r.choice(("random", "extremes", "all_min", "sparse", "cancel"))
        else:
            family = r.choice(
                (
                    "normal",
                    "normal",
                    "wide",
                    "mixed",
                    "infinity",
                    "nan",
                    "subnormal",
                    "cancel",
                    "integers",
                    "largest",
                    "zero",
                )
            )
        values = family_values(s, dtype, family, (piece // size,))
        if dtype in ABSENT and r.random() < 0.5:
            values[s.chance(values.shape, 20)] = ABSENT[dtype]
        if dtype == "fp32" and r.random() < 0.4:
            values[s.chance(values.shape, 50)] &= 0xFFE00000  # short ones: products and sums that end at a tie
        out += values.astype(values.dtype.newbyteorder("<")).tobytes()
    return bytes(out[:count])
