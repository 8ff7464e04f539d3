# SPDX-License-Identifier: Apache-2.0
"""What engines read that another descriptor wrote shortly before.

A LOAD of what a STORE wrote, one token apart: right on every memory when the STORE is `ordered`; without it, right
only on a memory that is kinder than AXI. commit=b shows the hazard (docs/simulation.md). An EPILOGUE that reads what
the one before it writes: right with a token between them, since it reads ahead."""

import pytest
from oracle.layout import config, encode

from bench.rtl import Rtl

FROM, VIA, TO = 0x10000, 0x20000, 0x30000
ROWS = 8


def load(word, address, row, **tokens):
    return encode(
        "LOAD",
        addr=address,
        row_bytes=word,
        chunk_bytes=word,
        n0=1,
        n1=ROWS,
        n2=1,
        n3=1,
        word_bytes=word,
        ds1=word,
        sp_base=row * word,
        sw=word,
        ss1=word,
        **tokens,
    )


def store(word, address, row, **tokens):
    return encode(
        "STORE",
        addr=address,
        chunk_bytes=word,
        n0=1,
        n1=ROWS,
        n2=1,
        n3=1,
        word_bytes=word,
        ds1=word,
        sp_base=row * word,
        sw=word,
        ss1=word,
        **tokens,
    )


def round_trip(chip, ordered):
    """FROM to VIA to TO through the scratchpad: did TO get what was in FROM?"""
    word = config("tiny").word_bytes
    data = bytes(i * 37 % 251 for i in range(ROWS * word))
    chip.put(FROM, data)
    chip.put(VIA, bytes(len(data)))
    chip.put(TO, bytes(len(data)))
    program = [
        load(word, FROM, 0, signal=1 << 3),
        store(word, VIA, 0, wait=1 << 3, signal=1 << 0, ordered=ordered),
        load(word, VIA, 2 * ROWS, wait=1 << 12, signal=1 << 3),
        store(word, TO, 2 * ROWS, wait=1 << 3),
    ]
    done = chip.launch(program)
    assert not done.code and not done.hung and chip.get(VIA, len(data)) == data
    return chip.get(TO, len(data)) == data


@pytest.mark.parametrize(
    "memory", ["default", "commit=b", "commit=b,b=starved", "ideal,commit=b", "response=400,commit=b"]
)
@pytest.mark.parametrize("build", ["fast", "check"])
def test_an_ordered_store_is_there(build, memory):
    chip = Rtl("tiny", build, memory)
    assert round_trip(chip, 1)


def test_the_memory_shows_a_store_that_nobody_waits_for():
    assert round_trip(Rtl("tiny", "fast", "default"), 0), "the default memory has the data of a W beat at once"
    assert not round_trip(Rtl("tiny", "fast", "commit=b"), 0)


def epilogue_chain(chip, token, residual):
    """Bytes that a second EPILOGUE stores after it has read the last row of the first: as parameters or as residual.
    With the sums at 0 and the first one's bias 0x01010101 they are all 1."""
    c = config("tiny")
    word, words, rows = c.word_bytes, 4 * c.cells // c.word_bytes, 30
    chip.put(FROM, bytes([1]) * (2 * words * word) + bytes(2 * words * word))
    one = dict(n0=1, n1=1, n2=1, n3=1, word_bytes=word, sw=word)
    region = (4 + (rows - 1) * words) * word  # the last row of the first epilogue; it begins at word 4
    size = 4 * words * word
    params = dict(addr=FROM, row_bytes=size, chunk_bytes=size, **one)
    out = dict(rows=1, out_type=3, bias_en=1, param_base=region // word, out_base=0)
    if residual:
        out = dict(rows=1, out_type=2, acc_fp32=1, res_en=1, res_type=2, res_base=region, out_base=0)
    program = [
        encode("LOAD", **params, sp_base=2048 * word, signal=1),
        encode("LOAD", **params | dict(addr=VIA), sp_base=region, signal=1 << 1),
        encode("MATRIX", first=1, nx=rows, ny=1, sx=1, sy=1, kx=1, ky=1, ncb=1, idx=1, idy=1, wait=1, signal=1),
        encode(
            "EPILOGUE",
            rows=rows,
            out_type=3,
            bias_en=1,
            param_base=2048,
            out_base=4 * word,
            out_pitch=words * word,
            wait=1 << 4 | 1 << 1,
            signal=1 << 1 if token else 0,
        ),
        encode("EPILOGUE", **out, wait=1 << 9 if token else 0, signal=1 << 2),
        encode("STORE", addr=TO, chunk_bytes=words * word, **one, wait=1 << 10),
    ]
    chip.put(VIA, bytes(size))
    done = chip.launch(program)
    assert not done.code and not done.hung
    return chip.get(TO, words * word)


@pytest.mark.parametrize("residual", [False, True], ids=["parameters", "residual"])
@pytest.mark.parametrize("build", ["fast", "check"])
def test_an_epilogue_reads_what_the_one_before_wrote(build, residual):
    chip = Rtl("tiny", build)
    ones = bytes([1]) * (4 * config("tiny").cells)
    assert epilogue_chain(chip, True, residual) == ones
    assert epilogue_chain(chip, False, residual) != ones, "an epilogue no longer reads ahead: isa.md says it may"
