# SPDX-License-Identifier: Apache-2.0
"""Completion records (docs/isa.md section 1): what the registers say of a launch is in memory before its interrupt, of
random programs and of errors; what refuses, delays or fails to take a record; doorbells and resets meanwhile."""

import os
import random
import struct

import pytest
from oracle import layout

from bench import chip as chips
from bench.chip import Error
from bench.compare import Pair, expect
from bench.programs import BATCH, program, space
from bench.rtl import wanted_build

from .draw import FIRST_OF_DAY, SCALE
from .test_queue import DATA, RING, cheap, chip, done, ring_bell

__all__ = ["chip"]
ENABLE, WORDS, STRIDE, COUNTERS, NUMBER = 1 << 28, 96, 1024, 90, 95
APART, MOST = 1 << 4, 8  # launches that wait or run
PAGE = 0x20000  # of 4 KiB: 512 MiB from 0
RECORDS = 0x200_0000  # of a chip of test_queue.py


def place(chip, address, log2=0, enable=ENABLE, apart=0):
    chip.write("RECORD_PAGE", address >> 12 | enable)
    chip.write("RECORD_RING", log2 | apart)


def record(chip, address) -> tuple:
    return struct.unpack(f"<{WORDS}Q", chip.memory_read(address, 8 * WORDS))


def registers(chip) -> list:
    """What a record must say: before the next launch, since the counters are cleared."""
    error = chip.error()
    code = layout.generated().ENUMS["ERROR"][error.code]
    head = [code | 1 << 8 | COUNTERS << 16 | error.index << 32, error.address, chip.read("RING_HEAD"), 0]
    causes, named = chip.counters()
    return [*head, *(n for engine in causes for n in engine), *named.values(), 0]


class Recorded(Pair):
    """With a record of each program, in rings of 1 to 8."""

    base = space.WINDOW_BASE + (PAGE << 12)

    def begin(self, p):
        super().begin(p)
        self.log2 = p.number % 4
        place(self.chip, self.base, self.log2)
        self.count = self.chip.read("RECORD_RING") >> 16
        self.at = self.base + self.count % (1 << self.log2) * STRIDE

    def compare_bytes(self, p, written):
        super().compare_bytes(p, [*written, (self.at, 8 * WORDS)])

    def compare_counters(self, p, cycles):
        found = record(self.chip, self.at)
        counted = dict(zip(chips.NAMED_COUNTERS, found[4 + 80 :]))
        expect(cycles > counted["cycles"] + WORDS, f"{cycles} cycles to the interrupt, {counted} in the record")
        expect(self.chip.read("RECORD_RING") >> 16 == self.count + 1 == found[NUMBER], "one more is written")
        shown, self.chip.counters = self.chip.counters(), lambda: shown
        wanted = registers(self.chip)
        super().compare_counters(p, counted["cycles"])
        del self.chip.counters
        expect(list(found[:NUMBER]) == wanted, f"the record says {found}, the registers {wanted}")


@pytest.mark.parametrize("name", ["tiny", "odd", "base", "wide"])
def test_random_programs(name):
    pair = Recorded(name, wanted_build())
    count = max(1, round({"tiny": 6, "odd": 4}.get(name, 1) * SCALE)) * BATCH
    for first in (0, FIRST_OF_DAY - FIRST_OF_DAY % BATCH):
        pair.start_batch()
        for number in range(first, first + count):
            p = program(name, number)
            if not p.expected:
                pair.run(p)
    assert pair.statistics["programs"] > count // 2, pair.statistics


def launch(chip, *descriptors, cycles=50_000):
    """Behind a queue reset; the reason of the wait."""
    chip.queue_reset()
    chip.counters()
    ring_bell(chip, *descriptors)
    return chip.wait(cycles)[0]


ERRORS = {
    "OPCODE": [cheap("NOP"), cheap("VECTOR")],
    "VERSION": [cheap("LOAD"), cheap("NOP", isa=1)],
    "FIELD": [cheap("LOAD", n0=0)],
    "SPAD_RANGE": [cheap("LOAD", signal=1), cheap("STORE", sp_base=1 << 30, wait=1)],
    "READ_BUS": [cheap("STORE"), cheap("LOAD", addr=0xFF_0000_0000)],
    "WRITE_BUS": [cheap("LOAD"), cheap("STORE", addr=0xFF_0000_0000), *[cheap("STORE")] * 3],
    "TOKEN_OVERFLOW": [cheap("LOAD", signal=1)] * 60,
}


@pytest.mark.parametrize("code", ERRORS)
def test_of_an_error(chip, code):
    place(chip, RECORDS)
    repeats = 5 if code == "TOKEN_OVERFLOW" else 1
    chip.set_ring(RING, 9)
    assert launch(chip, *ERRORS[code] * repeats) == chips.IRQ
    assert chip.read("IRQ_STATUS") == chips.ERROR_IRQ and chip.error().code == code
    assert chip.read("STATUS") & 3 == chips.ERROR
    found = record(chip, RECORDS)
    assert list(found[:NUMBER]) == registers(chip) and found[NUMBER] == 1
    assert launch(chip, cheap("NOP")) == chips.IRQ
    assert record(chip, RECORDS)[0] & 15 == 0


def test_cycles_are_the_same_without(chip):
    program = [cheap("LOAD", signal=1), cheap("STORE", wait=1), cheap("NOP")]
    cycles = []
    for enable in (0, ENABLE, 0):
        place(chip, RECORDS, enable=enable)
        assert launch(chip, *program) == chips.IRQ
        cycles.append(chip.counters())
    assert cycles[0] == cycles[1] == cycles[2] and cycles[0][1]["cycles"] > 20
    assert record(chip, RECORDS)[4 + 80] == cycles[0][1]["cycles"]


def test_a_ring_of_records(chip):
    """Launch after launch without a reset: the third of two overwrites the first; a program adds to the counters."""
    place(chip, RECORDS, log2=1)
    chip.counters()
    for n in range(1, 6):
        ring_bell(chip, *[cheap("NOP")] * n)
        done(chip)
        found = record(chip, RECORDS + (n - 1) % 2 * STRIDE)
        assert found[NUMBER] == n and found[2] == chip.head == n * (n + 1) // 2
        assert found[4 + 85] == chip.head and found[4 + 86] == n
        assert chip.read("RECORD_RING") == n << 16 | 1
    chip.queue_reset()
    assert chip.read("RECORD_RING") == 1
    ring_bell(chip, cheap("NOP"))
    done(chip)
    assert record(chip, RECORDS)[NUMBER] == 1


def test_it_is_switched_while_idle(chip):
    """What is written during a launch acts on the next one."""
    place(chip, RECORDS)
    ring_bell(chip, cheap("LOAD", wait=1 << 4))
    assert chip.wait(500)[0] != chips.IRQ
    place(chip, RECORDS + 0x4000, enable=0)
    assert chip.read("RECORD_PAGE") == RECORDS + 0x4000 >> 12
    ring_bell(chip, cheap("MATRIX", signal=1))
    done(chip)
    assert record(chip, RECORDS)[NUMBER] == 1
    ring_bell(chip, cheap("NOP"))
    done(chip)
    assert not any(record(chip, RECORDS + 0x4000)) and record(chip, RECORDS)[NUMBER] == 1


@pytest.mark.parametrize("program", ["done", "stopped"])
def test_a_record_that_no_window_permits(chip, program):
    for n, (first, flags) in enumerate(((RING, 3), (DATA, 7))):
        chip.write(f"WINDOW{n}_FIRST", first >> 12)
        chip.write(f"WINDOW{n}_LAST", (first >> 12) + 4 | flags << 28)
    place(chip, RECORDS)
    descriptors = [cheap("LOAD", signal=1), cheap("STORE", wait=1), cheap("NOP", isa=2 if program == "done" else 1)]
    assert launch(chip, *descriptors) == chips.IRQ
    assert chip.read("IRQ_STATUS") == chips.ERROR_IRQ and chip.read("STATUS") & 3 == chips.ERROR
    wanted = Error("WINDOW", 3, RECORDS) if program == "done" else Error("VERSION", 2, 0)
    assert chip.error() == wanted and not any(record(chip, RECORDS))
    assert chip.read("RECORD_RING") == 0
    place(chip, DATA + 4096, log2=2)
    assert launch(chip, cheap("NOP")) == chips.IRQ
    assert chip.read("IRQ_STATUS") & chips.DONE_IRQ and record(chip, DATA + 4096)[NUMBER] == 1


@pytest.mark.parametrize("program", ["done", "stopped"])
def test_a_record_outside_the_memory(chip, program):
    at = 0xFE_DCBA_9000
    place(chip, at)
    assert launch(chip, cheap("NOP"), cheap("NOP", isa=2 if program == "done" else 3)) == chips.IRQ
    assert chip.error() == (Error("WRITE_BUS", 2, at) if program == "done" else Error("VERSION", 1, 0))
    assert chip.read("IRQ_STATUS") == chips.ERROR_IRQ and chip.read("RECORD_RING") == 0
    place(chip, RECORDS)
    assert launch(chip, cheap("NOP")) == chips.IRQ
    chip.write("IRQ_CLEAR", chips.ERROR_IRQ)
    assert chip.read("IRQ_STATUS") == chips.DONE_IRQ


def recording(chip, *descriptors, response=3_000):
    """A launch that is over, and whose record is not acknowledged yet."""
    chip.set_memory_model(f"ideal,response={response}", 1)
    place(chip, RECORDS, log2=2)
    ring_bell(chip, *descriptors)
    assert chip.wait(1_000)[0] != chips.IRQ
    assert chip.read("STATUS") == chips.BUSY and chip.read("RING_HEAD") == chip.head


def test_a_silent_bus(chip):
    chip.write("BUS_TIMEOUT", 1500)
    recording(chip, cheap("NOP"), response=9_000)
    assert chip.wait(4_000)[0] == chips.IRQ
    assert chip.error() == Error("BUS_TIMEOUT", 1, RECORDS)
    assert chip.read("STATUS") & 3 == chips.BUSY | chips.ERROR, "busy until the bus has answered"
    chip.write("IRQ_CLEAR", 3)
    chip.wait(9_000)
    assert chip.read("STATUS") & 3 == chips.ERROR
    chip.set_memory_model("ideal", 1)
    assert launch(chip, cheap("NOP")) == chips.IRQ


@pytest.mark.parametrize("more", [["LOAD", "STORE"], ["NOP"]])
def test_a_doorbell_meanwhile_is_a_launch_of_its_own(chip, more):
    chip.counters()
    recording(chip, cheap("LOAD", signal=3))
    ring_bell(chip, *(cheap(kind) for kind in more))
    assert chip.wait(200)[0] != chips.IRQ and chip.read("RING_HEAD") == 1, "nothing begins before the record is there"
    done(chip)
    first = record(chip, RECORDS)
    assert first[NUMBER] == 1 and first[2] == first[4 + 85] == first[4 + 86] == 1
    assert chip.read("STATUS") & chips.BUSY
    assert chip.read("WAIT_TOKENS0") == 0, "tokens are zero at the start of a launch"
    done(chip)
    second = record(chip, RECORDS + STRIDE)
    assert second[NUMBER] == 2 and second[2] == second[4 + 85] == 1 + len(more) and second[4 + 86] == 2
    assert chip.read("STATUS") == 0


def test_a_doorbell_meanwhile_that_makes_no_sense(chip):
    recording(chip, cheap("NOP"))
    chip.write("RING_TAIL", chip.head + 65)
    assert chip.wait(10_000)[0] == chips.IRQ
    assert chip.error() == Error("RING", 1, 0)


def test_a_reset_meanwhile(chip):
    recording(chip, cheap("NOP"), cheap("NOP"))
    chip.queue_reset()
    assert chip.read("IRQ_STATUS") == 0 and chip.read("RING_HEAD") == 0 and chip.read("RECORD_RING") == 2
    assert record(chip, RECORDS)[NUMBER] == 1, "what was under way was written"
    chip.set_memory_model("ideal", 1)
    ring_bell(chip, cheap("NOP"))
    done(chip)
    assert record(chip, RECORDS)[NUMBER] == 1


def draw_launch(r) -> list[bytes]:
    """Transfers that overlap or wait for each other, and tokens that are left over."""
    out = []
    for _ in range(r.choice((0, 1, 1, 2, 3, 6, 12))):
        kind = r.choice(("NOP", "LOAD", "STORE", "MATRIX", "EPILOGUE"))
        more = {} if kind == "NOP" else dict(signal=r.choice((0, 0, 1, 5)))
        if kind in ("LOAD", "STORE"):
            more |= dict(n1=r.choice((1, 1, 3, 9)), ds1=r.choice((64, 4096)), ss1=64)
        out.append(cheap(kind, **more))
    if r.random() < 0.5:
        out += [cheap("LOAD", signal=1), cheap("STORE", wait=1, ordered=r.randrange(2))]
    return out


def counted(found: tuple) -> tuple:
    return found[4 : 4 + COUNTERS]


def alone(chip, launches: list) -> list[tuple]:
    """The counters of each, one at a time."""
    place(chip, RECORDS)
    out = []
    for descriptors in launches:
        assert launch(chip, *descriptors) == chips.IRQ
        chip.write("IRQ_CLEAR", 3)
        out.append(counted(record(chip, RECORDS)))
    chip.queue_reset()
    chip.counters()
    return out


def over(chip, number: int, patience=200) -> None:
    """Waits until so many records are there."""
    for _ in range(patience):
        if chip.read("RECORD_RING") >> 16 >= number:
            return
        chip.wait(1_000)
        chip.write("IRQ_CLEAR", chips.DONE_IRQ)
    raise AssertionError(chip.state())


def test_a_queue_of_launches(chip):
    """Rung at once or as others run, each counts as it does alone, and no token is left of the one before."""
    seed = int(os.environ.get("PRESIL_SEED", "1"))
    print(f"PRESIL_SEED={seed}")
    r = random.Random(f"{chip.name} {seed}")
    launches = [draw_launch(r) for _ in range(60)]
    wanted = alone(chip, launches)
    place(chip, RECORDS, log2=3, apart=APART)
    head, waited = 0, 0
    for n, descriptors in enumerate(launches):
        over(chip, n + 1 - MOST)
        waited += chip.read("STATUS") & chips.BUSY
        ring_bell(chip, *descriptors)
        if r.random() < 0.3:
            chip.wait(r.choice((1, 7, 30, 100, 400)))
            chip.write("IRQ_CLEAR", chips.DONE_IRQ)
        if n % MOST == MOST - 1:
            over(chip, n + 1)
            for k in range(n + 1 - MOST, n + 1):
                found, head = record(chip, RECORDS + k % MOST * STRIDE), head + len(launches[k])
                assert found[NUMBER] == k + 1 and found[0] & 15 == 0 and found[2] == head
                assert counted(found) == wanted[k], f"launch {k}"
    assert waited > 20, "most of them were rung while another ran"
    over(chip, len(launches))
    assert chip.read("STATUS") == 0


def test_a_doorbell_at_any_time_costs_no_cycle(chip):
    """Of the launch behind: in each cycle of a launch, its last among them."""
    program = [cheap("LOAD", signal=1), cheap("STORE", wait=1), cheap("NOP")]
    (wanted,) = alone(chip, [program])
    place(chip, RECORDS, log2=3, apart=APART)
    chip.write("IRQ_ENABLE", 0)
    for delay in range(wanted[80]):
        chip.queue_reset()
        chip.counters()
        ring_bell(chip, *program)
        if delay:
            chip.wait(delay)
        ring_bell(chip, cheap("NOP"))
        over(chip, 2)
        assert counted(record(chip, RECORDS)) == wanted, f"rung {delay} cycles later"


def test_one_launch_too_many_for_the_queue(chip):
    place(chip, RECORDS, log2=3, apart=APART)
    ring_bell(chip, cheap("LOAD", wait=1 << 4))  # for ever
    assert chip.wait(500)[0] != chips.IRQ
    for _ in range(MOST - 1):
        ring_bell(chip, cheap("MATRIX", signal=1))  # a launch of its own: its token is no use
    assert chip.wait(500)[0] != chips.IRQ and chip.read("RING_HEAD") == 1
    ring_bell(chip, cheap("NOP"))
    assert chip.wait(500)[0] == chips.IRQ
    assert chip.error() == Error("RING", 1, 0)
    assert record(chip, RECORDS)[0] & 15 == layout.generated().ENUMS["ERROR"]["RING"]
    chip.queue_reset()
    chip.write("IRQ_CLEAR", 3)
    ring_bell(chip, cheap("NOP"))
    done(chip)
    assert record(chip, RECORDS)[NUMBER] == 1 and chip.read("STATUS") == 0


def test_an_error_in_a_queue(chip):
    """What is before it is done, what is behind it never begins."""
    chip.write("IRQ_ENABLE", 0)  # wait() would end with the first
    place(chip, RECORDS, log2=3, apart=APART)
    for descriptors in ([cheap("NOP")], [cheap("LOAD"), cheap("NOP", isa=1)], [cheap("STORE")]):
        ring_bell(chip, *descriptors)
    for _ in range(50):
        if chip.read("STATUS") & chips.ERROR:
            break
        chip.wait(100)
    assert chip.error() == Error("VERSION", 2, 0) and chip.read("RECORD_RING") >> 16 == 2
    assert chip.read("STATUS") & 3 == chips.ERROR
    assert record(chip, RECORDS)[0] & 15 == 0 and record(chip, RECORDS + STRIDE)[0] >> 32 == 2
    assert chip.read("IRQ_STATUS") == chips.DONE_IRQ | chips.ERROR_IRQ
    chip.queue_reset()
    chip.write("IRQ_ENABLE", 3)
    ring_bell(chip, cheap("STORE"))
    done(chip)
    assert record(chip, RECORDS)[2] == 1, "what waited is forgotten"
