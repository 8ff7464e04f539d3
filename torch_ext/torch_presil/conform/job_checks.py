# SPDX-License-Identifier: Apache-2.0
"""Level transport: the chip's job, a copy or any other: its bytes, its failures, its cycles."""

import random

from . import seam
from .checks import Failed, Skipped, check, expect, expect_equal
from .context import BASE, MEMORY, SILENCE, SOURCE, TARGET, pattern

FORMAT = "docs/conform.md"
HEADER = "driver/include/presil_transport.h"
REPEATS = 10


def _size(job, wanted: int) -> int:
    """Near `wanted`, and what the job takes."""
    size = min(wanted, job.bytes_most)
    return max(size - size % job.bytes_step, job.bytes_step)


def _sizes(job) -> list:
    around = {1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 31, 32, 33, 63, 64, 65, 100, 127, 128, 129, 255, 256, 257, 4095, 4097}
    around |= {job.bytes_step * n for n in (1, 2, 3, 15, 16, 17, 31, 32, 33)}
    around |= {job.bytes_most, job.bytes_most - job.bytes_step}
    return sorted(size for size in around if 0 < size <= min(job.bytes_most, 65536) and size % job.bytes_step == 0)


@check("job", "the job's bytes, in all sizes", FORMAT, "a job")
def job_bytes(context) -> int:
    sizes = _sizes(context.job())
    with context.open() as device:
        for size in sizes:
            device.copy(pattern(size, size))
        if context.job().target_bytes is not None:
            same = context.result(pattern(sizes[0], 1)) == context.result(pattern(sizes[0], 2))
            expect(not same, f"the job makes the same of all {sizes[0]} bytes: it does not look at its source")
    return len(sizes)


@check(
    "job-strobes",
    "all alignments: no byte beside the target changes, and the log has just these",
    FORMAT,
    "address_step",
)
def job_strobes(context) -> int:
    job, count = context.job(), 0
    starts = range(0, 4096, job.address_step) if job.address_step > 1 else [*range(66), 4095 - 64]
    starts = list(starts)[:70]
    with context.open() as device:
        logged = device.has("write_log") and device.capable(seam.WRITE_LOG)
        for n, start in enumerate(starts):
            size = _size(job, (1, 7, 64, 200, 1000)[n % 5])
            source = BASE + SOURCE + starts[-1 - n]
            target = BASE + TARGET + 4096 + start
            device.poke(target - 128, b"\xee" * (context.target_bytes(size) + 256))
            if logged:
                device.write_log(True)
            data = pattern(size, n)
            device.poke(source, data)
            device.start(source, target, size)
            expect(device.over(), f"a job of {size} bytes to {target:#x} reports a failure")
            expected = b"\xee" * 128 + context.result(data) + b"\xee" * 128
            expect_equal(device.peek(target - 128, len(expected)), expected, f"{size} bytes to {target:#x}, and around")
            if logged:
                expect_equal(device.written(), [(target, context.target_bytes(size))], "what the log says was written")
            count += 2
    return count


@check(
    "memory-models",
    "the same bytes whatever the memory's latency, stalls and order",
    "docs/simulation.md",
    "All of it changes cycles and no",
)
def memory_models(context) -> int:
    job = context.job()
    with context.open() as device:
        device.needs("set_memory_model")
        models = "ideal", "latency=1,stall=0.3", "pressure=heavy,commit=b", "default,reorder=1,interleave=1", "bytes=1"
        for n, model in enumerate(models):
            device.set_memory_model(model, n)
            device.copy(pattern(_size(job, 1000), n))
    return len(models)


def _fails(device, what: str, source: int, target: int, size: int) -> None:
    device.start(source, target, size)
    expect(not device.over(), f"{what}: the job says that it went well")


@check(
    "bus-errors",
    "an error on the bus is told, named, and gone behind a reset",
    HEADER,
    "The first bus fault since launch()",
)
def bus_errors(context) -> int:
    job = context.job()
    if not job.failed:
        raise Skipped("the description has no `failed`: the chip can't tell")
    from presil_transport import _BusFault

    size, source, target, count = _size(job, 500), BASE + SOURCE, BASE + TARGET, 0
    with context.open() as device:
        cycles = device.copy(pattern(size))
        outside = BASE + MEMORY - MEMORY % job.address_step
        for name, a, b, address in (("read", outside, target, outside), ("write", source, outside, outside)):
            _fails(device, f"a {name} outside of memory", a, b, size)
            if device.has("bus_fault"):
                fault = _BusFault()
                device.call("bus_fault", fault)
                expect_equal((fault.valid, fault.is_write), (1, int(name == "write")), f"bus_fault() of a {name}")
                reached = address + (context.target_bytes(size) if name == "write" else size)
                expect(address <= fault.address < reached, f"address of the fault: {fault.address:#x}")
            device.reset()
            expect_equal(device.copy(pattern(size)), cycles, f"cycles of the job behind a failed {name} and reset()")
            count += 4
        if device.has("inject"):
            for fault in (f"slverr@{source}", f"decerr@{target + context.target_bytes(size) - 1}"):
                device.inject(fault)
                _fails(device, fault, source, target, size)
                device.inject(None)
                device.reset()
                expect_equal(device.copy(pattern(size)), cycles, f"cycles of the job behind {fault} and reset()")
                count += 2
    return count


@check(
    "reset-anywhere",
    "a reset in any cycle of a job leaves a chip like new, and memory as it was",
    HEADER,
    "DRAM is kept",
)
def reset_anywhere(context) -> int:
    job, count = context.job(), 0
    size = _size(job, 1000)
    registers = [r for r in (context.description.registers or {}).values() if r.reset is not None]
    with context.open() as device:
        kept = pattern(256, 9)
        device.poke(BASE + 0x3000, kept)
        cycles = device.copy(pattern(size))
        last = cycles or 500
        for at in sorted({*range(1, min(last, 12)), *range(12, last + 1, max(last // 24, 1)), last}):
            device.poke(BASE + SOURCE, pattern(size))
            device.start(BASE + SOURCE, BASE + TARGET, size)
            device.wait(at)
            device.reset()
            for register in registers:
                expect_equal(device.read32(register.offset), register.reset, f"{register.name}, reset in cycle {at}")
            expect_equal(device.wait(200, hang_cycles=100)[0], seam.HUNG, f"reset in cycle {at}: an idle chip")
            expect_equal(device.copy(pattern(size, at)), cycles, f"cycles of a job behind a reset in cycle {at}")
            count += 2 + len(registers)
        expect_equal(device.peek(BASE + 0x3000, 256), kept, "memory behind all resets")
    return count + 1


@check(
    "hang-of-memory",
    "a memory that never answers is HUNG, and a reset ends it",
    HEADER,
    "no handshake on the chip's memory bus",
)
def hang_of_memory(context) -> int:
    job = context.job()
    size = _size(job, 500)
    with context.open() as device:
        device.needs("set_memory_model")
        cycles = device.copy(pattern(size))
        for model in ("pressure=dead", "r=dead", "w=dead", "b=dead"):
            device.set_memory_model(model, 1)
            device.start(BASE + SOURCE, BASE + TARGET, size)
            expect_equal(
                device.wait(0, hang_cycles=SILENCE, deadline_ns=60_000_000_000)[0], seam.HUNG, f"memory {model}"
            )
            device.reset()
            device.set_memory_model("default", 1)
            expect_equal(device.copy(pattern(size)), cycles, f"cycles of a job behind memory {model} and reset()")
    return 8


def _cycles_needed(device) -> None:
    if not device.capable(seam.CLOCKED) or not device.has("launch"):
        raise Skipped("cycles mean nothing here (no capability CLOCKED, or no launch())")


@check(
    "repetition",
    "the same job at the same place: the same cycles ten times, in a new device too",
    HEADER,
    "depends on (seed, launch) alone",
)
def repetition(context) -> int:
    data = pattern(_size(context.job(), 3000))
    found = []
    for _ in range(2):
        with context.open() as device:
            _cycles_needed(device)
            device.set_memory_model("default,stall=0.05", 1) if device.has("set_memory_model") else None
            found += [device.copy(data, launch=5) for _ in range(REPEATS)]
    expect_equal(found, [found[0]] * (2 * REPEATS), "cycles of the same job")
    return len(found)


@check("shuffled", "a job's cycles don't depend on what ran before it", HEADER, "depends on (seed, launch) alone")
def shuffled(context) -> int:
    job = context.job()
    jobs = [(_size(job, 100 * n + 1), launch) for n, launch in enumerate((3, 1, 4, 1, 5, 9, 2, 6))]
    with context.open() as device:
        _cycles_needed(device)
        first = [device.copy(pattern(size), launch=launch) for size, launch in jobs]
        for turn in range(3):
            order = list(range(len(jobs)))
            random.Random(turn).shuffle(order)
            for i in order:
                size, launch = jobs[i]
                expect_equal(device.copy(pattern(size), launch=launch), first[i], f"cycles of job {i} in order {order}")
    return 3 * len(jobs)


@check(
    "other-addresses", "other addresses with the same offset in the page: the same cycles", FORMAT, "offset in the page"
)
def other_addresses(context) -> int:
    job = context.job()
    data = pattern(_size(job, 3000))
    offset = job.address_step if job.address_step < 4096 else 0
    with context.open() as device:
        _cycles_needed(device)
        found = [
            device.copy(data, BASE + SOURCE + offset + a * 4096, BASE + TARGET + offset + b * 4096)
            for a, b in ((0, 0), (1, 7), (20, 3), (33, 64))
        ]
    expect_equal(found, [found[0]] * 4, "cycles at other pages")
    return 4


@check(
    "interleaved",
    "two devices step by step: the same cycles as alone",
    HEADER,
    "not a byte and not a cycle of another's",
)
def interleaved(context) -> int:
    job = context.job()
    data = pattern(_size(job, 2000))
    with context.open() as first, context.open() as second:
        _cycles_needed(first)
        alone = first.copy(data)
        if job.done:
            raise Skipped("a polled job: registers are read at cycles of the check's own")
        ends = []
        for device in (first, second):
            device.poke(BASE + SOURCE, data)
            device.start(BASE + SOURCE, BASE + TARGET, len(data))
            ends.append(0)
        pending = [first, second]
        while pending:
            for i, device in enumerate((first, second)):
                if device in pending:
                    reason, cycles = device.wait(17)
                    ends[i] += cycles
                    if reason == seam.IRQ:
                        pending.remove(device)
                    if ends[i] > 100 * alone + 1000:
                        raise Failed(f"device {i}: not at its end after {ends[i]} cycles, alone it takes {alone}")
        expect_equal(ends, [ends[0]] * 2, "cycles of the two")
    return 2
