# SPDX-License-Identifier: Apache-2.0
"""cocotb tests of presil_top: registers, ring, DMA with random stalls, bus errors, malformed descriptors. Run by
test_cocotb.py."""

import itertools

import cocotb
from chip_bench import (
    CONFIG,
    COUNTERS,
    ERRORS,
    ISA_VERSION,
    MEMORY_BYTES,
    REGISTERS,
    RING,
    RING_LOG2,
    WORD,
    Bench,
    Traffic,
    descriptor,
)
from cocotb.triggers import ClockCycles, RisingEdge

SOURCE, TARGET = 0x4000, 0x80000


def copy_pair(source: int, target: int, chunk: int, count: int, pitch: int, sp: int = 0):
    """LOAD of `count` rows of `chunk` bytes, `pitch` apart, one scratchpad word a piece, and the STORE that packs
    them; ordered by token 0."""
    words = -(-chunk // WORD)
    shape = dict(
        chunk_bytes=chunk,
        n0=1,
        n1=count,
        n2=1,
        n3=1,
        word_bytes=WORD,
        sp_base=sp,
        sw=WORD,
        ss0=0,
        ss1=words * WORD,
        ss2=0,
        ss3=0,
        ds2=0,
        ds3=0,
    )
    load = descriptor("LOAD", signal=1, addr=source, row_bytes=chunk, pos0=0, step0=0, pad=0, ds1=pitch, **shape)
    store = descriptor("STORE", wait=1, addr=target, ds1=chunk, **shape)
    return [load, store]


@cocotb.test()
async def registers_identify_the_configuration(dut):
    b = await Bench.start(dut)
    assert await b.read("ID") == 0x5052534C
    assert await b.read("VERSION") >> 16 == ISA_VERSION
    assert await b.read("CAP_ARRAY") == CONFIG["lanes"] | CONFIG["cells"] << 16
    assert await b.read("CAP_MEMORY") == WORD | CONFIG["banks"] << 16
    assert await b.read("CAP_BANK") == CONFIG["bank_words"]
    assert await b.read("CAP_ACC") == CONFIG["acc_rows"]
    assert await b.read("CONFIG_HASH") == CONFIG["hash"]
    await b.write("ID", 0)
    assert await b.read("ID") == 0x5052534C
    assert await b.read("STATUS") & 3 == 0


@cocotb.test()
async def an_empty_launch_interrupts_once_and_can_be_masked(dut):
    b = await Bench.start(dut)
    assert await b.launch([descriptor("NOP")]) == 1
    assert not dut.irq.value and await b.read("IRQ_STATUS") == 0
    assert await b.read("RING_HEAD") == 1
    await b.write("IRQ_ENABLE", 0)
    await b.doorbell([descriptor("NOP")])
    await ClockCycles(dut.clk, 400)
    assert not dut.irq.value and await b.read("IRQ_STATUS") == 1
    await b.write("IRQ_ENABLE", 3)
    await ClockCycles(dut.clk, 4)
    assert dut.irq.value


@cocotb.test()
async def ring_wraps_around(dut):
    b = await Bench.start(dut, stall=0.2)
    total = 0
    for count in (7, 16, 1, 13, 16, 9):
        assert await b.launch([descriptor("NOP")] * count) == 1
        total += count
        assert await b.read("RING_HEAD") == total
    assert total > 3 << RING_LOG2


async def random_copies(dut, stall):
    b = await Bench.start(dut, stall)
    image = bytes(b.random.getrandbits(8) for _ in range(MEMORY_BYTES - 0x1000))
    b.store(0x1000, image)
    expected = bytearray(b.load(0, MEMORY_BYTES))
    checked = 0
    for _ in range(25):
        chunk = b.random.choice([1, 2, WORD - 1, WORD, WORD + 1, 3 * WORD, 5 * WORD + 7])
        count = b.random.randint(1, 9)
        pitch = chunk + b.random.randint(0, 90)
        source = SOURCE + b.random.choice([0, 1, WORD - 1, 4096 - 3, b.random.randrange(8192)])
        target = TARGET + b.random.randrange(0x20000)
        assert await b.launch(copy_pair(source, target, chunk, count, pitch)) == 1
        packed = b"".join(bytes(expected[source + i * pitch : source + i * pitch + chunk]) for i in range(count))
        expected[target : target + len(packed)] = packed
        # Whole memory: a stray write shows.
        assert b.load(0x1000, MEMORY_BYTES - 0x1000) == bytes(expected[0x1000:]), (chunk, count, pitch, source, target)
        checked += len(packed)
    assert checked > 1000


@cocotb.test()
async def dma_copies_any_alignment(dut):
    await random_copies(dut, 0.0)


@cocotb.test()
async def dma_copies_under_random_stalls(dut):
    await random_copies(dut, 0.4)


@cocotb.test()
async def a_memory_may_take_no_address_before_its_data_are_offered(dut):
    b = await Bench.start(dut, stall=0.2)
    channel = b.slave.write_if.aw_channel
    channel.clear_pause_generator()

    async def only_beside_data():
        while True:
            channel.pause = dut.m_axi_wvalid.value != 1
            await RisingEdge(dut.clk)

    cocotb.start_soon(only_beside_data())
    for chunk in (1, WORD, 3 * WORD + 5):
        data = bytes(b.random.getrandbits(8) for _ in range(9 * chunk))
        b.store(SOURCE, data)
        assert await b.launch(copy_pair(SOURCE, TARGET + 4096 - chunk, chunk, 9, chunk)) == 1
        assert b.load(TARGET + 4096 - chunk, len(data)) == data


async def recovers(b):
    data = bytes(range(100))
    b.store(SOURCE, data)
    assert await b.launch(copy_pair(SOURCE, TARGET, 100, 1, 100)) == 1
    assert b.load(TARGET, 100) == data


async def expect_error(b, descriptors, code, index, address=None):
    status = await b.launch(descriptors)
    assert status & 2, status
    assert await b.read("ERROR_CODE") == ERRORS[code], (code, await b.read("ERROR_CODE"))
    assert await b.read("ERROR_INDEX") == index
    if address is not None:
        found = await b.read("ERROR_ADDR_LO")
        assert found == address and await b.read("ERROR_ADDR_HI") == 0, (hex(address), hex(found))
    assert await b.read("STATUS") & 2
    await b.queue_reset()
    assert await b.read("STATUS") == 0 and await b.read("ERROR_CODE") == 0
    assert await b.read("RING_HEAD") == 0 and await b.read("WAIT_TOKENS0") == 0


async def bus_errors(dut, stall):
    b = await Bench.start(dut, stall)
    rows = copy_pair(SOURCE, TARGET, WORD, 9, WORD)
    b.memory.bad = [range(SOURCE + 5 * WORD, SOURCE + 5 * WORD + 1)]
    await expect_error(b, [descriptor("NOP"), *rows], "READ_BUS", 1, SOURCE + 5 * WORD)
    b.memory.bad = [range(TARGET + 3 * WORD, TARGET + 3 * WORD + 1)]
    await expect_error(b, rows, "WRITE_BUS", 1, TARGET + 3 * WORD)
    b.memory.bad = [range(0, 128)]
    await expect_error(b, [descriptor("NOP")], "FETCH_BUS", 0, 0)
    b.memory.bad = []
    await recovers(b)


@cocotb.test()
async def bus_errors_stop_the_queue_and_name_descriptor_and_address(dut):
    await bus_errors(dut, 0.0)


@cocotb.test()
async def bus_errors_under_random_stalls(dut):
    await bus_errors(dut, 0.3)


def rows_apart(kind: str, address: int, count: int, sp: int, **fields) -> bytes:
    """LOAD or STORE of `count` rows of a word, each a burst of its own."""
    shape = dict(chunk_bytes=WORD, n0=1, n1=count, n2=1, n3=1, word_bytes=WORD, sp_base=sp, sw=WORD, ss1=WORD)
    if kind == "LOAD":
        shape |= dict(row_bytes=WORD)
    return descriptor(kind, addr=address, ds1=2 * WORD, **shape, **fields)


READS, WRITES, STORED_AT = 80, 60, 0xA0000


@cocotb.test()
async def an_error_among_many_bursts_is_told_and_the_rest_drained(dut):
    """Reads and writes by the dozen wait for their answers when one is an error: the chip takes every answer, tells
    the first error, is idle, and goes on behind a queue reset."""
    b = await Bench.start(dut)
    traffic = Traffic(dut)
    r, slave = b.random, b.slave
    for side in (slave.read_if, slave.write_if):
        side.log.setLevel("ERROR")
    held = slave.read_if.r_channel, slave.write_if.b_channel
    for channel in (slave.read_if.ar_channel, slave.write_if.aw_channel, slave.write_if.w_channel):
        channel.queue_occupancy_limit = 512
    for turn in range(3):
        bad_read, bad_write = turn % 3 != 1, turn % 3 != 0
        read_row, write_row = r.randrange(READS // 2, READS), r.randrange(WRITES // 2, WRITES)
        read_at, write_at = SOURCE + 2 * WORD * read_row, STORED_AT + 2 * WORD * write_row
        program = [descriptor("NOP")] * r.randrange(3)
        first = b.tail + len(program)  # its ring count
        for further in (0, 1 << 16):  # the second pair begins, and is left unfinished
            program += [rows_apart("LOAD", SOURCE + further, READS, 0)]
            program += [rows_apart("STORE", STORED_AT + further, WRITES, 512 * WORD)]
        untouched = b.load(STORED_AT + 4 * WORD * WRITES, 4096)
        await b.doorbell(program)
        await traffic.until(("r", 1), 1)
        while traffic.out.get(("r", 1)) or not traffic.out.get(("b", 0)):  # all is fetched, both engines have begun
            await RisingEdge(dut.clk)
        for channel in held:
            channel.pause = True
        await traffic.until(("r", 0), READS)
        await traffic.until(("b", 0), WRITES)
        bad = []
        if bad_read:
            bad.append(range(read_at, read_at + 1))
        if bad_write:
            bad.append(range(write_at, write_at + 1))
        b.memory.bad = bad
        for channel in held:
            channel.pause = False
        assert await b.interrupt(20) == 2
        assert not any(traffic.out.values()), f"told while {traffic.out} were outstanding"
        assert await b.read("STATUS") & 3 == 2
        found = (await b.read("ERROR_CODE"), await b.read("ERROR_INDEX"), await b.read("ERROR_ADDR_LO"))
        told = [(ERRORS["READ_BUS"], first, read_at)] * bad_read + [
            (ERRORS["WRITE_BUS"], first + 1, write_at)
        ] * bad_write
        assert found in told, (found, told)
        await ClockCycles(dut.clk, 50)
        assert not any(traffic.out.values()) and await b.read("STATUS") & 3 == 2, "it goes on behind an error"
        assert b.load(STORED_AT + 4 * WORD * WRITES, 4096) == untouched
        b.memory.bad = []
        await b.queue_reset()
        await recovers(b)
        traffic.most.clear()
    assert await b.read("STATUS") == 0


CHANNELS = {  # the bench's interface and channel
    "AR": ("read_if", "ar_channel"),
    "R": ("read_if", "r_channel"),
    "AW": ("write_if", "aw_channel"),
    "W": ("write_if", "w_channel"),
    "B": ("write_if", "b_channel"),
}
PERIOD = 300


async def all_fetched(b, traffic):
    await traffic.until(("r", 1), 1)
    while traffic.out[("r", 1)]:
        await RisingEdge(b.dut.clk)


async def silent_launch(b, name: str, fetch: bool):
    """A launch with a channel that stops, at once (`fetch`) or behind the descriptors: that channel, and the cycles
    from the doorbell to the interrupt."""
    side, channel = CHANNELS[name]
    pin = getattr(getattr(b.slave, side), channel)
    traffic = Traffic(b.dut)
    await b.write("BUS_TIMEOUT", PERIOD)
    pin.pause = fetch
    await b.doorbell(
        [descriptor("NOP"), rows_apart("LOAD", SOURCE, 40, 0, signal=1), rows_apart("STORE", TARGET, 40, 0, wait=1)]
    )
    if not fetch:
        await all_fetched(b, traffic)
        pin.pause = True
    for cycles in range(4 * PERIOD):
        if b.dut.irq.value:
            traffic.watcher.cancel()
            return pin, cycles
        await RisingEdge(b.dut.clk)
    raise AssertionError(f"{name}: no interrupt")


async def silence(dut, name: str, fetch: bool = False):
    """A channel stops for good: error BUS_TIMEOUT with the oldest burst; the chip waits for the bus, and is as new when
    that answers after all."""
    b = await Bench.start(dut)
    pin, cycles = await silent_launch(b, name, fetch)
    assert PERIOD < cycles < 2 * PERIOD + 150, cycles
    assert await b.read("STATUS") & 3 == 3 and await b.read("IRQ_STATUS") == 2
    index, first = (0, RING) if fetch else (1, SOURCE) if name in ("AR", "R") else (2, TARGET)
    assert (await b.read("ERROR_CODE"), await b.read("ERROR_INDEX")) == (ERRORS["BUS_TIMEOUT"], index)
    address = await b.read("ERROR_ADDR_LO")
    assert address == first if fetch else address in range(first, first + 80 * WORD, 2 * WORD), hex(address)
    await b.write("IRQ_CLEAR", 3)
    await b.write("CONTROL", 1)
    await b.write("RING_TAIL", 3)  # ignored
    await ClockCycles(dut.clk, 3 * PERIOD)
    assert await b.read("STATUS") & 1, "idle, with bursts outstanding"
    assert await b.read("ERROR_CODE") == ERRORS["BUS_TIMEOUT"] and not dut.irq.value, "told twice"
    pin.pause = False
    await ClockCycles(dut.clk, 400)
    assert await b.read("STATUS") == 0 and await b.read("ERROR_CODE") == 0 and await b.read("IRQ_STATUS") == 0
    await b.queue_reset()
    await recovers(b)


@cocotb.test()
@cocotb.parametrize(name=list(CHANNELS))
async def a_silent_bus_ends_the_launch(dut, name):
    await silence(dut, name)


@cocotb.test()
@cocotb.parametrize(name=["AR", "R"])
async def a_silent_fetch_ends_the_launch(dut, name):
    await silence(dut, name, True)


@cocotb.test()
async def a_slow_bus_is_not_silent(dut):
    b = await Bench.start(dut, stall=0.4)
    await b.write("BUS_TIMEOUT", 120)
    data = bytes(b.random.getrandbits(8) for _ in range(60 * WORD))
    b.store(SOURCE, data)
    assert await b.launch(copy_pair(SOURCE, TARGET, 60 * WORD, 1, 60 * WORD)) == 1
    assert b.load(TARGET, 60 * WORD) == data
    for timeout, held in ((0, 1500), (900, 700)):  # off, and long enough
        await b.write("BUS_TIMEOUT", timeout)
        await b.doorbell(copy_pair(SOURCE, TARGET, 60 * WORD, 1, 60 * WORD))
        b.slave.read_if.r_channel.clear_pause_generator()
        b.slave.read_if.r_channel.pause = True
        await ClockCycles(dut.clk, held)
        b.slave.read_if.r_channel.pause = False
        assert await b.interrupt() == 1
    await b.write("BUS_TIMEOUT", 60)  # nothing is outstanding while the chip waits for a token
    b.slave.read_if.ar_channel.clear_pause_generator()
    b.slave.read_if.ar_channel.pause = False
    await b.doorbell([rows_apart("STORE", TARGET, 3, 0, wait=1)])
    await ClockCycles(dut.clk, 500)
    assert await b.read("STATUS") & 3 == 1


@cocotb.test()
@cocotb.parametrize(kind=["error", "reset"])
async def a_drain_that_the_bus_does_not_end_is_told(dut, kind):
    """With the code of the error before it, or BUS_TIMEOUT where a queue reset drains."""
    b = await Bench.start(dut)
    traffic = Traffic(dut)
    await b.write("BUS_TIMEOUT", 200)
    between = [descriptor("NOP")] * (WORD // 16 - 1)  # a descriptor of few beats would stop LOAD before its first burst
    last = descriptor("VECTOR" if kind == "error" else "NOP")
    await b.doorbell([rows_apart("LOAD", SOURCE, 40, 0), *between, last])
    await all_fetched(b, traffic)
    b.slave.read_if.r_channel.pause = True
    await ClockCycles(dut.clk, 20)
    if kind == "reset":
        await b.write("CONTROL", 1)
    await ClockCycles(dut.clk, 600)
    assert dut.irq.value and await b.read("STATUS") & 3 == 3
    code, index = ("OPCODE", 1 + len(between)) if kind == "error" else ("BUS_TIMEOUT", 0)
    assert (await b.read("ERROR_CODE"), await b.read("ERROR_INDEX")) == (ERRORS[code], index)
    await b.write("IRQ_CLEAR", 3)
    b.slave.read_if.r_channel.pause = False
    await ClockCycles(dut.clk, 200)
    assert await b.read("STATUS") & 3 == (2 if kind == "error" else 0)
    assert await b.read("IRQ_STATUS") == 0, "told twice"
    await b.queue_reset()
    await recovers(b)


ATTRIBUTES_RESET = 0x3302  # normal non-cacheable bufferable; QoS 0; data, non-secure, unprivileged


async def watch_attributes(dut, seen):
    """(channel, ID, attributes as in BUS_ATTRIBUTES) of each address that is taken."""
    while True:
        await RisingEdge(dut.clk)
        for c in ("ar", "aw"):
            pin = {n: getattr(dut, f"m_axi_{c}{n}").value for n in ("valid", "ready")}
            if not (pin["valid"] == 1 and pin["ready"] == 1):
                continue
            names = ("prot", "qos", "cache", "lock", "burst", "id")
            prot, qos, cache, lock, burst, identity = (int(getattr(dut, f"m_axi_{c}{n}").value) for n in names)
            assert lock == 0 and burst == 1
            seen.append((c, identity, prot | qos << 4 | cache << (8 if c == "ar" else 12)))


def of_channel(channel, attributes):
    return attributes & (0xFF | (0xF00 if channel == "ar" else 0xF000))


@cocotb.test()
async def requests_carry_the_attributes_of_before_their_launch(dut):
    b = await Bench.start(dut, stall=0.3)
    seen = []
    watcher = cocotb.start_soon(watch_attributes(dut, seen))
    assert await b.read("BUS_ATTRIBUTES") == ATTRIBUTES_RESET
    now = ATTRIBUTES_RESET
    for following in (0xFFFF, 0x0000, 0xA5C3, 0x4B25, ATTRIBUTES_RESET):
        seen.clear()
        await b.doorbell(copy_pair(SOURCE, TARGET, 5 * WORD, 9, 6 * WORD))
        await b.write("BUS_ATTRIBUTES", following)  # for the next launch
        assert await b.read("STATUS") & 1, "the launch is over: make it longer"
        assert await b.read("BUS_ATTRIBUTES") == following & 0xFFF7
        assert await b.interrupt() == 1
        assert {(c, i) for c, i, _ in seen} == {("ar", 0), ("ar", 1), ("aw", 0)}
        wrong = [(c, i, hex(a)) for c, i, a in seen if a != of_channel(c, now)]
        assert not wrong, (hex(now), wrong)
        now = following & 0xFFF7
    await b.write_bytes("BUS_ATTRIBUTES", 1, b"\x51")
    assert await b.read("BUS_ATTRIBUTES") == ATTRIBUTES_RESET & 0xFF | 0x5100
    dut.rst.value = 1
    await ClockCycles(dut.clk, 3)
    dut.rst.value = 0
    await ClockCycles(dut.clk, 2)
    assert await b.read("BUS_ATTRIBUTES") == ATTRIBUTES_RESET
    watcher.cancel()


@cocotb.test()
async def malformed_descriptors_are_refused_by_name(dut):
    b = await Bench.start(dut)
    load, _ = copy_pair(SOURCE, TARGET, WORD, 2, WORD)
    unknown = bytearray(load)
    unknown[0] = unknown[0] & 0xF0 | 0xE
    old = bytearray(load)
    old[0] = old[0] & 0x0F | 0x10  # version 1
    await expect_error(b, [bytes(unknown)], "OPCODE", 0)
    await expect_error(b, [descriptor("VECTOR")], "OPCODE", 0)
    await expect_error(b, [descriptor("NOP"), bytes(old)], "VERSION", 1)
    for name in ("chunk_bytes", "n0", "n1", "n2", "n3", "word_bytes"):
        fields = dict(chunk_bytes=WORD, n0=1, n1=1, n2=1, n3=1, word_bytes=WORD, addr=SOURCE, row_bytes=WORD, signal=1)
        await expect_error(b, [descriptor("LOAD", **{**fields, name: 0})], "FIELD", 0)
    await expect_error(
        b,
        [
            descriptor(
                "LOAD", chunk_bytes=WORD, n0=1, n1=1, n2=1, n3=1, word_bytes=WORD + 1, addr=SOURCE, row_bytes=WORD
            )
        ],
        "FIELD",
        0,
    )
    size = CONFIG["banks"] * CONFIG["bank_words"] * WORD
    await expect_error(b, copy_pair(SOURCE, TARGET, WORD, 2, WORD, sp=size - WORD), "SPAD_RANGE", 0)
    await expect_error(b, [load] * 17, "RING", 0)
    await recovers(b)


async def write_in_consecutive_cycles(b, writes):
    """Register writes whose AW and W are accepted in consecutive cycles, without a wait for B between them."""
    accepted = []

    async def watch():
        for cycle in itertools.count():
            await RisingEdge(b.dut.clk)
            if all(getattr(b.dut, f"s_axil_{n}").value == 1 for n in ("awvalid", "awready", "wvalid", "wready")):
                accepted.append(cycle)

    watcher = cocotb.start_soon(watch())
    events = [b.registers.init_write(REGISTERS[name], value.to_bytes(4, "little")) for name, value in writes]
    for event in events:
        await event.wait()
    watcher.cancel()
    assert [c - accepted[0] for c in accepted] == list(range(len(writes))), accepted


async def launches_right_behind_a_reset(b, data):
    """A queue reset, and the doorbell of a copy in the next cycle."""
    b.store(SOURCE, data)
    b.store(TARGET, bytes(len(data)))
    b.store(RING, b"".join(copy_pair(SOURCE, TARGET, len(data), 1, len(data))))
    await write_in_consecutive_cycles(b, [("CONTROL", 1), ("RING_TAIL", 2)])
    assert await b.interrupt() == 1
    assert await b.read("RING_HEAD") == 2 and await b.read("RING_TAIL") == 2 and await b.read("ERROR_CODE") == 0
    assert b.load(TARGET, len(data)) == data
    b.tail = 2


@cocotb.test()
async def a_doorbell_in_the_cycle_after_a_queue_reset_is_not_lost(dut):
    b = await Bench.start(dut)
    await launches_right_behind_a_reset(b, bytes(range(50)))
    assert await b.launch([descriptor("NOP")] * 5) == 1  # head and tail are now another count
    await launches_right_behind_a_reset(b, bytes(range(100, 190)))
    await b.queue_reset()
    assert await b.launch([descriptor("NOP"), descriptor("VECTOR")]) & 2  # stopped by an error
    await launches_right_behind_a_reset(b, bytes(range(40, 110)))


@cocotb.test()
async def doorbells_that_make_no_sense_are_refused(dut):
    b = await Bench.start(dut)
    load, store = copy_pair(SOURCE, TARGET, WORD, 1, WORD)
    for log2 in (17, 24, 31):
        await b.write("RING_LOG2", log2)
        await expect_error(b, [descriptor("NOP")], "RING", 0, 0)
    await b.write("RING_LOG2", RING_LOG2)
    await b.doorbell([descriptor("NOP")] * 3 + [store] + [descriptor("NOP")] * 2)  # waits for a token
    await ClockCycles(dut.clk, 600)
    assert await b.read("STATUS") & 1 and await b.read("RING_HEAD") == 6
    b.tail = 5  # backwards, behind what was handed over
    await expect_error(b, [], "RING", 6, 0)
    stuck = [store] * 5 + [descriptor("NOP")] * 5  # the fifth finds no room in the queue
    await b.doorbell(stuck)
    await ClockCycles(dut.clk, 600)
    assert await b.read("STATUS") & 1 and await b.read("RING_HEAD") < 10
    b.tail = 9  # backwards, ahead of what was handed over
    await expect_error(b, [], "RING", await b.read("RING_HEAD"), 0)
    await b.doorbell(stuck[:4])
    await b.doorbell([load] * 4)  # forwards
    assert await b.interrupt() == 1


@cocotb.test()
async def a_missing_token_waits(dut):
    b = await Bench.start(dut)
    load, store = copy_pair(SOURCE, TARGET, WORD, 1, WORD)
    await b.doorbell([store])
    await ClockCycles(dut.clk, 600)
    assert await b.read("STATUS") & 1 and not dut.irq.value
    assert await b.read("WAIT_MASK0") == 0
    assert await b.read(0x074 + 4 * 3) == 1 and await b.read(0x088 + 4 * 3) == 0
    await b.doorbell([load])
    assert await b.interrupt() == 1


@cocotb.test()
async def counters_charge_every_cycle_to_one_cause(dut):
    b = await Bench.start(dut, stall=0.3)
    await b.write("CONTROL", 4)
    for _ in range(3):
        assert await b.launch(copy_pair(SOURCE, TARGET, 3 * WORD + 5, 6, 4 * WORD)) == 1
    await b.write("CONTROL", 2)
    cycles = await b.counter("cycles")
    assert cycles > 100
    for engine in range(5):
        causes = [await b.counter(16 * engine + cause) for cause in range(16)]
        assert sum(causes) == cycles, (engine, causes, cycles)
    assert await b.counter("launches") == 3 and await b.counter("descriptors") == 6
    assert await b.counter("write_bytes") == 3 * 6 * (3 * WORD + 5)
    assert await b.counter("read_bytes") == WORD * await b.counter("read_beats")
    again = await b.read(COUNTERS + 8 * 80)
    assert again == cycles & 0xFFFFFFFF
