# SPDX-License-Identifier: Apache-2.0
"""Parity of the memories (docs/isa.md section 1): bits are flipped while a launch runs, and it ends with PARITY, the
descriptor that read and the place; the launch behind a queue reset has the right bits."""

import random

import pytest
from oracle import layout
from oracle.layout import encode
from oracle.machine import Machine

from bench.chip import Chip, library
from bench.rtl import Rtl

from .test_decode import base

IN, OUT, DRAM = 0x20000, 0x80000, 0x100000
WHEN = 500  # in the wait of a program below: what comes before is done, what comes behind has not begun
WAIT = 1024  # words, so cycles at least
SPAD, ACC, LINE = 0, 1, 2  # bits 39:32 of ERROR_ADDR
COUNTERS = ("PARITY_SPAD", "PARITY_ACC", "PARITY_LINE")
C = layout.config("odd")
WORD = C.word_bytes
FILLED = 300  # words of the scratchpad, from 0
ACTIVATIONS, WEIGHTS, PARAMETERS, RESULT = 0, 100, 200, 250
HALF = 1
WINDOW = dict(depthwise=1, nx=2, ny=2, kx=2, ky=5, dx=1, dy=1, lim_x=9, lim_y=9, x_stride=1, y_stride=7)
WINDOW |= dict(wgt_x_stride=1, wgt_y_stride=2, act_base=ACTIVATIONS, wgt_base=WEIGHTS, half=HALF)


def descriptor(kind, **fields):
    return encode(kind, **{**base(kind, C), **fields})


def transfer(kind, word, words, at, **fields):
    of_chunk = dict(chunk_bytes=words * WORD, word_bytes=WORD, sw=WORD, sp_base=word * WORD, addr=at)
    return descriptor(kind, **of_chunk, **({"row_bytes": words * WORD} if kind == "LOAD" else {}), **fields)


FILL = transfer("LOAD", 0, FILLED, IN, signal=1)  # token 0
WAITING = transfer("LOAD", 2000, WAIT, IN, signal=2, wait=1)  # token 0 to token 1
MATRIX = dict(act_base=ACTIVATIONS, wgt_base=WEIGHTS, half=HALF, signal=1, lim_x=9, lim_y=9, x_stride=1, y_stride=7)
EPILOGUE = dict(rows=6, half=HALF, param_base=PARAMETERS, bias_en=1, out_base=RESULT * WORD, out_pitch=3 * WORD)
EPILOGUE |= dict(out_type=3, signal=1)
STORE = transfer("STORE", RESULT, 18, OUT, wait=1 << 8)
# Where the wait is -> a program; tokens 4 and 5 are MATRIX's, 8 EPILOGUE's.
PROGRAMS = {
    "copy": [FILL, WAITING, transfer("STORE", 0, FILLED, OUT, wait=2)],
    "before matrix": [
        FILL,
        WAITING,
        descriptor("MATRIX", **MATRIX, wait=2),
        descriptor("EPILOGUE", **EPILOGUE, wait=1 << 4),
        STORE,
    ],
    "before sum": [
        transfer("LOAD", 0, FILLED, IN, signal=3),
        descriptor("MATRIX", **MATRIX, wait=2),
        WAITING,
        descriptor("MATRIX", **{**MATRIX, "first": 0, "signal": 2}, wait=2 | 1 << 4),
        descriptor("EPILOGUE", **EPILOGUE, wait=1 << 5),
        STORE,
    ],
    "before epilogue": [
        transfer("LOAD", 0, FILLED, IN, signal=3),
        descriptor("MATRIX", **MATRIX, wait=2),
        WAITING,
        descriptor("EPILOGUE", **EPILOGUE, wait=2 | 1 << 4),
        STORE,
    ],
    "before window": [
        FILL,
        WAITING,
        descriptor("MATRIX", **WINDOW, signal=1, wait=2),
        descriptor("EPILOGUE", **{**EPILOGUE, "rows": 4}, wait=1 << 4),
        STORE,
    ],
}


def in_bank(word, bit, array="mem"):
    bits = 8 * WORD if array == "mem" else WORD
    return f"g_bank[{word % C.banks}].u_bank.u_ram.{array}+{word // C.banks * bits + bit}"


def in_half(half, row, bit, array="mem"):
    return f"u_half{half}.{array}+{row * (32 if array == 'mem' else 1) * C.cells + bit}"


def in_line(line, x, bit, array="mem"):
    return f"u_line{line}.{array}+{x * (32 if array == 'mem' else 1) * (C.lanes // 4) + bit}"


PAR = "g_parity.par"
LAST = 8 * WORD - 1
# Program, what is flipped, descriptor, memory and address of the error.
FLIPS = [
    ("copy", in_bank(0, 0), 2, SPAD, 0),
    ("copy", in_bank(0, 0, PAR), 2, SPAD, 0),
    ("copy", in_bank(7, 8), 2, SPAD, 7 * WORD),
    ("copy", in_bank(FILLED - 1, LAST), 2, SPAD, (FILLED - 1) * WORD),
    ("copy", in_bank(FILLED - 2, WORD - 1, PAR), 2, SPAD, (FILLED - 2) * WORD),
    ("before matrix", in_bank(ACTIVATIONS + 14, 3), 2, SPAD, (ACTIVATIONS + 14) * WORD),
    ("before matrix", in_bank(WEIGHTS + 5, 100), 2, SPAD, (WEIGHTS + 5) * WORD),
    ("before matrix", in_bank(PARAMETERS + 1, 64), 3, SPAD, (PARAMETERS + 1) * WORD),
    ("before sum", in_half(HALF, 2, 31), 3, ACC, C.acc_rows + 2),
    ("before sum", in_half(HALF, 5, 32 * C.cells - 1), 3, ACC, C.acc_rows + 5),
    ("before sum", in_half(HALF, 0, 1, PAR), 3, ACC, C.acc_rows),
    ("before epilogue", in_half(HALF, 5, 32), 3, ACC, C.acc_rows + 5),
    ("before epilogue", in_half(HALF, 4, C.cells - 1, PAR), 3, ACC, C.acc_rows + 4),
    ("before window", in_line(1, 0, 0), 2, LINE, 0),
    ("before window", in_line(1, 1, 0, PAR), 2, LINE, 1),
    ("before window", in_line(2, 1, 8 * C.lanes - 1), 2, LINE, 64 + 1),
    ("before window", in_line(2, 0, C.lanes // 4 - 1, PAR), 2, LINE, 64),
    ("before window", in_line(3, 0, 5), 2, LINE, 128),
    ("before window", in_line(4, 1, 8 * C.lanes - 1), 2, LINE, 192 + 1),
    ("before window", in_line(4, 2, 0, PAR), 2, LINE, 192 + 2),
]


class Bench:
    """The chip and the oracle with the same memory."""

    def __init__(self):
        self.rtl = Rtl("odd", "check")
        self.code = layout.enum("ERROR", "PARITY")
        self.image = random.Random(1).randbytes(DRAM)
        self.expected = {}

    def counters(self):
        return [self.rtl.read(name) for name in COUNTERS]

    def launch(self, name, *flips):
        """Error registers, and what is at OUT (0 where that is undefined)."""
        self.rtl.put(0, self.image)
        if flips:
            self.rtl.chip.inject(",".join(f"upset:{flip}@{WHEN}" for flip in flips))
        found = self.rtl.launch(PROGRAMS[name], deadline=50_000)
        assert not found.hung
        self.rtl.chip.inject(None)
        out = self.rtl.get(OUT, FILLED * WORD)
        defined = self.oracle(name)[1]
        return (found.code, found.index, found.address), bytes(b if d else 0 for b, d in zip(out, defined))

    def oracle(self, name):
        """(bytes at OUT, which of them are defined)."""
        if name not in self.expected:
            machine = Machine(C, bytearray(self.image))
            assert machine.launch(PROGRAMS[name]).error is None
            out, defined = (at[OUT : OUT + FILLED * WORD] for at in (machine.memory.dram, machine.memory.dram_defined))
            self.expected[name] = bytes(b if d else 0 for b, d in zip(out, defined)), bytes(defined)
        return self.expected[name]

    def right(self, name):
        return self.oracle(name)[0]


@pytest.fixture(scope="module")
def bench():
    return Bench()


@pytest.fixture(autouse=True)
def zeroed(bench):
    for name in COUNTERS:
        bench.rtl.write(name, 0)


@pytest.mark.parametrize("name", PROGRAMS)
def test_nothing_flipped(bench, name):
    assert bench.launch(name) == ((0, 0, 0), bench.right(name))
    assert bench.counters() == [0, 0, 0]


@pytest.mark.parametrize(("name", "flip", "index", "memory", "address"), FLIPS)
def test_one_bit(bench, name, flip, index, memory, address):
    found, _ = bench.launch(name, flip)
    wanted = (bench.code, index, memory << 32 | address)
    assert found == wanted, [(*f[:2], hex(f[2])) for f in (wanted, found)]
    counters = bench.counters()
    assert [n > 0 for n in counters] == [k == memory for k in range(3)], counters
    assert bench.launch(name) == ((0, 0, 0), bench.right(name)), "behind a queue reset"
    assert bench.counters() == counters, "a queue reset leaves them"


def test_any_bit_of_the_scratchpad(bench):
    r = random.Random(2)
    for n in range(1, 41):
        word, array = r.randrange(FILLED), r.choice(("mem", PAR))
        bit = r.randrange(8 * WORD if array == "mem" else WORD)
        found, _ = bench.launch("copy", in_bank(word, bit, array))
        assert found == (bench.code, 2, word * WORD), (word, bit, array)
        assert bench.counters() == [n, 0, 0]


def test_two_bits_of_a_unit_are_not_seen(bench):
    found, out = bench.launch("copy", in_bank(9, 16), in_bank(9, 23))
    right = bytearray(bench.right("copy"))
    right[9 * WORD + 2] ^= 0x81
    assert (found, out) == ((0, 0, 0), bytes(right)) and bench.counters() == [0, 0, 0]
    found, _ = bench.launch("copy", in_bank(9, 16), in_bank(9, 24))  # of two units
    assert found == (bench.code, 2, 9 * WORD)


def test_what_is_not_read_again_does_no_harm(bench):
    flips = in_bank(FILLED, 4), in_bank(3000, 4), in_half(0, 3, 7), in_half(HALF, 90, 7), in_line(1, 9, 1)
    assert bench.launch("before epilogue", *flips) == ((0, 0, 0), bench.right("before epilogue"))
    # a row that is written before it is read
    assert bench.launch("before matrix", in_half(HALF, 1, 5)) == ((0, 0, 0), bench.right("before matrix"))
    assert bench.counters() == [0, 0, 0]


def test_features():
    for config in ("tiny", "odd", "base"):
        chip = Chip(library(config, "check"))
        assert chip.read("CAP_FEATURES") >> 4 & 1 == layout.config(config).parity
        chip.write("PARITY_SPAD", 7)
        assert [chip.read(name) for name in COUNTERS] == [0, 0, 0]
