# SPDX-License-Identifier: Apache-2.0
"""presil_array alone: every sum that it writes and when, of random rows against random weights, while the next block's
weights come and its own rows come again, one cycle later or two."""

from itertools import product
from types import SimpleNamespace

import cocotb
from oracle import engines, layout, numerics
from oracle.support import bf16, fp16, fp32
from rig import CONFIG, Rig, scaled

LANES, CELLS, ROWS, WINDOW = CONFIG.lanes, CONFIG.cells, CONFIG.acc_rows, 5
INT8, BF16, FP16 = (layout.enum("DTYPE", name) for name in ("INT8", "BF16", "FP16"))
GUARD = numerics.guard_bits(LANES // 2)
ASK, READ, WRITE = 1, 2, 4  # cycles from a row to acc_next_re, acc_re, acc_we
# Exponent fields of a row's and a weight's elements: sums near 1, far apart, at both ends of fp32 and of the format.
SPANS = {
    BF16: [(124, 130), (124, 130), (114, 140), (100, 154), (60, 67), (187, 193), (1, 254)],
    FP16: [(11, 19), (11, 19), (5, 25), (0, 30), (0, 1), (28, 30)],
}
ZEROS = {BF16: (0, 0x8000, 0x0001, 0x8001, 0x807F), FP16: (0, 0x8000, 0x0001, 0x83FF, 0x0010)}
SPECIAL = {
    BF16: (0x7F80, 0xFF80, 0x7F80, 0xFF80, 0x7FC0, 0xFF81, 0x7F81),
    FP16: (0x7C00, 0xFC00, 0x7C00, 0xFC00, 0x7E00, 0xFC01, 0x7C01),
}
ABSENT = {BF16: numerics.ABSENT, FP16: numerics.ABSENT_FP16}


class Values:
    """Words of one block: their spans, how many are special, and whether the second half takes the first away."""

    def __init__(self, r, dtype: int):
        self.random, self.dtype, self.size = r, dtype, 1 if dtype == INT8 else 2
        self.paired = r.random() < 0.2
        self.span = r.choice(SPANS.get(dtype, [None]))
        self.extreme = r.random() < 0.2
        self.special = [r.choice((0, 0, 0.03, 0.2)) for _ in range(2)]  # of rows, of weights
        self.absent = r.choice((0, 0.1, 0.5))

    def code(self, weight: bool) -> int:
        r, dtype = self.random, self.dtype
        if dtype == INT8:
            return r.choice((0x80, 0x80, 0x7F)) if self.extreme else r.choice((r.getrandbits(8), 0x80, 0x7F, 0))
        if weight and r.random() < self.absent:
            return ABSENT[dtype]
        if r.random() < self.special[weight]:
            return r.choice(SPECIAL[dtype])
        return r.choice(ZEROS[dtype]) if r.random() < 0.06 else (bf16 if dtype == BF16 else fp16)(r, *self.span)

    def word(self, weight: bool) -> bytes:
        codes = [self.code(weight) for _ in range(LANES // self.size)]
        if self.paired and self.random.random() < 0.9:
            half = len(codes) // 2
            codes[half:] = [code ^ (weight and 1 << 8 * self.size - 1) for code in codes[:half]]
        return b"".join(code.to_bytes(self.size, "little") for code in codes)


class Block:
    """Weights in one set and the rows that are multiplied by them."""

    def __init__(self, r, place: int, windows: float):
        self.random, self.place, self.dtype = r, place, r.choice((INT8, BF16, FP16))
        self.d = SimpleNamespace(dtype=self.dtype, skip_special=int(r.random() < 0.3), absent=r.getrandbits(1))
        self.depthwise = int(r.random() < windows)
        self.kx, self.ky = (min(WINDOW, r.choice((1, 2, 3, 4, 5))) for _ in range(2))
        self.values, self.history = Values(r, self.dtype), []
        self.left = r.choice((1, 1, 2, 5, CELLS, 3 * CELLS)) + self.depthwise * self.kx
        self.lanes = [(up, back) for up, back in product(range(self.ky), range(self.kx))]
        cells = [WINDOW * up + back for up, back in self.lanes] if self.depthwise else range(CELLS)
        self.words = {cell: self.values.word(True) for cell in cells}
        raw = self.words.values() if not self.depthwise else (self.column(self.words.values(), c) for c in range(CELLS))
        self.weights = [self.operand(lanes) for lanes in raw]
        self.order = list(self.words)
        r.shuffle(self.order)

    def column(self, words, c: int) -> bytes:
        """Element c of each word; zeros behind its last one."""
        size = self.values.size
        return b"".join(word[c * size : (c + 1) * size] or bytes(size) for word in words)

    def operand(self, raw: bytes) -> engines.Operand:
        return engines.Operand(self.d, [(byte, 1) for byte in raw])

    def row(self) -> tuple[dict, list[bytes], list]:
        """Inputs, the words of the window, and the operand of each cell (None of a row that completes no sum)."""
        r = self.random
        self.left -= 1
        pad, byte, data = int(r.random() < 0.2), r.getrandbits(8), self.values.word(False)
        where = dict(row_pad=pad, row_pad_byte=byte, row_data=int.from_bytes(data, "little"), row_emit=1)
        if not self.depthwise:
            lanes = data if not pad else bytes([byte if self.dtype == INT8 else 0] * LANES)
            return where, [r.randbytes(LANES) for _ in range(WINDOW)], [self.operand(lanes)] * CELLS
        words = [self.values.word(False) for _ in range(WINDOW)]
        self.history = [words, *self.history][:WINDOW]
        where["row_emit"] = int(len(self.history) >= self.kx and r.random() < 0.8)
        if not where["row_emit"]:
            return where, words, None
        window = [self.history[back][up] for up, back in self.lanes]
        return where, words, [self.operand(self.column(window, c)) for c in range(CELLS)]


class Bench:
    """windows: how many blocks are depthwise. before: the bench that a reset ended; the memories stay."""

    def __init__(self, rig: Rig, count: int, eager: float, windows: float, before=None):
        self.rig, self.count, self.eager, self.windows = rig, count, eager, windows
        r = rig.random
        self.blocks, self.due, self.answer, self.writes = [], {}, None, 0
        rows = [0, ROWS - 1, *r.sample(range(1, ROWS - 1), 4)]
        r.shuffle(rows)
        self.rows = before.rows if before else (rows[:3], rows[3:])  # of integers, of floats
        kinds = [(row, kind) for kind in (0, 1) for row in self.rows[kind]]
        some = {(h, row): [self.start(kind) for _ in range(CELLS)] for h in (0, 1) for row, kind in kinds}
        self.memory = before.memory if before else some  # what has been written
        self.sums = dict(self.memory)  # what the rows so far make of it

    def start(self, kind: int) -> int:
        return fp32(self.rig.random, 115, 140) if kind else self.rig.random.getrandbits(32)

    @property
    def over(self) -> bool:
        return not self.count and not self.blocks and not self.due

    async def cycle(self) -> None:
        rig, r = self.rig, self.rig.random
        ready = bool(self.blocks) and not self.blocks[0].order
        self.bring_weights(bool(rig.chance(self.eager)))
        self.bring_row(ready and bool(rig.chance(self.eager)))
        rig.put("acc_q", self.answer or [r.getrandbits(32) for _ in range(CELLS)])
        cycle = rig.cycles
        await rig.cycle()
        self.look(cycle)

    def bring_weights(self, now: bool) -> None:
        """One word; a set is free from the cycle behind that of its last row."""
        r = self.rig.random
        free = {0, 1} - {block.place for block in self.blocks}
        if now and self.count and free and not (self.blocks and self.blocks[-1].order):
            self.blocks.append(Block(r, r.choice(sorted(free)), self.windows))
            self.count -= 1
        block = self.blocks[-1] if self.blocks else None
        now = now and bool(block and block.order)
        self.rig.set("wgt_valid", int(now))
        if not now:
            names = "set", "first", "depthwise", "float", "fp16", "skip", "absent"
            self.rig.drive(**{f"wgt_{name}": r.getrandbits(1) for name in names})
            return self.rig.drive(wgt_data=r.getrandbits(8 * LANES), wgt_cell=r.randrange(CELLS))
        first, cell = len(block.order) == len(block.words), block.order.pop()
        self.rig.drive(wgt_set=block.place, wgt_cell=cell, wgt_first=int(first), wgt_depthwise=block.depthwise)
        self.rig.drive(wgt_float=int(block.dtype != INT8), wgt_skip=block.d.skip_special, wgt_absent=block.d.absent)
        self.rig.drive(wgt_fp16=int(block.dtype == FP16), wgt_data=int.from_bytes(block.words[cell], "little"))

    def bring_row(self, now: bool) -> None:
        rig, r = self.rig, self.rig.random
        rig.set("row_valid", int(now))
        names = "pad", "float", "fp16", "skip", "set", "first", "last", "depthwise", "emit", "half"
        inputs = {f"row_{name}": r.getrandbits(1) for name in names}
        inputs |= dict(row_kx=r.randint(1, WINDOW), row_ky=r.randint(1, WINDOW), row_acc=r.choice(self.rows[0]))
        words = None
        if now:
            block = self.blocks[0]
            where, words, operands = block.row()
            inputs |= where | self.kind(block)
            if operands:
                inputs["row_acc"] = r.choice(self.rows[(block.dtype != INT8) ^ (r.random() < 0.03)])
                inputs["row_first"] = int(r.random() < 0.4)
                self.promise(block, inputs, operands)
            if not block.left:
                self.blocks.pop(0)
        self.rig.drive(**inputs)
        for name, word in zip(("here", "above1", "above2", "above3", "above4"), words or [r.randbytes(LANES)] * WINDOW):
            rig.put(name, [int.from_bytes(word[k : k + 4], "little") for k in range(0, LANES, 4)])

    def kind(self, block: Block) -> dict:
        is_float, d = int(block.dtype != INT8), block.d
        out = dict(row_float=is_float, row_set=block.place, row_skip=d.skip_special, row_depthwise=block.depthwise)
        out["row_fp16"] = int(block.dtype == FP16)
        return out | (dict(row_kx=block.kx, row_ky=block.ky) if block.depthwise else {})

    def promise(self, block: Block, inputs: dict, operands: list) -> None:
        """The row comes in this cycle."""
        place, first = (inputs["row_half"], inputs["row_acc"]), inputs["row_first"]
        old = [0] * CELLS if first else self.sums[place]
        cells = zip(old, operands, block.weights)
        self.sums[place] = new = [engines.accumulate(block.d, *cell, GUARD) for cell in cells]
        for after, what in ((ASK, not first and place), (READ, not first and place), (WRITE, (place, inputs, new))):
            if what:
                self.due[self.rig.cycles + after, after] = what

    def look(self, cycle: int) -> None:
        rig = self.rig
        asked, read, write = (self.due.pop((cycle, after), None) for after in (ASK, READ, WRITE))
        rig.expect(rig.get("acc_next_re"), int(bool(asked)), "acc_next_re")
        rig.expect(rig.get("acc_re"), int(bool(read)), "acc_re")
        rig.expect(rig.get("acc_we"), int(bool(write)), "acc_we")
        inside = write or any(after == WRITE and cycle < at < cycle + WRITE for at, after in self.due)
        rig.expect(rig.get("busy"), int(bool(inside)), "busy")
        if asked:
            rig.expect(rig.get("acc_next_half"), asked[0], "acc_next_half")
        self.answer = None
        if read:
            rig.expect((rig.get("acc_half"), rig.get("acc_raddr")), read, "the row that is read")
            collides = write and write[0] == read  # gives anything
            self.answer = None if collides else self.memory[read]
        if write:
            place, inputs, new = write
            at = (rig.get("acc_whalf"), rig.get("acc_waddr")), rig.get("acc_wlast")
            rig.expect(at, (place, inputs["row_last"]), "the row that is written, and whether it is the last")
            got, want = ([f"{v:08x}" for v in some] for some in (rig.take("acc_wdata", CELLS), new))
            rig.expect(got, want, f"sums ({inputs})")
            self.memory[place] = new
            self.writes += 1


async def reset(rig: Rig) -> None:
    await rig.reset(wgt_valid=0, row_valid=0)


async def run(dut, name: str, count: int, eager: float, windows: float):
    rig = Rig(dut, name)
    await reset(rig)
    bench = Bench(rig, count, eager, windows)
    limit = rig.cycles + round(count * 80 / eager)
    while not bench.over:
        await bench.cycle()
        assert rig.cycles < limit, f"{bench.count} blocks left after {rig.cycles} cycles"
    assert bench.writes > 2 * count, "too few sums"


@cocotb.test()
async def nothing_waits(dut):
    """A row and a weight word a cycle."""
    await run(dut, "nothing waits", scaled(600), 1.0, 0.2)


@cocotb.test()
async def windows(dut):
    await run(dut, "windows", scaled(400), 1.0, 0.9)


@cocotb.test()
async def all_wait(dut):
    await run(dut, "all wait", scaled(300), 0.5, 0.4)


@cocotb.test()
async def a_reset_ends_it(dut):
    """After one cycle of it no row that was inside writes, or is known to a later one."""
    rig, bench = Rig(dut, "reset"), None
    await reset(rig)
    for _ in range(scaled(150)):
        bench, least = Bench(rig, 4, 0.9, 0.4, bench), rig.cycles + rig.random.randrange(50)
        while rig.cycles < least or (bench.blocks and not bench.due):
            await bench.cycle()
        await rig.short_reset()
        if rig.chance(0.4):
            bench = Bench(rig, 0, 1.0, 0.4, bench)
            for _ in range(6):
                await bench.cycle()
