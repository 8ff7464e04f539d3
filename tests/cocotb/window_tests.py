# SPDX-License-Identifier: Apache-2.0
"""cocotb tests of presil_top: DMA windows. Run by test_cocotb.py."""

import cocotb
from chip_bench import ERRORS, REGISTERS, RING, RING_LOG2, WORD, Bench, Traffic, descriptor
from chip_tests import SOURCE, TARGET, copy_pair, recovers, rows_apart
from cocotb.triggers import ClockCycles, RisingEdge

PAGE = 4096
ENABLE, READ, WRITE = 1 << 28, 1 << 29, 1 << 30
BOTH = ENABLE | READ | WRITE
WINDOWS = range(4)


async def window(b, n: int, first: int, last: int, flags: int) -> None:
    await b.write(f"WINDOW{n}_FIRST", first)
    await b.write(f"WINDOW{n}_LAST", last | flags)


async def contents(b) -> list[int]:
    return [await b.read(f"WINDOW{n}_{what}") for n in WINDOWS for what in ("FIRST", "LAST")]


class Offers:
    """Pages that the memory port offers an address of, taken or not: (channel, page)."""

    def __init__(self, dut):
        self.dut, self.seen = dut, set()
        cocotb.start_soon(self.watch())

    async def watch(self):
        while True:
            await RisingEdge(self.dut.clk)
            for channel in ("ar", "aw"):
                if getattr(self.dut, f"m_axi_{channel}valid").value == 1:
                    self.seen.add((channel, int(getattr(self.dut, f"m_axi_{channel}addr").value) // PAGE))


async def refused(b, offers, program, index: int, address: int) -> None:
    """The launch ends with error WINDOW, and nothing is outstanding then."""
    offers.seen.clear()
    traffic = Traffic(b.dut)
    assert await b.launch(program) == 2
    assert not any(traffic.out.values()), f"told while {traffic.out} were outstanding"
    assert await b.read("STATUS") & 3 == 2
    found = await b.read("ERROR_ADDR_LO") | await b.read("ERROR_ADDR_HI") << 32
    assert await b.read("ERROR_CODE") == ERRORS["WINDOW"], await b.read("ERROR_CODE")
    assert (await b.read("ERROR_INDEX"), found) == (index, address), (await b.read("ERROR_INDEX"), hex(found))
    await ClockCycles(b.dut.clk, 30)
    assert not any(traffic.out.values()), "it goes on behind an error"
    traffic.watcher.cancel()
    await b.queue_reset()
    assert await b.read("STATUS") == 0 and await b.read("ERROR_CODE") == 0


async def edges(dut, stall: float) -> None:
    """A window of pages 0x20 to 0x23, beside one for the ring; a row in its first and last page, in those beside it,
    and far away with the same low bits."""
    b = await Bench.start(dut, stall)
    offers = Offers(dut)
    first, last = 0x20, 0x23
    await window(b, 0, RING // PAGE, RING // PAGE, ENABLE | READ)
    inside = [first * PAGE, first * PAGE + 5, (last + 1) * PAGE - WORD]
    far = [first * PAGE + (1 << bit) for bit in (18, 28, 31, 32, 39)]
    outside = [first * PAGE - WORD, (last + 1) * PAGE, *far]
    for kind, permit, channel in (("LOAD", READ, "ar"), ("STORE", WRITE, "aw")):
        for address in inside + outside:
            shape = dict(addr=address, **({"row_bytes": WORD} if kind == "LOAD" else {}))
            shape |= dict(chunk_bytes=WORD, n0=1, n1=1, n2=1, n3=1, word_bytes=WORD, sp_base=0, sw=WORD)
            program = [descriptor("NOP"), descriptor(kind, **shape)]
            beat = address & ~(WORD - 1)
            for flags in (ENABLE | permit, BOTH ^ permit, ENABLE):
                await window(b, 3, first, last, flags)
                if address in inside and flags & permit:
                    offers.seen.clear()
                    assert await b.launch(program) == 1
                    assert (channel, address // PAGE) in offers.seen
                    await b.queue_reset()
                else:
                    await refused(b, offers, program, 1, beat)
                    assert offers.seen == {("ar", RING // PAGE)}, offers.seen
    for n in WINDOWS:
        await window(b, n, 0, 0xFFFFFFF, BOTH)
    await recovers(b)


@cocotb.test()
async def only_what_lies_in_a_window_is_offered(dut):
    await edges(dut, 0.0)


@cocotb.test()
async def only_what_lies_in_a_window_is_offered_under_random_stalls(dut):
    await edges(dut, 0.3)


@cocotb.test()
@cocotb.parametrize(stall=[0.0, 0.4])
async def a_burst_that_leaves_the_windows_ends_the_launch(dut, stall):
    """Rows that begin inside and go on outside: what lies inside is moved, the first page outside is told. Two windows
    that touch are as good as one."""
    b = await Bench.start(dut, stall)
    offers = Offers(dut)
    data = bytes(b.random.getrandbits(8) for _ in range(2 * PAGE))
    first, half = 0x30, TARGET // PAGE
    await window(b, 0, RING // PAGE, RING // PAGE, ENABLE | READ)
    await window(b, 1, first, first, ENABLE | READ)
    await window(b, 2, first + 1, first + 1, BOTH)
    await window(b, 3, half, half + 1, ENABLE | WRITE)
    for begin in (0, 1, PAGE - WORD):
        at, to = first * PAGE + begin, half * PAGE + begin
        b.store(at, data)
        chunk = 2 * PAGE - begin
        chunk -= chunk % WORD
        assert await b.launch(copy_pair(at, to, chunk, 1, chunk)) == 1
        assert b.load(to, chunk) == data[:chunk]
        await b.queue_reset()
        long = 2 * PAGE - begin + 3
        await refused(b, offers, copy_pair(at, to, long, 1, long), 0, (first + 2) * PAGE)
        assert offers.seen == {("ar", p) for p in (RING // PAGE, first, first + 1)}
        behind = b.load(to + PAGE - begin + PAGE, PAGE)
        further = to + PAGE  # the store alone leaves, behind another's bursts
        two = copy_pair(at, to, chunk, 1, chunk) + copy_pair(at, further, chunk, 1, chunk)
        await refused(b, offers, two, 3, (half + 2) * PAGE)
        await refused(b, offers, copy_pair(at, further, chunk, 1, chunk), 1, (half + 2) * PAGE)
        assert {page for channel, page in offers.seen if channel == "aw"} <= {half + 1}
        assert b.load(to + PAGE - begin + PAGE, PAGE) == behind, "written outside"


@cocotb.test()
async def what_is_outstanding_beside_a_refused_burst_is_drained(dut):
    """Rows by the dozen, one of them outside, where the memory takes addresses and holds back its answers."""
    b = await Bench.start(dut)
    offers = Offers(dut)
    for side in (b.slave.read_if.ar_channel, b.slave.write_if.aw_channel, b.slave.write_if.w_channel):
        side.queue_occupancy_limit = 512
    held = b.slave.read_if.r_channel, b.slave.write_if.b_channel
    rows = 2 * PAGE // (2 * WORD)  # of the two pages inside
    for kind, n in (("LOAD", 0), ("STORE", 1)):
        for count in (rows + 1, rows + 40):
            await window(b, 0, RING // PAGE, RING // PAGE, ENABLE | READ)
            await window(b, 1, 0x40, 0x41, ENABLE | (READ, WRITE)[n])
            program = [rows_apart(kind, 0x40 * PAGE, count, 0), rows_apart(("STORE", "LOAD")[n], 0x40 * PAGE, 1, 0)]
            traffic = Traffic(dut)
            await b.doorbell(program[:1])
            await traffic.until(("r", 1), 1)
            while traffic.out[("r", 1)]:
                await RisingEdge(dut.clk)
            held[n].pause = True
            await ClockCycles(dut.clk, 8 * rows)
            waits = traffic.out.get(("r" if n == 0 else "b", 0), 0)
            assert waits >= min(100, rows - 20) and not dut.irq.value, waits
            held[n].pause = False
            traffic.watcher.cancel()
            await b.interrupt(40)
            found = await b.read("ERROR_CODE"), await b.read("ERROR_INDEX"), await b.read("ERROR_ADDR_LO")
            assert found == (ERRORS["WINDOW"], 0, 0x42 * PAGE)
            assert {page for _, page in offers.seen} <= {RING // PAGE, 0x40, 0x41}
            await b.queue_reset()
            await refused(b, offers, program[1:], 0, 0x40 * PAGE)  # the other direction
    await window(b, 1, SOURCE // PAGE, TARGET // PAGE, BOTH)
    await recovers(b)


@cocotb.test()
@cocotb.parametrize(stall=[0.0, 0.3])
async def a_fetch_outside_is_refused(dut, stall):
    """A ring of two pages: neither, the second, the first of them outside; the index is that of the first descriptor
    that is not fetched."""
    b = await Bench.start(dut, stall)
    offers = Offers(dut)
    ring, entries = 0x50000, 64
    await b.write("RING_BASE_LO", ring)
    await b.write("RING_LOG2", 6)
    b.store(ring, descriptor("NOP") * entries)
    for first, last, flags, index in (
        (0x50, 0x51, ENABLE | READ, None),
        (0x50, 0x50, ENABLE | READ, 32),
        (0x51, 0x51, ENABLE | READ, 0),
        (0x50, 0x51, ENABLE | WRITE, 0),
    ):
        await window(b, 2, first, last, flags)
        for behind in (0, 5) if first == 0x50 and flags & READ else (0,):
            if behind:  # the launch before it: the ring count does not begin at 0
                await b.write("RING_TAIL", behind)
                assert await b.interrupt() == 1
            offers.seen.clear()
            await b.write("RING_TAIL", 60)
            if index is None:
                assert await b.interrupt() == 1 and await b.read("RING_HEAD") == 60
                await b.queue_reset()
                continue
            assert await b.interrupt() == 2
            found = await b.read("ERROR_CODE"), await b.read("ERROR_INDEX"), await b.read("ERROR_ADDR_LO")
            assert found == (ERRORS["WINDOW"], index, ring + 128 * index), found
            assert await b.read("STATUS") & 3 == 2
            assert offers.seen == ({("ar", 0x50)} if index else set())
            await b.queue_reset()
    await window(b, 0, 0, 0xFFFFFFF, BOTH)
    await b.write("RING_BASE_LO", RING)
    await b.write("RING_LOG2", RING_LOG2)
    await recovers(b)


@cocotb.test()
async def what_is_written_acts_on_the_next_launch(dut):
    b = await Bench.start(dut, stall=0.3)
    offers = Offers(dut)
    program = copy_pair(SOURCE, TARGET, 5 * WORD, 9, 6 * WORD)
    await b.doorbell(program)
    await window(b, 1, 0, 0xF, ENABLE | READ)
    assert await b.read("STATUS") & 1, "the launch is over: make it longer"
    assert await b.read("WINDOW1_LAST") == 0xF | ENABLE | READ
    assert await b.interrupt() == 1
    await b.queue_reset()
    await refused(b, offers, program, 1, TARGET)
    await window(b, 1, 0, 0xFF, BOTH)
    await b.doorbell(program)
    await window(b, 1, 0, 0, 0)
    await window(b, 0, 0xFF, 0xFF, BOTH)  # nothing of it
    assert await b.read("STATUS") & 1, "the launch is over: make it longer"
    assert await b.interrupt() == 1
    await b.queue_reset()
    await refused(b, offers, program, 0, RING)
    await window(b, 0, 0xFF, 0xFF, BOTH ^ ENABLE)  # none is enabled
    await recovers(b)


@cocotb.test()
async def a_lock_holds_until_the_chip_is_reset(dut):
    b = await Bench.start(dut)
    offers = Offers(dut)
    assert await contents(b) == [0] * 8 and await b.read("WINDOW_LOCK") == 0
    for n in WINDOWS:
        await window(b, n, 0xFFFFFFFF, 0x0FFFFFFF, 0xF0000000)
    assert await contents(b) == [0x0FFFFFFF, 0x7FFFFFFF] * 4
    for n in WINDOWS:  # each where it belongs, and bytes of them
        await window(b, n, 0x1234567 + n, 0x89ABCD + n, READ)
    await b.write_bytes("WINDOW2_FIRST", 1, b"\xee")
    held = [value + n for n in WINDOWS for value in (0x1234567, 0x89ABCD | READ)]
    held[4] = held[4] & ~0xFF00 | 0xEE00
    assert await contents(b) == held
    assert await b.read(REGISTERS["WINDOW_LOCK"] + 4) == 0 and await b.read("BUS_TIMEOUT") == 0
    await window(b, 0, 0, TARGET // PAGE - 1, BOTH)
    held[:2] = 0, TARGET // PAGE - 1 | BOTH
    await b.write("WINDOW_LOCK", 0xFFFFFFFE)
    assert await b.read("WINDOW_LOCK") == 0
    await b.write("WINDOW_LOCK", 1)
    for _ in range(2):
        assert await b.read("WINDOW_LOCK") == 1
        for n in WINDOWS:
            await window(b, n, 0, 0xFFFFFFF, BOTH)
        await b.write("WINDOW_LOCK", 0)
        assert await contents(b) == held and await b.read("WINDOW_LOCK") == 1
        await refused(b, offers, copy_pair(SOURCE, TARGET, WORD, 1, WORD), 1, TARGET)  # with a queue reset
    dut.rst.value = 1
    await ClockCycles(dut.clk, 3)
    dut.rst.value = 0
    await ClockCycles(dut.clk, 2)
    assert await contents(b) == [0] * 8 and await b.read("WINDOW_LOCK") == 0
    await window(b, 0, 0, 0xFF, BOTH)
    assert await b.read("WINDOW0_LAST") == 0xFF | BOTH
