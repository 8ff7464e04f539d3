# SPDX-License-Identifier: Apache-2.0
"""A simulator library of the chip through its transport, below the driver: lists of descriptors in, error registers
out."""

import ctypes as C
import importlib.util
import os
import sys
from pathlib import Path
from types import SimpleNamespace

from oracle.layout import to_bytes

ROOT = Path(__file__).resolve().parents[2]
ERROR_ADDR_LO, ERROR_ADDR_HI = 0x44, 0x48


def _speed():
    """sim/speed.py: the binding of the transport."""
    if "presil_speed" not in sys.modules:
        spec = importlib.util.spec_from_file_location("presil_speed", ROOT / "sim" / "speed.py")
        sys.modules["presil_speed"] = module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
    return sys.modules["presil_speed"]


class Rtl:
    """64 MiB of DRAM from address 0 with the ring (1,024 entries) at its beginning. memory_model and seed as in
    docs/simulation.md."""

    def __init__(self, config, build="check", memory_model="ideal"):
        self.speed = _speed()
        folder = os.environ.get("PRESIL_LIBRARY_PATH") or Path(os.environ["PRESIL_BUILD_DIR"]) / "lib"
        self.chip = self.speed.Chip(Path(folder).resolve() / f"libpresil_sim_{config}_{build}.so", memory_model)
        self.write, self.read = self.chip.write, self.chip.read
        self.write(self.speed.RING_BASE_LO, self.speed.RING)
        self.write(self.speed.RING_LOG2, self.speed.RING_ENTRIES_LOG2)
        self.write(self.speed.IRQ_ENABLE, 3)

    def put(self, address, data):
        self.chip.memory_write(address, data)

    def get(self, address, count):
        data = C.create_string_buffer(count)
        self.chip.call("mem_read", C.c_uint64(address), data, C.c_uint64(count))
        return data.raw

    def launch(self, program, deadline=2_000_000):
        """A launch of lists of 32 words from an empty queue. code (0: none), index, address: the error registers; hung:
        neither done nor stopped after `deadline` cycles; cycles: until the interrupt."""
        speed = self.speed
        self.write(speed.CONTROL, 1 | 4)
        self.put(speed.RING, b"".join(map(to_bytes, program)))
        self.chip.call("launch", C.c_uint64(1))
        self.write(speed.RING_TAIL, len(program))
        cycles, _, reason = self.chip.wait(deadline)
        out = SimpleNamespace(
            code=self.read(speed.ERROR_CODE),
            index=self.read(speed.ERROR_INDEX),
            address=self.read(ERROR_ADDR_LO) | self.read(ERROR_ADDR_HI) << 32,
            hung=bool(reason),
            cycles=cycles,
        )
        assert out.hung or self.read(speed.IRQ_STATUS) == (2 if out.code else 1)
        self.write(speed.IRQ_CLEAR, 3)
        return out
