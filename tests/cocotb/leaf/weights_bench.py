# SPDX-License-Identifier: Apache-2.0
"""presil_weights alone: which word is asked for in which cycle, where it goes, and which rows may run; kernels of one
position to 255, channel blocks, depthwise windows (docs/isa.md section 4)."""

from dataclasses import dataclass

import cocotb
from oracle import layout
from oracle.machine import check
from rig import CONFIG, Rig, near, ring_count, scaled

CELLS, SPACE = CONFIG.cells, 1 << 16
DTYPES = [layout.enum("DTYPE", name) for name in ("INT8", "BF16", "FP16")]
AHEAD, WINDOW = 2, 5  # blocks; places in a row of the window
LONG = ((255, 1, 1), (1, 255, 1), (1, 1, 256), (1, 1, 257))
WHERE = ("arr_set", "arr_cell", "arr_first", "arr_depthwise", "arr_float", "arr_skip", "arr_absent")


@dataclass
class Word:
    address: int
    descriptor: int
    last: bool  # of its descriptor
    end: bool  # of its block
    block: int  # since the reset; blocks take the sets in turn
    where: list
    fp16: int


def blocks_of(d) -> list[list[tuple[int, int]]]:
    """(address, cell) of each word of each block of a decoded descriptor; depthwise: lane, that of the kernel's last
    position being 0."""
    kernel = [(ky, kx) for ky in range(d.ky) for kx in range(d.kx)]
    if d.depthwise:
        base, (x, y) = d.wgt_base, (d.wgt_x_stride, d.wgt_y_stride)
        return [[(base + ky * y + kx * x, (d.ky - 1 - ky) * WINDOW + d.kx - 1 - kx) for ky, kx in kernel]]
    bases = [d.wgt_base + ((cb * d.ky + ky) * d.kx + kx) * CELLS for cb in range(d.ncb) for ky, kx in kernel]
    return [[(base + cell, cell) for cell in range(CELLS)] for base in bases]


def words_of(d, number: int, block: int) -> list[Word]:
    """block: the number of its first."""
    kinds, out = [d.depthwise, int(d.dtype != DTYPES[0]), d.skip_special, d.absent], []
    for n, content in enumerate(blocks_of(d), block):
        for k, (address, cell) in enumerate(content):
            where, end = [n % 2, cell, int(not k), *kinds], k == len(content) - 1
            out.append(Word(address % SPACE, number, False, end, n, where, int(d.dtype == DTYPES[2])))
    out[-1].last = True
    return out


def draw(r, most: int, **fixed) -> list[int]:
    """Words of a legal MATRIX with at most `most` blocks, and these fields."""
    while True:
        f = {n: r.choice((1, 1, 2, 3)) for n in ("kx", "ky", "ncb")}
        f |= dict(nx=1, ny=1, sx=1, sy=1, dx=1, dy=1, idx=1, idy=1, dtype=r.choice(DTYPES))
        f |= dict(skip_special=r.getrandbits(1), absent=r.getrandbits(1))
        f["wgt_base"] = near(r, 1, (1, SPACE - 2, SPACE - CELLS, r.randrange(1, SPACE - 1)))
        if r.random() < 0.4:
            f |= dict(depthwise=1, kx=r.randint(1, WINDOW), ky=r.randint(1, WINDOW), ncb=1)
            f |= {f"wgt_{c}_stride": r.choice((0, 1, 1, f["kx"], 7, SPACE - 1, r.randrange(SPACE))) for c in "xy"}
        f |= fixed
        words = layout.encode("MATRIX", **f)
        if f["kx"] * f["ky"] * f["ncb"] <= most and not check(layout.decode(words), CONFIG):
            return words


class Bench:
    """Each cycle: what the module should show, from the words of all descriptors and what was granted of them."""

    def __init__(self, rig: Rig, programs: list):
        self.rig, self.programs, self.words = rig, programs, []
        for number, words in enumerate(programs):
            self.words += words_of(layout.decode(words), number, self.words[-1].block + 1 if self.words else 0)
        self.given = self.granted = 0  # descriptors, words
        self.full = self.finished = 0  # blocks
        self.coming = [None, None]  # words granted two cycles ago, and one

    def wanted(self) -> Word | None:
        """The next word, if its descriptor is there and its set free."""
        word = self.words[self.granted] if self.granted < len(self.words) else None
        return word if word and word.descriptor < self.given and word.block < self.finished + AHEAD else None

    async def cycle(self, offer: int, ready: int, done: int, halt: int = 0) -> None:
        rig, word = self.rig, None if halt else self.wanted()
        offer &= self.given < len(self.programs)
        rig.offer(self.programs[self.given] if offer else None, self.given)
        done &= self.full > self.finished
        for name, value in (("rd_ready", ready), ("block_done", done), ("halt", halt)):
            rig.set(name, int(value))
        await rig.cycle()
        self.look(word)
        granted = word if ready else None
        room = self.room(granted)
        rig.expect(rig.get("in_ready"), int(room), "in_ready")
        self.given += offer and room
        self.granted += bool(granted)
        self.full += bool(granted and granted.end)
        self.finished += done
        self.coming = [self.coming[1], granted]

    def room(self, granted: Word | None) -> bool:
        """None is held, or its last word is granted."""
        held = self.granted < len(self.words) and self.words[self.granted].descriptor < self.given
        return not held or bool(granted and granted.last)

    def look(self, word: Word | None) -> None:
        rig, comes = self.rig, self.coming[0]
        rig.expect(rig.get("rd_valid"), int(word is not None), "rd_valid")
        if word:
            asked = rig.get("rd_addr"), rig.get("rd_index")
            rig.expect(asked, (word.address, ring_count(word.descriptor)), "a request")
        rig.expect(rig.get("block_ready"), int(self.full > self.finished), "block_ready")
        if self.full > self.finished:
            rig.expect(rig.get("row_set"), self.finished % 2, "row_set")
        rig.expect(rig.get("arr_valid"), int(comes is not None), "arr_valid")
        rig.expect(rig.get("busy"), int(any(self.coming)), "busy")
        if comes:
            rig.expect([rig.get(name) for name in WHERE], comes.where, "where a word goes")
            if comes.where[4]:
                rig.expect(rig.get("arr_fp16"), comes.fp16, "arr_fp16")


async def reset(rig: Rig) -> None:
    await rig.reset(in_valid=0, rd_ready=0, block_done=0, halt=0)


async def run(dut, name: str, count: int, eager: float, ready: float, done: float, long: tuple = ()):
    """All descriptors to their ends. long: (kx, ky, ncb) of some that others follow."""
    rig = Rig(dut, name)
    r = rig.random
    programs = [draw(r, 30) for _ in range(count)]
    for kx, ky, ncb in long:
        programs.insert(r.randrange(count), draw(r, 300, kx=kx, ky=ky, ncb=ncb, depthwise=0))
    bench = Bench(rig, programs)
    await reset(rig)
    limit = rig.cycles + 400 + round(len(bench.words) * 6 / min(ready, eager, done))
    while bench.finished <= bench.words[-1].block or any(bench.coming):
        await bench.cycle(rig.chance(eager), rig.chance(ready), rig.chance(done))
        assert rig.cycles < limit, f"{bench.granted} of {len(bench.words)} words after {rig.cycles} cycles"
    assert rig.checks > len(bench.words), "too few words"


@cocotb.test()
async def nothing_waits(dut):
    """One word a cycle from the first to the last, across blocks and descriptors."""
    await run(dut, "nothing waits", scaled(60), 1.0, 1.0, 1.0, LONG)


@cocotb.test()
async def all_wait(dut):
    await run(dut, "all wait", scaled(60), 0.3, 0.5, 0.3)


@cocotb.test()
async def rows_are_slower(dut):
    """Both sets are full most of the time; then words that wait for nothing but a set."""
    await run(dut, "slow rows", scaled(30), 1.0, 1.0, 0.05)


@cocotb.test()
async def a_halt_ends_it(dut):
    """Nothing is asked for after it; what was granted comes; a reset makes it as new."""
    rig = Rig(dut, "halt")
    r = rig.random
    for _ in range(scaled(25)):
        await reset(rig)
        bench = Bench(rig, [draw(r, 20) for _ in range(4)])
        for _ in range(r.randrange(70)):
            await bench.cycle(rig.chance(0.7), rig.chance(0.8), rig.chance(0.5))
        for _ in range(5):
            await bench.cycle(0, rig.chance(0.8), 0, halt=1)
