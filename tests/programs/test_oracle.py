# SPDX-License-Identifier: Apache-2.0
"""A share of the random programs on the Python oracle, which knows what is defined: they break no rule of isa.md, and
every kernel of the twin writes what the oracle writes and stops with its errors."""

import ctypes
import mmap
import random

import numpy as np
import pytest
from oracle import layout
from oracle.machine import Machine
from oracle.sparse import Sparse

from bench.compare import Window
from bench.programs import program, space
from bench.twin import Twin

from .draw import FIRST_OF_DAY, SCALE

COUNTS = {"tiny": 160, "odd": 90, "base": 16}
KERNELS = ("generic", "avx2", "avx512")


@pytest.fixture(scope="module")
def window():
    flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | 0x4000  # MAP_NORESERVE, which Python 3.11 has no name for
    memory = mmap.mmap(-1, space.WINDOW_BYTES, flags=flags)
    return ctypes.addressof(ctypes.c_uint8.from_buffer(memory)), memory


def dram(p, config):
    out, size = Sparse(space.WINDOW_BYTES), space.island_bytes(config)
    for k, index in enumerate(p.images):
        out.write(space.input_island(config, k) - space.WINDOW_BASE, space.image(p.image_seed, index, size))
    return out


def run_oracle(p, config, raw):
    machine = Machine(p.chip, dram(p, config), space.WINDOW_BASE)
    words = [[int.from_bytes(d[i : i + 4], "little") for i in range(0, 128, 4)] for d in raw]
    return machine, machine.launch(words, schedule=random.Random(p.number))


def compare(p, config, machine, islands):
    """Bytes compared."""
    total = 0
    for k, got in enumerate(islands.outputs):
        at = space.output_island(config, k) - space.WINDOW_BASE
        want = np.frombuffer(bytes(machine.memory.dram[at : at + len(got)]), np.uint8)
        defined = np.frombuffer(bytes(machine.memory.dram_defined[at : at + len(got)]), np.uint8) != 0
        wrong = np.flatnonzero((want != got) & defined)
        assert not len(wrong), f"{p}: byte {at + wrong[0]:#x}: twin {got[wrong[0]]:#04x}, oracle {want[wrong[0]]:#04x}"
        assert not (~defined).any(), f"{p}: {(~defined).sum()} stored bytes are undefined"
        total += int((got != 0).sum())
    return total


def kernels(chip):
    return [twin for twin in (Twin(chip, name) for name in KERNELS) if twin.has_simd]


@pytest.mark.parametrize("first", [0, FIRST_OF_DAY], ids=["fixed", "of the day"])
@pytest.mark.parametrize("chip", COUNTS)
def test_twin_equals_oracle(chip, first, window):
    config, (host, _) = layout.config(chip), window
    islands, twins, compared, codes = Window(host, config), kernels(chip), 0, {}
    count = max(6, round(COUNTS[chip] * SCALE / 2))
    for number in range(first, first + count):
        p = program(chip, number)
        fault = p.expected
        broken = bool(fault and fault.changes) or bool(fault and fault.errors and not fault.inject)
        raw = p.raw(broken=broken)
        machine, result = run_oracle(p, config, raw)
        for twin in twins:
            for array, index in zip(islands.inputs, p.images):
                array[:] = np.frombuffer(space.image(p.image_seed, index, len(array)), np.uint8)
            for array in islands.outputs:
                array[:] = 0
            error = twin.execute(b"".join(raw), host, space.WINDOW_BASE, space.WINDOW_BYTES, number)
            if result.error:
                code, index, address = result.error
                want = (layout.enum("ERROR", code), index, address)
                got = (error.code, error.index, error.address)
                assert got == want or broken and fault.kind == "error" and len(fault.errors or ()) > 1, (
                    f"{p}: {error.text}"
                )
                codes[code] = codes.get(code, 0) + 1
            else:
                assert not error.code and bool(error.deadlock) == bool(result.hang), f"{p}: {error.text}, {result.hang}"
                assert bool(result.hang) == bool(fault and fault.kind == "hang"), f"{p}: {result.hang}"
                compared += 0 if result.hang else compare(p, config, machine, islands)
    print(f"{chip} from {first}: {count} programs, {len(twins)} kernel sets, {compared} bytes, {codes}")
    assert compared > 500 * count
