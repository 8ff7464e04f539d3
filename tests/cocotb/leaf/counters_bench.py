# SPDX-License-Identifier: Apache-2.0
"""presil_counters alone: plain integers here (docs/isa.md section 6), seen as they run and through snapshots; launches
of one cycle and of many."""

import cocotb
from oracle import layout
from rig import WORD, Rig, near, scaled

COUNT = layout.registers().COUNT["COUNTER"]
CAUSES = layout.generated().ENUMS["CAUSE"]
ENGINES, MATRIX, VECTOR = 4, 1, 4
CYCLES, READ_BEATS, WRITE_BEATS, READ_BYTES, WRITE_BYTES = range(80, 85)
DESCRIPTORS, LAUNCHES, FETCH_BEATS, MATRIX_FIRST, MATRIX_LAST = range(85, 90)
PULSES = ("launch", "descriptor", "read_beat", "fetch_beat", "write_beat", "snapshot", "clear")
QUIET = dict.fromkeys((*PULSES, "busy", "write_bytes"), 0) | {"cause": [CAUSES["COMMAND"]] * ENGINES}


class Model:
    def __init__(self):
        self.count, self.shown = [0] * COUNT, [0] * COUNT
        self.age, self.matrix = 0, False  # cycles since the doorbell; MATRIX was BUSY since then

    def cycle(self, now: dict) -> None:
        """A snapshot shows what was before the cycle, a clear forgets that and counts the cycle; matrix_first and _last
        are the last launch's."""
        count = self.count
        if now["snapshot"]:
            self.shown = list(count)
        if now["clear"]:
            count[:MATRIX_FIRST] = [0] * MATRIX_FIRST
        if now["launch"]:
            self.age, self.matrix = 0, False
            count[MATRIX_FIRST] = count[MATRIX_LAST] = 0
        if now["busy"]:
            self.charge(now["cause"])
        count[READ_BEATS] += now["read_beat"]
        count[READ_BYTES] += now["read_beat"] * WORD
        count[WRITE_BEATS] += now["write_beat"]
        count[WRITE_BYTES] += now["write_beat"] * now["write_bytes"]
        for name, n in (("descriptor", DESCRIPTORS), ("launch", LAUNCHES), ("fetch_beat", FETCH_BEATS)):
            count[n] += now[name]

    def charge(self, causes: list) -> None:
        count = self.count
        for engine, cause in enumerate((*causes, CAUSES["COMMAND"])):
            count[16 * engine + cause] += 1
        count[CYCLES] += 1
        if causes[MATRIX] == CAUSES["BUSY"]:
            count[MATRIX_LAST] = self.age
            if not self.matrix:
                count[MATRIX_FIRST], self.matrix = self.age, True
        self.age += 1


class Bench:
    """One cycle at a time: what happens in it, a register that is read, a running count that is looked at."""

    def __init__(self, rig: Rig):
        self.rig, self.model, self.answer = rig, Model(), None
        self.read, self.looked = set(), set()  # counters that were not 0 when they were compared

    async def reset(self) -> None:
        await self.rig.reset(req=0, live=0, **{n: v for n, v in QUIET.items() if n != "cause"})
        self.rig.put("cause", QUIET["cause"])
        self.model, self.answer = Model(), None

    async def cycle(self, now: dict, word: int | None = None, live: int | None = None) -> None:
        """word: 32-bit word of the registers, or None; live: number of a running count, or None."""
        rig, r = self.rig, self.rig.random
        for name, value in now.items():
            if name != "cause":
                rig.set(name, value)
        rig.put("cause", now["cause"])
        rig.set("req", int(word is not None))
        rig.set("req_word", r.randrange(2 * COUNT) if word is None else word)
        rig.set("live", int(live is not None))
        rig.set("live_n", r.randrange(COUNT) if live is None else live)
        await rig.cycle()
        if self.answer:
            rig.expect(rig.get("rdata"), self.answer[1], f"word {self.answer[0]} of the registers")
        running = 0 if live is None else self.model.count[live]
        rig.expect(rig.get("live_count"), running, f"running count {live}")
        self.looked |= {live} if running else set()
        self.answer = None
        if word is not None:
            value = self.model.shown[word // 2]
            self.answer = word, value >> 32 if word % 2 else value & 0xFFFFFFFF
            self.read |= {word // 2} if value else set()
        self.model.cycle(now)

    async def read_all(self) -> None:
        """Registers and running counts, while nothing happens."""
        for n in range(COUNT):
            await self.cycle(QUIET, 2 * n, n)
            await self.cycle(QUIET, 2 * n + 1)
        await self.cycle(QUIET)


def happens(r, busy: int, favourite: list) -> dict:
    """A cycle that begins no launch. favourite: each engine's cause for the time being."""
    now = dict(QUIET, busy=busy, cause=[c if r.random() < 0.7 else r.choice(list(CAUSES.values())) for c in favourite])
    now |= dict(snapshot=int(r.random() < 0.02), clear=int(r.random() < 0.02))
    now["write_bytes"] = r.choice((0, 1, WORD - 1, WORD, r.randint(0, WORD)))
    return now | {name: int(r.random() < 0.4) for name in ("descriptor", "read_beat", "fetch_beat", "write_beat")}


async def look(bench: Bench, now: dict, eager: float) -> None:
    r = bench.rig.random
    word = r.randrange(2 * COUNT) if r.random() < eager else None
    await bench.cycle(now, word, r.randrange(COUNT) if r.random() < eager else None)


@cocotb.test()
async def launches_of_any_length(dut):
    """Snapshots and clears in and between them, registers and running counts read all the time."""
    bench = Bench(Rig(dut, "launches"))
    r = bench.rig.random
    await bench.reset()
    for _ in range(scaled(60)):
        favourite = [r.choice(list(CAUSES.values())) for _ in range(ENGINES)]
        for k in range(near(r, 1, (1, 2, 20, 255, 256), 1)):
            now = happens(r, 1, favourite)
            if not k:
                now |= dict(launch=1, clear=int(r.random() < 0.3), cause=QUIET["cause"])
            await look(bench, now, 0.9)
        for _ in range(r.choice((0, 0, 1, 30))):
            await look(bench, happens(r, 0, favourite), 0.9)
        if r.random() < 0.2:
            await bench.cycle(dict(QUIET, snapshot=1))
            await bench.read_all()
    known = {16 * e + c for e in range(ENGINES) for c in CAUSES.values()} | {16 * VECTOR + CAUSES["COMMAND"]}
    known |= set(range(CYCLES, COUNT))
    assert bench.read == bench.looked == known, f"never but zero: {known - bench.read}, {known - bench.looked}"


@cocotb.test()
async def launches_of_few_cycles(dut):
    """Of each length MATRIX is BUSY from one cycle to another, or never; a snapshot, a clear, or both, in each cycle
    and behind the last."""
    bench = Bench(Rig(dut, "few cycles"))
    await bench.reset()
    cases = [
        (n, first, at, pulse)
        for n in (1, 2, 3)
        for first in range(1, n + 1)
        for at in range(n + 1)
        for pulse in range(4)
    ]
    for n, first, at, pulse in bench.rig.random.sample(cases, min(len(cases), scaled(36))):
        for k in range(n + 1):
            now = dict(QUIET, busy=int(k < n), launch=int(not k), cause=list(QUIET["cause"]))
            if first <= k < n:
                now["cause"][MATRIX] = CAUSES["BUSY"]
            if k == at:
                now |= dict(snapshot=pulse & 1, clear=pulse >> 1)
            await bench.cycle(now, live=MATRIX_FIRST + k % 2)
        await bench.read_all()
        await bench.cycle(dict(QUIET, snapshot=1))
        await bench.read_all()


@cocotb.test()
async def a_reset_forgets(dut):
    """Registers read zero until the first snapshot, whatever was counted or shown before the reset."""
    bench = Bench(Rig(dut, "reset"))
    r = bench.rig.random
    for _ in range(scaled(6)):
        await bench.reset()
        await bench.read_all()
        favourite = [r.choice(list(CAUSES.values())) for _ in range(ENGINES)]
        await bench.cycle(dict(QUIET, busy=1, launch=1))
        for _ in range(r.choice((1, 60))):
            await bench.cycle(happens(r, 1, favourite) | dict(snapshot=0, clear=0), r.randrange(2 * COUNT))
        await bench.cycle(dict(QUIET, snapshot=1))
        await bench.read_all()
