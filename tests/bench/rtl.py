# SPDX-License-Identifier: Apache-2.0
"""Single launches on a simulator library: lists of descriptors in, error registers out."""

import os
from types import SimpleNamespace

from oracle.layout import generated, to_bytes

from .chip import DONE_IRQ, ERROR_IRQ, IRQ, Chip, library

RING, RING_LOG2 = 0, 10


def wanted_build() -> str:
    """Of a simulator library, where a test has no reason for another: PRESIL_RTL_BUILD (a planted fault), or check."""
    return os.environ.get("PRESIL_RTL_BUILD", "check")


class Rtl:
    """64 MiB of DRAM from address 0 with the ring (1,024 entries) at its beginning. memory_model and seed as in
    docs/simulation.md. build: wanted_build(), unless one is given."""

    def __init__(self, config, build=None, memory_model="ideal"):
        self.chip = Chip(library(config, build or wanted_build()))
        self.chip.set_memory_model(memory_model, 1)
        self.write, self.read = self.chip.write, self.chip.read
        self.put, self.get = self.chip.memory_write, self.chip.memory_read
        self.chip.set_ring(RING, RING_LOG2)
        self.write("IRQ_ENABLE", 3)

    def launch(self, program, deadline=2_000_000):
        """A launch of lists of 32 words from an empty queue. code (0: none), index, address: the error registers; hung:
        neither done nor stopped after `deadline` cycles; cycles: until the interrupt."""
        self.write("CONTROL", 1 | 4)
        self.put(RING, b"".join(map(to_bytes, program)))
        self.chip.launch(1)
        self.write("RING_TAIL", len(program))
        reason, cycles = self.chip.wait(deadline)
        error = self.chip.error()
        code = generated().ENUMS["ERROR"][error.code]
        out = SimpleNamespace(code=code, index=error.index, address=error.address, hung=reason != IRQ, cycles=cycles)
        assert out.hung or self.read("IRQ_STATUS") == (ERROR_IRQ if code else DONE_IRQ)
        self.write("IRQ_CLEAR", 3)
        return out
