# SPDX-License-Identifier: Apache-2.0
"""The C twin against oracle.machine: thousands of random descriptors, every defined byte of DRAM equal; and errors
and deadlocks."""

import pytest
from oracle import layout
from oracle.machine import Machine
from oracle.support import rng

from . import twin_programs as programs
from bench.twin import Twin

KERNELS = ("generic", "avx2", "avx512")
COUNT = {"tiny": 500, "odd": 200, "base": 60}


def compare(machine, twin_dram, what):
    """Number of bytes compared."""
    memory = machine.memory
    assert len(memory.dram) == len(twin_dram)
    for at, (want, got, defined) in (
        enumerate(zip(memory.dram, twin_dram, memory.dram_defined)) if memory.dram != twin_dram else ()
    ):
        assert not defined or want == got, f"{what}: DRAM byte {at:#x}: twin {got:#04x}, oracle {want:#04x}"
    return sum(memory.dram_defined)


@pytest.mark.parametrize("chip", COUNT)
def test_random_programs(chip):
    r, done, compared, undefined = rng(f"twin {chip}"), 0, 0, 0
    twins = [t for t in (Twin(chip, k) for k in KERNELS) if t.has_simd]
    for number in range(COUNT[chip]):
        dram, program = programs.image(r, chip), programs.program(r, chip)
        machine = Machine(chip, bytearray(dram), programs.BASE)
        result = machine.launch(program)
        assert result.error is None and result.hang is None, (number, result)
        for twin in twins:
            mine = bytearray(dram)
            error = twin.launch(program, mine, programs.BASE, number)
            assert not error.code and not error.deadlock, (number, error.text)
            compared += compare(machine, mine, f"{chip} program {number}")
        undefined += len(machine.memory.dram_defined) - sum(machine.memory.dram_defined)
        done += len(program)
    print(f"{chip}: {done} descriptors, {len(twins)} kernel sets, {compared} bytes compared, {undefined} undefined")
    assert done > 8 * COUNT[chip] and undefined * 20 < compared


@pytest.mark.parametrize("chip", ["tiny", "odd"])
def test_broken_programs(chip):
    r, kinds = rng(f"broken {chip}"), {}
    word = layout.config(chip).word_bytes
    with Twin(chip) as twin:
        for number in range(COUNT[chip]):
            dram, program = programs.image(r, chip), programs.broken(r, programs.program(r, chip))
            machine = Machine(chip, bytearray(dram), programs.BASE)
            result = machine.launch(program)
            mine = bytearray(dram)
            error = twin.launch(program, mine, programs.BASE, number)
            what = f"{chip} program {number}: {result.error} {result.hang}; twin: {error.text}"
            assert bool(result.hang) == bool(error.deadlock), what
            if result.error:
                code, index, address = result.error
                # The bus moves whole beats: ERROR_ADDR of a write names the beat.
                assert (layout.enum("ERROR", code), index, address // word) == (
                    error.code,
                    error.index,
                    error.address // word,
                ), what
            else:
                assert error.code == 0, what
            if result.hang is None and result.error is None:
                compare(machine, mine, what)
            kind = result.error[0] if result.error else "hang" if result.hang else "none"
            kinds[kind] = kinds.get(kind, 0) + 1
    print(chip, kinds)
    assert {"OPCODE", "VERSION", "FIELD", "hang", "SPAD_RANGE", "READ_BUS", "WRITE_BUS"} <= kinds.keys()
