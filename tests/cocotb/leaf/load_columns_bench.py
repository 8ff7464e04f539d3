# SPDX-License-Identifier: Apache-2.0
"""presil_load_columns alone: which column is read in which cycle, where it goes, and when the next group of rows may
begin; groups of one row to all lanes, of one column to a word (docs/isa.md section 2, `transpose`)."""

from collections import deque
from dataclasses import dataclass

import cocotb
from rig import CONFIG, WORD, WORDS, Rig, near, scaled

SPACE = 1 << 32  # of byte addresses
POINTS = 0, WORDS // 2, WORDS - 1
EARLY = 3  # columns that a group may have left when the rows of the one behind the next begin
BITS = dict(last=1, s=32, sw=32, pad=32, index=32, cols=WORD.bit_length(), bytes=WORD.bit_length(), size=2)


@dataclass
class Group:
    rows: int
    last: int
    s: int
    sw: int
    pad: int
    index: int
    cols: int
    bytes: int
    size: int
    number: int = 0  # since the reset; groups take the buffers in turn
    complete: bool = False  # all rows are in
    column: int = 0

    def address(self) -> int:
        return (self.s + self.column * self.sw) % SPACE


def draw(r, points=POINTS) -> Group:
    """points: words near which it begins."""
    size = r.randrange(3)
    rows = min(near(r, 1, (1, 2, 3, CONFIG.lanes >> size), 1), CONFIG.lanes >> size)
    cols = min(near(r, 1, (1, 2, 3, 4, WORD >> size), 1), WORD >> size)
    s = near(r, WORD, [WORD * point for point in points], -SPACE) % SPACE
    sw = WORD * r.choice((0, 1, 1, 1, -1, 7, r.randrange(SPACE // WORD))) % SPACE
    last, pad, index = int(r.random() < 0.4), r.getrandbits(32), r.getrandbits(32)
    return Group(rows, last, s, sw, pad, index, cols, rows << size, size)


class Model:
    """Groups that were taken and not drained, and what the last column left in the registers."""

    def __init__(self, rig: Rig):
        self.rig, self.groups = rig, deque()
        self.passing = self.error = None

    def cycle(self, offered: Group | None, complete: Group | None, hold: int) -> None:
        """Looks at the cycle that is over, and goes on."""
        waiting, first = len(self.groups) + bool(offered), self.groups[0] if self.groups else None
        self.room(waiting, first)
        reads = first if first and first.complete and not hold else None
        self.registers()
        self.column(reads)
        self.error = None
        self.passing = self.passing if hold else None
        if reads:
            self.read(reads)
        if complete:
            complete.complete = True
        if offered and not hold:
            self.groups.append(offered)

    def room(self, waiting: int, first: Group | None) -> None:
        rig = self.rig
        early = bool(first and first.complete and first.cols - first.column <= EARLY)
        may = waiting < 2, waiting < 2 or (early and waiting == 2)
        rig.expect((rig.get("open"), rig.get("open_early")), may, f"room with {waiting} groups")
        rig.expect(rig.get("busy"), int(waiting > 0 or self.passing is not None), "busy")

    def registers(self) -> None:
        rig = self.rig
        rig.expect(rig.get("col_valid"), int(self.passing is not None), "col_valid")
        rig.expect(rig.get("err_valid"), int(self.error is not None), "err_valid")
        if self.passing:
            rig.expect((rig.get("col_addr"), rig.get("col_done")), self.passing, "where a column goes, the last")
        if self.error:
            rig.expect((rig.get("err_index"), rig.get("err_addr")), self.error, "the error")

    def column(self, g: Group | None) -> None:
        rig = self.rig
        rig.expect(rig.get("col_go"), int(g is not None), "col_go")
        if g:
            got = [rig.get(f"col_{name}") for name in ("set", "j", "size", "bytes", "pad")]
            rig.expect(got, [g.number % 2, g.column, g.size, g.bytes, g.pad], "a column")

    def read(self, g: Group) -> None:
        word, last = g.address() // WORD, g.column == g.cols - 1
        if word < WORDS:
            self.passing = word, int(last and g.last)
        else:
            self.error = g.index, word * WORD
        g.column += 1
        if last:
            self.groups.popleft()


class Bench:
    """The walk in front of it: begins a group where there is room, and its last row is there `late` steps behind the
    cycle in which the group is taken."""

    def __init__(self, rig: Rig, groups: list[Group], late: int):
        self.rig, self.queue, self.late, self.model = rig, groups, late, Model(rig)
        self.begun = self.rows = 0  # groups, rows of the one that is being issued
        self.offered, self.coming = None, []  # [group, steps until its last row is in]
        self.waited = 0  # cycles in which rows would have come, but for room

    async def reset(self) -> None:
        await self.rig.reset(group_valid=0, rows_in=0, hold=0)

    @property
    def over(self) -> bool:
        return self.begun == len(self.queue) and not (self.offered or self.coming or self.model.groups)

    async def cycle(self, eager: float, holds: float) -> None:
        rig, r = self.rig, self.rig.random
        hold, offered = rig.chance(holds), self.offered
        for name, bits in BITS.items():
            rig.set(f"group_{name}", getattr(offered, name) if offered else r.getrandbits(bits))
        complete = self.coming.pop(0)[0] if self.coming and not self.coming[0][1] else None
        rig.set("rows_set", complete.number % 2 if complete else r.getrandbits(1))
        for name, value in (("group_valid", offered), ("rows_in", complete), ("hold", hold)):
            rig.set(name, int(bool(value)))
        await rig.cycle()
        room = rig.get("open"), rig.get("open_early")
        self.model.cycle(offered, complete, hold)
        if not hold:
            self.step(room, rig.chance(eager))

    def step(self, room: tuple[int, int], eager: int) -> None:
        for row in self.coming:
            row[1] -= 1
        if self.offered:
            self.coming.append([self.offered, self.late - 1])
        self.offered = None
        if not eager or self.begun == len(self.queue):
            return
        group = self.queue[self.begun]
        if not self.rows and not room[group.rows > 1]:
            self.waited += 1
            return
        self.rows += 1
        if self.rows == group.rows:
            group.number, self.offered = self.begun, group
            self.begun, self.rows = self.begun + 1, 0


async def run(dut, name: str, groups: int, eager: float, holds: float, points=POINTS):
    rig = Rig(dut, name)
    bench = Bench(rig, [draw(rig.random, points) for _ in range(groups)], rig.random.choice((2, 3)))
    await bench.reset()
    limit = rig.cycles + round(100 * groups / eager / (1 - holds))
    while not bench.over:
        await bench.cycle(eager, holds)
        assert rig.cycles < limit, f"{bench.begun} of {groups} groups after {rig.cycles} cycles"
    for _ in range(4):
        await bench.cycle(eager, holds)
    dut._log.info("%d checks", rig.checks)


@cocotb.test()
async def nothing_waits(dut):
    await run(dut, "nothing waits", scaled(600), 1.0, 0.0)


@cocotb.test()
async def all_wait(dut):
    await run(dut, "all wait", scaled(500), 0.6, 0.4)


@cocotb.test()
async def rows_without_a_bubble(dut):
    """Groups of as many rows as columns, three at least, follow each other as fast as rows come."""
    rig = Rig(dut, "no bubble")
    for _ in range(scaled(40)):
        size = rig.random.randrange(3)
        rows = near(rig.random, 1, (4, CONFIG.lanes >> size), 3)
        rows = min(rows, CONFIG.lanes >> size)
        bench = Bench(rig, [draw(rig.random) for _ in range(8)], 2)
        for group in bench.queue:
            group.rows, group.cols, group.size, group.bytes = rows, rows, size, rows << size
        await bench.reset()
        while not bench.over:
            await bench.cycle(1.0, 0.0)
        rig.expect(bench.waited, 0, f"cycles without room, of groups of {rows} rows")
    dut._log.info("%d checks", rig.checks)


@cocotb.test()
async def outside_the_scratchpad(dut):
    """The error in place of the column; those behind it go on, and an address comes back in beyond 2^32."""
    await run(dut, "outside", scaled(400), 0.9, 0.2, (WORDS - 1, WORDS, 1 << 16, SPACE // WORD - 1))


@cocotb.test()
async def resets_in_the_middle(dut):
    rig = Rig(dut, "resets")
    for _ in range(scaled(80)):
        bench = Bench(rig, [draw(rig.random, (0, WORDS - 1)) for _ in range(20)], rig.random.choice((2, 3)))
        await bench.reset()
        for _ in range(rig.random.randrange(60)):
            await bench.cycle(0.9, 0.2)
    dut._log.info("%d checks", rig.checks)
