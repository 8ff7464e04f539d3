# SPDX-License-Identifier: Apache-2.0
"""presil_top on a cocotbext-axi bench: registers by name, DRAM, descriptors, launches."""

import itertools
import os
import random
import sys

import cocotb
from cocotb.clock import Clock
from cocotb.triggers import ClockCycles, RisingEdge, with_timeout
from cocotbext.axi import AxiBus, AxiLiteBus, AxiLiteMaster, AxiSlave, MemoryRegion

sys.path.insert(0, os.environ["PRESIL_GENERATED"])
import presil_desc  # noqa: E402
import presil_regs  # noqa: E402

CONFIG = presil_desc.CONFIGS[os.environ["PRESIL_CONFIG"]]
ISA_VERSION = presil_desc.ISA_VERSION
WORD = CONFIG["word_bytes"]
SEED = int(os.environ.get("PRESIL_SEED", "1"))
MEMORY_BYTES = 1 << 20
RING, RING_LOG2 = 0x0, 4  # 16 entries at address 0

REGISTERS = presil_regs.REGISTERS
COUNTERS = REGISTERS["COUNTER"]
COUNTER = {
    "cycles": 80,
    "read_beats": 81,
    "write_beats": 82,
    "read_bytes": 83,
    "write_bytes": 84,
    "descriptors": 85,
    "launches": 86,
    "fetch_beats": 87,
    "matrix_first": 88,
    "matrix_last": 89,
}
ERRORS = presil_desc.ENUMS["ERROR"]


def descriptor(kind: str, **fields) -> bytes:
    """128 bytes; fields by name as in rtl/descriptors.json; isa is filled in."""
    whole = 0
    values = {"opcode": presil_desc.OPCODES[kind], "isa": presil_desc.ISA_VERSION, **fields}
    table = {**presil_desc.FIELDS["COMMON"], **presil_desc.FIELDS.get(kind, {})}
    for name, value in values.items():
        word, low, width, signed = table[name]
        assert -(1 << width - 1) * signed <= value < 1 << width, (kind, name, value)
        whole |= (value & (1 << width) - 1) << 32 * word + low
    return whole.to_bytes(4 * presil_desc.WORDS, "little")


class FaultyRegion(MemoryRegion):
    """Memory that answers SLVERR for the bytes in the ranges of `bad`."""

    bad = ()

    def look(self, address, length):
        if any(address < bad.stop and address + length > bad.start for bad in self.bad):
            raise OSError("injected")

    async def read(self, address, length, **kwargs):
        self.look(address, length)
        return await super().read(address, length, **kwargs)

    async def write(self, address, data, **kwargs):
        self.look(address, len(data))
        await super().write(address, data, **kwargs)


def pauses(r: random.Random, probability: float):
    return (r.random() < probability for _ in itertools.count())


class Traffic:
    """What the memory port does: bursts outstanding, by channel and ID, and the most that were so."""

    def __init__(self, dut):
        self.dut, self.out, self.most = dut, {}, {}
        self.watcher = cocotb.start_soon(self.watch())

    def count(self, key, by: int) -> None:
        self.out[key] = self.out.get(key, 0) + by
        assert self.out[key] >= 0, f"an answer that nobody asked for: {key}"
        self.most[key] = max(self.most.get(key, 0), self.out[key])

    def taken(self, channel: str) -> bool:
        return all(getattr(self.dut, f"m_axi_{channel}{n}").value == 1 for n in ("valid", "ready"))

    async def watch(self):
        while True:
            await RisingEdge(self.dut.clk)
            for channel, key, by in (("ar", "r", 1), ("aw", "b", 1), ("r", "r", -1), ("b", "b", -1)):
                if self.taken(channel) and (channel != "r" or self.dut.m_axi_rlast.value == 1):
                    self.count((key, int(getattr(self.dut, f"m_axi_{channel}id").value)), by)

    async def until(self, key, count: int, cycles: int = 3000) -> None:
        """So many bursts of `key` are outstanding."""
        for _ in range(cycles):
            if self.out.get(key, 0) >= count:
                return
            await RisingEdge(self.dut.clk)
        raise AssertionError(f"{key}: {self.most.get(key, 0)} of {count} bursts outstanding after {cycles} cycles")


class Bench:
    """Reset, one chip, its memory and its registers. stall: probability that a channel of the memory pauses in a
    cycle."""

    def __init__(self, dut):
        self.dut = dut
        self.random = random.Random(SEED)
        dut._log.info("PRESIL_SEED=%d", SEED)
        self.registers = AxiLiteMaster(AxiLiteBus.from_prefix(dut, "s_axil"), dut.clk, dut.rst)
        self.memory = FaultyRegion(MEMORY_BYTES)
        self.slave = AxiSlave(AxiBus.from_prefix(dut, "m_axi"), dut.clk, dut.rst, target=self.memory)
        self.tail = 0

    @classmethod
    async def start(cls, dut, stall: float = 0.0) -> "Bench":
        cocotb.start_soon(Clock(dut.clk, 2, "ns").start())
        dut.rst.value = 1
        bench = cls(dut)
        await ClockCycles(dut.clk, 5)
        dut.rst.value = 0
        await ClockCycles(dut.clk, 2)
        if stall:
            for channel in (
                bench.slave.write_if.aw_channel,
                bench.slave.write_if.w_channel,
                bench.slave.write_if.b_channel,
                bench.slave.read_if.ar_channel,
                bench.slave.read_if.r_channel,
            ):
                channel.set_pause_generator(pauses(bench.random, stall))
        await bench.write("RING_BASE_LO", RING)
        await bench.write("RING_BASE_HI", 0)
        await bench.write("RING_LOG2", RING_LOG2)
        await bench.write("IRQ_ENABLE", 3)
        return bench

    async def read(self, register) -> int:
        offset = REGISTERS[register] if isinstance(register, str) else register
        return int.from_bytes((await self.registers.read(offset, 4)).data, "little")

    async def write(self, register: str, value: int) -> None:
        await self.registers.write(REGISTERS[register], value.to_bytes(4, "little"))

    async def write_bytes(self, register: str, at: int, data: bytes) -> None:
        await self.registers.write(REGISTERS[register] + at, data)

    async def counter(self, name) -> int:
        n = COUNTER[name] if isinstance(name, str) else name
        return await self.read(COUNTERS + 8 * n) | await self.read(COUNTERS + 8 * n + 4) << 32

    def store(self, address: int, data: bytes) -> None:
        self.memory[address : address + len(data)] = data

    def load(self, address: int, length: int) -> bytes:
        return bytes(self.memory[address : address + length])

    async def doorbell(self, descriptors: list) -> None:
        """Writes the descriptors into the ring and rings; does not wait."""
        entries = 1 << RING_LOG2
        for d in descriptors:
            self.store(RING + 128 * (self.tail % entries), d)
            self.tail = (self.tail + 1) & 0xFFFFFFFF
        await self.write("RING_TAIL", self.tail)

    async def interrupt(self, microseconds: int = 400) -> int:
        """Waits for the interrupt; IRQ_STATUS, cleared."""
        if not self.dut.irq.value:
            await with_timeout(RisingEdge(self.dut.irq), microseconds, "us")
        status = await self.read("IRQ_STATUS")
        await self.write("IRQ_CLEAR", status)
        await ClockCycles(self.dut.clk, 3)  # the pin is registered
        return status

    async def launch(self, descriptors: list) -> int:
        await self.doorbell(descriptors)
        return await self.interrupt()

    async def queue_reset(self) -> None:
        await self.write("CONTROL", 1)
        await ClockCycles(self.dut.clk, 4)
        self.tail = 0
