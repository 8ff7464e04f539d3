# SPDX-License-Identifier: Apache-2.0
"""Level transport: the chip's registers, as its description has them."""

import ctypes

from . import seam
from .checks import Differences, Failed, Skipped, check, expect, expect_equal
from .context import BASE, SOURCE, TARGET

FORMAT = "docs/conform.md"
PATTERNS = (0xFFFFFFFF, 0, 0xAAAAAAAA, 0x55555555, 0x80000001, 0xDEADBEEF)
OF_OTHERS = "other than its reset value before it was written (leave `writable` out where a write starts something)"


def _writable(context) -> list:
    found = [r for r in context.registers().values() if r.writable]
    if not found:
        raise Skipped("no register has `writable` bits")
    return found


def _after(register, value: int) -> int:
    """What the register reads behind a write: reserved bits keep their reset value."""
    return value & register.writable | (register.reset or 0) & ~register.writable & 0xFFFFFFFF


@check(
    "register-reset", "reset values, at the start and behind reset()", FORMAT, "`reset`: what it reads behind a reset"
)
def register_reset(context) -> int:
    registers = [r for r in context.registers().values() if r.reset is not None]
    with context.open() as device:
        for when in ("at the start", "behind reset()"):
            found = Differences()
            for register in registers:
                found.expect_equal(device.read32(register.offset), register.reset, f"{register.name} {when}")
            found.end()
            for register in registers:
                if register.writable:
                    device.write32(register.offset, 0xA5A5A5A5)
            device.reset()
    return 2 * len(registers)


@check(
    "register-reserved",
    "writable bits keep what is written, the others don't change",
    FORMAT,
    "`writable`: the bits that keep",
)
def register_reserved(context) -> int:
    count, different = 0, Differences()
    with context.open() as device:
        for register in _writable(context):
            for value in PATTERNS:
                device.write32(register.offset, value)
                found = device.read32(register.offset)
                count += 1
                if found != _after(register, value):
                    different.expect_equal(found, _after(register, value), f"{register.name}, {value:#x} written")
                    break
        for register in context.registers().values():
            if register.writable == 0 and register.reset is not None:
                before = device.read32(register.offset)  # a doorbell among the others is not this register's fault
                for value in PATTERNS:
                    device.write32(register.offset, value)
                    found = device.read32(register.offset)
                    count += 1
                    if found != register.reset:
                        what = f"{value:#x} written" if before == register.reset else OF_OTHERS
                        different.expect_equal(found, register.reset, f"{register.name}, read-only, {what}")
                        break
    different.end()
    return count


@check(
    "register-back-to-back",
    "writes that follow each other at once all arrive, in order",
    FORMAT,
    "one behind the other",
)
def register_back_to_back(context) -> int:
    registers, count = _writable(context), 0
    with context.open() as device:
        for turn in range(32):
            values = {r.name: (0x9E3779B9 * (turn * 64 + i + 1)) & 0xFFFFFFFF for i, r in enumerate(registers)}
            for register in registers:
                device.write32(register.offset, ~values[register.name])
                device.write32(register.offset, values[register.name])
            for register in reversed(registers):
                found = device.read32(register.offset)
                expect_equal(found, _after(register, values[register.name]), f"{register.name}, turn {turn}")
                count += 1
    return count


@check(
    "register-many",
    "read32_many() gives what as many read32() do",
    "driver/include/presil_transport.h",
    "as one exchange with a peer",
)
def register_many(context) -> int:
    registers = [r for r in context.registers().values() if r.reset is not None]
    with context.open() as device:
        if not device._ops.read32_many:
            raise Skipped("the transport has no read32_many()")
        many = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_void_p)(
            device._ops.read32_many
        )
        offsets = (ctypes.c_uint32 * len(registers))(*(r.offset for r in registers))
        values = (ctypes.c_uint32 * len(registers))()
        expect_equal(many(device._handle, offsets, len(registers), values), 0, "result of read32_many()")
        expect_equal(list(values), [device.read32(r.offset) for r in registers], "values of read32_many()")
        offsets[len(registers) - 1] = 3
        values[0] = 77
        expect(many(device._handle, offsets, len(registers), values) < 0, "read32_many() of offset 3 was accepted")
        expect_equal(values[0], 77, "the outputs of a failed read32_many()")
    return len(registers) + 3


@check(
    "register-absent",
    "where there is no register, the chip answers as it says",
    FORMAT,
    "`absent`: an offset without a register",
)
def register_absent(context) -> int:
    context.registers()
    described = context.description
    if described.absent is None:
        raise Skipped("no [absent] offset is described")
    with context.open() as device:
        if described.absent_reads is not None:
            device.write32(described.absent, 0xFFFFFFFF)
            expect_equal(device.read32(described.absent), described.absent_reads, f"offset {described.absent:#x}")
            return 1
        for what in (lambda: device.read32(described.absent), lambda: device.write32(described.absent, 1)):
            try:
                what()
            except seam.TransportError as error:
                expect_equal(error.code, seam.EBUS, f"an access to offset {described.absent:#x}")
            else:
                raise Failed(f"an access to offset {described.absent:#x}: EBUS expected, it worked")
        for register in context.registers().values():
            if register.reset is not None:
                expect_equal(device.read32(register.offset), register.reset, f"{register.name} behind a failed access")
    return 3


@check("register-idle", "reading every register of an idle chip moves nothing on its bus", FORMAT, "Reading a register")
def register_idle(context) -> int:
    registers = list(context.registers().values())
    with context.open() as device:
        device.needs("write_log")
        device.poke(BASE + SOURCE, bytes(256))
        device.write_log(True)
        for _ in range(3):
            for register in registers:
                device.read32(register.offset)
            expect(device.wait(100, hang_cycles=50)[0] == seam.HUNG, "an idle chip is silent, and has no interrupt")
        expect_equal(device.written(), [], "what an idle chip wrote")
        expect_equal(device.peek(BASE + TARGET, 64), bytes(64), "memory")
    return 5
