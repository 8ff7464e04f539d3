# SPDX-License-Identifier: Apache-2.0
"""presil_epilogue_pipe alone: every word of random EPILOGUEs, and the cycle that the header promises for it,
while the two slots take other descriptors, parameters and residuals."""

import cocotb
from oracle import engines, layout, numerics
from oracle.support import CORNERS16, CORNERS32, CORNERS_FP16, any32, bf16, fp16, fp32, near32
from rig import CONFIG, WORD, Rig, scaled

CELLS, QUADS = CONFIG.cells, WORD // 4
LATENCY = 7  # cycles from a row to its first word
INT8, BF16, FP32, RAW32, FP16 = (layout.enum("DTYPE", name) for name in ("INT8", "BF16", "FP32", "RAW32", "FP16"))
STEPS = "acc_fp32", "bias_en", "scale_en", "res_en", "clamp_en"
NEXT = "next_slot", "next_first", "next_head", "next_last", "next_word"
ONES = (1 << 32) - 1
PARAMETERS = -(-4 * CELLS // WORD)  # words of the biases, or of the scales


def size_of(dtype: int) -> int:
    return engines.ELEMENT_BYTES[layout.enum_name("DTYPE", dtype)]


def words_of(dtype: int) -> int:
    return -(-CELLS * size_of(dtype) // WORD)


def slot_of(dtype: int) -> int:
    """Bytes from one row to the next where rows share a word, else those of a word."""
    row = CELLS * size_of(dtype)
    return WORD if 2 * row > WORD else 1 << (row - 1).bit_length()


def number(r) -> int:
    """fp32, often where a conversion rounds, ends, or begins to be a number."""
    fp16_edge = fp32(r, *r.choice(((100, 116), (141, 144)))) & 0xFFFFF000 | r.choice((0, 1, 0xFFF))
    bf16_edge = fp32(r) & 0xFFFF8000 | r.choice((0, 1, 0x7FFF))
    whole = fp32(r, *r.choice(((124, 136), (124, 136), (154, 159))))
    return r.choice((any32(r), r.choice(CORNERS32), fp16_edge, bf16_edge, whole, fp32(r, 118, 136)))


def integer(r) -> int:
    """int32, often beside a tie of fp32."""
    size = r.randint(1, 7)
    tie = (r.getrandbits(24) | 1 << 23) << size | 1 << size - 1
    some = r.getrandbits(32), r.randint(-70000, 70000), r.randint(-300, 300), tie + r.choice((0, 0, 1, -1))
    return r.choice((1, -1)) * r.choice((*some, 1 << 31, 0)) & ONES


def draw(r) -> dict:
    """Fields of an EPILOGUE; most have few steps, so that what reaches the conversion is of every kind."""
    f = {name: r.choice((0, 0, 1)) for name in STEPS} | dict(acc_fp32=r.getrandbits(1))
    f |= dict(out_type=r.choice((INT8, INT8, BF16, FP32, RAW32, FP16)), res_type=r.choice((INT8, BF16, FP32, FP16)))
    f |= {name: r.choice((0, r.randint(-128, 127), r.randint(-(1 << 31), ONES >> 1))) for name in ("res_zp", "out_zp")}
    f |= dict(res_scale=r.choice((fp32(r, 110, 130), number(r))))
    f |= dict(clamp_lo=r.choice((0, 1 << 31, 0xFF800000, fp32(r, 120, 130), number(r))))
    f |= dict(clamp_hi=r.choice((0x40C00000, 0x7F800000, 0, fp32(r, 120, 130), number(r))))
    wild = r.randint(-(1 << 31), ONES >> 1)
    return f | dict(
        int_lo=r.choice((-128, 0, r.randint(-99, 9), wild)), int_hi=r.choice((127, r.randint(-9, 99), wild))
    )


class Descriptor:
    """One EPILOGUE: its words, parameters and how many rows it has left."""

    def __init__(self, r):
        self.words = layout.encode("EPILOGUE", **draw(r))
        self.d = layout.decode(self.words)
        self.out = layout.enum_name("DTYPE", self.d.out_type)
        self.rows = self.left = r.choice((1, 1, 2, 3, 9))
        self.res = bool(self.d.res_en) and self.d.out_type != RAW32
        self.bias = [number(r) if self.d.acc_fp32 else integer(r) for _ in range(CELLS)]
        self.scale = [r.choice((0x3F800000, fp32(r, 117, 130), number(r))) for _ in range(CELLS)]
        self.parameters = (
            [(s, w) for s in (0, 1) for w in range(PARAMETERS)] if self.d.bias_en or self.d.scale_en else []
        )
        r.shuffle(self.parameters)

    def parameter(self, r, scale: int, word: int) -> int:
        codes = (self.scale if scale else self.bias)[word * QUADS : (word + 1) * QUADS]
        return layout.join(codes + [r.getrandbits(32) for _ in range(QUADS - len(codes))])

    def sum(self, r, c: int) -> int:
        """Of cell c; one that the bias, or a bound of the clamp, almost is."""
        if not self.d.acc_fp32:
            return integer(r)
        near = near32(r, self.bias[c]), self.bias[c] ^ 1 << 31, self.d.clamp_lo, self.d.clamp_hi
        return r.choice((number(r), number(r), r.choice(near)))

    def residual(self, r, acc: int) -> int:
        kind = self.d.res_type
        if kind == INT8:
            return r.getrandbits(8)
        if kind == FP16:
            return r.choice((fp16(r), fp16(r, 0, 0), r.choice(CORNERS_FP16)))
        if kind == BF16:
            return r.choice((bf16(r), bf16(r, 118, 136), r.choice(CORNERS16), (acc ^ 1 << 31) >> 16))
        return r.choice((number(r), near32(r, acc), acc ^ 1 << 31))


class Row:
    def __init__(self, r, descriptor: Descriptor, slot: int):
        d, kind = descriptor.d, descriptor.d.res_type
        self.slot, self.first = slot, int(descriptor.left == descriptor.rows)
        descriptor.left -= 1
        self.last = int(not descriptor.left)
        self.acc = [descriptor.sum(r, c) for c in range(CELLS)]
        residuals = [descriptor.residual(r, acc) for acc in self.acc] if descriptor.res else []
        at = r.randrange(0, WORD, slot_of(kind))
        self.quad = at // 4
        raw = b"".join(code.to_bytes(size_of(kind), "little") for code in residuals)
        raw = r.randbytes(at) + raw + r.randbytes(-(at + len(raw)) % WORD)
        pieces = [int.from_bytes(raw[w : w + WORD], "little") for w in range(0, len(raw), WORD)]
        self.residual = list(enumerate(pieces)) if residuals else []
        r.shuffle(self.residual)
        self.words = packed([self.value(descriptor, c, residuals) for c in range(CELLS)], d.out_type)

    def value(self, descriptor: Descriptor, c: int, residuals: list) -> int:
        d = descriptor.d
        one = numerics.Epilogue(
            out=descriptor.out,
            bias=descriptor.bias[c] if d.bias_en else None,
            scale=descriptor.scale[c] if d.scale_en else None,
            residual=residuals[c] if residuals else None,
            res_type=layout.enum_name("DTYPE", d.res_type),
            res_zp=d.res_zp,
            res_scale=d.res_scale,
            clamp=(d.clamp_lo, d.clamp_hi) if d.clamp_en else None,
            out_zp=d.out_zp,
            int_lo=d.int_lo,
            int_hi=d.int_hi,
        )
        return numerics.epilogue(self.acc[c], bool(d.acc_fp32), one)


def packed(values: list, dtype: int) -> list[tuple[int, int]]:
    """(word, mask of the bits that count) of each word of a row."""
    size, slot = size_of(dtype), slot_of(dtype)
    raw = b"".join(value.to_bytes(size, "little") for value in values)
    rest = -len(raw) % slot
    raw, mask = raw + bytes(rest), b"\xff" * len(raw) + bytes(rest)
    raw, mask = (part * (WORD // slot) for part in (raw, mask))
    pairs = [(raw[w : w + WORD], mask[w : w + WORD]) for w in range(0, len(raw), WORD)]
    return [tuple(int.from_bytes(part, "little") for part in pair) for pair in pairs]


class Bench:
    """mixed: rows of both slots' descriptors come in any order, else one descriptor's behind the other's."""

    def __init__(self, rig: Rig, count: int, eager: float, mixed: bool):
        self.rig, self.count, self.eager, self.mixed = rig, count, eager, mixed
        self.slots, self.free, self.order = [None, None], [0, 0], []
        self.row, self.pace, self.due, self.end = None, 0, {}, 0

    @property
    def over(self) -> bool:
        return not self.count and not self.order and self.rig.cycles > self.end

    async def cycle(self) -> None:
        now = bool(self.rig.chance(self.eager))
        self.configure(now)
        busy = self.parameters(now)
        self.rows(now, busy)
        cycle = self.rig.cycles
        await self.rig.cycle()
        self.look(cycle)

    def configure(self, now: bool) -> None:
        rig, r = self.rig, self.rig.random
        open_slots = [s for s in (0, 1) if not self.slots[s] and rig.cycles >= self.free[s]]
        if now and self.count and open_slots and rig.chance(0.7):
            slot = r.choice(open_slots)
            self.slots[slot] = fresh = Descriptor(r)
            self.order.append(slot)
            self.count -= 1
            self.rig.drive(cfg_valid=1, cfg_slot=slot, desc=layout.join(fresh.words))
            self.new = slot
        else:
            self.rig.drive(cfg_valid=0, cfg_slot=r.getrandbits(1), desc=r.getrandbits(1024))
            self.new = None

    def parameters(self, now: bool) -> bool:
        """True if one comes."""
        r = self.rig.random
        waits = [s for s in (0, 1) if s != self.new and self.slots[s] and self.slots[s].parameters]
        if now and waits and r.random() < 0.7:
            slot = r.choice(waits)
            scale, word = self.slots[slot].parameters.pop()
            self.rig.drive(par_valid=1, par_slot=slot, par_scale=scale, par_word=word)
            self.rig.drive(rdata=self.slots[slot].parameter(r, scale, word))
            self.told = slot
            return True
        self.rig.drive(par_valid=0, par_slot=r.getrandbits(1), par_scale=r.getrandbits(1), par_word=r.getrandbits(8))
        self.told = None
        return False

    def choose(self) -> None:
        """The next row: its descriptor was configured and has its parameters since the cycle before."""
        ready = [s for s in self.order if s not in (self.new, self.told) and not self.slots[s].parameters]
        ready = ready if self.mixed else [s for s in ready if s == self.order[0]]
        if ready:
            r = self.rig.random
            self.row = Row(r, self.slots[slot := r.choice(ready)], slot)

    def rows(self, now: bool, busy: bool) -> None:
        rig, r = self.rig, self.rig.random
        if not self.row and self.order:
            self.choose()
        row, sends = self.row, bool(now and self.row and self.row.residual and not busy)
        word, data = row.residual.pop() if sends else (r.randrange(words_of(FP32)), r.getrandbits(8 * WORD))
        self.rig.drive(res_valid=int(sends), res_word=word)
        if not busy:
            rig.set("rdata", data)
        comes = now and row and not row.residual and rig.cycles >= self.pace
        rig.set("row_valid", int(bool(comes)))
        if not comes:
            self.rig.drive(**{f"row_{name}": r.getrandbits(1) for name in ("slot", "first", "last")})
            rig.set("row_quad", r.getrandbits(8))
            return rig.put("acc_q", [r.getrandbits(32) for _ in range(CELLS)])
        self.rig.drive(row_slot=row.slot, row_first=row.first, row_last=row.last, row_quad=row.quad)
        rig.put("acc_q", row.acc)
        self.promise(row)

    def promise(self, row: Row) -> None:
        """The row comes in this cycle."""
        first, count = self.rig.cycles + LATENCY, len(row.words)
        for w, (data, mask) in enumerate(row.words):
            facts = [row.slot, int(row.first and not w), int(not w), int(row.last and w == count - 1), w]
            self.due[first + w] = facts, data, mask
        self.pace, self.end, self.row = self.rig.cycles + count, first + count, None
        if row.last:
            self.free[row.slot], self.slots[row.slot] = self.end, None
            self.order.remove(row.slot)

    def look(self, cycle: int) -> None:
        rig, soon, out = self.rig, self.due.get(cycle + 1), self.due.pop(cycle, None)
        rig.expect(rig.get("next_valid"), int(bool(soon)), "next_valid")
        if soon:
            rig.expect([rig.get(name) for name in NEXT], soon[0], f"what comes next {NEXT}")
        rig.expect(rig.get("out_valid"), int(bool(out)), "out_valid")
        if out:
            facts, data, mask = out
            rig.expect(f"{rig.get('out_data') & mask:#x}", f"{data:#x}", f"a word {facts}")
        inside = bool(out) or any(cycle < at < cycle + LATENCY for at in self.due)
        rig.expect(rig.get("busy"), int(inside), "busy")


async def reset(rig: Rig) -> None:
    await rig.reset(cfg_valid=0, par_valid=0, res_valid=0, row_valid=0)


async def run(dut, name: str, count: int, eager: float, mixed: bool):
    rig = Rig(dut, name)
    await reset(rig)
    bench = Bench(rig, count, eager, mixed)
    limit = rig.cycles + round(count * 60 / eager)
    while not bench.over:
        await bench.cycle()
        assert rig.cycles < limit, f"{bench.count} descriptors left after {rig.cycles} cycles"
    assert rig.checks > 20 * count, "too few words"


@cocotb.test()
async def nothing_waits(dut):
    """A row a cycle, or a word."""
    await run(dut, "nothing waits", scaled(700), 1.0, False)


@cocotb.test()
async def rows_of_both(dut):
    await run(dut, "rows of both", scaled(700), 1.0, True)


@cocotb.test()
async def all_wait(dut):
    await run(dut, "all wait", scaled(400), 0.4, True)


@cocotb.test()
async def a_reset_ends_it(dut):
    """Nothing that was inside comes out, after one cycle of it; descriptors, parameters and rows begin anew."""
    rig = Rig(dut, "reset")
    await reset(rig)
    for _ in range(scaled(60)):
        bench = Bench(rig, 8, 0.9, True)
        for _ in range(rig.random.randrange(70)):
            await bench.cycle()
        await rig.short_reset()
        if rig.chance(0.4):
            bench = Bench(rig, 0, 1.0, True)
            for _ in range(LATENCY + 4):
                await bench.cycle()
