# SPDX-License-Identifier: Apache-2.0
"""What the benches of one module share: the clock, what the module says and hears once a cycle, its neighbours.

`Rig.cycle()` waits for a rising edge: `get` then gives what the cycle before it showed, `set` what the next will hear.
A module without a clock answers within the cycle.
What a module should do comes from the Python oracle (tests/oracle).
"""

import os
import random

import cocotb
from cocotb.clock import Clock
from cocotb.triggers import RisingEdge, Timer
from oracle import layout
from oracle.engines import ChipError
from oracle.machine import Memory, check

CHIP = os.environ["PRESIL_CONFIG"]
CONFIG = layout.config(CHIP)
SEED = int(os.environ.get("PRESIL_SEED", "1"))
SCALE = float(os.environ.get("PRESIL_LEAF", "1"))  # how many descriptors, of what CI has
WORD, WORDS = CONFIG.word_bytes, CONFIG.banks * CONFIG.bank_words
ADDRESS_MASK = (1 << 40) - 1
# presil_engine_pkg: status_t, lowest bit and bits of a field; what lies above the descriptor in command_t
STATUS = {"cause": (0, 4), "idle": (4, 1), "active": (5, 1), "done": (6, 1), "ready": (7, 1)}
INDEX_AT, VALID_AT = 1024, 1056
driven: set[str] = set()  # inputs that some test of this simulator has set: they stay as it left them


def ring_count(number: int, first: int = 0xFFFFFFFD) -> int:
    """Of a descriptor: by default it wraps behind the third."""
    return first + number & 0xFFFFFFFF


def scaled(count: int) -> int:
    return max(1, round(SCALE * count))


class Rig:
    """A module under reset until `reset()` is over. name: seeds its randomness."""

    def __init__(self, dut, name: str):
        self.dut, self.held, self.cycles, self.checks = dut, {}, 0, 0
        self.random = random.Random(f"{SEED} {CHIP} {name}")
        dut._log.info("PRESIL_SEED=%d (%s, %s)", SEED, CHIP, name)
        if hasattr(dut, "clk"):
            self.edge = RisingEdge(dut.clk)
            cocotb.start_soon(Clock(dut.clk, 2, "ns").start())
        else:
            self.edge = Timer(2, "ns")

    def get(self, name: str) -> int:
        return int(getattr(self.dut, name).value)

    def set(self, name: str, value: int) -> None:
        if self.held.get(name) != value:
            self.held[name] = value
            driven.add(name)
            getattr(self.dut, name).value = value

    def status(self, field: str) -> int:
        """Of an engine."""
        low, bits = STATUS[field]
        return self.get("status") >> low & (1 << bits) - 1

    def drive(self, **values: int) -> None:
        for name, value in values.items():
            self.set(name, value)

    def put(self, name: str, values: list[int]) -> None:
        """Into an unpacked array."""
        array = getattr(self.dut, name)
        for k, value in enumerate(values):
            if self.held.get((name, k)) != value:
                self.held[name, k] = value
                array[k].value = value

    def offer(self, words: list[int] | None, number: int) -> None:
        """A descriptor and its ring count on `desc`, `index`, `in_valid`; without words: none, and anything there."""
        self.set("desc", self.random.getrandbits(1024) if words is None else layout.join(words))
        self.set("index", self.random.getrandbits(32) if words is None else ring_count(number))
        self.set("in_valid", int(words is not None))

    def take_descriptor(self, name: str) -> list[int]:
        return layout.split(self.get(name))

    def take(self, name: str, count: int) -> list[int]:
        array = getattr(self.dut, name)
        return [int(array[k].value) for k in range(count)]

    async def cycle(self) -> None:
        await self.edge
        self.cycles += 1

    async def reset(self, **inputs) -> None:
        """inputs: their values from then on; what an earlier test left is 0, or its last response would count here."""
        self.drive(**(dict.fromkeys(sorted(driven - {"rst", *self.held}), 0) | inputs))
        self.set("rst", 1)
        for _ in range(3):
            await self.cycle()
        self.set("rst", 0)
        await self.cycle()

    async def short_reset(self) -> None:
        """Of one cycle, the other inputs as they are."""
        self.set("rst", 1)
        await self.cycle()
        self.set("rst", 0)

    def chance(self, probability: float) -> int:
        return int(self.random.random() < probability)

    def expect(self, got, want, what: str) -> None:
        self.checks += 1
        assert got == want, f"{what}: {got}, expected {want} (cycle {self.cycles}, PRESIL_SEED={SEED})"


class Watched(Memory):
    """The oracle's memory, all of it defined, and what a descriptor touched of it."""

    def __init__(self, r, dram_bytes: int = 0, base: int = 0):
        super().__init__(CONFIG, bytearray(r.randbytes(dram_bytes)), base)
        self.spad[:] = r.randbytes(len(self.spad))
        self.spad_defined[:] = b"\1" * len(self.spad)
        self.forget()

    def forget(self):
        self.read, self.written, self.spad_read, self.spad_written = [], {}, 0, set()

    def read_dram(self, address, count):
        self.read.append((address, count))
        return super().read_dram(address, count)

    def write_dram(self, address, content):
        self.written.update((address + k, value) for k, (value, _) in enumerate(content))
        super().write_dram(address, content)

    def read_spad(self, address, count):
        self.spad_read += 1
        return super().read_spad(address, count)

    def write_spad(self, address, content):
        super().write_spad(address, content)
        self.spad_written.update(range(address, address + len(content)))


def executed(kind: str, engine, fields: dict, memory: Watched):
    """Words of a legal descriptor that the oracle has executed on `memory`; None if it breaks a rule or leaves its
    memory (which it may have changed then)."""
    words = layout.encode(kind, **fields)
    d = layout.decode(words)
    if check(d, CONFIG):
        return None
    memory.forget()
    try:
        engine(d, memory)
    except ChipError:
        return None
    return words


def outside(kind: str, engine, draw, memory: Watched):
    """(words, address) of a descriptor that breaks no rule and leaves the scratchpad; draw: gives its fields."""
    while True:
        words = layout.encode(kind, **draw())
        d = layout.decode(words)
        if check(d, CONFIG):
            continue
        try:
            engine(d, memory)
        except ChipError as error:
            if error.code == "SPAD_RANGE":
                return words, error.address


def near(r, unit: int, points, least: int = 0) -> int:
    """A multiple of `unit` at one of the points or beside it."""
    return max(least, r.choice(points) // unit * unit + unit * r.choice((-1, 0, 0, 0, 1)))


class Feeder:
    """Offers descriptors to an engine and counts those that are done. Index of the k-th: first + k."""

    def __init__(self, rig: Rig, programs: list, eager: float, first: int = ring_count(0)):
        self.rig, self.programs, self.eager, self.first = rig, programs, eager, first
        self.given = self.done = 0
        self.offered = False
        rig.set("command", 0)

    def index(self, k: int) -> int:
        return ring_count(k, self.first)

    def number(self, index: int) -> int:
        return index - self.first & 0xFFFFFFFF

    def step(self, may: bool = True) -> bool:
        """True if a descriptor became done in the cycle before."""
        rig = self.rig
        if self.offered and rig.status("ready"):
            self.given += 1
            self.offered = False
        if not self.offered:
            self.offered = may and self.given < len(self.programs) and bool(rig.chance(self.eager))
            if self.offered:
                index, words = self.index(self.given), self.programs[self.given]
                rig.set("command", 1 << VALID_AT | index << INDEX_AT | layout.join(words))
            else:
                rig.set("command", rig.held["command"] & (1 << VALID_AT) - 1)
        if rig.status("done"):
            self.done += 1
            assert self.done <= self.given, f"done without a descriptor (cycle {rig.cycles}, PRESIL_SEED={SEED})"
            return True
        return False

    @property
    def over(self) -> bool:
        return self.done == len(self.programs)


class ReadPort:
    """The scratchpad's side of a read port: grants at random, answers two cycles later."""

    def __init__(self, rig: Rig, name: str, words, ready: float):
        """words: word address → its value."""
        self.rig, self.name, self.words, self.probability = rig, name, words, ready
        self.grants, self.answer = 0, None
        rig.set(f"{name}_ready", 0)
        rig.set(f"{name}_rvalid", 0)

    def step(self) -> int | None:
        """The address that was granted in the cycle before."""
        rig, name, granted = self.rig, self.name, None
        if self.answer is not None:
            rig.set(f"{name}_rdata", self.answer)
        rig.set(f"{name}_rvalid", int(self.answer is not None))
        self.answer = None
        if rig.held[f"{name}_ready"] and rig.get(f"{name}_valid"):
            granted = rig.get(f"{name}_addr")
            self.answer = self.words(granted)
            self.grants += 1
        rig.set(f"{name}_ready", rig.chance(self.probability))
        return granted


class Scratchpad:
    """Bytes, written by words with masks."""

    def __init__(self, content: bytes):
        self.bytes = bytearray(content)

    def word(self, address: int) -> int:
        assert address < WORDS, f"word {address:#x} is outside"
        return int.from_bytes(self.bytes[address * WORD : (address + 1) * WORD], "little")

    def write(self, address: int, data: int, mask: int) -> None:
        assert address < WORDS, f"word {address:#x} is outside"
        raw = data.to_bytes(WORD, "little")
        for k in range(WORD):
            if mask >> k & 1:
                self.bytes[address * WORD + k] = raw[k]


async def run_out(rig: Rig, feeder: Feeder, step) -> None:
    """Cycles of `step` until all descriptors are done and the module is idle."""
    quiet, cycles = 0, scaled(60_000)
    while quiet < 4:
        await rig.cycle()
        step()
        quiet = quiet + 1 if feeder.over and rig.status("idle") else 0
        assert rig.cycles < cycles, (
            f"{feeder.done} of {len(feeder.programs)} done after {cycles} cycles, PRESIL_SEED={SEED}"
        )
    rig.expect(rig.status("active"), 0, "active with nothing to do")
