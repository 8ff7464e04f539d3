# SPDX-License-Identifier: Apache-2.0
"""A LOAD of what a STORE wrote, one token apart: right on every memory when the STORE is `ordered`; without it, right
only on a memory that is kinder than AXI. commit=b shows the hazard (docs/simulation.md)."""

import pytest
from oracle.layout import config, encode

from bench.rtl import Rtl

FROM, VIA, TO = 0x10000, 0x20000, 0x30000
ROWS = 8


def load(word, address, row, **tokens):
    return encode(
        "LOAD",
        addr_lo=address,
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
        addr_lo=address,
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
