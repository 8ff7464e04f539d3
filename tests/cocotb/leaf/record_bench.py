# SPDX-License-Identifier: Apache-2.0
"""presil_record alone: records written through a bus that makes it wait, refuses and answers with errors; its two
registers, written at any time (docs/isa.md section 1, "Completion records")."""

import cocotb
from cocotb.triggers import FallingEdge
from oracle import layout
from rig import ADDRESS_MASK, SEED, WORD, Rig, near, scaled

BYTES, FORMAT, COUNTERS = 768, 1, layout.registers().COUNT["COUNTER"]
PAGE, RING = (layout.registers().REGISTERS[name] & 63 for name in ("RECORD_PAGE", "RECORD_RING"))
WRITABLE = {PAGE: 0x1FFFFFFF, RING: 0x1F}
ENABLE, APART = 1 << 28, 1 << 4
STRAY = ("burst_ready", "beat_ready", "response", "bad", "refused")


class Registers:
    """As written, and as they act: the latter follow while the chip is not busy."""

    def __init__(self):
        self.written, self.acting, self.number = {PAGE: 0, RING: 0}, {PAGE: 0, RING: 0}, 0

    def write(self, address: int, data: int, mask: int) -> None:
        if address in WRITABLE:
            mask &= WRITABLE[address]
            self.written[address] = self.written[address] & ~mask | data & mask

    def read(self, address: int) -> int:
        return self.written.get(address, 0) | (self.number << 16 if address == RING else 0)

    @property
    def switches(self) -> tuple[int, int]:
        """(enabled, apart)."""
        enabled = self.acting[PAGE] // ENABLE
        return enabled, enabled & self.acting[RING] // APART

    @property
    def place(self) -> int:
        page, log2 = self.acting[PAGE] % ENABLE, self.acting[RING] % APART
        return (page << 12) + (self.number % (1 << log2) << 10) & ADDRESS_MASK


class Bus:
    """presil_axi_write and STORE's beat register: takes the burst, then its beats, answers; or refuses it.
    ending: "good", "bad" or "refused"."""

    def __init__(self, rig: Rig, stall: float, ending: str):
        self.rig, self.stall, self.ending = rig, stall, ending
        self.begun, self.register, self.bursts, self.beats = rig.cycles, None, [], []
        self.answered, self.held, self.beat_held = False, None, False
        self.drive()

    def drive(self) -> None:
        rig, asked = self.rig, len(self.bursts)
        rig.set("burst_ready", 1 - rig.chance(self.stall))
        owed = asked and self.ending != "refused" and len(self.beats) < BYTES // WORD
        rig.set("beat_ready", int(owed and not rig.chance(self.stall)))
        whole = asked and not self.answered and len(self.beats) == BYTES // WORD
        answer = whole and not rig.chance(self.stall)
        rig.set("response", int(answer))
        rig.set("bad", int(self.ending == "bad" if answer else rig.chance(0.5)))
        refuse = asked and self.ending == "refused" and not self.answered
        rig.set("refused", int(refuse))
        self.answered |= bool(answer or refuse)

    def step(self) -> None:
        """What was offered stays until it is taken; a beat is what the register took last."""
        rig, offer = self.rig, (burst(self.rig) if self.rig.get("burst_valid") else None)
        assert not self.held or offer == self.held, f"a burst that waits changes (cycle {rig.cycles}, {SEED=})"
        taken = offer and rig.held["burst_ready"]
        self.held = None if taken else offer
        self.bursts += [offer] if taken else []
        valid = rig.get("beat_valid")
        refused = self.answered and self.ending == "refused"  # a beat of its is not owed
        assert valid or refused or not self.beat_held, f"a beat that waits goes away (cycle {rig.cycles}, {SEED=})"
        self.beat_held = valid and not rig.held["beat_ready"]
        if valid and rig.held["beat_ready"]:
            self.beats.append(self.register)
        if rig.get("put"):
            self.register = rig.get("beat")
        self.drive()


def burst(rig: Rig) -> tuple[int, int]:
    return rig.get("burst_beat") * WORD, (rig.get("burst_len") + 1) * WORD


class Bench:
    def __init__(self, dut, name: str):
        self.rig, self.registers, self.answer, self.counts = Rig(dut, name), Registers(), None, []
        self.fall = FallingEdge(dut.clk)

    async def reset(self) -> None:
        quiet = ("clean", "req", "req_write", "busy", "recording", "error_code", "error_index", "error_addr", *STRAY)
        await self.rig.reset(**dict.fromkeys(quiet, 0))
        self.registers, self.answer = Registers(), None
        await self.cycle()

    async def cycle(self, address: int | None = None, write: tuple[int, int] | None = None) -> None:
        """address: of a register request, which writes (data, mask) if `write` is given. The counter that is looked at
        answers in the same cycle."""
        rig, r, registers = self.rig, self.rig.random, self.registers
        rig.set("req", int(address is not None))
        rig.set("req_addr", r.randrange(64) if address is None else address)
        rig.set("req_write", int(write is not None) if address is not None else r.getrandbits(1))
        rig.set("req_data", write[0] if write else r.getrandbits(32))
        rig.set("req_mask", write[1] if write else r.getrandbits(32))
        await self.fall
        n = rig.get("counter")
        rig.set("count", self.counts[n] if n < len(self.counts) else r.getrandbits(64))
        await rig.cycle()
        if self.answer is not None:
            rig.expect(rig.get("rdata"), self.answer, "a register")
        self.answer = None if address is None else registers.read(address & 60)
        if write:
            registers.write(address & 60, *write)

    async def quiet(self, cycles: int) -> None:
        """Nothing of a record, whatever the bus does for STORE."""
        rig = self.rig
        for _ in range(cycles):
            for name in STRAY:
                rig.set(name, rig.chance(0.3))
            await self.cycle()
            found = [rig.get(name) for name in ("burst_valid", "beat_valid", "put", "done")]
            rig.expect(found, [0, 0, 0, 0], "a record that nobody wants")
        for name in STRAY:
            rig.set(name, 0)

    async def configure(self, address: int, data: int, mask: int = 0xFFFFFFFF) -> None:
        await self.cycle(address, (data, mask))

    async def launch(self, cycles: int, writes: list) -> None:
        """A launch without its record; writes: (address, data, mask), which must not act."""
        rig, registers = self.rig, self.registers
        await self.cycle()
        await self.cycle()
        registers.acting = dict(registers.written)
        rig.set("busy", 1)
        for k in range(cycles):
            await (self.configure(*writes[k]) if k < len(writes) else self.cycle())
            rig.expect((rig.get("enabled"), rig.get("apart")), registers.switches, "enabled, apart in a launch")

    async def record(self, stall: float, ending: str, error: int = 0) -> tuple[Bus, list[int]]:
        """(the bus, the words that it should have taken); the module is left as behind the record."""
        rig, r = self.rig, self.rig.random
        said = dict(ring_head=r.getrandbits(32), error_code=error, error_index=r.getrandbits(32))
        said["error_addr"] = r.choice((0, ADDRESS_MASK, r.getrandbits(40)))
        self.counts = [r.choice((0, 1, (1 << 64) - 1, r.getrandbits(64))) for _ in range(COUNTERS)]
        rig.drive(**said)
        rig.set("recording", 1)
        bus, done = Bus(rig, stall, ending), False
        for _ in range(4000):
            await self.cycle()
            done = bool(rig.get("done"))
            early = done and not bus.answered
            assert not early, f"done before the answer (cycle {rig.cycles}, {SEED=})"
            bus.step()
            if done:
                break
        assert done, f"no end of a record (cycle {rig.cycles}, {SEED=})"
        rig.set("recording", 0)
        if ending == "good":
            self.registers.number = self.registers.number + 1 & 0xFFFF
        return bus, self.words(said)

    def words(self, said: dict) -> list[int]:
        first = said["error_index"] << 32 | COUNTERS << 16 | FORMAT << 8 | said["error_code"]
        number = self.registers.number
        return [first, said["error_addr"], said["ring_head"], 0, *self.counts, 0, number]

    async def recorded(self, stall: float, ending: str, error: int = 0) -> int:
        """A record and all that there is to see of it. Its cycles."""
        rig, place = self.rig, self.registers.place
        bus, words = await self.record(stall, ending, error)
        cycles = rig.cycles - bus.begun
        rig.expect(bus.bursts, [(place, BYTES)], "bursts of a record")
        if ending == "refused":
            rig.expect(bus.beats, [], "beats of a record that is refused")
        else:
            words[-1] += ending == "bad"
            rig.expect(len(bus.beats) * WORD, BYTES, "bytes of a record")
            whole = sum(beat << 8 * WORD * k for k, beat in enumerate(bus.beats))
            rig.expect([whole >> 64 * k & (1 << 64) - 1 for k in range(BYTES // 8)], words, "a record")
        rig.set("burst_ready", 0)
        await self.quiet(rig.random.choice((0, 1, 5)))
        return cycles


def new_place(r) -> list[tuple[int, int]]:
    page = r.choice((0, 1, (1 << 28) - 2, (1 << 28) - 1, r.getrandbits(28)))
    return [(PAGE, ENABLE | page), (RING, r.choice((0, 1, 2, 3, 4, 15)) | r.choice((0, APART)))]


async def launches(dut, name: str, count: int, stall: float, endings: tuple):
    bench = Bench(dut, name)
    rig, r = bench.rig, bench.rig.random
    await bench.reset()
    numbers = set()
    for _ in range(count):
        for address, data in new_place(r) if r.random() < 0.15 or not numbers else []:
            await bench.configure(address, data)
        late = [(*place, r.choice((0xFFFFFFFF, 0xFFFF, 0xFF))) for place in new_place(r)] if r.random() < 0.2 else []
        await bench.launch(near(r, 1, (3, 8), 3), late)
        numbers.add(bench.registers.number)
        await bench.recorded(stall, r.choice(endings), r.choice((0, 0, r.randrange(1, 13))))
        rig.set("busy", 0)
        if late:  # an enable that is taken away would end it
            await bench.configure(PAGE, ENABLE, ENABLE)
        await bench.cycle(RING)
        if r.random() < 0.05:
            rig.set("clean", 1)
            await bench.cycle()
            rig.set("clean", 0)
            bench.registers.number = 0
        await bench.quiet(r.choice((1, 1, 9)))
    assert max(numbers) > 4, numbers


@cocotb.test()
async def nothing_waits(dut):
    await launches(dut, "nothing waits", scaled(40), 0.0, ("good",))


@cocotb.test()
async def all_wait(dut):
    await launches(dut, "all wait", scaled(40), 0.6, ("good", "good", "good", "bad", "refused"))


@cocotb.test()
async def as_long_as_is_said(dut):
    """On a bus that takes all and answers at once: a cycle for each word, two for each beat (STORE's register and
    the bus), and those of the request, the answer and `done`."""
    bench = Bench(dut, "time")
    await bench.reset()
    await bench.configure(PAGE, ENABLE | 7)
    for _ in range(scaled(3)):
        await bench.launch(3, [])
        cycles = await bench.recorded(0.0, "good")
        bench.rig.expect(cycles, BYTES // 8 + 2 * BYTES // WORD + 3, "cycles of a record")
        bench.rig.set("busy", 0)


@cocotb.test()
async def registers_at_any_time(dut):
    """Any address, data and mask, in launches and between them; without `enable` there is no `apart`."""
    bench = Bench(dut, "registers")
    rig, r = bench.rig, bench.rig.random
    await bench.reset()
    seen = set()
    for _ in range(scaled(150)):
        for _ in range(near(r, 1, (1, 4), 1)):
            mask = r.choice((0xFFFFFFFF, 0xFF, 0xFF000000, r.getrandbits(32)))
            address = r.choice((PAGE, PAGE, RING, RING, r.randrange(64)))
            write = (r.getrandbits(32), mask) if r.random() < 0.7 else None
            await bench.cycle(address, write)
            rig.expect(rig.get("done"), 0, "done")
        if rig.held["busy"]:
            rig.expect((rig.get("enabled"), rig.get("apart")), bench.registers.switches, "enabled, apart in a launch")
            rig.set("busy", 0)
        await bench.cycle()
        await bench.cycle()
        bench.registers.acting = dict(bench.registers.written)
        await bench.cycle()
        switches = rig.get("enabled"), rig.get("apart")
        rig.expect(switches, bench.registers.switches, "enabled, apart between launches")
        seen.add(switches)
        rig.set("busy", int(r.random() < 0.5))
    assert len(seen) == 3, seen
