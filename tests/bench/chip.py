# SPDX-License-Identifier: Apache-2.0
"""A simulator library of Presil's chip below the driver: registers by name, a ring, launches, counters."""

import os
import sys
from dataclasses import dataclass
from pathlib import Path

from oracle import layout

from . import built, kept

sys.path.insert(0, str(built.ROOT / "sim" / "python"))
from presil_transport import HUNG, IRQ, Transport, TransportError  # noqa: E402

__all__ = ["HUNG", "IRQ", "Chip", "Error", "TransportError", "library"]

BUSY, ERROR = 1, 2  # STATUS
DONE_IRQ, ERROR_IRQ = 1, 2  # IRQ_STATUS
QUEUE_RESET, SNAPSHOT, CLEAR = 1, 2, 4  # CONTROL
NAMED_COUNTERS = (
    "cycles read_beats write_beats read_bytes write_bytes descriptors launches fetch_beats matrix_first matrix_last"
).split()


@dataclass(frozen=True)
class Error:
    """The error registers: the code's name, the descriptor's count in the ring, the address."""

    code: str
    index: int
    address: int

    def __str__(self):
        return f"{self.code} at descriptor {self.index}, address {self.address:#x}"


def library(config: str, build: str = "fast") -> Path:
    """A simulator library of this build, or of PRESIL_TEST_BUILD whatever a test asks for; that of `presil regress
    --library` whatever the build."""
    given = os.environ.get("PRESIL_REGRESS_LIBRARY", "")
    if Path(given).name.startswith(f"libpresil_sim_{config}_"):
        return Path(given)
    build = os.environ.get("PRESIL_TEST_BUILD") or build
    return built.library(f"libpresil_sim_{config}_{build}.so")


class Chip(Transport):
    """A transport with the registers of rtl/presil.rdl. `head` counts descriptors as RING_HEAD does."""

    def __init__(self, path, memory_bytes=64 << 20, memory_base=0, seed=1, options=None):
        super().__init__(path, "default", memory_bytes, memory_base, seed, options)
        self.path, self.memory_bytes, self.memory_base = path, memory_bytes, memory_base
        self.model, self.seed = "default", seed
        self.map = layout.registers()
        self.name = self.info().config.decode()
        self.config = layout.config(self.name)
        self.ring, self.ring_log2 = memory_base, 0
        self.start = self.head = 0  # start: of RING_HEAD after a reset
        self.given = kept.Given(self) if kept.folder() else None

    def read32(self, address: int) -> int:
        if self.given:
            self.given.read(address)
        return super().read32(address)

    def write32(self, address: int, value: int) -> None:
        if self.given:
            self.given.seen.clear()
        super().write32(address, value)

    def memory_read(self, address: int, size: int) -> bytes:
        if self.given:
            self.given.seen.clear()
        return super().memory_read(address, size)

    def wait(self, *arguments):
        if self.given:
            self.given.seen.clear()
        return super().wait(*arguments)

    def inject(self, fault: str | None) -> None:
        if self.given:
            self.given.fault = fault or ""
        super().inject(fault)

    def read(self, name: str) -> int:
        return self.read32(self.map.REGISTERS[name])

    def write(self, name: str, value: int) -> None:
        if self.given:
            self.given.write(name, value)
        self.write32(self.map.REGISTERS[name], value)

    def close(self) -> None:
        kept.OPEN.discard(self)
        super().close()

    def reset(self) -> None:
        super().reset()
        if self.given:
            self.given.reset()

    def set_memory_model(self, model: str, seed: int) -> None:
        super().set_memory_model(model, seed)
        self.model, self.seed = model, seed

    def set_ring(self, address: int, log2: int) -> None:
        """Of an idle chip."""
        self.ring, self.ring_log2 = address, log2
        self.write("RING_BASE_LO", address & 0xFFFFFFFF)
        self.write("RING_BASE_HI", address >> 32)
        self.write("RING_LOG2", log2)

    def put(self, descriptors: list[bytes], first: int) -> None:
        """Descriptors of 128 bytes at ring counts first, first + 1, ...; the entries must be free."""
        size = 1 << self.ring_log2
        at = first % size
        while descriptors:
            part = descriptors[: size - at]
            self.memory_write(self.ring + 128 * at, b"".join(part))
            descriptors, at = descriptors[size - at :], 0

    def queue_reset(self, patience: int = 3_000_000) -> None:
        """Idle again, whatever the chip was doing, after at most `patience` cycles.

        What is on its way on the bus has to drain first: of the profiles, `starved` lets a beat pass
        every 32nd cycle and `delayed` holds answers back; both together took more than 100,000 cycles.
        """
        self.write("CONTROL", QUEUE_RESET)
        for _ in range(patience // 100):
            if not self.read("STATUS") & BUSY:
                break
            self.wait(100)
        else:
            raise AssertionError(f"busy {patience} cycles after a queue reset: {self.state()}")
        self.head = self.start

    def error(self) -> Error:
        codes = {v: k for k, v in layout.generated().ENUMS["ERROR"].items()}
        address = self.read("ERROR_ADDR_LO") | self.read("ERROR_ADDR_HI") << 32
        return Error(codes[self.read("ERROR_CODE")], self.read("ERROR_INDEX"), address)

    def counters(self) -> tuple[list[list[int]], dict[str, int]]:
        """(cycles by engine and cause, the others by name) since the last snapshot, and clears them."""
        self.write("CONTROL", SNAPSHOT | CLEAR)
        first = self.map.REGISTERS["COUNTER"]
        words = [self.read32(first + 4 * i) for i in range(2 * 90)]
        values = [words[2 * i] | words[2 * i + 1] << 32 for i in range(90)]
        return [values[16 * e : 16 * e + 16] for e in range(5)], dict(zip(NAMED_COUNTERS, values[80:]))

    def state(self) -> str:
        """What a hang or a surprise is told with. Not what a test looks at."""
        looked_at = list(self.given.seen) if self.given else None
        names = ("STATUS", "IRQ_STATUS", "RING_HEAD", "RING_TAIL", "WAIT_CAUSE")
        waits = [f"WAIT_MASK{i}" for i in range(4)] + [f"WAIT_INDEX{i}" for i in range(4)]
        values = ", ".join(f"{name} {self.read(name):#x}" for name in (*names, *waits))
        text = f"{values}, {self.error()}"
        if self.given:
            self.given.seen[:] = looked_at
        return text
