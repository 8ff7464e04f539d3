# SPDX-License-Identifier: Apache-2.0
"""States of the command processor, tokens, counters and LOAD that need two things in one cycle: one of them is moved
over the other, cycle by cycle. What comes of it changes once, from one defined outcome to the other."""

import pytest

from bench import chip as chips
from bench.chip import Chip, library

from .test_queue import RING, cheap, done, ring_bell

VECTOR_TOKEN = 1 << 16


@pytest.fixture(params=["tiny", "odd"])
def chip(request):
    with Chip(library(request.param, "check")) as out:
        out.set_memory_model("ideal", 1)
        out.set_ring(RING, 10)
        out.write("IRQ_ENABLE", 3)
        yield out


def outcome(chip, cycles: int) -> tuple[str, int]:
    """Of a launch with interrupts off: (error code, its index)."""
    chip.wait(cycles)
    found = chip.error()
    return found.code, found.index


def one_change(found: list) -> None:
    """The outcomes are two, one after the other."""
    changes = [n for n in range(1, len(found)) if found[n] != found[n - 1]]
    assert len(changes) == 1, found


@pytest.mark.parametrize("engine", ["LOAD", "MATRIX", "EPILOGUE", "STORE"])
def test_a_token_of_vector_never_comes(chip, engine):
    """Nothing gives it: the cause names it, and a queue reset ends it."""
    ring_bell(chip, cheap(engine, wait=VECTOR_TOKEN))
    assert chip.wait(3_000)[0] != chips.IRQ
    number = ("LOAD", "MATRIX", "EPILOGUE", "STORE").index(engine)
    assert chip.read("WAIT_CAUSE") >> 4 * number & 15 == 6, chip.state()
    chip.queue_reset()
    ring_bell(chip, cheap(engine))
    done(chip)


def test_counters_are_read_and_cleared_in_mid_launch(chip):
    """A launch in three parts: each adds up, and so does the whole."""
    chip.set_memory_model("latency=300", 1)
    chip.write("CONTROL", chips.CLEAR)
    ring_bell(chip, *[cheap("LOAD", signal=1), cheap("STORE", wait=1)] * 4)
    parts = []
    for _ in range(3):
        chip.wait(211)
        parts.append(chip.counters())
    done(chip)
    parts.append(chip.counters())
    for causes, others in parts:
        assert {sum(engine) for engine in causes} == {others["cycles"]}
    assert parts[0][1]["launches"] == 1 and sum(p[1]["descriptors"] for p in parts) == 8
    assert parts[1][1]["cycles"] > 211


def test_a_masked_interrupt_waits(chip):
    chip.write("IRQ_ENABLE", 0)
    ring_bell(chip, cheap("NOP"))
    assert chip.wait(500)[0] != chips.IRQ
    assert chip.read("IRQ_STATUS") == chips.DONE_IRQ and not chip.read("STATUS") & chips.BUSY
    chip.write("IRQ_ENABLE", chips.ERROR_IRQ)
    assert chip.wait(10)[0] != chips.IRQ
    chip.write("IRQ_ENABLE", chips.DONE_IRQ)
    assert chip.wait(10)[0] == chips.IRQ


@pytest.mark.parametrize("bad", [False, True], ids=["done", "error"])
def test_an_interrupt_that_is_cleared_as_it_comes_is_kept(chip, bad):
    chip.write("IRQ_ENABLE", 0)
    found = []
    for delay in range(1, 60):  # 0 is no limit
        ring_bell(chip, cheap("NOP", isa=0) if bad else cheap("NOP"))
        chip.wait(delay)
        chip.write("IRQ_CLEAR", 3)
        chip.wait(100)
        found.append(chip.read("IRQ_STATUS"))
        chip.write("IRQ_CLEAR", 3)
        chip.queue_reset()
    one_change(found)
    assert found[0] == (chips.ERROR_IRQ if bad else chips.DONE_IRQ) and found[-1] == 0


def test_a_full_token_counter_is_given_and_taken_at_once(chip):
    """255 tokens; the next is given as one is taken: too late is an overflow, in time is none."""
    chip.write("IRQ_ENABLE", 0)
    found = []
    for latency in range(1, 90):
        # MATRIX gives its 256th when LOAD's data are in, EPILOGUE takes one when STORE is acknowledged.
        chip.set_memory_model(f"ideal,latency={latency},response=50", 1)
        full = [cheap("MATRIX", signal=1)] * 255 + [cheap("NOP")] * 100
        late = [cheap("LOAD", signal=1), cheap("STORE", signal=1, ordered=1), cheap("MATRIX", wait=1, signal=1)]
        ring_bell(chip, *full, *late, cheap("EPILOGUE", wait=1 << 4 | 1 << 12))
        found.append(outcome(chip, 10_000)[0])
        chip.queue_reset()
    one_change(found)
    assert found[0] == "TOKEN_OVERFLOW" and found[-1] == "NONE"


def test_load_is_full(chip):
    """An epilogue writes one bank in every cycle, and eight descriptors of LOAD wait for that bank."""
    word, banks = chip.config.word_bytes, chip.config.banks
    rows, pitch = min(64, chip.config.acc_rows), word * banks
    ring_bell(
        chip,
        *[cheap("LOAD", sp_base=0, signal=4)],
        cheap("EPILOGUE", rows=rows, out_type=0, out_pitch=pitch, wait=1 << 2),
        *[cheap("LOAD", sp_base=(16 + n) * pitch) for n in range(16)],
    )
    done(chip)
    causes, others = chip.counters()
    assert sum(causes[0]) == others["cycles"] and causes[0][8] > 0, "LOAD never waited for the scratchpad"
