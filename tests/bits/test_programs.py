# SPDX-License-Identifier: Apache-2.0
"""Random descriptor programs: the C twin writes the bytes that oracle.machine writes (where isa.md defines them) and
stops with its errors."""

import ctypes as C
import os
import random
from pathlib import Path

import numpy as np
import pytest

from bits.programs import OUTPUT, ROWS_ZONE, ZONE, program
from oracle.layout import generated, to_bytes
from oracle.machine import Machine

SEED = int(os.environ.get("PRESIL_SEED", "20261121"))
COUNT = int(os.environ.get("PRESIL_PROGRAMS", "200"))
CHIPS = ("tiny", "odd")


class Config(C.Structure):
    _fields_ = [
        ("name", C.c_char_p),
        *(
            (k, C.c_uint32)
            for k in ("lanes", "cells", "word_bytes", "banks", "bank_words", "acc_rows", "clock_mhz", "hash")
        ),
    ]


class Memory(C.Structure):
    _fields_ = [("base", C.c_uint64), ("bytes", C.c_uint64), ("host", C.c_void_p)]


class Error(C.Structure):
    _fields_ = [
        ("code", C.c_int),
        ("index", C.c_uint32),
        ("address", C.c_uint64),
        ("deadlock", C.c_int),
        ("wait_mask", C.c_uint32),
        ("text", C.c_char * 160),
    ]


@pytest.fixture(scope="module")
def twin_library():
    named = os.environ.get("PRESIL_TWIN_LIBRARY")
    found = (
        [Path(named)]
        if named
        else sorted(Path(os.environ.get("PRESIL_BUILD_DIR", "build")).rglob("libpresil_twin_shared.so"))
    )
    if not found:
        pytest.skip("libpresil_twin_shared.so is not built (PRESIL_BUILD_DIR, or PRESIL_TWIN_LIBRARY=FILE)")
    lib = C.CDLL(str(found[0].resolve()))
    lib.presil_twin_create.restype = C.c_void_p
    lib.presil_twin_create.argtypes = [C.POINTER(Config)]
    lib.presil_twin_destroy.argtypes = [C.c_void_p]
    lib.presil_twin_scramble.argtypes = [C.c_void_p, C.c_uint64]
    lib.presil_twin_simd.argtypes = [C.c_void_p, C.c_char_p]
    lib.presil_twin_execute.argtypes = [
        C.c_void_p,
        C.c_char_p,
        C.c_size_t,
        C.POINTER(Memory),
        C.c_void_p,
        C.c_void_p,
        C.POINTER(Error),
    ]
    return lib


def run_twin(lib, chip, one, image, simd):
    """(error or None, DRAM) of a program on the twin."""
    g = generated().CONFIGS[chip]
    twin = lib.presil_twin_create(C.byref(Config(chip.encode(), *(g[k] for k, _ in Config._fields_[1:]))))
    try:
        lib.presil_twin_scramble(twin, one.index + 1)
        if lib.presil_twin_simd(twin, simd.encode()):
            pytest.skip(f"no {simd} here")
        buffer, error = (C.c_char * len(image)).from_buffer(image), Error()
        memory = Memory(0, len(image), C.addressof(buffer))
        status = lib.presil_twin_execute(
            twin,
            b"".join(map(to_bytes, one.descriptors)),
            len(one.descriptors),
            C.byref(memory),
            None,
            None,
            C.byref(error),
        )
        return (error if status else None), image
    finally:
        lib.presil_twin_destroy(twin)


def changed(machine, one):
    """How many defined bytes of the output differ from what was there before."""
    after, before = (np.frombuffer(bytes(d[OUTPUT:]), np.uint8) for d in (machine.memory.dram, one.dram()))
    return int(((after != before) & defined_bytes(machine)[OUTPUT:]).sum())


def defined_bytes(machine):
    return np.frombuffer(bytes(machine.memory.dram_defined), np.uint8) != 0


def run_oracle(one):
    machine = Machine(one.chip, one.dram())
    return machine, machine.launch(one.descriptors, schedule=random.Random(one.index))


def simd_levels():
    """The twin's inner loops that this machine can run."""
    flags = Path("/proc/cpuinfo").read_text() if Path("/proc/cpuinfo").exists() else ""
    return ["generic"] + ["avx2"] * (" avx2" in flags) + ["avx512"] * (" avx512bw" in flags)


@pytest.fixture(scope="module")
def expectations():
    """What the oracle says, computed once for all inner loops."""
    return {chip: [(one, *run_oracle(one)) for one in (program(chip, SEED, i) for i in range(COUNT))] for chip in CHIPS}


@pytest.mark.parametrize("chip", CHIPS)
def test_programs_are_legal(chip, expectations):
    """Nothing hangs, most of what is stored is defined, and each kind of error occurs."""
    stored = rows = 0
    codes = set()
    for one, machine, result in expectations[chip]:
        assert result.hang is None, one.describe()
        if one.broken is None:
            assert result.error is None, (one.describe(), result.error)
            stored += changed(machine, one)
            end = OUTPUT + one.dump_offset + ROWS_ZONE * machine.config.word_bytes
            rows += machine.memory.dram_defined[end - (ROWS_ZONE - ZONE) * machine.config.word_bytes : end].count(1)
        elif result.error:
            assert result.error[1] == one.broken
            codes.add(result.error[0])
    print(f"{chip}: {stored} bytes stored, {rows} of them from epilogues, errors {sorted(codes)}")
    assert stored > 1_000 * COUNT and rows > 100 * COUNT
    assert codes >= {"FIELD", "SPAD_RANGE"} and (COUNT < 200 or codes >= {"VERSION", "READ_BUS", "WRITE_BUS"})


@pytest.mark.parametrize("simd", simd_levels())
@pytest.mark.parametrize("chip", CHIPS)
def test_twin_equals_oracle(chip, simd, twin_library, expectations):
    compared = 0
    for one, machine, result in expectations[chip]:
        error, image = run_twin(twin_library, chip, one, one.dram(), simd)
        if result.error:
            code, index, address = result.error
            assert error and (error.code, error.index) == (generated().ENUMS["ERROR"][code], index), (
                one.describe(),
                result.error,
                error and error.text,
            )
            if code in ("SPAD_RANGE", "READ_BUS"):
                assert error.address == address, (one.describe(), result.error, error.text)
            continue
        assert error is None, (one.describe(), error and error.text)
        want, got = np.frombuffer(bytes(machine.memory.dram), np.uint8), np.frombuffer(bytes(image), np.uint8)
        wrong = np.flatnonzero((want != got) & defined_bytes(machine))
        assert not len(wrong), (
            f"{one.describe()} ({simd}): DRAM byte {wrong[0]:#x} is {got[wrong[0]]:#04x}, expected "
            f"{want[wrong[0]]:#04x}"
        )
        compared += changed(machine, one)
    print(f"{chip} {simd}: {compared} bytes compared")
    assert compared > 1_000 * COUNT
