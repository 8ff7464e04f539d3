# SPDX-License-Identifier: Apache-2.0
"""Bit patterns for the sweeps, by family; the same on every machine and numpy (only the raw stream of PCG64 is used).

numpy arrays are containers of unsigned patterns here: uint8 int8, uint16 bf16 and fp16, uint32 fp32 and
int32.
"""

import zlib

import numpy as np

CONTAINER = {"int8": np.uint8, "bf16": np.uint16, "fp16": np.uint16, "fp32": np.uint32, "int32": np.uint32}
INT_FAMILIES = ("random", "all_min", "extremes", "cancel", "sparse")
FLOAT_FAMILIES = (
    "normal",
    "wide",
    "full",
    "largest",
    "smallest",
    "cancel",
    "subnormal",
    "infinity",
    "nan",
    "mixed",
    "integers",
    "zero",
)
FIELDS = {"bf16": (8, 7), "fp16": (5, 10), "fp32": (8, 23)}  # bits of exponent and fraction
# exponent fields from..to of the finite values of a family; of fp16 for itself, which has 30 of them
EXPONENTS = {
    "normal": (122, 130),
    "wide": (100, 154),
    "full": (1, 254),
    "largest": (185, 254),
    "smallest": (1, 70),
    "cancel": (118, 136),
    "subnormal": (1, 127),
    "infinity": (120, 134),
    "nan": (120, 134),
    "mixed": (90, 160),
}
EXPONENTS_FP16 = {
    "normal": (11, 18),
    "wide": (5, 25),
    "full": (1, 30),
    "largest": (23, 30),
    "smallest": (1, 8),
    "cancel": (9, 21),
    "subnormal": (1, 15),
    "infinity": (12, 18),
    "nan": (12, 18),
    "mixed": (4, 26),
}


class Stream:
    """Random integers from a key of ints and strings."""

    def __init__(self, *key):
        self.raw = np.random.PCG64([zlib.crc32(str(k).encode()) for k in key])

    def bits(self, shape, width):
        count = int(np.prod(shape))
        return (np.atleast_1d(self.raw.random_raw(count)) >> np.uint64(64 - width)).astype(np.uint64).reshape(shape)

    def below(self, shape, limit):
        """0..limit-1; the bias of the reduction does not matter here."""
        return self.bits(shape, 32) * np.uint64(limit) >> np.uint64(32)

    def chance(self, shape, percent):
        return self.below(shape, 100) < np.uint64(percent)


def family_values(stream, dtype, family, shape):
    """Patterns of dtype ("int8", "bf16", "fp16", "fp32"); the last axis of `shape` is the one that "cancel" pairs."""
    if dtype == "int8":
        return int8_values(stream, family, shape)
    if family == "integers":
        patterns = integers(stream, shape, dtype)
    else:
        patterns = finite(stream, family, shape, dtype)
    special(stream, family, patterns, *FIELDS[dtype])
    return patterns.astype(CONTAINER[dtype])


def int8_values(stream, family, shape):
    values = stream.bits(shape, 8)
    if family == "all_min":
        values[...] = 0x80
    elif family == "extremes":
        values = np.array([0x80, 0x7F, 0x81, 0xFF, 0x00], dtype=np.uint64)[stream.below(shape, 5)]
    elif family == "sparse":
        values[stream.chance(shape, 80)] = 0
    elif family == "cancel":
        values[values == 0x80] = 0x7F  # -128 has no negative
        negate_pairs(values, lambda v: (256 - v) & 0xFF)
    return values.astype(np.uint8)


def negate_pairs(values, negate):
    """Every second element of the last axis becomes the negative of the one before."""
    pairs = values.shape[-1] // 2 * 2
    values[..., 1:pairs:2] = negate(values[..., 0:pairs:2])


def finite(stream, family, shape, dtype):
    exponent_bits, fraction_bits = FIELDS[dtype]
    sign = np.uint64(fraction_bits + exponent_bits)
    if family == "zero":
        return stream.bits(shape, 1) << sign
    low, high = (EXPONENTS_FP16 if dtype == "fp16" else EXPONENTS)[family]
    exponent = stream.below(shape, high - low + 1) + np.uint64(low)
    if family == "largest":
        exponent[stream.chance(shape, 20)] = (1 << exponent_bits) - 2
    fraction = stream.bits(shape, fraction_bits)
    fraction[stream.chance(shape, 10)] = 0
    fraction[stream.chance(shape, 10)] = (1 << fraction_bits) - 1
    patterns = stream.bits(shape, 1) << sign | exponent << np.uint64(fraction_bits) | fraction
    if family == "cancel":
        negate_pairs(patterns, lambda v: v ^ np.uint64(1) << sign)
    return patterns


def integers(stream, shape, dtype):
    """-8..8 as floats: every sum is exact, so that any order gives the same."""
    (exponent_bits, fraction_bits), numbers = FIELDS[dtype], range(1, 9)
    if dtype == "fp16":
        table = [0] + [int(np.float16(v).view(np.uint16)) for v in numbers]
    else:
        table = [0] + [int(np.float32(v).view(np.uint32)) >> (23 - fraction_bits) for v in numbers]
    sign = np.uint64(fraction_bits + exponent_bits)
    return np.array(table, dtype=np.uint64)[stream.below(shape, 9)] | stream.bits(shape, 1) << sign


def special(stream, family, patterns, exponent_bits, fraction_bits):
    """Puts the infinities, NaN, subnormals and zeros of a family in."""
    shape, sign = patterns.shape, stream.bits(patterns.shape, 1) << np.uint64(fraction_bits + exponent_bits)
    infinity = np.uint64((1 << exponent_bits) - 1 << fraction_bits)
    nan = infinity | np.maximum(stream.bits(shape, fraction_bits), 1)
    subnormal = np.maximum(stream.bits(shape, fraction_bits), 1)
    kinds = {
        "infinity": ((3, infinity),),
        "nan": ((2, nan),),
        "subnormal": ((30, subnormal), (10, np.uint64(0)), (5, np.uint64(1))),
        "mixed": ((2, infinity), (1, nan), (10, subnormal), (10, np.uint64(0))),
    }.get(family, ())
    for percent, value in kinds:
        at = stream.chance(shape, percent)
        patterns[at] = (sign | value)[at]
