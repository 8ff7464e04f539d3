# SPDX-License-Identifier: Apache-2.0
"""What a check is given: the library, and the ways to open it and to run the chip's job."""

import ctypes
from dataclasses import dataclass, field
from pathlib import Path

from . import description as described
from .checks import Failed, Skipped, expect
from .seam import HUNG, IRQ, MAPS, Transport

MEMORY = 4 << 20
BASE = 0x10000000  # not 0: a chip that forgets its base shows
COMMANDS, SOURCE, TARGET = 0x1000, 0x100000, 0x200000  # of BASE
POLL_CYCLES, MOST_CYCLES, SILENCE = 64, 1_000_000, 20_000
NO_INTERRUPT = "; no interrupt came: is its port in the port map? a chip that has none: `done` of the job"


@dataclass
class Context:
    library: Path
    description: described.Description | None = None
    chip: Path | None = None
    notes: list = field(default_factory=list)
    results: dict = field(default_factory=dict)  # what a job that does not copy made of its source

    def open(self, **options) -> "Device":
        return Device(self, **{"memory_bytes": MEMORY, "memory_base": BASE, **options})

    def registers(self) -> dict:
        if not self.description or not self.description.registers:
            raise Skipped("no registers are described: CHIP.conform.toml beside the library, or --description")
        return self.description.registers

    def job(self) -> described.Job:
        if not self.description or not self.description.job:
            raise Skipped("no job is described: [job] of CHIP.conform.toml")
        return self.description.job

    def products(self) -> tuple:
        """(batches, m, k, n) that the description says the chip takes."""
        return self.description.products if self.description else ()

    def target_bytes(self, count: int) -> int:
        """Bytes that a job of `count` bytes of source writes."""
        rule = self.job().target_bytes
        return count if rule is None else described.evaluate(rule, {"bytes": count})

    def result(self, data: bytes) -> bytes:
        """What the job leaves at the target: a copy, or what a device of its own made of it, twice."""
        if self.job().target_bytes is None:
            return data
        if data not in self.results:
            self.results[data] = self._made_of(data)
        return self.results[data]

    def _made_of(self, data: bytes) -> bytes:
        count, found = self.target_bytes(len(data)), []
        with self.open() as device:
            for fill in (b"\x00", b"\xff"):
                device.poke(device.base + SOURCE, data)
                device.poke(device.base + TARGET, fill * count)
                device.start(device.base + SOURCE, device.base + TARGET, len(data))
                expect(device.over(), f"the job of {len(data)} bytes reports a failure")
                found.append(device.peek(device.base + TARGET, count))
        at = next((i for i in range(count) if found[0][i] != found[1][i]), None)
        expect(
            at is None,
            f"the job of {len(data)} bytes, twice: byte {at} of its {count} (target_bytes) is not the same; "
            "it has to write all of them, and the same each time",
        )
        return found[0]


class Device(Transport):
    """A transport, and jobs on it."""

    def __init__(self, context: Context, **options):
        super().__init__(context.library, **options)
        self.context, self.base = context, options["memory_base"]
        self.launches = 0

    def has(self, function: str) -> bool:
        return function in self._calls

    def needs(self, *functions: str) -> None:
        for function in functions:
            if not self.has(function):
                raise Skipped(f"the transport has no {function}()")

    def capable(self, bit: int) -> bool:
        return bool(self.info().capabilities & bit)

    def poke(self, address: int, data: bytes) -> None:
        if self.has("mem_write"):
            self.memory_write(address, data)
        else:
            ctypes.memmove(self.host() + address - self.base, data, len(data))
        if self.has("sync_for_device") and data:
            self.call("sync_for_device", address, len(data))

    def peek(self, address: int, count: int) -> bytes:
        if self.has("sync_for_host") and count:
            self.call("sync_for_host", address, count)
        if self.has("mem_read"):
            return self.memory_read(address, count) if count else b""
        expect(self.capable(MAPS), "no mem_read(), and regions are not mapped")
        return ctypes.string_at(self.host() + address - self.base, count)

    # ---- the job

    def values(self, source: int, target: int, count: int) -> dict:
        return {"source": source, "target": target, "bytes": count, "commands": self.base + COMMANDS}

    def start(self, source: int, target: int, count: int, launch: int = 1) -> None:
        """Up to the doorbell."""
        job, values = self.context.job(), self.values(source, target, count)
        if job.commands:
            self.poke(values["commands"], described.words(job, values))
        if self.has("launch"):
            self.launch(launch)
        for offset, expression in job.writes:
            self.write32(offset, described.evaluate(expression, values) & 0xFFFFFFFF)

    def over(self, most: int = MOST_CYCLES) -> bool:
        """Waits for the job's end; False: it failed. Failed, if there is none."""
        job, spent = self.context.job(), 0
        while spent < most:
            reason, cycles = self.wait(POLL_CYCLES if job.done else most, 0 if job.done else SILENCE)
            spent += max(cycles, 1)
            if reason == HUNG:
                break
            if job.done.holds(self.read32(job.done.offset)) if job.done else reason == IRQ:
                return self._ended()
        raise Failed(f"the job has not ended after {spent} cycles{'' if job.done else NO_INTERRUPT}")

    def _ended(self) -> bool:
        job = self.context.job()
        failed = job.failed and job.failed.holds(self.read32(job.failed.offset))
        for offset, expression in job.clear:
            self.write32(offset, described.evaluate(expression, {}))
        return not failed

    def copy(self, data: bytes, source: int | None = None, target: int | None = None, launch: int = 1) -> int:
        """Runs the job, expects its bytes, and returns its cycles (0 without a clock)."""
        source = self.base + SOURCE if source is None else source
        target = self.base + TARGET if target is None else target
        expected = self.context.result(data)
        self.poke(source, data)
        self.poke(target, bytes(len(expected)))
        self.start(source, target, len(data), launch)
        before = self.cycles() if self.has("cycles") else 0
        expect(self.over(), f"the job of {len(data)} bytes reports a failure")
        after = self.cycles() if self.has("cycles") else 0
        found = self.peek(target, len(expected))
        if found != expected:
            at = next(i for i in range(len(expected)) if found[i] != expected[i])
            raise Failed(
                f"job of {len(data)} bytes from {source:#x} to {target:#x}: byte {at} is {found[at]:#04x}, "
                f"{expected[at]:#04x} expected"
            )
        return after - before


def pattern(count: int, seed: int = 1) -> bytes:
    """Bytes that tell their place."""
    return bytes(((i * 2654435761 + seed * 40503) >> 13) & 0xFF for i in range(count))
