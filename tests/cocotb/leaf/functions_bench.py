# SPDX-License-Identifier: Apache-2.0
"""The functions of presil_fp_pkg and presil_dot_pkg (presil_functions.sv) against docs/numerics.md in fractions: pairs
of all corners, all codes of fp16, all products of int8, what lies beside a tie, an overflow, an underflow."""

from fractions import Fraction
from itertools import product

import cocotb
from oracle import layout, numerics
from oracle.support import CORNERS16, CORNERS_FP16, any32, bf16, fp16, fp32, pairs32
from rig import CONFIG, Rig, scaled

N, ONES, SIGN = 16, (1 << 32) - 1, 1 << 31
GUARD = numerics.guard_bits(CONFIG.lanes // 2)
MARK = 0x100  # of an absent weight, beside its sign
PORTS = "abcde"


class Bench:
    def __init__(self, dut, name: str):
        self.rig, self.random = (rig := Rig(dut, name)), rig.random

    async def compare(self, operands: list[tuple], **models) -> None:
        """models: by function; each gives a result, or whether the one it is given is right. Unused operands are
        anything."""
        rig, r = self.rig, self.random
        for at in range(0, len(operands), N):
            some = operands[at : at + N]
            for k, port in enumerate(PORTS):
                given = [row[k] & ONES if k < len(row) else r.getrandbits(32) for row in some]
                rig.set(port, layout.join(given))
            await rig.cycle()
            await rig.cycle()
            for name, model in models.items():
                results = rig.get(f"of_{name}")
                for k, row in enumerate(some):
                    self.check(name, row, results >> 32 * k & ONES, model(*row))

    def check(self, name: str, row: tuple, got: int, want) -> None:
        if callable(want):
            self.rig.expect(want(got), True, f"{name}{tuple(map(hex, row))} = {got:#x}: right")
        else:
            self.rig.expect(f"{got:#x}", f"{want & ONES:#x}", f"{name}{tuple(map(hex, row))}")


def scaled_integer(x: int, e: int) -> int:
    """Far beyond every exponent all are alike."""
    return numerics.round32(numerics.int32(x) * Fraction(2) ** max(-400, min(400, numerics.int32(e))))


def at_the_ends(r) -> tuple[int, int]:
    """Two numbers whose product is beside the largest, or the smallest."""
    a = fp32(r)
    field = r.choice((127, 381)) - (a >> 23 & 255) + r.choice((-1, 0, 0, 1, 1, 2))
    return a, fp32(r, *[max(1, min(254, field))] * 2)


def short(r) -> tuple[int, int]:
    """Two numbers of few bits, whose product is often a tie."""
    return tuple(fp32(r, 60, 190) & ~0 << r.randint(8, 14) for _ in range(2))


@cocotb.test()
async def sums_and_products(dut):
    bench = Bench(dut, "sums and products")
    r = bench.random
    pairs = pairs32(r, scaled(20000))
    pairs += [draw(r) for _ in range(scaled(6000)) for draw in (at_the_ends, short)]
    await bench.compare(pairs, fp_add=numerics.add, fp_mul=numerics.mul, larger=max)


def integer(r) -> int:
    """int32, often a tie of fp32 or beside one."""
    size = r.randint(1, 8)
    tie = ((r.getrandbits(24) | 1 << 23) << size | 1 << size - 1) + r.choice((0, 0, 1, -1))
    return r.choice((1, -1)) * r.choice((tie, r.getrandbits(r.randint(0, 32)))) & ONES


def exponent_of(r, x: int) -> int:
    """Of 2, so that x times its power is anything, or beside an end of fp32; some far beyond."""
    size = abs(numerics.int32(x)).bit_length()
    ends = 128 - size, -126 - size, 128 - size, -126 - size
    return r.choice((r.randint(-200, 200), *(end + r.randint(-1, 2) for end in ends), r.choice((-1, 1)) << 30))


def beside_ties(r, of: int) -> list[int]:
    """fp32 numbers between two neighbours of fp16 or bf16, and on both sides of the middle."""
    if of == 16:
        code = r.randrange(numerics.INF_FP16 - 1)
        middle = numerics.round32((numerics.value_fp16(code) + numerics.value_fp16(code + 1)) / 2)
    else:
        middle = bf16(r) << 16 | 1 << 15
    return [middle + k ^ r.getrandbits(1) << 31 for k in (-1, 0, 1)]


@cocotb.test()
async def conversions(dut):
    bench = Bench(dut, "conversions")
    r = bench.random
    numbers = [any32(r) for _ in range(scaled(6000))]
    numbers += [draw(r) for _ in range(scaled(3000)) for draw in (lambda r: fp32(r, 100, 160), integer)]
    numbers += [number for _ in range(scaled(2000)) for of in (16, 8) for number in beside_ties(r, of)]
    # halves and the ends of what f2i gives, of fp16 and of bf16
    numbers += [
        fp32(r, *[field] * 2) for field in (0, 1, 101, 102, 112, 113, 126, 127, 142, 143, 155, 156, 157, 254)
    ] * 4
    numbers += [numerics.round32(Fraction(2 * k + 1, 2)) for k in range(-200, 200)]
    pairs = [(x, exponent_of(r, x)) for x in numbers]
    models = {name: lambda x, _, f=getattr(numerics, name): f(x) for name in ("i2f", "f2i", "f2b", "f2h")}
    await bench.compare(pairs, i2f_scaled=scaled_integer, **models)


def widened(h: int):
    """A NaN stays one, whatever its sign and payload."""
    want = numerics.h2f(h >> 16)
    return numerics.is_nan32 if numerics.is_nan32(want) else want


@cocotb.test()
async def all_codes(dut):
    """Of fp16, and the products of int8."""
    bench = Bench(dut, "all codes")
    r = bench.random
    await bench.compare([(code << 16 | r.getrandbits(16),) for code in range(1 << 16)], h2f=widened)
    bytes_ = [(r.getrandbits(24) << 8 | code,) for code in range(256)]
    await bench.compare(bytes_, sext8=lambda x: numerics.signed(x, 8))
    pairs = [(a & 0xFFFF, w & 0xFFFF) for a, w in product(range(-128, 128), repeat=2)]
    await bench.compare(pairs, product8=lambda a, w: numerics.signed(a, 16) * numerics.signed(w, 16))


def element(r, form) -> int:
    """fp32 of a code, a NaN with its payload."""
    is_bf16 = form is numerics.BF16
    code = r.choice(
        (r.getrandbits(16), r.choice(CORNERS16 if is_bf16 else CORNERS_FP16), (bf16 if is_bf16 else fp16)(r))
    )
    wide = form.widen(code)
    return wide if is_bf16 or not numerics.is_nan32(wide) else (code >> 15) << 31 | numerics.INF32 | (code & 1023) << 13


def held(x: int, top: int) -> tuple[int, int]:
    """Sign and significand, and exponent as stored, of an element."""
    field, significand = numerics.significand11(x)
    if field >= top:
        field = significand = 0
    return x & SIGN | significand, field and field + 256


def term(am: int, wm: int, ws: int, d: int) -> int:
    """4.4."""
    m = (am & 0x7FF) * wm
    t = 0 if d >= 28 else ((m << GUARD - 6 >> d) + 1) >> 1
    return -t if (am ^ ws) & SIGN else t


class Lane:
    """A row's element and a weight as the array holds them, and what they are where one is special."""

    def __init__(self, r, form):
        x, y, self.skip, absent = element(r, form), element(r, form), r.random() < 0.2, r.random() < 0.2
        top = 255 if self.skip else 256
        self.pair = None if absent or (self.skip and 255 in (x >> 23 & 255, y >> 23 & 255)) else (x, y)
        (am, ae), (wm, we) = held(x, top), (0, 0) if absent else held(y, top)
        self.operands = am, ae, wm & 0x7FF, we, MARK if absent else wm & SIGN
        value = numerics.special_dot([self.pair]) if self.pair else None
        self.nan = value == numerics.NAN32
        self.bits = 0 if value is None else 4 | r.getrandbits(2) if self.nan else 2 if value & SIGN else 1


@cocotb.test()
async def terms(dut):
    bench = Bench(dut, "terms")
    r = bench.random
    forms = [r.choice((numerics.BF16, numerics.FP16)) for _ in range(scaled(12000))]
    tops = [(element(r, form), r.choice((255, 256))) for form in forms]
    await bench.compare(tops, significand=lambda x, top: held(x, top)[0], exponent=lambda x, top: held(x, top)[1])
    shifts = [r.choice((r.randint(0, 34), r.randint(0, 34), r.randint(0, 900))) for _ in forms]
    pairs = [(held(element(r, form), 255)[0], held(element(r, form), 255)[0]) for form in forms]
    rows = [(a, w & 0x7FF, w & SIGN | r.choice((0, MARK)), d) for (a, w), d in zip(pairs, shifts)]
    await bench.compare(rows, term=term)
    products = [((a & 0x7FF) * (w & 0x7FF) << GUARD - 6, d) for (a, w), d in zip(pairs, shifts)]
    await bench.compare(products, aligned=lambda m, d: (m >> d) + 1 >> 1)


@cocotb.test()
async def specials(dut):
    bench = Bench(dut, "specials")
    r = bench.random
    forms = [r.choice((numerics.BF16, numerics.FP16)) for _ in range(scaled(10000))]
    masks = {numerics.BF16: 0x7F80, numerics.FP16: 0x7C00}
    codes = [[r.choice((r.getrandbits(16), masks[form] | r.getrandbits(16))) for _ in "ab"] for form in forms]
    rows = [(y << 16 | x, masks[form], masks[form] << 16) for (x, y), form in zip(codes, forms)]
    await bench.compare(rows, specials_of=lambda w, low, _: int(any(c & low == low for c in (w, w >> 16))))
    lanes = [Lane(r, form) for form in forms]
    known = {lane.operands: lane for lane in lanes}

    def right(*operands):
        lane = known[operands]
        return (lambda got: got >> 2 == 1) if lane.nan else lane.bits

    await bench.compare([lane.operands for lane in lanes], special_lane=right)
    for _ in range(scaled(200)):
        some = [[lane for lane in r.sample(lanes, 3) if lane.pair] for _ in range(N)]
        joined = [(sum({1 << k for lane in group for k in range(3) if lane.bits >> k & 1}),) for group in some]
        wants = {at: numerics.special_dot([lane.pair for lane in group]) or 0 for at, group in zip(joined, some)}
        await bench.compare(joined, special_value=lambda *at, wants=wants: wants[at])
