# SPDX-License-Identifier: Apache-2.0
"""docs/numerics.md, clause by clause, on bit patterns held in Python ints and computed with fractions.Fraction.

Every floating operand and result is a non-negative int: 32 bits for fp32, 16 for bf16 and fp16. int8 and int32 operands
may be given signed or as bit patterns; int32 results are signed. Nothing here is written for speed (oracle.fast is).
"""

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import cache

NAN32, INF32, SIGN32 = 0x7FC00000, 0x7F800000, 0x80000000
NAN16, INF16, MAX16, ABSENT = 0x7FC0, 0x7F80, 0x7F7F, 0x0001
NAN_FP16, INF_FP16, ABSENT_FP16 = 0x7E00, 0x7C00, 0x7C01
OUT_TYPES = ("INT8", "BF16", "FP32", "RAW32", "FP16")
RES_TYPES = ("INT8", "BF16", "FP32", "FP16")


def signed(value, bits):
    """Two's complement value of the low `bits` bits (section 1)."""
    value &= (1 << bits) - 1
    return value - (1 << bits) if value >> (bits - 1) else value


def int32(value):
    """Section 1: int32 wraps around."""
    return signed(value, 32)


# --- section 1: formats -----------------------------------------------------------------------
def sign32(bits):
    return bits >> 31


def is_nan32(bits):
    return (bits >> 23 & 255) == 255 and bits & 0x7FFFFF != 0


def is_inf32(bits):
    return bits & 0x7FFFFFFF == INF32


def is_special16(bits):
    """Exponent field 255: infinity or NaN."""
    return bits >> 7 & 255 == 255


def value32(bits):
    """Section 1: the exact value of a finite fp32 operand; exponent field 0 is zero."""
    exponent, fraction = bits >> 23 & 255, bits & 0x7FFFFF
    assert exponent != 255, "no value"
    magnitude = Fraction(2) ** (exponent - 127) * (1 + Fraction(fraction, 1 << 23)) if exponent else Fraction(0)
    return -magnitude if sign32(bits) else magnitude


def widen(bits16):
    """The fp32 pattern of a bf16 pattern (same layout, 16 fraction bits more)."""
    return bits16 << 16


def value16(bits):
    """Section 1: the exact value of a finite bf16 operand."""
    return value32(widen(bits))


def value_fp16(bits):
    """Section 1: the exact value of a finite fp16 operand, subnormals kept."""
    exponent, fraction = bits >> 10 & 31, bits & 1023
    assert exponent != 31, "no value"
    units = 1024 + fraction << exponent - 1 if exponent else fraction
    return Fraction(-units if bits >> 15 else units, 1 << 24)


@cache
def h2f(bits):
    """Section 1: the fp32 pattern that an fp16 operand equals."""
    sign = bits >> 15 & 1
    if bits & 0x7FFF > INF_FP16:
        return NAN32
    return inf32(sign) if bits & 0x7FFF == INF_FP16 else round32(value_fp16(bits), zero_sign=sign)


def zero32(sign):
    return sign << 31


def inf32(sign):
    return sign << 31 | INF32


def round_bits(magnitude, precision):
    """(exponent, integer significand of `precision` bits) of a positive Fraction, RNE with unbounded exponent."""
    exponent = magnitude.numerator.bit_length() - magnitude.denominator.bit_length()
    if Fraction(2) ** exponent > magnitude:
        exponent -= 1
    significand = round(magnitude / Fraction(2) ** (exponent - precision + 1))  # Fraction.__round__ is to nearest even
    if significand == 1 << precision:
        significand, exponent = significand >> 1, exponent + 1
    return exponent, significand


def round32(value, zero_sign=0, precision=24):
    """Sections 1 and 2: a Fraction to fp32: RNE to `precision` bits, overflow to infinity, below 2^-126 after
    rounding: zero of its
    sign. An exact zero gets `zero_sign`."""
    if value == 0:
        return zero32(zero_sign)
    sign = int(value < 0)
    exponent, significand = round_bits(abs(value), precision)
    if exponent > 127:
        return inf32(sign)
    if exponent < -126:
        return zero32(sign)
    fraction = significand - (1 << precision - 1)
    return sign << 31 | (exponent + 127) << 23 | fraction << 24 - precision


# --- section 2: fp32 operations ---------------------------------------------------------------
def add(a, b):
    """2.1: exact sum, one rounding."""
    if is_nan32(a) or is_nan32(b):
        return NAN32
    if is_inf32(a) or is_inf32(b):
        if is_inf32(a) and is_inf32(b) and sign32(a) != sign32(b):
            return NAN32
        return a if is_inf32(a) else b
    both_negative_zeros = value32(a) == 0 and value32(b) == 0 and sign32(a) and sign32(b)
    return round32(value32(a) + value32(b), zero_sign=int(bool(both_negative_zeros)))


def mul(a, b):
    """2.2: exact product, one rounding, sign is the exclusive or."""
    sign = sign32(a) ^ sign32(b)
    if is_nan32(a) or is_nan32(b):
        return NAN32
    if is_inf32(a) or is_inf32(b):
        other = b if is_inf32(a) else a
        return NAN32 if not is_inf32(other) and value32(other) == 0 else inf32(sign)
    return round32(value32(a) * value32(b), zero_sign=sign)


def i2f(i):
    """2.3: int32 to fp32, RNE."""
    return round32(Fraction(int32(i)))


def f2i(v):
    """2.4: RNE to integer, saturated to +-2^30; NaN gives 0."""
    if is_nan32(v):
        return 0
    limit = 1 << 30
    if is_inf32(v):
        return -limit if sign32(v) else limit
    return max(-limit, min(limit, round(value32(v))))


def f2b(v):
    """2.5: fp32 to bf16."""
    if is_nan32(v):
        return NAN16
    if is_inf32(v):
        return v >> 16
    return round32(value32(v), zero_sign=sign32(v), precision=8) >> 16


def f2h(v):
    """2.6: fp32 to fp16."""
    if is_nan32(v):
        return NAN_FP16
    return sign32(v) << 15 | (INF_FP16 if is_inf32(v) else magnitude_fp16(abs(value32(v))))


def magnitude_fp16(magnitude):
    """2.6: the code of a magnitude; a subnormal one is its own number of units, and 2^-14 follows the largest."""
    if magnitude < Fraction(2) ** -14:
        return round(magnitude * (1 << 24))
    exponent, significand = round_bits(magnitude, 11)
    return INF_FP16 if exponent > 15 else (exponent + 15) << 10 | significand - 1024


def less(a, b):
    """a < b as IEEE 754 orders them: false with a NaN, -0 equals +0 (isa.md section 5 step 5)."""

    def key(bits):
        return Fraction(2) ** 200 * (-1 if sign32(bits) else 1) if is_inf32(bits) else value32(bits)

    return not is_nan32(a) and not is_nan32(b) and key(a) < key(b)


# --- sections 3 and 4: dot products -----------------------------------------------------------
def int8_dot(a, w, acc=0):
    """Section 3: acc + sum of a*w over the bytes of a block, int32 with wrap-around."""
    total = int32(acc)
    for x, y in zip(a, w, strict=True):
        total = int32(total + signed(x, 8) * signed(y, 8))
    return total


def guard_bits(n):
    """4.4: G = min(11, 16 - ceil(log2 n))."""
    return min(11, 16 - (n - 1).bit_length())


@dataclass(frozen=True)
class Format:
    """What distinguishes the floating operands of section 4."""

    name: str
    widen: Callable  # a code to the fp32 pattern that it equals
    absent: int  # 4.1: the code of an absent weight

    def special(self, code):
        """Infinity or NaN."""
        return self.widen(code) >> 23 & 255 == 255


BF16, FP16 = Format("BF16", widen, ABSENT), Format("FP16", h2f, ABSENT_FP16)
FORMATS = {f.name: f for f in (BF16, FP16)}


def float_dot(form, a, w, skip_special=False, absent=False, guard=None):
    """4.1-4.6: the fp32 value v of one block of n = len(a) lanes of a Format. guard: G, where it is not that of n
    lanes."""
    lanes = [(x, y) for x, y in zip(a, w, strict=True) if counts(form, x, y, skip_special, absent)]
    wide = [(form.widen(x), form.widen(y)) for x, y in lanes]
    special = special_dot(wide)
    if special is not None:
        return special
    # 4.3: exact products; a zero operand has M = 0
    terms = []
    for x, y in wide:
        (ex, mx), (ey, my) = significand11(x), significand11(y)
        terms.append((sign32(x) ^ sign32(y), mx * my, ex + ey))
    emax = max((e for _, m, e in terms if m), default=None)
    if emax is None:
        return zero32(0)
    # 4.4, 4.5: alignment and exact sum
    g, total = guard_bits(len(a)) if guard is None else guard, 0
    for sign, m, e in terms:
        d = emax - e
        t = 0 if not m or d >= 28 else ((m << g - 6 >> d) + 1) >> 1
        total += -t if sign else t
    assert abs(total) < 1 << 31
    return round32(total * Fraction(2) ** (emax - 268 - (g - 1)))  # 4.6


def bf16_dot(a, w, skip_special=False, absent=False, guard=None):
    return float_dot(BF16, a, w, skip_special, absent, guard)


def fp16_dot(a, w, skip_special=False, absent=False, guard=None):
    return float_dot(FP16, a, w, skip_special, absent, guard)


def significand11(bits):
    """4.3: (E, M) of a finite operand in fp32, whose significand has at most 11 bits."""
    exponent, fraction = bits >> 23 & 255, bits & 0x7FFFFF
    assert exponent == 0 or fraction & 0x1FFF == 0
    return (exponent, 1024 + (fraction >> 13)) if exponent else (0, 0)


def counts(form, x, y, skip_special, absent):
    """4.1: whether a lane contributes at all."""
    if absent and y == form.absent:
        return False
    return not (skip_special and (form.special(x) or form.special(y)))


def special_dot(wide):
    """4.2: the result if a lane (two fp32 patterns) has a NaN or an infinity, else None."""
    signs = set()
    for x, y in wide:
        product = mul(x, y) if 255 in (x >> 23 & 255, y >> 23 & 255) else 0
        if is_nan32(product):
            return NAN32
        if is_inf32(product):
            signs.add(sign32(product))
    if not signs:
        return None
    return NAN32 if len(signs) == 2 else inf32(signs.pop())


def float_accumulate(acc, v, first=False):
    """4.7: acc = add(first ? +0 : acc, v)."""
    return add(zero32(0) if first else acc, v)


# --- section 6: splitting ---------------------------------------------------------------------
def split(x):
    """Section 6: the three bf16 terms (t0, t1, t2) of an fp32 pattern."""
    if is_nan32(x):
        return NAN16, 0, 0
    if is_inf32(x):
        return x >> 16, 0, 0
    value, sign = value32(x), sign32(x)
    if value == 0:
        return sign << 15, 0, 0
    t0 = round32(value, precision=8) >> 16
    if t0 & 0x7FFF == INF16:
        t0 = sign << 15 | MAX16
    rest = value - value16(t0)
    rounded1 = unbounded8(rest)
    rounded2 = rest - rounded1
    assert unbounded8(rounded2) == rounded2, "t2 has more than 8 bits"
    return t0, term(rounded1), term(rounded2)


def unbounded8(value):
    """A Fraction rounded to 8 bits, RNE, unbounded exponent."""
    if value == 0:
        return value
    exponent, significand = round_bits(abs(value), 8)
    magnitude = significand * Fraction(2) ** (exponent - 7)
    return -magnitude if value < 0 else magnitude


def term(value):
    """t1 or t2 as bf16: magnitudes below 2^-126 and zeros become +0."""
    return 0 if abs(value) < Fraction(2) ** -126 else round32(value, precision=8) >> 16


# --- section 7: epilogue of one element -------------------------------------------------------
@dataclass(frozen=True)
class Epilogue:
    """Section 7 and isa.md section 5 for one element. None switches a step off; bias is int32 or fp32 as the
    accumulator is; scale,
    res_scale and the clamp bounds are fp32 patterns; residual is a pattern of res_type."""

    out: str = "RAW32"
    bias: int | None = None
    scale: int | None = None
    residual: int | None = None
    res_type: str = "FP32"
    res_zp: int = 0
    res_scale: int = 0x3F800000
    clamp: tuple[int, int] | None = None
    out_zp: int = 0
    int_lo: int = -128
    int_hi: int = 127


def epilogue(acc, acc_fp32, e):
    """The output bit pattern (of e.out's width) of accumulator pattern acc (isa.md section 5 steps 1 to 6)."""
    if e.bias is not None:
        acc = add(acc, e.bias) if acc_fp32 else int32(int32(acc) + int32(e.bias))
    if e.out == "RAW32":
        return acc & 0xFFFFFFFF
    v = acc if acc_fp32 else i2f(acc)
    if e.scale is not None:
        v = mul(v, e.scale)
    if e.residual is not None:
        v = add(v, residual(e.residual, e))
    if e.clamp is not None:
        low, high = e.clamp
        v = low if less(v, low) else high if less(high, v) else v
    return convert(v, e)


def residual(bits, e):
    """Step 4: the fp32 pattern of a residual element."""
    if e.res_type == "INT8":
        return mul(i2f(int32(signed(bits, 8) - e.res_zp)), e.res_scale)
    return FORMATS[e.res_type].widen(bits) if e.res_type in FORMATS else bits


def convert(v, e):
    """Step 6: fp32 to the output type."""
    if e.out == "FP32":
        return v
    if e.out == "BF16":
        return f2b(v)
    if e.out == "FP16":
        return f2h(v)
    i = int32(f2i(v) + e.out_zp)
    i = e.int_lo if i < e.int_lo else e.int_hi if i > e.int_hi else i
    return i & 0xFF
