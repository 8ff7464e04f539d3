# SPDX-License-Identifier: Apache-2.0
"""Registers that random programs only read at the end: interrupts, what each engine waits for, snapshots."""

import pytest
from oracle import layout

from bench import chip as chips

from .test_queue import cheap, chip, done, ring_bell

ENGINES = ("LOAD", "MATRIX", "EPILOGUE", "STORE")
__all__ = ["chip"]


@pytest.mark.parametrize("enable", range(4))
def test_interrupt_enable(chip, enable):
    chip.write("IRQ_ENABLE", enable)
    for name, descriptor, bit in (
        ("done", cheap("NOP"), chips.DONE_IRQ),
        ("error", cheap("NOP", isa=1), chips.ERROR_IRQ),
    ):
        ring_bell(chip, descriptor)
        reason, _ = chip.wait(2_000)
        assert (reason == chips.IRQ) == bool(enable & bit), name
        assert chip.read("IRQ_STATUS") == bit
        chip.write("IRQ_CLEAR", bit ^ 3)
        assert chip.read("IRQ_STATUS") == bit, "the other one's clear"
        chip.write("IRQ_CLEAR", bit)
        assert chip.read("IRQ_STATUS") == 0 and chip.wait(50)[0] != chips.IRQ


@pytest.mark.parametrize("owner", ENGINES)
@pytest.mark.parametrize("engine", ENGINES)
def test_what_an_engine_waits_for(chip, engine, owner):
    """WAIT_CAUSE, WAIT_MASK, WAIT_INDEX and WAIT_TOKENS of a descriptor that waits for two engines' tokens, and the
    cause that its cycles are charged to: the lowest that is missing."""
    e, o = ENGINES.index(engine), ENGINES.index(owner)
    mask = 1 << 4 * o + 3 | 1 << 15 | 1 << 14
    chip.counters()
    ring_bell(chip, cheap("NOP"), cheap(engine, wait=mask))
    assert chip.wait(1_000)[0] != chips.IRQ
    cause = layout.enum("CAUSE", f"WAIT_{owner}")
    assert chip.read("WAIT_CAUSE") >> 4 * e & 15 == cause
    assert [chip.read(f"WAIT_MASK{i}") for i in range(5)] == [mask if i == e else 0 for i in range(5)]
    assert chip.read(f"WAIT_INDEX{e}") == 1
    assert chip.read("STATUS") == chips.BUSY, "nobody is active"
    before = chip.counters()[0]
    assert chip.wait(500)[0] != chips.IRQ
    after, named = chip.counters()
    assert before[e][cause] > 900 and after[e][cause] == named["cycles"] >= 500
    for i in range(5):
        if i != e:
            assert after[i][layout.enum("CAUSE", "COMMAND")] == named["cycles"]
    chip.queue_reset()


BUS = {
    "LOAD": ("latency=900", "BUS_DATA"),
    "STORE": ("latency=1,response=900", "BUS_RESPONSE"),
    "LOAD ar": ("ideal,ar=starved", "BUS_REQUEST"),
    "STORE aw": ("ideal,aw=starved", "BUS_REQUEST"),
    "STORE w": ("ideal,w=starved", "BUS_DATA"),
}


@pytest.mark.parametrize("what", BUS)
def test_what_the_bus_does_to_an_engine(chip, what):
    """The time that a slow bus takes is charged to the right cause of the right engine."""
    model, name = BUS[what]
    engine = what.split()[0]
    e, cause, busy = ENGINES.index(engine), layout.enum("CAUSE", name), layout.enum("CAUSE", "COMMAND")
    word = chip.config.word_bytes
    many = dict(n1=24, ds1=4096, ss1=word, chunk_bytes=4 * word, word_bytes=word, sw=word, row_bytes=4 * word)
    if engine == "STORE":
        many.pop("row_bytes")
    chip.counters()
    chip.set_memory_model(model, 3)
    ring_bell(chip, cheap(engine, **(many if " " in what else {}), **({"ordered": 1} if engine == "STORE" else {})))
    reached = chip.wait(60)
    assert reached[0] != chips.IRQ
    if " " not in what:
        chip.wait(800 if engine == "STORE" else 950)
        assert chip.read("STATUS") & 0xFF00 == 1 << 8 + e, f"STATUS {chip.read('STATUS'):#x}"
        assert chip.read("WAIT_CAUSE") >> 4 * e & 15 == cause
    done(chip, 50_000)
    causes, named = chip.counters()
    working = named["cycles"] - causes[e][busy]
    assert causes[e][cause] > 0.6 * working, f"{engine} {causes[e]}"


def test_snapshot_and_clear(chip):
    """A snapshot stays while the chip goes on; a clear without a snapshot does not show; both together show the
    last."""
    first = chip.map.REGISTERS["COUNTER"]

    def descriptors():
        return chip.read32(first + 8 * 85)

    chip.write("CONTROL", chips.SNAPSHOT | chips.CLEAR)
    ring_bell(chip, *[cheap("NOP")] * 5)
    done(chip)
    chip.write("CONTROL", chips.SNAPSHOT)
    assert descriptors() == 5
    ring_bell(chip, *[cheap("NOP")] * 3)
    done(chip)
    assert descriptors() == 5
    chip.write("CONTROL", chips.SNAPSHOT)
    assert descriptors() == 8
    chip.write("CONTROL", chips.CLEAR)
    assert descriptors() == 8
    chip.write("CONTROL", chips.SNAPSHOT | chips.CLEAR)
    assert descriptors() == 0
    ring_bell(chip, *[cheap("NOP")] * 2)
    done(chip)
    chip.queue_reset()
    chip.write("CONTROL", chips.SNAPSHOT | chips.CLEAR)
    assert descriptors() == 2
    causes, named = chip.counters()
    assert not any(map(sum, causes)) and not named["cycles"] and not named["launches"]


def test_what_a_clear_cuts_is_counted_once(chip):
    """Wherever in a launch a snapshot and a clear come, both parts together are the launch, LOAD and STORE taking a
    beat in nearly every cycle."""
    word = chip.config.word_bytes
    load = dict(n1=24, ds1=4096, ss1=word, chunk_bytes=4 * word, word_bytes=word, sw=word, row_bytes=4 * word)
    store = dict(n1=60, ds1=2 * word, ss1=word, chunk_bytes=word - 1, word_bytes=word, sw=word)

    def counted(cut: int | None) -> dict:
        chip.counters()
        ring_bell(chip, cheap("LOAD", **load), cheap("STORE", **store))
        parts = []
        if cut is not None:
            assert chip.wait(cut)[0] != chips.IRQ
            parts.append(chip.counters())
        done(chip)
        parts.append(chip.counters())
        sums = {name: sum(p[1][name] for p in parts) for name in parts[0][1] if not name.startswith("matrix_")}
        return sums | {"causes": [[sum(n) for n in zip(*rows)] for rows in zip(*(p[0] for p in parts))]}

    whole = counted(None)
    assert whole["read_beats"] >= 96 and whole["write_bytes"] == 60 * (word - 1)
    for cut in range(30, 110):
        assert counted(cut) == whole, cut


def test_what_the_chip_is(chip):
    c = chip.config
    assert chip.read("CAP_ARRAY") == c.cells << 16 | c.lanes
    assert chip.read("CAP_MEMORY") == c.banks << 16 | c.word_bytes
    assert chip.read("CAP_BANK") == c.bank_words and chip.read("CAP_ACC") == c.acc_rows


def test_chunks_side_by_side_are_one_row(chip):
    """Long chunks that overlap are read one by one; those that only meet are read once, also the beat they share."""
    word = chip.config.word_bytes
    chunk = 15 * word + 4
    ring_bell(chip, cheap("LOAD", chunk_bytes=chunk, n0=2, step0=chunk, row_bytes=2 * chunk, word_bytes=word, sw=word))
    done(chip)
    named = chip.counters()[1]
    assert named["read_beats"] == -(-2 * chunk // word)


def test_both_halves_of_a_word_take_as_long(chip):
    """A conversion's words to the second halves of scratchpad words are a piece each, as those to the first ones."""
    word, taken = chip.config.word_bytes, []
    for half in (0, word // 2):
        chip.counters()
        row = dict(chunk_bytes=64 * word, row_bytes=64 * word, word_bytes=word, sw=word, sp_base=half)
        ring_bell(chip, cheap("LOAD", **row, conv=1))
        done(chip)
        taken.append(chip.counters()[1]["cycles"])
    assert taken[0] == taken[1]
