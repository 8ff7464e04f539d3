# SPDX-License-Identifier: Apache-2.0
"""Level chip: what presil_chip.h promises, asked through the driver: every operator that the chip says it takes."""

import ctypes
import functools
import re
from dataclasses import replace
from pathlib import Path

from . import driver_api as d
from . import sweep
from .cases import TYPES, Bench, Convolution, Copying, Pool, Product, Types, many_channels, many_pooled
from .checks import OPENS, Failed, Skipped, check, expect, expect_equal
from .chip_table import table
from .context import pattern

CHIP, OP, DRIVER = "driver/include/presil_chip.h", "driver/include/presil_op.h", "driver/include/presil.h"
WATCHDOG, DEAD = 20_000, "pressure=dead"
POOLS = (Types(d.INT8, d.INT8, 0), Types(d.FP32, d.FP32, 2), Types(d.BF16, d.BF16, 1))


class _Limits(ctypes.Structure):
    """presil_chip_limits."""

    _fields_ = [(name, ctypes.c_uint32) for name in ("size", "address_bits", "buffer_alignment", "has_interrupt")]
    _fields_ += [("command_bytes", ctypes.c_uint64)]
    _fields_ += [(name, ctypes.c_uint32) for name in ("has_executor", "asks_first", "numerics", "timing_needs_data")]
    _fields_ += [("tolerance", ctypes.c_double), ("kinds", ctypes.c_uint64)]
    _fields_ += [("queue_depth", ctypes.c_uint32), ("in_place", ctypes.c_uint32)]


def chip_library(context) -> Path | None:
    """The chip's own library, behind presil_chip_entry; None: it is in the driver."""
    if context.chip:
        return context.chip
    name = f"libpresil_chip_{context.open().info().chip.decode()}.so"
    for place in (context.library.parent, d.library_path().parent):
        if (place / name).exists():
            return place / name
    return None


def limits(context) -> _Limits | None:
    """What the chip declares; None where its library is not a file."""
    library = chip_library(context)
    if not library:
        return None
    found = _Limits(size=ctypes.sizeof(_Limits))
    with table(context, library) as chip:
        code = chip.call("limits", ctypes.byref(found))
    expect_equal(code, 0, "result of limits()")
    return found


def _open(context, **options) -> d.Device:
    device = d.Device(context.library, **options)
    device.set_watchdog(WATCHDOG)
    return device


def _bench(context, device) -> Bench:
    told = limits(context)
    return Bench(device, told.tolerance if told and told.numerics == 2 else None)


def _run_all(context, cases: list, what: str, ask: bool = True) -> int:
    """Runs what the chip takes of the cases; notes what it doesn't. ask: by supports() first."""
    count, reasons = 0, set()
    with _open(context) as device:
        for seed, case in enumerate(cases):
            if ask and (reason := device.supported(case.asked())):
                reasons.add(reason)
                continue
            try:
                with _bench(context, device) as bench:
                    case.run(bench, seed)
                count += 1
            except d.DeviceError as error:
                if error.code != d.EUNSUPPORTED:
                    raise Failed(f"{case}: {error}") from error
                reasons.add(str(error))
    if not count:
        raise Skipped(f"the chip takes no {what}: {sorted(reasons)[0] if reasons else 'nothing asked'}")
    context.notes.append(f"{count} of {len(cases)} taken")
    return count


def _small_product(context, device) -> Product:
    """One that the chip takes."""
    for shape in (*context.products(), (1, 5, 48, 7)):
        for types in TYPES:
            for columns in (True, False):
                product = Product(types, *shape, columns)
                if device.supported(product.asked()) is None:
                    return product
    raise Skipped(
        "the chip takes none of the products that were asked: name some that it takes, chip.matmul (conform.md)"
    )


def _small_work(context, device):
    """Something that the chip does, for the checks of launches: a product, else a copy."""
    try:
        return _small_product(context, device)
    except Skipped:
        if device.supported(Copying().asked()) is None:
            return Copying()
    raise Skipped(
        "the chip takes neither a product nor a copy of 4096 bytes: name products that it takes, chip.matmul "
        "(conform.md)"
    )


@check(
    OPENS,
    "the chip is found, its table is whole, and its probe and reset say yes; else nothing more is asked at this level "
    "and the next",
    CHIP,
    "Reads identification and capabilities",
    "chip",
)
def opens(context) -> int:
    try:
        with _open(context) as device:
            device.call("presil_device_start")
    except d.DeviceError as error:
        raise Failed(str(error)) from error
    return 1


@check("limits", "what the chip declares makes sense", CHIP, "power of two, <= 4096", "chip")
def declared_limits(context) -> int:
    told = limits(context)
    if not told:
        raise Skipped("this chip is in the driver: no library of its own to ask")
    alignment = told.buffer_alignment
    expect(0 < alignment <= 4096 and alignment & (alignment - 1) == 0, f"buffer_alignment is {alignment}")
    expect(12 <= told.address_bits <= 64, f"address_bits is {told.address_bits}")
    expect(told.numerics <= 2, f"numerics is {told.numerics}, not one of presil_numerics")
    expect(told.numerics != 2 or 0 < told.tolerance < 1, f"tolerance is {told.tolerance}")
    return 4


@check(
    "refusals",
    "what the chip can't know is EUNSUPPORTED, with a reason, and never taken",
    CHIP,
    "EUNSUPPORTED for everything",
    "chip",
)
def refusals(context) -> int:
    count = 0
    with _open(context) as device:
        work = _small_work(context, device)

        def refused(what: str, change) -> None:
            nonlocal count
            op = work.asked()
            change(op)
            reason = device.supported(op)
            expect(reason is not None, f"supports() takes {what}")
            expect(len(reason) > 8, f"no reason for refusing {what}")
            count += 1

        refused("a kind that does not exist", lambda op: setattr(op, "kind", 999))
        refused("an attribute that does not exist", lambda op: op.attributes.update({"no_such_attribute": [1]}))
        refused("a step that does not exist", lambda op: op.steps.append(d.Step(99, d.NO_OPERAND)))
        refused("an input that does not exist", lambda op: op.inputs.append(d.operand("no_such_input", d.INT8, (1,))))
        refused("an output that does not exist", lambda op: op.outputs.append(d.operand("no_such", d.INT8, (1,))))
        for kind in range(2, d.KINDS):
            found = [_answer(device, kind) for _ in range(2)]
            expect(found[0] is not None, f"supports() takes an operator of kind {kind} without operands")
            expect_equal(found[1], found[0], f"supports() of kind {kind} a second time")
            count += 2
    return count


def _answer(device, kind: int) -> str | None:
    """Of an operator without operands, which makes no sense: EINVAL will do."""
    try:
        return device.supported(d.Op(kind))
    except d.DeviceError as error:
        expect_equal(error.code, d.EINVAL, f"supports() of kind {kind} without operands")
        return str(error)


@check(
    "empty-launch",
    "an empty launch ends, and takes the same cycles each time",
    CHIP,
    "NOP and COPY are asked of every chip",
    "chip",
)
def empty_launch(context) -> int:
    with _open(context) as device:
        found = [device.run(d.Op(d.NOP)).cycles for _ in range(10)]
    expect_equal(found, [found[0]] * 10, "cycles of ten empty launches")
    return 10


@check("copy", "the chip's own copies, of all sizes: the bytes, and none beside", CHIP, "PRESIL_COPY_DMA", "chip")
def copies(context) -> int:
    count = 0
    with _open(context) as device:
        source, target = device.alloc(1 << 17), device.alloc(1 << 17)
        for n, size in enumerate((1, 3, 4, 15, 16, 17, 64, 255, 256, 4095, 4096, 4097, 8192, 16384, 65536, 70000)):
            data = pattern(size, n)
            device.poke(source, data)
            device.poke(target, b"\xa5" * (size + 64))
            try:
                device.move(target, source, size)
            except d.DeviceError as error:
                if error.code != d.EUNSUPPORTED:
                    raise
                continue
            expect_equal(
                device.peek(target, size + 64) == data + b"\xa5" * 64, True, f"a copy of {size} bytes is right"
            )
            count += 1
    if not count:
        raise Skipped("the chip copies none of these sizes")
    return count


@check("matmul", "products of all shapes that it takes, against the reference", OP, "PRESIL_OP_MATMUL", "chip")
def products(context) -> int:
    shapes = [(1, 1, 1, 1), (1, 1, 16, 1), (1, 2, 3, 4), (1, 5, 17, 9), (1, 16, 16, 16), (1, 17, 33, 31), (3, 4, 32, 8)]
    shapes += [(2, 7, 64, 5), (1, 1, 500, 3), (1, 33, 15, 1), (1, 3, 256, 40), (1, 64, 64, 64)]
    cases = [Product(types, *shape, columns) for types in TYPES for shape in shapes for columns in (True, False)]
    cases += [
        Product(types, *shape, columns) for types in TYPES for shape in context.products() for columns in (True, False)
    ]
    cases += [Product(types, 1, 6, 20, 10, True, row) for types in TYPES for row in (1, 32, 64)]
    _named_are_taken(context)
    return _run_all(context, cases, "product")


def _named_are_taken(context) -> None:
    """Each product that the description names, in one type at least: else all that is asked may be skipped."""
    with _open(context) as device:
        for shape in context.products():
            asked = [Product(types, *shape, columns).asked() for types in TYPES for columns in (True, False)]
            reasons = [device.supported(op) for op in asked]
            expect(None in reasons, f"chip.matmul names {list(shape)}, which the chip takes in no type: {reasons[0]}")


@check(
    "matmul-limits",
    "at the largest sizes that it takes; one more is EUNSUPPORTED, and nothing is done",
    CHIP,
    "Whether plan() would take the operator",
    "chip",
)
def product_limits(context) -> int:
    count, most = 0, 1 << 16
    with _open(context) as device:
        base = _small_product(context, device)
        if context.products():
            return _around(context, device, base)
        for name in ("m", "k", "n"):

            def sized(value: int, name=name) -> Product:
                sizes = {"m": 1, "k": 16, "n": 1} | {name: value}
                return Product(base.types, 1, sizes["m"], sizes["k"], sizes["n"], base.columns)

            low, high = 1, most
            while low < high:  # the largest size that is taken
                middle = (low + high + 1) // 2
                low, high = (middle, high) if device.supported(sized(middle).asked()) is None else (low, middle - 1)
            for size in {max(low - 1, 1), low} if low < most else {4099}:
                with _bench(context, device) as bench:
                    sized(size).run(bench)
                count += 1
            if low < most:
                with _bench(context, device) as bench:
                    try:
                        sized(low + 1).run(bench)
                    except d.DeviceError as error:
                        expect_equal(error.code, d.EUNSUPPORTED, f"{sized(low + 1)}, beyond the limit")
                    else:
                        raise Failed(f"{sized(low + 1)} was refused by supports() and taken by plan()")
                count += 1
                context.notes.append(f"{name} up to {low}")
    return count


def _around(context, device, base: Product) -> int:
    """Sizes near those of a product that the description names: each is taken and right, or refused by both."""
    near = [replace(base, **{name: size}) for name in "mkn" for size in _near(getattr(base, name))]
    for case in near:
        taken = device.supported(case.asked()) is None
        with _bench(context, device) as bench:
            try:
                case.run(bench)
                expect(taken, f"{case} was refused by supports() and taken by plan()")
            except d.DeviceError as error:
                expect_equal((taken, error.code), (False, d.EUNSUPPORTED), f"{case}: taken, and status of the launch")
        context.notes.append(f"{case}: {'taken' if taken else 'refused'}")
    return len(near)


def _near(size: int) -> list:
    return [value for value in (size - 1, size + 1, 2 * size) if value > 0]


def _convolutions(packed: bool) -> list:
    cases = []
    for types in TYPES:
        for shape, kernel, more in (
            ((1, 1, 1, 1), (1, 1, 1), {}),
            ((1, 5, 5, 3), (4, 3, 3), {"padding": (1, 1)}),
            ((2, 7, 6, 16), (16, 1, 1), {}),
            ((1, 9, 8, 17), (9, 3, 3), {"stride": (2, 2), "padding": (1, 1)}),
            ((1, 8, 8, 32), (32, 3, 3), {"padding": (1, 1)}),
            ((1, 10, 10, 8), (16, 5, 5), {"padding": (2, 2), "stride": (2, 2)}),
            ((1, 9, 9, 8), (8, 3, 3), {"dilation": (2, 2), "padding": (2, 2)}),
            ((1, 6, 6, 16), (16, 3, 3), {"groups": 2, "padding": (1, 1)}),
            ((1, 6, 6, 16), (16, 3, 3), {"groups": 16, "padding": (1, 1)}),
            ((1, 12, 12, 3), (8, 7, 7), {"stride": (2, 2), "padding": (3, 3)}),
            ((1, 6, 9, 48), (33, 1, 3), {"padding": (0, 1)}),
        ):
            cases.append(Convolution(types, shape, kernel, packed=packed, **more))
    return cases


@check(
    "conv",
    "convolutions, their kernel as it lies, against the reference, and at its limits",
    OP,
    "PRESIL_OP_CONV = 2",
    "chip",
)
def convolutions(context) -> int:
    count = _run_all(context, _convolutions(False), "convolution by view")
    return count + _at_limits(context, many_channels(False))


@check(
    "layouts",
    "convolutions with weights that the chip packed: as with the kernel as it lies, and at its limits",
    CHIP,
    "Packed weights: how many bytes",
    "chip",
)
def packed_convolutions(context) -> int:
    count = _run_all(context, _convolutions(True), "convolution with packed weights", ask=False)
    return count + _at_limits(context, many_channels(True))


@check(
    "pool",
    "maximum and average over windows, against the reference, and at its limits",
    OP,
    "PRESIL_OP_POOL_MAX = 7",
    "chip",
)
def pools(context) -> int:
    cases = [
        Pool(types, shape, kernel, stride, padding, largest)
        for types in POOLS
        for largest in (True, False)
        for shape, kernel, stride, padding in (
            ((1, 4, 4, 16), (2, 2), (2, 2), (0, 0)),
            ((1, 7, 7, 16), (3, 3), (2, 2), (1, 1)),
            ((2, 6, 5, 5), (3, 3), (1, 1), (0, 0)),
            ((1, 7, 7, 32), (7, 7), (1, 1), (0, 0)),
        )
    ]
    count = _run_all(context, cases, "pooling")
    return count + _at_limits(context, [many_pooled(types, largest) for types in POOLS for largest in (True, False)])


def _answer_to(device, case) -> str | None:
    """device.supported(), of packed weights too: these have to be packed to be asked about."""
    if not getattr(case, "packed", False):
        return device.supported(case.asked())
    with Bench(device, None) as bench:
        try:
            weight = case.operands(bench, 1)[1]
        except d.DeviceError as error:
            if error.code != d.EUNSUPPORTED:
                raise
            return str(error)
        return device.supported(case.asked(weight))


def _largest(device, make, most: int) -> int:
    """The largest size of the case make(size) that supports() takes; sizes below are taken for granted."""
    low, high = 0, most
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if _answer_to(device, make(middle)) is None else (low, middle - 1)
    return low


def _at_limit(context, device, make, most: int = 4096) -> int:
    """Runs the largest size that is taken, and the one below if that is taken too (a chip may want multiples); the next
    one is EUNSUPPORTED, and nothing is done."""
    low = _largest(device, make, most)
    taken = [size for size in (low - 1, low) if size > 0 and _answer_to(device, make(size)) is None]
    for size in taken:
        with _bench(context, device) as bench:
            try:
                make(size).run(bench)
            except d.DeviceError as error:
                raise Failed(f"{make(size)}: {error}") from error
    if 0 < low < most:
        with _bench(context, device) as bench:
            try:
                make(low + 1).run(bench)
            except d.DeviceError as error:
                expect_equal(error.code, d.EUNSUPPORTED, f"{make(low + 1)}, beyond the limit")
            else:
                raise Failed(f"{make(low + 1)} was refused by supports() and taken by plan()")
        context.notes.append(f"sizes up to {low}")
    return len(taken) + (0 < low < most)


def _at_limits(context, makes: list) -> int:
    """_at_limit() of each over channels."""
    with _open(context) as device:
        return sum(_at_limit(context, device, make) for make in makes)


def _swept(name: str, context) -> int:
    _, make, cases = sweep.KINDS[name]
    told = limits(context) if name == "elementwise" else None
    count = _run_all(context, cases() + (sweep.in_place() if told and told.in_place else []), name)
    with _open(context) as device:
        return count + _at_limit(context, device, make)


for _name, (_paragraph, _, _) in sweep.KINDS.items():
    check(_name, f"{_name}: all shapes and types that it takes, and at its limits", OP, _paragraph, "chip")(
        functools.partial(_swept, _name)
    )


@check(
    "verify",
    "a launch in mode verify is compared, with the chip's executor or without one, and right",
    DRIVER,
    "of a chip without an executor each operator is compared",
    "chip",
)
def verify(context) -> int:
    with _open(context, mode=d.VERIFY) as device, _bench(context, device) as bench:
        report = _small_work(context, device).run(bench)
        expect_equal(report.verified, 1, "`verified` of a report in mode verify")
    return 1


@check(
    "counters",
    "causes have names, and each engine's add up to the cycles",
    DRIVER,
    "each engine's sum = cycles",
    "chip",
)
def counters(context) -> int:
    count = 0
    with _open(context) as device:
        engines, causes = device.names()
        expect(bool(engines) == bool(causes), "names() has engines or causes, and not both")
        expect(all(engines), "an engine has no name")
        if not engines:
            context.notes.append("the chip names no engines: totals alone")
        work = _small_work(context, device)
        for seed in range(3):
            with _bench(context, device) as bench:
                report = work.run(bench, seed)
            expect(report.cycles > 0, "a launch of 0 cycles")
            expect(report.macs == work.macs(), f"macs of {work}: {report.macs}")
            for e, engine in enumerate(engines):
                expect_equal(sum(report.stalls[e]), report.cycles, f"cycles of all causes of {engine}")
                unnamed = [
                    i for i, cycles in enumerate(report.stalls[e]) if cycles and (i >= len(causes) or not causes[i])
                ]
                expect(not unnamed, f"cycles of {engine} are charged to causes without a name: {unnamed}")
                count += 2
            count += 2
    return count


@check(
    "launch-cycles",
    "the same operator takes the same cycles: ten times, and behind others",
    CHIP,
    "hash of the commands with addresses reduced",
    "chip",
)
def launch_cycles(context) -> int:
    with _open(context) as device, _bench(context, device) as bench:
        work = _small_work(context, device)
        found = [work.run(bench).cycles for _ in range(5)]
        Copying().run(bench) if device.supported(Copying().asked()) is None else work.run(bench, 2)
        found += [work.run(bench).cycles for _ in range(5)]
        expect_equal(found, [found[0]] * 10, f"cycles of {work}")
    return 10


@check(
    "hung-launch",
    "a memory that never answers: EHUNG with what the chip says, and the device works again",
    CHIP,
    "what every engine waits for",
    "chip",
)
def hangs(context) -> int:
    with _open(context) as device:
        work = _small_work(context, device)
        for model in (DEAD, "b=dead"):
            with _bench(context, device) as bench:
                device.set_memory_model(model)
                try:
                    work.run(bench)
                except d.DeviceError as error:
                    expect_equal(error.code, d.EHUNG, f"status with memory {model}")
                    said = re.sub(r"^.*?no progress for \d+ cycles: ", "", str(error))
                    silent = len(said) < 12 or said.startswith("the chip does not say")
                    expect(not silent, f"why() says no more than {said!r} of a launch that hangs")
                else:
                    raise Failed(f"a launch ended with memory {model}")
                device.set_memory_model("default")
                work.run(bench)
    return 6


@check(
    "recovery",
    "behind a bus error or a stop the status is right, and the device works again",
    DRIVER,
    "device was reset and is usable",
    "chip",
)
def recovery(context) -> int:
    count = 0
    with _open(context) as device:
        work, faults = _small_work(context, device), [("fatal@20", -10), ("stop@20", -10)]
        if not (context.description and context.description.ignores_bus_errors):
            faults += [("read-slverr@0", d.EBUS), ("write-decerr@0", d.EBUS)]
        with _bench(context, device) as bench:
            cycles = work.run(bench).cycles
        for fault, status in faults:
            with _bench(context, device) as bench:
                device.inject(fault)
                try:
                    work.run(bench)
                except d.DeviceError as error:
                    expect_equal(error.code, status, f"status behind {fault}")
                    expect(len(str(error)) > 10, f"no text behind {fault}")
                else:
                    what = (
                        "" if status != d.EBUS else ": the chip has to look at RRESP and BRESP, or ignores_bus_errors"
                    )
                    raise Failed(f"a launch with {fault} went well{what}")
                finally:
                    device.inject(None)
            with _bench(context, device) as bench:
                expect_equal(work.run(bench).cycles, cycles, f"cycles behind {fault}")
            count += 3
    return count


@check(
    "cancel-launch", "a cancelled launch is ECANCELLED, and the device works again", DRIVER, "async-signal-safe", "chip"
)
def cancels(context) -> int:
    import threading

    with _open(context) as device:
        work = _small_work(context, device)
        device.set_watchdog(1 << 62)  # nothing else than the cancel is to end it
        with _bench(context, device) as bench:
            device.set_memory_model(DEAD)
            over = threading.Event()

            def cancel() -> None:  # again and again: the first may come before the launch
                while not over.wait(0.1):
                    device.driver.presil_device_cancel(device.handle)

            canceller = threading.Thread(target=cancel)
            canceller.start()
            try:
                work.run(bench)
            except d.DeviceError as error:
                expect_equal(error.code, d.ECANCELLED, "status of a cancelled launch")
            else:
                raise Failed("a launch that was cancelled went well")
            finally:
                over.set()
                canceller.join()
            device.set_watchdog(WATCHDOG)
            device.set_memory_model("default")
        with _bench(context, device) as bench:
            work.run(bench)
    return 2
