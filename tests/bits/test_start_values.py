# SPDX-License-Identifier: Apache-2.0
"""The check build starts every register and memory at random, from the seed: bits, cycles and counters are the same for
every seed, from the first launch on."""

from bench import chip
from fourstate import program
from oracle.layout import to_bytes

SEEDS = 8


def observe(seed):
    """What two launches leave behind: (registers, counters, bytes)."""
    c = chip.Chip(chip.library("tiny", "check"), seed=seed)
    start = c.counters()  # before anything ran
    image = bytes(program.image(1))
    c.memory_write(0, image)
    c.set_ring(0, 6)
    c.write("IRQ_ENABLE", 3)
    seen = [start]
    descriptors = list(map(to_bytes, program.descriptors()))
    for number in (1, 2):
        c.put(descriptors, c.head)
        c.head += len(descriptors)
        c.launch(number)
        c.write("RING_TAIL", c.head)
        reason, cycles = c.wait(100_000)
        assert reason == chip.IRQ, c.state()
        c.write("IRQ_CLEAR", 3)
        out = c.memory_read(program.OUT, program.OUT_WORDS * program.WORD)
        seen.append((cycles, c.counters(), c.state(), out))
    c.close()
    assert out == program.expected(image)
    return seen


def test_no_start_value_shows():
    first = observe(1)
    causes, others = first[0]
    assert not any(map(any, causes)) and not any(others.values())
    assert first[1][1][1]["cycles"] > 100 and first[1][1] == first[2][1]
    for seed in range(2, SEEDS + 1):
        assert observe(seed) == first, f"seed {seed}"
