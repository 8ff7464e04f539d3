# SPDX-License-Identifier: Apache-2.0
"""Level transport: the table, memory, waiting and resetting. Nothing here knows the chip."""

import ctypes
import threading

from . import seam
from .checks import Failed, Skipped, check, expect, expect_equal
from .context import BASE, MEMORY, pattern

HEADER = "driver/include/presil_transport.h"
REQUIRED = "open close info last_error read32 write32 region wait reset".split()
PROMISED = {
    seam.CLOCKED: "cycles",
    seam.TRACE: "trace",
    seam.WRITE_LOG: "write_log",
    seam.WRITE_TIMES: "write_times",
}


def _offered(device, name: str) -> bool:
    return bool(getattr(device._ops, name))


@check(
    "table", "every required function, and those that the capabilities promise", HEADER, "Required: open, close, info"
)
def table(context) -> int:
    with context.open() as device:
        expect_equal(device._ops.abi, seam.ABI, "abi of the table")
        for name in REQUIRED:
            expect(_offered(device, name), f"the table has no {name}()")
        capabilities = device.info().capabilities
        for bit, name in PROMISED.items():
            expect(not capabilities & bit or _offered(device, name), f"capability {bit} without {name}()")
        for one, other in (("mem_read", "mem_write"), ("write_log", "write_log_fetch")):
            expect_equal(
                _offered(device, one), _offered(device, other), f"{one}() and {other}(): both or none; {other}()"
            )
        expect(_offered(device, "mem_read") or capabilities & seam.MAPS, "neither mem_read() nor mapped regions")
    return len(REQUIRED) + len(PROMISED) + 3


@check("identity", "who it is: chip, configuration, build, the same every time", HEADER, "names the chip vtable")
def identity(context) -> int:
    with context.open() as first, context.open(seed=2) as second:
        told = [
            tuple(getattr(info, name) for name in ("abi", "capabilities", "clock_mhz", "chip", "config", "build"))
            for info in (first.info(), first.info(), second.info())
        ]
        expect_equal(told[1], told[0], "info() a second time")
        expect_equal(told[2], told[0], "info() of a second device")
        abi, _, clock, chip, config, build = told[0]
        expect_equal(abi, seam.ABI, "abi of info()")
        for name, value in (("chip", chip), ("config", config), ("build", build)):
            expect(value, f"info().{name} is empty")
        expect(clock or not first.capable(seam.CLOCKED), "clock_mhz is 0, and cycles mean something")
    return 7


@check(
    "older-caller", "a caller of an older release gets its part of info()", HEADER, "A transport fills in no more than"
)
def older_caller(context) -> int:
    with context.open() as device:
        older = type(device.info())(rtl=b"kept")
        older.size = type(older).rtl.offset
        device.call("info", older)
        expect_equal(older.rtl, b"kept", "what lies behind the caller's struct")
        expect_equal(older.chip, device.info().chip, "chip in an older struct")
    return 2


@check("bad-options", "open() refuses what it can't do, with a text", HEADER, "multiple of 4096")
def bad_options(context) -> int:
    wrong = ({"memory_bytes": 4095}, {"memory_base": 100}, {"memory_model": "no-such-model"}, {"options": "no-such=1"})
    for options in wrong:
        try:
            context.open(**options).close()
        except seam.TransportError as error:
            expect(str(error), f"open({options}): an error without a text")
        else:
            raise Failed(f"open({options}) was accepted")
    context.open().close()
    return len(wrong) + 1


@check("regions", "regions are multiples of a page, and end with EINVAL", HEADER, "EINVAL past the last")
def regions(context) -> int:
    from presil_transport import _Region

    with context.open() as device:
        found = []
        while True:
            region = _Region()
            try:
                device.call("region", len(found), region)
            except seam.TransportError as error:
                expect_equal(error.code, seam.EINVAL, f"region({len(found)}), behind the last")
                break
            expect(len(found) < 64, "region() never ends")
            found.append((region.base, region.bytes, region.host))
        expect(found, "there is no region")
        for base, size, host in found:
            expect(
                size and base % 4096 == size % 4096 == 0, f"region at {base:#x}, {size:#x} bytes: whole pages expected"
            )
            expect(bool(host) == device.capable(seam.MAPS), "a host pointer where, and only where, MAPS is told")
        expect_equal(found[0][:2], (BASE, MEMORY), "the memory that was asked for")
    return 2 * len(found) + 2


@check("memory", "every alignment and size, and no byte beside it", HEADER, "mem_read")
def memory(context) -> int:
    count = 0
    with context.open() as device:
        for place in (0, 4096 - 70, MEMORY - 256):
            for start in range(0, 66):
                for size in (1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 31, 32, 33, 63, 64, 65, 127, 128):
                    if place + start + size + 1 > MEMORY:
                        continue
                    address = BASE + place + start
                    around = max(address - 1, BASE)
                    data = pattern(size, start * 131 + size)
                    device.poke(around, b"\xee" * (address - around + size + 1))
                    device.poke(address, data)
                    expected = b"\xee" * (address - around) + data + b"\xee"
                    expect_equal(device.peek(around, len(expected)), expected, f"{size} bytes at {address:#x}")
                    count += 1
    return count


@check("memory-mapped", "a host pointer and mem_read() show one memory", HEADER, "host pointer")
def memory_mapped(context) -> int:
    with context.open() as device:
        if not device.capable(seam.MAPS):
            raise Skipped("regions are not mapped (no capability MAPS)")
        device.needs("mem_read", "mem_write")
        data = pattern(4096, 7)
        for at in (0, 1, 4095, MEMORY - 4096):
            device.memory_write(BASE + at, data)
            expect_equal(ctypes.string_at(device.host() + at, 4096), data, f"mapped bytes at {BASE + at:#x}")
            ctypes.memmove(device.host() + at, data[::-1], 4096)
            expect_equal(device.memory_read(BASE + at, 4096), data[::-1], f"mem_read() at {BASE + at:#x}")
    return 8


@check(
    "memory-bounds",
    "an address outside every region is EBUS, and nothing is done",
    HEADER,
    "an address outside every region",
)
def memory_bounds(context) -> int:
    count = 0
    with context.open() as device:
        device.needs("mem_read", "mem_write")
        device.memory_write(BASE + MEMORY - 8, b"12345678")
        device.memory_write(BASE, b"12345678")
        for address, size in ((BASE - 1, 1), (BASE - 4, 8), (BASE + MEMORY, 1), (BASE + MEMORY - 4, 8), (2**64 - 1, 2)):
            for call in (
                lambda: device.memory_read(address, size),
                lambda: device.memory_write(address, b"\xff" * size),
            ):
                try:
                    call()
                except seam.TransportError as error:
                    expect_equal(error.code, seam.EBUS, f"{size} bytes at {address:#x}")
                else:
                    raise Failed(f"{size} bytes at {address:#x}, outside of memory, were accepted")
                count += 1
        expect_equal(device.memory_read(BASE + MEMORY - 8, 8), b"12345678", "the last bytes of memory")
        expect_equal(device.memory_read(BASE, 8), b"12345678", "the first bytes of memory")
    return count + 2


@check(
    "bad-offset", "a register offset that is no multiple of 4 is EINVAL, and the value stays", HEADER, "bad argument"
)
def bad_offset(context) -> int:
    with context.open() as device:
        for offset in (1, 2, 3, 5):
            value = ctypes.c_uint32(77)
            try:
                device.call("read32", offset, value)
            except seam.TransportError as error:
                expect_equal(error.code, seam.EINVAL, f"read32({offset})")
            else:
                raise Failed(f"read32({offset}) was accepted")
            expect_equal(value.value, 77, f"the output of a failed read32({offset})")
            try:
                device.write32(offset, 0)
            except seam.TransportError as error:
                expect_equal(error.code, seam.EINVAL, f"write32({offset})")
            else:
                raise Failed(f"write32({offset}) was accepted")
    return 12


@check("deadline", "wait() of an idle chip ends at the very cycle", HEADER, "at most so many more cycles")
def deadline(context) -> int:
    with context.open() as device:
        if not device.capable(seam.CLOCKED):
            raise Skipped("cycles mean nothing (no capability CLOCKED)")
        for cycles in (1, 2, 3, 10, 1000, 65537):
            before = device.cycles()
            reason, spent = device.wait(cycles)
            expect_equal(reason, seam.DEADLINE, f"reason of wait({cycles})")
            expect_equal(spent, cycles, f"cycles of wait({cycles})")
            expect_equal(device.cycles() - before, cycles, f"cycles() behind wait({cycles})")
    return 18


@check(
    "hang",
    "an idle bus is HUNG after hang_cycles, at the same cycle each time",
    HEADER,
    "no handshake on the chip's memory bus",
)
def hang(context) -> int:
    with context.open() as device:
        found = [device.wait(100_000, hang_cycles=cycles) for cycles in (1, 100, 5000, 5000)]
        expect_equal([reason for reason, _ in found], [seam.HUNG] * 4, "reasons of four waits")
        if device.capable(seam.CLOCKED):
            expect_equal([cycles for _, cycles in found], [1, 100, 5000, 5000], "cycles until HUNG")
        expect_equal(device.wait(50, hang_cycles=100)[0], seam.DEADLINE, "a deadline before hang_cycles")
    return 9


@check("cancel", "a cancelled wait() ends, and the device goes on", HEADER, "*cancel became non-zero")
def cancel(context) -> int:
    limit = 60_000_000_000  # ns; a transport that does not look at the flag runs into it
    with context.open() as device:
        flag = ctypes.c_int(1)
        expect_equal(device.wait(0, cancel=flag, deadline_ns=limit)[0], seam.CANCELLED, "a flag that was set before")
        flag.value = 0
        timer = threading.Timer(0.05, lambda: setattr(flag, "value", 1))
        timer.start()
        reason, _ = device.wait(0, cancel=flag, deadline_ns=limit)
        timer.join()
        expect_equal(reason, seam.CANCELLED, "a flag that another thread sets")
        device.reset()
        expect_equal(device.wait(100)[0], seam.DEADLINE, "a wait behind a reset")
    return 3


@check("stopped", "$fatal and $stop are ESTOPPED with a text until reset(); memory is kept", HEADER, "starts a new one")
def stopped(context) -> int:
    count = 0
    with context.open() as device:
        device.needs("inject", "launch")
        data = pattern(512, 3)
        device.poke(BASE + 4096, data)
        for fault in ("fatal@10", "stop@10"):
            try:
                device.inject(fault)
            except seam.TransportError as error:
                if error.code == seam.ENOSYS:
                    raise Skipped("faults can't be injected here") from error
                raise
            device.launch(1)
            for what in (lambda: device.wait(1000), lambda: device.wait(1000), lambda: device.read32(0)):
                try:
                    what()
                except seam.TransportError as error:
                    expect_equal(error.code, seam.ESTOPPED, f"a call behind {fault}")
                    expect(len(str(error)) > 10, "ESTOPPED without a text")
                else:
                    raise Failed(f"a call behind {fault} worked")
                count += 2
            device.inject(None)
            device.reset()
            expect_equal(device.wait(10)[0], seam.DEADLINE, f"a wait behind {fault} and reset()")
            expect_equal(device.peek(BASE + 4096, 512), data, f"memory behind {fault} and reset()")
            count += 2
    return count


@check(
    "two-devices",
    "two devices of one library do not touch each other",
    HEADER,
    "not a byte and not a cycle of another's",
)
def two_devices(context) -> int:
    with context.open() as first, context.open() as second:
        first.poke(BASE, b"first")
        second.poke(BASE, b"other")
        expect_equal(first.peek(BASE, 5), b"first", "memory of the first device")
        expect_equal(second.peek(BASE, 5), b"other", "memory of the second device")
        if first.capable(seam.CLOCKED):
            before = second.cycles()
            first.wait(1000)
            expect_equal(second.cycles(), before, "cycles of the second device while the first ran")
        second.close()
        first.wait(10)
    return 4
