# SPDX-License-Identifier: Apache-2.0
"""The inner loops of oracle.operators and oracle.machine in plain integers; tests/oracle/test_fast.py holds them
equal to oracle.numerics. Floating values that are finite are pairs (integer, exponent): integer * 2^exponent.
"""

from typing import NamedTuple

from . import numerics

EXP0 = -4096  # exponent of a zero operand: any product with it is far below every other, and its significand is 0


class Table(NamedTuple):
    """By code: significand of 11 bits with its sign, exponent field in fp32, whether it is infinite or NaN; zeros and
    specials have significand 0 and exponent EXP0."""

    significand: list
    exponent: list
    special: list


def bf16_parts(code):
    """(significand, exponent field in fp32) of a magnitude; None for a special."""
    exponent = code >> 7
    if exponent == 255:
        return None
    return (1024 + 8 * (code & 127), exponent) if exponent else (0, EXP0)


def fp16_parts(code):
    exponent, fraction = code >> 10, code & 1023
    if exponent == 31:
        return None
    if exponent:
        return 1024 + fraction, exponent + 112
    shift = 11 - fraction.bit_length()
    return (fraction << shift, 113 - shift) if fraction else (0, EXP0)


def table(parts):
    """The Table of a 16-bit format."""
    found = [parts(code) for code in range(1 << 15)]
    magnitudes, exponents = zip(*(p or (0, EXP0) for p in found))
    special = [p is None for p in found]
    return Table([*magnitudes, *(-m for m in magnitudes)], list(exponents) * 2, special * 2)


TABLES = {"BF16": table(bf16_parts), "FP16": table(fp16_parts)}
INT8 = [numerics.signed(code, 8) for code in range(256)]


def round_scaled(value, exponent):
    """fp32 pattern of the non-zero integer value * 2^exponent (numerics.round32)."""
    sign, magnitude = (0x80000000, -value) if value < 0 else (0, value)
    drop = magnitude.bit_length() - 24
    if drop > 0:
        kept = magnitude >> drop
        rest, half = magnitude - (kept << drop), 1 << drop - 1
        if rest > half or (rest == half and kept & 1):
            kept += 1
            if kept == 1 << 24:
                kept, drop = 1 << 23, drop + 1
    else:
        kept = magnitude << -drop
    field = exponent + drop + 150
    if field > 254:
        return sign | 0x7F800000
    if field < 1:
        return sign
    return sign | field << 23 | (kept & 0x7FFFFF)


def add(a, b):
    """numerics.add."""
    ea, eb = a >> 23 & 255, b >> 23 & 255
    if ea == 255 or eb == 255:
        return numerics.add(a, b)
    if ea == 0 or eb == 0:
        if ea:
            return a
        if eb:
            return b
        return a & b & 0x80000000
    ma, mb = (a & 0x7FFFFF) | 0x800000, (b & 0x7FFFFF) | 0x800000
    if a >> 31:
        ma = -ma
    if b >> 31:
        mb = -mb
    if ea >= eb:
        total, exponent = (ma << ea - eb) + mb, eb
    else:
        total, exponent = ma + (mb << eb - ea), ea
    return round_scaled(total, exponent - 150) if total else 0


def mul(a, b):
    """numerics.mul."""
    ea, eb = a >> 23 & 255, b >> 23 & 255
    if ea == 255 or eb == 255:
        return numerics.mul(a, b)
    sign = (a ^ b) & 0x80000000
    if ea == 0 or eb == 0:
        return sign
    return sign | round_scaled(((a & 0x7FFFFF) | 0x800000) * ((b & 0x7FFFFF) | 0x800000), ea + eb - 300)


def i2f(i):
    """numerics.i2f."""
    i = numerics.int32(i)
    return round_scaled(i, 0) if i else 0


def round8(x):
    """(bf16 pattern, is it infinite) of a finite, normal fp32 pattern: RNE on the magnitude bits, which carry into
    the exponent."""
    y = (x + 0x7FFF + (x >> 16 & 1)) >> 16
    return y, y & 0x7FFF == 0x7F80


def f2b(v):
    """numerics.f2b."""
    exponent = v >> 23 & 255
    if exponent == 255:
        return 0x7FC0 if v & 0x7FFFFF else v >> 16
    if exponent == 0:
        return v >> 31 << 15
    return round8(v)[0]


def split(x):
    """numerics.split."""
    exponent = x >> 23 & 255
    if exponent == 255:
        return (0x7FC0 if x & 0x7FFFFF else x >> 16), 0, 0
    if exponent == 0:
        return x >> 31 << 15, 0, 0
    t0, infinite = round8(x)
    if infinite:
        t0 = (x >> 31 << 15) | 0x7F7F
    rest, t0_exponent = (x & 0x7FFFFF) | 0x800000, t0 >> 7 & 255
    unit = exponent - 150  # rest counts units of 2^unit
    rest -= (128 + (t0 & 127)) << (16 + t0_exponent - exponent)
    if x >> 31:
        rest = -rest
    t1, kept = round_term(rest, unit)
    t2, _ = round_term(rest - kept, unit)
    return t0, t1, t2


def round_term(value, unit):
    """(bf16 pattern of value * 2^unit to 8 bits, the rounded value in units); below 2^-126: +0, though the value
    counts as rounded."""
    if value == 0:
        return 0, 0
    magnitude = abs(value)
    drop = max(0, magnitude.bit_length() - 8)
    kept = magnitude >> drop
    rest = magnitude - (kept << drop)
    if drop and (2 * rest > 1 << drop or (2 * rest == 1 << drop and kept & 1)):
        kept += 1
    rounded = kept << drop
    pattern = round_scaled(rounded, unit) >> 16
    if value < 0:
        return (pattern | 0x8000 if pattern else 0), -rounded
    return pattern, rounded


def dot(ma, ea, mw, ew, guard):
    """numerics.float_dot of a block without specials, from a Table's significands and exponents of both operands;
    absent weights are given as zeros."""
    exponents = [x + y for x, y in zip(ea, ew)]
    emax, up = max(exponents), guard - 6
    if emax < 0:
        return 0
    total = 0
    for x, y, e in zip(ma, mw, exponents):
        product = x * y
        if product > 0:
            total += ((product << up >> emax - e) + 1) >> 1
        elif product:
            total -= ((-product << up >> emax - e) + 1) >> 1
    return round_scaled(total, emax - 267 - guard) if total else 0
