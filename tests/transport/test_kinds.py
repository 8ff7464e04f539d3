# SPDX-License-Identifier: Apache-2.0
"""A chip of the kinds of ports that those of test_ports.py have not: AXI4-Lite of 64 bits and 32 address bits on a slow
clock, a vector of interrupts, two resets, memory ports that lack wires. In SystemC and DPI: nightly_kinds.py."""

import pytest

from .kinds import made
from .test_ports import BASE, ID, SCRATCH, SIZE, WORD, TransportError, Transport, copy

PENDING = 0xDFE0


@pytest.fixture(scope="module")
def library(tmp_path_factory):
    return made(tmp_path_factory.mktemp("lite"), "lite", "plain")


@pytest.fixture
def lite(library):
    with Transport(library, memory_bytes=SIZE, memory_base=BASE, options="monitor=1") as chip:
        chip.properties = {"word": 32, "pending": PENDING, "pulse": 1}
        yield chip


def test_registers_of_64_bits(lite):
    """Either half of a word, at the base of the map; its strobes are those of one half."""
    assert [lite.read32(at) for at in (ID, WORD, SCRATCH)] == [0x504F5254, 32, 0x12345678]
    for at, value in ((SCRATCH, 0xA5A55A5A), (8, 0x11111111), (12, 0x22222222), (16, 5), (20, 6)):
        lite.write32(at, value)
        lite.write32(at ^ 4, lite.read32(at ^ 4))
        assert lite.read32(at) == value, hex(at)
    with pytest.raises(TransportError, match="answered SLVERR"):
        lite.read32(0xE004)
    lite.reset()
    assert lite.read32(SCRATCH) == 0x12345678


def test_the_same_cycles_whatever_was_before(lite):
    taken = [[copy(lite, launch, beats, 3) for launch, beats in ((1, 16), (2, 1))] for _ in range(3)]
    assert all(right for runs in taken for _, right in runs)
    assert len({tuple(cycles for cycles, _ in runs) for runs in taken}) == 1


def test_a_vector_of_interrupts(lite):
    """Bits in the order of the map: the pulse, then those of the vector, of which 1 is done."""
    assert lite.read32(PENDING) == 0
    for register, value in ((8, BASE), (12, BASE + 4096), (16, 1), (20, 1), (24, 1)):
        lite.write32(register, value)
    lite.wait(10000)
    lite.wait(100)
    assert lite.read32(PENDING) == 0b101
    lite.write32(PENDING, 1)
    assert lite.read32(PENDING) == 0b100
    lite.write32(28, 2)
    assert lite.read32(PENDING) == 0
