# SPDX-License-Identifier: Apache-2.0
"""The hazard sanitizer (docs/hazards.md): a program for each kind, none of the legal random ones, and those that lost a
token."""

import pytest
from oracle import layout

from bench.hazards import hazards
from bench.programs import program

from .draw import FIRST_OF_DAY, SCALE

COUNT = {"tiny": 100, "odd": 50}
CONFIG = layout.config("tiny")
WORD, CELLS = CONFIG.word_bytes, CONFIG.cells


def token(engine, k):
    return 1 << 4 * ("LOAD", "MATRIX", "EPILOGUE", "STORE").index(engine) + k


def load(word=0, words=4, address=0, **more):
    size = words * WORD
    more = dict(row_bytes=size, chunk_bytes=size, word_bytes=WORD, sw=WORD, sp_base=word * WORD, n0=1, n1=1) | more
    return layout.encode("LOAD", **dict(n2=1, n3=1, addr=address, tag=1) | more)


def store(word=0, words=4, address=4096, **more):
    more = dict(chunk_bytes=words * WORD, word_bytes=WORD, sw=WORD, sp_base=word * WORD, n0=1, n1=1, n2=1) | more
    return layout.encode("STORE", **dict(n3=1, addr=address, tag=3) | more)


def matrix(**more):
    one = dict.fromkeys(("nx", "ny", "sx", "sy", "kx", "ky", "ncb", "idx", "idy", "lim_x", "lim_y", "first"), 1)
    return layout.encode("MATRIX", **one | dict(act_base=0, wgt_base=1, tag=2) | more)


def epilogue(**more):
    return layout.encode("EPILOGUE", **dict(rows=1, out_type=3, out_base=64 * WORD, tag=2) | more)


LOADED, READ, SUMMED = token("LOAD", 0), token("STORE", 0), token("MATRIX", 0)
# name: (descriptors, [(kind, command, other, words of the text)])
PROGRAMS = {
    "none": ([load(signal=1), store(wait=LOADED)], []),
    "overlap with a reader": (
        [load(signal=1), store(wait=LOADED), load(2, 1)],
        [("overlap", 2, 1, "overwrites a word in use")],
    ),
    "overlap with a writer": (
        [load(0, 9, signal=1), matrix(wait=LOADED, signal=1), epilogue(wait=SUMMED), load(64, 1)],
        [("overlap", 3, 2, "overwrites a word in use")],
    ),
    "use before load": (
        [load(0, 9), matrix(), epilogue(wait=0)],
        [("use before load", 1, 0, "reads a word too early"), ("use before load", 2, 1, "reads a row too early")],
    ),
    "use of nothing": ([load(0, 3, signal=1), store(wait=LOADED)], [("use before load", 1, None, "never written")]),
    "store before done": ([load(), store()], [("store before done", 1, 0, "reads a word too early")]),
    "load before a store is done": (
        [load(signal=1), store(wait=LOADED, signal=1), load(8, address=4096, wait=READ)],
        [("store before done", 2, 1, '"ordered" is missing')],
    ),
    "ordered": ([load(signal=1), store(wait=LOADED, signal=1, ordered=1), load(8, address=4096, wait=READ)], []),
    "memory overwritten in order": ([load(), load(8, 1, signal=1), store(8, 1, address=32, wait=LOADED)], []),
    "memory overwritten": (
        [load(8, 1, signal=1), load(address=8192), store(8, 1, address=8192 + WORD, wait=LOADED)],
        [("overlap", 2, 1, "overwrites bytes too early")],
    ),
    "outside the scratchpad": (
        [load(CONFIG.banks * CONFIG.bank_words - 2)],
        [("out of bounds", 0, None, "outside the scratchpad")],
    ),
    "outside the accumulators": (
        [load(0, 9, signal=1), matrix(wait=LOADED, nx=CONFIG.acc_rows, acc_base=1, lim_x=1)],
        [("out of bounds", 1, None, "outside the accumulators")],
    ),
    "outside the memory": ([load(address=1 << 16)], [("out of bounds", 0, None, "leave the memory")]),
    "a leak": ([load(signal=3), store(wait=LOADED)], [("leak", 0, None, "token never taken")]),
    "a wait for nothing": ([load(), store(wait=LOADED)], [("leak", 1, None, "tokens that nobody gives")]),
    "illegal": ([load(n1=0), layout.encode("VECTOR")], [("illegal", 0, None, "zero"), ("illegal", 1, None, "opcode")]),
}


def raw(program):
    return b"".join(map(layout.to_bytes, program))


@pytest.mark.parametrize("name", PROGRAMS)
def test_each_kind(name):
    commands, wanted = PROGRAMS[name]
    labels = [f"tiler.c:{100 + k}" for k in range(len(commands))]
    found = sorted(hazards("tiny", raw(commands), labels, (0, 1 << 16)), key=lambda h: h.command)
    assert [(h.kind, h.command, h.other) for h in found] == [w[:3] for w in wanted], [h.text for h in found]
    for h, (kind, command, other, text) in zip(found, wanted):
        assert h.text.startswith(
            f"{labels[command]}: {kind}: descriptor {command} ({layout.decode(commands[command]).kind}"
        )
        assert text in h.text and f"tile {h.tile}" in h.text
        assert other is None or f"descriptor {other} " in h.text and h.text.endswith(f"of {labels[other]}")


def no_report(chip, numbers) -> int:
    """How many of these programs are legal; a report of one of them is a failure."""
    legal = 0
    for number in numbers:
        p = program(chip, number)
        if not p.expected:
            found = hazards(chip, b"".join(p.raw()))
            assert not found, f"{p}: {found[0].text}; the program: replay.py {chip} {number} --show"
            legal += 1
    return legal


@pytest.mark.parametrize("first", [0, FIRST_OF_DAY], ids=["fixed", "of the day"])
@pytest.mark.parametrize("chip", COUNT)
def test_legal_programs_give_no_report(chip, first):
    count = max(20, round(COUNT[chip] * SCALE / 2))
    assert no_report(chip, range(first, first + count)) > count // 3


def without(words, k, bit):
    """Descriptor k without a wait, and the one that gives it, in the same place of its engine's order, without the
    signal."""
    out = [list(w) for w in words]
    engine, nth = ("LOAD", "MATRIX", "EPILOGUE", "STORE")[bit // 4], 0
    for w in out[:k]:
        nth += w[1] >> bit & 1
    out[k][1] &= ~(1 << bit)
    for w in out:
        d = layout.decode(w)
        if d.kind == engine and d.signal >> bit % 4 & 1:
            if nth == 0:
                w[1] &= ~(1 << 24 + bit % 4)
                return out
            nth -= 1
    raise AssertionError("a wait without a signal")


@pytest.mark.parametrize("chip", COUNT)
def test_a_lost_token_is_reported(chip):
    """Nearly all tokens of a random program are needed: a few are drawn for nothing."""
    lost = found = 0
    for number in range(12):
        p = program(chip, number)
        if p.expected:
            continue
        for k, words in enumerate(p.words):
            for bit in range(20):
                if layout.decode(words).wait >> bit & 1:
                    lost += 1
                    found += bool(hazards(chip, raw(without(p.words, k, bit))))
    print(f"{chip}: {found} of {lost} lost tokens reported")
    assert lost > 40 and found > 0.85 * lost
