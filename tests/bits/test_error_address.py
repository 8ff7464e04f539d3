# SPDX-License-Identifier: Apache-2.0
"""ERROR_ADDR in all its bits, of each engine and from far away: RTL, twin and oracle name the same address
(docs/isa.md section 1)."""

import pytest
from bench.twin import Twin
from oracle import layout
from oracle.layout import encode, to_bytes
from oracle.machine import Machine

from bench.rtl import Rtl
from .test_decode import base, unit

DRAM = 64 << 20  # of the simulator; what lies behind answers DECERR
FAR = (0x4000000, 0xFFFFFFC0, 0x100000000, 0x12_3456_78C0, 0xFE_DCBA_9840, 0xFF_FFFF_FF00)


def split(address):
    return dict(addr=address)


def outside_the_scratchpad(c):
    """(kind, fields, byte address of the first word outside)."""
    word, end = c.word_bytes, c.banks * c.bank_words * c.word_bytes
    far = (end, 65535 * word, 65536 * word, 65537 * word, 1 << 31, (1 << 32) - word)
    for at in far:
        yield "LOAD", dict(sp_base=at), at
        yield "LOAD", dict(sp_base=at + 2, conv=1), at
        yield "LOAD", dict(sp_base=0, ss0=at - (1 << 32 if at >> 31 else 0), n0=2), at
        yield "LOAD", dict(transpose=1, sp_base=at), at
        yield "STORE", dict(sp_base=at), at
        yield "STORE", dict(sp_base=at + word - 4, n1=2), at
        yield "EPILOGUE", dict(out_base=at), at
        yield "EPILOGUE", dict(rows=2, out_pitch=at), at
        yield "EPILOGUE", dict(out_type=2, res_en=1, res_type=2, res_base=at), at
        yield "EPILOGUE", dict(out_type=2, res_en=1, res_type=2, rows=2, out_pitch=4 * word, res_pitch=at), at
    if 2 * c.cells > word:  # a row of several words that begins inside
        yield "EPILOGUE", dict(out_base=end - word), end
        yield "EPILOGUE", dict(out_type=2, res_en=1, res_type=2, res_base=end - word), end
    small = unit(c, 1)
    if small < word:
        yield "EPILOGUE", dict(out_type=0, out_base=(1 << 20) + small), (1 << 20) + small & ~(word - 1)
    # words, modulo 2^16
    for at in (c.banks * c.bank_words, 40000, 65535):
        yield "EPILOGUE", dict(bias_en=1, param_base=at), at * word
        yield "MATRIX", dict(wgt_base=at), at * word
        yield "MATRIX", dict(act_base=at), at * word
    words = c.banks * c.bank_words
    yield "MATRIX", dict(act_base=words - 3, lim_y=9, y_stride=3, ny=2, nx=1), words * word
    yield "MATRIX", dict(act_base=5, lim_y=9, y_stride=65533, ny=3, nx=1), 65535 * word  # 5, 2, 65535
    # a window and its weights
    one = dict(depthwise=1, nx=2, ny=2, kx=2, ky=3, dx=1, dy=1, lim_x=9, lim_y=9, x_stride=1, y_stride=7)
    one |= dict(wgt_x_stride=1, wgt_y_stride=2)
    for at in (words, 40000, 65535):
        yield "MATRIX", one | dict(wgt_base=at), at * word
        yield "MATRIX", one | dict(act_base=at), at * word
        yield "MATRIX", one | dict(act_base=min(at + 9, 65535), wgt_base=at - 5), max(words, at - 5) * word
    yield "MATRIX", one | dict(act_base=words - 2, y_stride=65532), words * word  # row by row
    yield "MATRIX", one | dict(act_base=words - 23), words * word  # the last position
    yield "MATRIX", one | dict(act_base=words - 1, sx=2, nx=2, ny=1, kx=1, ky=1), words * word  # of no use
    yield "MATRIX", one | dict(act_base=4, y_stride=0, x_stride=65533), 65534 * word  # 4, 1, 65534


def outside_the_dram(c):
    """(code, kind, fields, address of the beat)."""
    for at in FAR:
        for offset in (0, 5, c.word_bytes - 1):
            beat = at + offset & ~(c.word_bytes - 1)
            yield "READ_BUS", "LOAD", split(at + offset), beat
            yield "WRITE_BUS", "STORE", split(at + offset), beat
    for code, kind, fields, address in (
        ("READ_BUS", "LOAD", dict(split(0x12_0000_0000), pos0=0x7654320, row_bytes=1 << 30), 0x12_0765_4320),
        (
            "READ_BUS",
            "LOAD",
            dict(split(0xFF_FFFF_FFF0), n1=2, ds1=-(1 << 31), row_limit=1, rp0=-1, rp1=1),
            0xFF_7FFF_FFF0,
        ),
        ("WRITE_BUS", "STORE", dict(split(0), n1=2, ds1=-16), 0xFF_FFFF_FFF0),
        ("WRITE_BUS", "STORE", dict(split(0), n2=2, ds2=(1 << 31) - 64), 0x7FFF_FFC0),
    ):
        yield code, kind, fields, address & ~(c.word_bytes - 1)
    # across the end: the first beat that fails
    long = dict(chunk_bytes=4096, word_bytes=c.word_bytes, sw=c.word_bytes)
    yield "READ_BUS", "LOAD", dict(long, **split(DRAM - 1000), row_bytes=4096), DRAM
    yield "WRITE_BUS", "STORE", dict(long, **split(DRAM - 1000)), DRAM


def compared(config):
    """A function that launches a program three ways and compares the errors; ({code: launches}, function)."""
    c, rtl, twin = layout.config(config), Rtl(config), Twin(config)
    machine, dram, seen = Machine(c, bytearray(DRAM)), bytearray(DRAM), {}

    def launch(what, program, expected):
        oracle, two, chip = machine.launch(program), twin.launch(program, dram), rtl.launch(program)
        found = [
            oracle.error and (layout.enum("ERROR", oracle.error[0]), *oracle.error[1:]),
            (two.code, two.index, two.address),
            (chip.code, chip.index, chip.address),
        ]
        wanted = (layout.enum("ERROR", expected[0]), *expected[1:])
        assert found == [wanted] * 3, (what, [f and (*f[:2], hex(f[2])) for f in (wanted, *found)])
        seen[expected[0], what[0]] = seen.get((expected[0], what[0]), 0) + 1

    return c, seen, launch


@pytest.mark.parametrize("config", ["tiny", "odd"])
def test_scratchpad(config):
    c, seen, launch = compared(config)
    for kind, fields, address in outside_the_scratchpad(c):
        program = [encode("NOP"), encode("NOP"), encode(kind, **{**base(kind, c), **fields})]
        launch((kind, fields), program, ("SPAD_RANGE", 2, address))
    assert all(
        seen["SPAD_RANGE", kind] >= n for kind, n in (("LOAD", 24), ("STORE", 12), ("EPILOGUE", 27), ("MATRIX", 21))
    )


@pytest.mark.parametrize("config", ["tiny", "odd"])
def test_bus(config):
    c, seen, launch = compared(config)
    for code, kind, fields, address in outside_the_dram(c):
        launch((kind, fields), [encode("NOP"), encode(kind, **{**base(kind, c), **fields})], (code, 1, address))
    assert seen["READ_BUS", "LOAD"] >= 20 and seen["WRITE_BUS", "STORE"] >= 20


@pytest.mark.parametrize("config", ["tiny", "odd"])
def test_fetch(config):
    rtl, nops, code = Rtl(config), [encode("NOP")] * 40, layout.enum("ERROR", "FETCH_BUS")
    for ring in (DRAM, 0x1234567000, 0xFFFFFFF000):
        rtl.write("RING_BASE_LO", ring & 0xFFFFFFFF)
        rtl.write("RING_BASE_HI", ring >> 32)
        found = rtl.launch(nops)
        assert (found.code, found.index, found.address) == (code, 0, ring)
    rtl.put(DRAM - 4096, to_bytes(nops[0]) * 32)  # 32 descriptors lie in memory
    rtl.write("RING_BASE_LO", DRAM - 4096)
    rtl.write("RING_BASE_HI", 0)
    found = rtl.launch(nops)
    assert (found.code, found.index, found.address) == (code, 32, DRAM)
