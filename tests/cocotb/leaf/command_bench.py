# SPDX-License-Identifier: Apache-2.0
"""presil_command alone (with presil_check): descriptors that break a rule or not, a ring that wraps, engines without
room, errors from everywhere, resets."""

import cocotb
from oracle import layout
from oracle.machine import Machine, check
from rig import CHIP, CONFIG, SEED, WORD, Rig, near, scaled

ENGINES = ("LOAD", "MATRIX", "EPILOGUE", "STORE")  # bits of push and room
ERRORS = layout.generated().ENUMS["ERROR"]
BASE = 0x9_8765_4000
ACC, CELLS, LANES = CONFIG.acc_rows, CONFIG.cells, CONFIG.lanes
# Values at which a rule of docs/isa.md changes its mind.
EDGES = {
    "chunk_bytes": (0, 1, WORD, WORD + 1, 2 * WORD, 2 * WORD + 4),
    "word_bytes": (0, 1, WORD, WORD + 1, 2 * WORD, 2 * WORD + 4),
    "n1": (0, 1, 2, LANES, LANES // 2, LANES + 1),
    "nx": (0, 1, 8, ACC, ACC + 1, 0xFFFF),
    "ny": (0, 1, 8, ACC, ACC + 1, 0xFFFF),
    "rows": (0, 1, ACC, ACC + 1, 0xFFFF),
    "acc_base": (0, 1, ACC - 1, ACC, 0xFFFF),
    "step0": (0, 4, -1, -(1 << 31)),
    "res_type": (0, 1, 2, 3, 4, 5, 8),
    "out_type": (0, 1, 2, 3, 4, 5, 7, 11),
    "dtype": (0, 1, 2, 4, 5, 9),
    "conv": (0, 1, 3, 4, 8),
    "clamp_lo": (0, 1, 0x007FFFFF, 0x00800000, 0x80000001, 0xFF800000),
    "clamp_hi": (0, 1, 0x007FFFFF, 0x00800000, 0x80000001, 0x7F800000),
}
COUNTS = ("n0", "n2", "n3", "sx", "sy", "kx", "ky", "ncb", "idx", "idy")
LEGAL = {
    "NOP": {},
    "LOAD": dict(chunk_bytes=WORD, word_bytes=WORD, row_bytes=64, n0=1, n1=1, n2=1, n3=1),
    "STORE": dict(chunk_bytes=WORD, word_bytes=WORD, n0=1, n1=1, n2=1, n3=1),
    "MATRIX": dict(nx=3, ny=2, sx=1, sy=1, kx=1, ky=1, ncb=1, idx=1, idy=1),
    "EPILOGUE": dict(rows=2, out_pitch=4 * WORD, res_pitch=4 * WORD),
    "VECTOR": {},
}


def edge(r, name: str, low: int, high: int) -> int:
    values = EDGES.get(name) or ((0, 1, 2) if name in COUNTS else (0, 1, 2, 4, CELLS, 2 * CELLS, WORD // 2, WORD, -1))
    return min(high, max(low, r.choice(values)))


def draw(r, odd: float) -> list[int]:
    """Words of a descriptor; with probability `odd` one with fields at an edge, which the oracle judges."""
    kind = r.choice(("NOP", "LOAD", "LOAD", "MATRIX", "EPILOGUE", "STORE", "STORE"))
    strange = r.random() < odd
    if strange and r.random() < 0.05:
        kind = "VECTOR"
    f = dict(LEGAL[kind])
    if strange:
        fields = layout.generated().FIELDS.get(kind, {})
        for name in r.sample(sorted(fields), min(len(fields), r.choice((1, 1, 2, 3, 6)))):
            width, signed = fields[name][2:]
            f[name] = edge(r, name, -(1 << width - 1) if signed else 0, (1 << width - signed) - 1)
        if kind == "LOAD" and r.random() < 0.3:  # a conversion, to an address that may be odd
            f = dict(LEGAL[kind], conv=r.randint(1, 3), chunk_bytes=2 * WORD, n0=2, n1=2, n2=2, n3=2, sp_base=WORD)
            f[r.choice(("sp_base", "sw", "ss0", "ss1", "ss2", "ss3"))] = r.choice((3, 3, WORD + 2))
        if not fields or r.random() < 0.1:
            f |= dict(wait=r.choice((0, 1, 1 << 19)), signal=r.choice((0, 8)), isa=r.choice((2, 2, 0, 1, 3, 10)))
    else:
        f["tag"] = r.getrandbits(32)
    words = layout.encode(kind, **f)
    if strange and r.random() < 0.03:
        words[0] |= 15
    return words


class Chip:
    """Everything around the command processor: registers, ring, bus, queues, engines."""

    def __init__(self, rig: Rig, log2: int, stall: float):
        self.rig, self.size, self.stall = rig, 1 << log2, stall
        self.ring, self.queue, self.bad_beat = bytearray(self.size * 128), [], None
        self.pushed, self.events, self.fetched = [], [], []
        self.room, self.tail, self.left, self.busy = 15, 0, 0, 0
        self.fetching, self.refuse_from = False, None  # refuse_from: offset in the ring of what windows do not hold

    async def reset(self) -> None:
        quiet = dict.fromkeys(("doorbell", "queue_reset", "ring_tail", "fetch_ready", "fetch_rvalid"), 0)
        quiet["fetch_refused"] = 0
        quiet |= dict.fromkeys(("record", "apart", "record_done"), 0)
        quiet |= dict.fromkeys(("fetch_overdue", "overdue", "fetch_rerror", "fail_code", "fail_index", "fail_addr"), 0)
        log2 = self.size.bit_length() - 1
        await self.rig.reset(ring_base=BASE >> 12, ring_log2=log2, room=15, all_empty=1, all_idle=1, **quiet)

    def write(self, programs: list) -> None:
        """Behind the tail, which moves."""
        for words in programs:
            at = self.tail % self.size * 128
            self.ring[at : at + 128] = layout.to_bytes(words)
            self.tail = self.tail + 1 & 0xFFFFFFFF

    async def cycle(self, **once) -> None:
        """once: inputs of this cycle alone."""
        rig = self.rig
        rig.drive(**once)
        await rig.cycle()
        for name in once:
            if name != "ring_tail":
                rig.set(name, 0)
        self.fetch()
        self.hand_over()
        self.events += [name for name in ("irq_done", "irq_error", "launch") if rig.get(name)]

    def fetch(self) -> None:
        rig = self.rig
        taken = rig.held["fetch_ready"] and rig.get("fetch_valid")
        if taken:
            first, count = rig.get("fetch_beat") * WORD, rig.get("fetch_len") + 1
            assert first // 4096 == (first + count * WORD - 1) // 4096, f"a fetch at {first:#x} crosses 4 KiB"
            assert 0 <= first - BASE <= len(self.ring) - count * WORD, f"a fetch at {first:#x} is outside the ring"
            assert count * WORD <= 8 * 128 and (first - BASE) % 128 == 0 == count * WORD % 128, "parts of descriptors"
            if not rig.held["fetch_refused"]:
                self.queue += range(first - BASE, first - BASE + count * WORD, WORD)
                self.fetched += range((first - BASE) // 128, (first - BASE + count * WORD) // 128)
        answer = bool(self.queue) and not rig.chance(self.stall)
        if answer:
            at = self.queue.pop(0)
            rig.set("fetch_rdata", int.from_bytes(self.ring[at : at + WORD], "little"))
            rig.set("fetch_rerror", int(at == self.bad_beat))
        rig.set("fetch_rvalid", int(answer))
        ready, refused = 1 - rig.chance(self.stall), 0
        if self.refuse_from is not None:  # taken only where it was seen before, to be judged in that cycle
            ready *= rig.get("fetch_valid") and not taken
            refused = ready and rig.get("fetch_beat") * WORD - BASE >= self.refuse_from
        rig.set("fetch_ready", int(ready))
        rig.set("fetch_refused", int(refused))

    def hand_over(self) -> None:
        """Queues take what is pushed if they said that they have room; engines are busy with it for a while."""
        rig = self.rig
        push = rig.get("push")
        if push:
            kind = push.bit_length() - 1
            assert push == 1 << kind and self.room >> kind & 1, f"push {push:04b} of room {self.room:04b}"
            self.pushed.append((ENGINES[kind], rig.get("push_index"), rig.take_descriptor("push_desc")))
            self.busy = self.left = rig.random.randrange(9)
        self.room = rig.held["room"]
        self.left = max(0, self.left - 1)
        rig.set("room", sum((1 - rig.chance(self.stall)) << k for k in range(4)))
        rig.set("all_empty", int(self.left <= self.busy // 2))
        rig.set("all_idle", int(self.left == 0))

    async def until(self, *events, cycles: int = 5000) -> str:
        for _ in range(cycles):
            found = [e for e in self.events if e in events]
            if found:
                self.events = []
                return found[0]
            await self.cycle()
        raise AssertionError(f"none of {events} within {cycles} cycles, PRESIL_SEED={SEED}")

    async def ring_the_bell(self) -> None:
        await self.cycle(ring_tail=self.tail, doorbell=1)


def expected(programs: list, first: int) -> tuple[list, tuple | None]:
    """What is pushed, and the error (code, index) or None."""
    out = []
    for k, words in enumerate(programs):
        d, index = layout.decode(words), first + k & 0xFFFFFFFF
        code = check(d, CONFIG)
        if code:
            return out, (code, index)
        if d.kind != "NOP":
            out.append((d.kind, index, words))
    return out, None


def same(rig: Rig, chip: Chip, programs: list, first: int, error) -> None:
    want, _ = expected(programs, first)
    rig.expect(len(chip.pushed), len(want), "descriptors handed over")
    for got, wanted in zip(chip.pushed, want):
        rig.expect(got, wanted, "a descriptor handed over")
    found = (rig.get("error_code"), rig.get("error_index"), rig.get("error_addr"))
    rig.expect(found, (ERRORS[error[0]], *error[1:]) if error else (0, 0, 0), "error")
    chip.pushed.clear()


async def recover(rig: Rig, chip: Chip) -> None:
    """A queue reset of a stopped chip."""
    await chip.cycle(queue_reset=1)
    await chip.cycle()
    rig.expect([rig.get(n) for n in ("busy", "error", "ring_head", "error_code")], [0, 0, 0, 0], "after a queue reset")
    chip.tail = 0
    await chip.cycle()


async def launches(dut, name: str, log2: int, count: int, stall: float, odd: float):
    """Launches of up to a ring's length, with doorbells while one runs, until one has an error; then a reset."""
    rig = Rig(dut, name)
    r, chip, stopped = rig.random, Chip(rig, log2, stall), 0
    await chip.reset()
    for _ in range(count):
        first = chip.tail
        programs = [draw(r, odd) for _ in range(min(chip.size, near(r, 1, (1, 8, 9, 20, chip.size), 1)))]
        parts = [programs] if r.random() < 0.7 else [programs[: len(programs) // 2], programs[len(programs) // 2 :]]
        for part in parts:
            chip.write(part)
            await chip.ring_the_bell()
            for _ in range(r.randrange(12)):
                await chip.cycle()
        _, error = expected(programs, first)
        last = "irq_error" if error else "irq_done"
        seen = await chip.until("irq_error", last)
        for _ in range(40):  # a launch that is over before the second doorbell is another launch
            await chip.cycle()
        while not error and rig.get("busy"):
            seen = await chip.until("irq_done", "irq_error")
        rig.expect(seen, last, "the end of a launch")
        same(rig, chip, programs, first, error and (*error, 0))
        rig.expect(rig.get("error"), int(bool(error)), "error")
        if error:
            stopped += 1
            await recover(rig, chip)
        else:
            rig.expect(rig.get("ring_head"), chip.tail, "ring_head")
        chip.events = []
    assert stopped if odd else not stopped


@cocotb.test()
async def a_small_ring_wraps(dut):
    await launches(dut, "small ring", 2, scaled(30), 0.3, 0.0)


@cocotb.test()
async def descriptors_at_the_edges(dut):
    await launches(dut, "edges", 5, scaled(160), 0.05, 0.4)


@cocotb.test()
async def a_large_ring(dut):
    await launches(dut, "large ring", 7, scaled(14), 0.3, 0.0)


@cocotb.test()
async def errors_from_elsewhere(dut):
    """A beat of the ring or an engine fails, a fetch is refused: the first error stays, what was fetched before it is
    handed over."""
    rig = Rig(dut, "errors")
    r = rig.random
    for turn in range(scaled(24)):
        chip = Chip(rig, 4, 0.2)
        await chip.reset()
        programs = [draw(r, 0.0) for _ in range(12)]
        chip.write(programs)
        if turn % 3 == 2:
            chip.refuse_from = r.choice((0, 8 * 128))
            want = ("WINDOW", chip.refuse_from // 128, BASE + chip.refuse_from)
            await chip.ring_the_bell()
        elif turn % 3:
            chip.bad_beat = r.randrange(12 * 128 // WORD) * WORD
            want = ("FETCH_BUS", chip.bad_beat // 128, BASE + chip.bad_beat)
            await chip.ring_the_bell()
        else:
            code = r.choice(("READ_BUS", "WRITE_BUS", "TOKEN_OVERFLOW", "SPAD_RANGE"))
            want = (code, r.getrandbits(32), r.getrandbits(40))
            await chip.ring_the_bell()
            for _ in range(r.randrange(30)):
                await chip.cycle()
            await chip.cycle(fail_code=ERRORS[code], fail_index=want[1], fail_addr=want[2])
            await chip.cycle()
            await chip.cycle(fail_code=ERRORS["READ_BUS"], fail_index=7, fail_addr=7)  # too late to be told
        await chip.until("irq_error")
        found = (rig.get("error_code"), rig.get("error_index"), rig.get("error_addr"))
        rig.expect(found, (ERRORS[want[0]], *want[1:]), "error")
        pushed, _ = expected(programs, 0)
        rig.expect(chip.pushed, pushed[: len(chip.pushed)], "descriptors handed over before the error")
        rig.expect((rig.get("halt"), rig.get("busy"), rig.get("error")), (1, 0, 1), "halt, busy, error")
        await recover(rig, chip)


@cocotb.test()
async def doorbells_that_make_no_sense(dut):
    """As the oracle judges them: more than the ring holds."""
    rig = Rig(dut, "doorbells")
    r, machine = rig.random, Machine(CHIP, bytearray(1 << 16))
    for _ in range(scaled(16)):
        chip = Chip(rig, 3, 0.1)
        await chip.reset()
        chip.ring[:] = layout.to_bytes(layout.encode("NOP")) * chip.size
        done = r.randrange(7)
        if done:
            chip.write([layout.encode("NOP")] * done)
            await chip.ring_the_bell()
            await chip.until("irq_done")
        chip.tail = done + near(r, 1, (8, 9, 1 << 16, 1 << 31, 0xFFFFFFFF - done)) & 0xFFFFFFFF
        ahead = chip.tail - done & 0xFFFFFFFF
        legal = ahead <= 8
        if not legal:
            want = machine.launch_ring(0, 8, done, chip.tail).error
        await chip.ring_the_bell()
        seen = await chip.until("irq_done", "irq_error")
        rig.expect(seen, "irq_done" if legal else "irq_error", f"tail {chip.tail:#x} of head {done}")
        if not legal:
            found = (rig.get("error_code"), rig.get("error_index"), rig.get("error_addr"))
            rig.expect(found, (ERRORS[want[0]], *want[1:]), "error")


@cocotb.test()
async def a_reset_while_it_runs(dut):
    """Everything is drained first; then it starts at zero."""
    rig = Rig(dut, "resets")
    r = rig.random
    chip = Chip(rig, 4, 0.3)
    await chip.reset()
    for _ in range(scaled(20)):
        chip.write([draw(r, 0.0) for _ in range(near(r, 1, (1, 8, 15), 1))])
        await chip.ring_the_bell()
        for _ in range(r.randrange(80)):
            await chip.cycle()
        await chip.cycle(queue_reset=1)
        for _ in range(500):
            await chip.cycle()
            if not rig.get("busy") and not rig.get("halt"):
                break
        rig.expect((rig.get("busy"), rig.get("ring_head"), rig.get("error")), (0, 0, 0), "after a reset")
        chip.tail, chip.events, chip.queue = 0, [], []
        chip.pushed.clear()
        programs = [draw(r, 0.0) for _ in range(3)]
        chip.write(programs)
        await chip.ring_the_bell()
        await chip.until("irq_done")
        same(rig, chip, programs, 0, None)


@cocotb.test()
async def a_doorbell_back_to_the_head(dut):
    """Nothing was handed over yet, the engines are idle: it takes back what an earlier doorbell said, an error, not the
    end of the launch."""
    rig = Rig(dut, "back to the head")
    for wait in range(4):
        chip = Chip(rig, 3, 0.0)
        await chip.reset()
        chip.write([layout.encode("NOP")] * 5)
        await chip.ring_the_bell()
        for _ in range(wait):
            await chip.cycle()
        await chip.cycle(ring_tail=0, doorbell=1)
        rig.expect(await chip.until("irq_done", "irq_error", cycles=500), "irq_error", "the end of a launch")
        rig.expect((rig.get("error_code"), rig.get("error_index")), (ERRORS["RING"], 0), "error")


@cocotb.test()
async def launches_that_are_apart(dut):
    """Each has its record, and nothing of the next is fetched before that is written."""
    rig = Rig(dut, "apart")
    r = rig.random
    for _ in range(scaled(12)):
        chip, ends, at_record, over, answered = Chip(rig, 6, 0.2), [], [], 0, False
        await chip.reset()
        rig.set("record", 1)
        rig.set("apart", 1)
        await chip.cycle()
        for _ in range(r.randint(1, 8)):
            chip.write([draw(r, 0.0) for _ in range(r.randrange(8))])
            ends.append(chip.tail)
            await chip.ring_the_bell()
            for _ in range(r.choice((0, 0, 3))):
                await chip.cycle()
        for _ in range(5000):
            answered &= bool(rig.get("recording"))  # it falls behind the answer
            written = rig.get("recording") and not answered and r.random() < 0.2
            if written:
                answered = True
                at_record.append((rig.get("ring_head"), len(chip.fetched)))
            await chip.cycle(record_done=int(written))
            over += chip.events.count("irq_done")
            chip.events = []
            if not rig.get("busy"):
                break
        rig.expect(at_record, [(end, end) for end in ends], "ring_head and what was fetched, when each was recorded")
        rig.expect(over, len(ends), "interrupts")
