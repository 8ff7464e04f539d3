# SPDX-License-Identifier: Apache-2.0
"""presil_load_walk alone: every piece of random LOADs against docs/isa.md section 2 - the word that it writes, the
bytes of it that are data, the beats that they come from - and the cycle in which it is issued: the first in which its
beats are in the window and nothing else stops it."""

from collections import deque
from dataclasses import dataclass

import cocotb
from load_bench import draw
from load_pieces import SLOTS, SPACE, Piece, Row, pieces_of, place, rows_of
from oracle import layout
from oracle.machine import check
from rig import CONFIG, WORD, WORDS, Rig, ring_count, scaled

DESCRIPTORS, ROWS = 4, 256  # what the two queues hold
ROW_BITS = dict(beats=32, rel=50, pos=50, s=32, last1=1, last=1)
ALWAYS = dict(start=0, row_valid=0, rx=0, stall=0, halt=0, pipe_empty=1, tr_open=1, tr_open_early=1, tr_busy=0)


@dataclass
class Load:
    words: list[int]
    own_chunks: int
    index: int
    kind: tuple[bool, bool]  # converted, transposed
    rows: list[Row]


def program(r, count: int, bases: tuple = (), long: int = 0) -> list[Load]:
    """bases: scratchpad addresses of some. long: of so many rows is every eighth."""
    out, beats, sets = [], 0, 0
    while len(out) < count:
        f = draw(r)
        if r.random() < 0.1:
            f["step0"] += 1 << 30
            if not f["transpose"] and r.random() < 0.5:
                f["n0"] = 5  # positions of 32 bits and more
        if r.random() < 0.1:
            f["pos0"] -= r.choice((1 << 20, 1 << 30))
        if bases and r.random() < 0.3:
            f["sp_base"] = r.choice(bases)
        if long and len(out) % 8 == 1:
            f |= dict(n0=1, n1=long, n2=1, n3=1, chunk_bytes=4, transpose=0)
        words = layout.encode("LOAD", **f)
        d = layout.decode(words)
        if check(d, CONFIG):
            continue
        must = d.n0 > 1 and d.step0 < d.chunk_bytes and d.chunk_bytes > 14 * WORD  # more than the window keeps
        own = int(d.n0 > 1 and (must or r.random() < 0.3))
        rows, index = rows_of(d, own), ring_count(len(out))
        for row in rows:
            row.pieces = pieces_of(d, row, own, beats)
            beats = row.end = beats + row.beats
        sets += place(d, index, rows, sets)
        out.append(Load(words, own, index, (d.conv > 0, bool(d.transpose)), rows))
    return out


class Model:
    """What is in the queues, which piece is next, how many beats came; what the last edge left in the registers."""

    def __init__(self, rig: Rig):
        self.rig, self.loads, self.rows = rig, deque(), deque()
        self.load = self.row = None
        self.kind, self.at = (False, False), 0  # kind: of the last load
        self.got = self.freed = self.released = 0
        self.piece = self.group = self.error = None
        self.waiting = self.working = 0  # None: not said

    @property
    def room(self) -> bool:
        return self.got - self.released < SLOTS

    def look(self, halt: int) -> None:
        rig = self.rig
        queues = int(len(self.loads) == DESCRIPTORS), int(len(self.rows) == ROWS)
        rig.expect((rig.get("full"), rig.get("rows_full")), queues, "full, rows_full")
        window = self.got % SLOTS, int(halt or self.room)
        rig.expect((rig.get("rx_slot"), rig.get("rx_ready")), window, "rx_slot, rx_ready")
        for name in ("waiting", "working"):
            if getattr(self, name) is not None:
                rig.expect(rig.get(name), getattr(self, name), name)
        valid = [int(shown is not None) for shown in (self.piece, self.group, self.error)]
        rig.expect([rig.get(f"{name}_valid") for name in ("piece", "group", "err")], valid, "piece, group, err_valid")
        if self.piece:
            rig.expect({n: rig.get(f"piece_{n}") for n in self.piece.shows}, self.piece.shows, "a piece")
            rig.expect(range(rig.get("piece_vlo"), rig.get("piece_vhi")), self.piece.data, "its data")
        if self.group:
            rig.expect({n: rig.get(f"group_{n}") for n in self.group}, self.group, "a group")
        if self.error:
            rig.expect((rig.get("err_index"), rig.get("err_addr")), self.error, "the error")

    def edge(self, now: dict, started: Load | None, row: Row | None) -> None:
        """now: the inputs of the cycle that is over."""
        went, ends = self.issue(now)
        may = not any(self.kind) or (now["pipe_empty"] and not now["tr_busy"] and not self.group)
        out = not self.load and self.loads and (may or self.kind == self.loads[0].kind)
        pop = self.load and self.rows and (not self.row or (ends and not self.row.last))
        if not now["stall"]:
            self.released, self.piece, self.group = self.freed, None, None
            self.working = None if went and went.error is not None else int(went is not None)
            if self.row:
                self.freed = self.row.end if ends else self.row.pieces[self.at].free
        self.waiting = None if now["stall"] or now["halt"] else int(bool(self.row and not went))
        self.error = (self.load.index, went.error) if went and went.error is not None else None
        if went:
            self.piece = went if went.error is None else None
            self.group, self.at = went.group, self.at + 1
        if ends:
            self.load, self.row, self.at = None if self.row.last else self.load, None, 0
        if pop:
            self.row = self.rows.popleft()
        if out:
            self.load = self.loads.popleft()
            self.kind = self.load.kind
        self.got += now["rx"]
        self.loads.extend([started] if started else [])
        self.rows.extend([row] if row else [])

    def issue(self, now: dict) -> tuple[Piece | None, bool]:
        """The piece that goes, and whether it is its row's last."""
        if not self.row or now["stall"] or now["halt"]:
            return None, False
        piece = self.row.pieces[self.at]
        shut = self.row.first and self.at == 0 and not now["tr_open" if self.row.last1 else "tr_open_early"]
        if shut or piece.need > self.got:
            return None, False
        return piece, piece is self.row.pieces[-1]


@dataclass
class Odds:
    start: float = 1.0
    row: float = 1.0
    beat: float = 1.0
    stall: float = 0.0
    halt: float = 0.0
    open: float = 1.0


class Bench:
    """What stands around it: rows come two cycles behind their descriptor, beats behind their row."""

    def __init__(self, rig: Rig, loads: list[Load]):
        self.rig, self.model, self.loads, self.coming = rig, Model(rig), deque(loads), deque()
        self.asked = self.pipe = self.drain = 0  # beats; steps, cycles until the pipeline, the transposer is empty
        self.seen = dict.fromkeys(("full", "rows_full", "window", "error", "shut"), 0)

    @property
    def over(self) -> bool:
        m = self.model
        return not (self.loads or self.coming or m.loads or m.rows or m.load or m.row or m.piece or m.group)

    async def cycle(self, odds: Odds) -> None:
        rig, m, r = self.rig, self.model, self.rig.random
        now = dict(stall=rig.chance(odds.stall), halt=rig.chance(odds.halt), tr_open=rig.chance(odds.open))
        now |= dict(tr_open_early=now["tr_open"] | rig.chance(0.5), tr_busy=int(self.drain > 0))
        now["pipe_empty"] = int(not m.piece and not self.pipe)
        now["rx"] = int(m.room and not now["halt"] and m.got < self.asked and rig.chance(odds.beat))
        load = self.loads.popleft() if self.loads and len(m.loads) < DESCRIPTORS and rig.chance(odds.start) else None
        comes = self.coming and self.coming[0][1] <= rig.cycles and len(m.rows) < ROWS and rig.chance(odds.row)
        row = self.coming.popleft()[0] if comes else None
        now |= dict(start=int(load is not None), row_valid=int(row is not None))
        rig.drive(**now)
        rig.set("start_desc", layout.join(load.words) if load else r.getrandbits(1024))
        rig.set("start_index", load.index if load else r.getrandbits(32))
        rig.set("own_chunks", load.own_chunks if load else r.getrandbits(1))
        for name, bits in ROW_BITS.items():
            value = getattr(row, name) if row else None
            rig.set(f"row_{name}", r.getrandbits(bits) if value is None else value % (1 << bits))
        await rig.cycle()
        m.look(now["halt"])
        self.neighbours(now, load, row)
        m.edge(now, load, row)

    def neighbours(self, now: dict, load: Load | None, row: Row | None) -> None:
        m = self.model
        self.coming.extend((row, self.rig.cycles + 1) for row in (load.rows if load else ()))
        self.asked += row.beats if row else 0
        self.drain = self.rig.random.randrange(12) if m.group and not now["stall"] else max(0, self.drain - 1)
        if not now["stall"]:
            self.pipe = 2 if m.piece else max(0, self.pipe - 1)
        shut = m.row and m.row.first and not now["tr_open"]
        states = len(m.loads) == DESCRIPTORS, len(m.rows) == ROWS, not m.room, m.error, shut
        for name, state in zip(self.seen, states):
            self.seen[name] += bool(state)


async def run(dut, name: str, loads: int, odds: Odds, states: str = "", **how) -> None:
    """states: of Bench.seen, that there have to be."""
    rig = Rig(dut, name)
    bench = Bench(rig, program(rig.random, loads, **how))
    await rig.reset(**ALWAYS)
    limit, quiet = scaled(200_000), 0
    while quiet < 4:
        await bench.cycle(odds)
        quiet = quiet + 1 if bench.over else 0
        assert rig.cycles < limit, f"{len(bench.loads)} of {loads} LOADs left after {limit} cycles"
    rig.expect([state for state in states.split() if not bench.seen[state]], [], "what did not happen")
    dut._log.info("%d checks, seen in so many cycles: %s", rig.checks, bench.seen)


@cocotb.test()
async def nothing_waits(dut):
    """A piece a cycle, across rows too."""
    await run(dut, "nothing waits", scaled(70), Odds(), "full")


@cocotb.test()
async def all_wait(dut):
    await run(dut, "all wait", scaled(60), Odds(0.4, 0.5, 0.6, 0.3, 0.03, 0.5), "shut")


@cocotb.test()
async def the_pipeline_stands(dut):
    """Queues and window are full."""
    await run(dut, "stands", scaled(40), Odds(stall=0.75, open=0.3), "full rows_full window shut", long=ROWS + 44)


@cocotb.test()
async def outside_the_scratchpad(dut):
    end = WORDS * WORD
    bases = (end - WORD, end, end + WORD, (1 << 16) * WORD, (1 << 17) * WORD, SPACE - WORD)
    await run(dut, "outside", scaled(50), Odds(stall=0.2, beat=0.9), "error", bases=bases)


@cocotb.test()
async def halts_and_resets(dut):
    """In the middle of anything: a halt, in which no piece goes, and a reset that makes it as new."""
    rig = Rig(dut, "resets")
    for _ in range(scaled(25)):
        bench = Bench(rig, program(rig.random, 6))
        await rig.reset(**ALWAYS)
        for _ in range(rig.random.randrange(150)):
            await bench.cycle(Odds(0.8, 0.9, 0.8, 0.2, 0.0, 0.7))
        for _ in range(rig.random.randrange(8)):
            await bench.cycle(Odds(0.8, 0.9, 0.8, 0.2, 1.0, 0.7))
    dut._log.info("%d checks", rig.checks)
