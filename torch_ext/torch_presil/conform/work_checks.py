# SPDX-License-Identifier: Apache-2.0
"""Level chip: what a chip says of a launch before it runs: what it moves (presil_chip_ops.usage), and what its cycles
are made of (work), of which launches that nobody simulated are estimated."""

import tempfile
from itertools import product
from pathlib import Path

from . import driver_api as d
from . import estimator
from .cases import TYPES, Bench, Convolution, Copying, Product
from .checks import Failed, Skipped, check, expect, expect_equal
from .chip_checks import _open, chip_library, limits
from .chip_table import table
from .launch_listener import AMOUNTS, Listener, Told, Usage, Work
from .timing_checks import PAGE, _cases

CHIP, DRIVER = "driver/include/presil_chip.h", "driver/include/presil.h"
ROLES = 9  # presil_traffic_role
LEAST = 40  # launches, of which 32 are enough for an estimate of another (docs/hybrid.md)


def _has(context, name: str, lacks: str) -> None:
    library = chip_library(context)
    if not library:
        raise Skipped("this chip is in the driver: no library of its own to ask")
    with table(context, library) as chip:
        if not chip.has(name):
            raise Skipped(lacks)


class _Asked(Bench):
    """Runs an operator and asks the chip of it; its result is other checks' to compare."""

    def __init__(self, device: d.Device, listener: Listener):
        super().__init__(device, None)
        self.listener = listener
        self.launch = None  # (report, what the chip told)

    def compare(self, op: d.Op, what: str) -> d.Report:
        self.listener.told.clear()
        report = self.device.run(op)
        expect(report is not None, f"{what}: the launch gave no report")
        self.launch = report, self.listener.take()
        return report


def _launch(device, listener: Listener, case) -> tuple | None:
    """None of an operator that the chip refuses."""
    with _Asked(device, listener) as bench:
        try:
            case.run(bench)
        except d.DeviceError as error:
            if error.code != d.EUNSUPPORTED:
                raise Failed(f"{case}: {error}") from error
        return bench.launch


def _sweep() -> list:
    """Groups of like operators, small and large: of each kind the first one whose first operator the chip takes."""
    products = list(product((5, 1, 17, 40), (48, 16, 130), (7, 16, 40)))
    shapes = list(product((7, 4, 10), (16, 3, 24), (16, 4, 24), (3, 1)))
    return [
        [[Copying(size) for size in (4096, 16, 64, 256, 1024, 10_000, 20_000, 40_000)]],
        [[Product(types, 1, *size, columns) for size in products] for types in TYPES for columns in (True, False)],
        [[Convolution(types, (1, h, h, c), (o, k, k), packed=True) for h, c, o, k in shapes] for types in TYPES],
    ]


def _swept(context, device, listener: Listener) -> list:
    """(report, what the chip told, case)"""
    named = [Product(TYPES[0], *shape) for shape in context.products()]
    launches = [(*launch, case) for case in named if (launch := _launch(device, listener, case))]
    for groups in _sweep():
        for first, *others in groups:
            if launch := _launch(device, listener, first):
                found = [(launch, first), *((_launch(device, listener, case), case) for case in others)]
                launches += [(*launch, case) for launch, case in found if launch]
                break
    return launches


# ---- usage


def _usage_of(told: Told, case) -> Usage | None:
    """None where the chip doesn't know of this plan."""
    (code, first), (again_code, again) = told.usage
    expect_equal((again_code, again), (code, first), f"usage() of the same plan, asked again: {case}")
    if code == d.EUNSUPPORTED:
        return None
    expect_equal(code, 0, f"result of usage(): {case}")
    expect_equal(len(first), 1, f"calls of tell(): {case}")
    return first[0]


def _usage_is_right(said: Usage, report: d.Report, case) -> int:
    for name, role, _, read, _, again in said.rows:
        expect(bool(name) and role < ROLES, f"a row of traffic with a name and a role was expected: {case}")
        expect(again <= read, f"{name.decode()}: {again} of {read} bytes were read before: {case}")
    for name, capacity, reserved, most in said.memories:
        expect(bool(name), f"a memory with a name was expected: {case}")
        expect(max(reserved, most) <= capacity, f"{name.decode()} of {capacity} bytes holds {most}: {case}")
    counted = [row for row in said.rows if not row[2]]
    for way, place in (("read_bytes", 3), ("write_bytes", 4)):
        told = sum(row[place] for row in counted)
        expect_equal(told, getattr(report, way), f"{way} of usage()'s rows, as counters() counts them: {case}")
    for name, beats in said.beats.items():
        expect_equal(beats, getattr(report, name), f"{name} of usage(), as counters() counts them: {case}")
    return 2 + len(said.rows) + len(said.memories) + len(said.beats)


@check(
    "usage",
    "a chip that says what its commands move: rows add up to the bytes that it counts, beats are those that it counts, "
    "memories hold no more than they have",
    DRIVER,
    "The rows of a launch that are not `apart` add up to the read_bytes and write_bytes of its report",
    "chip",
)
def usage(context) -> int:
    _has(context, "usage", "the chip does not say what its commands move (usage)")
    count, launches = 0, []
    with _open(context) as device:
        listener = Listener(device)
        found = [(*launch, case) for case in _cases() if (launch := _launch(device, listener, case))]
        for report, told, case in [*found, *_swept(context, device, listener)]:
            if said := _usage_of(told, case):
                launches.append((said, report, case))
    if not launches:
        raise Skipped("the chip says of none of the operators that were asked what they move")
    if not any(report.read_bytes + report.write_bytes for _, report, _ in launches):
        raise Skipped("the chip counts no bytes: nothing to compare those of usage() with")
    for said, report, case in launches:
        count += _usage_is_right(said, report, case)
    context.notes.append(f"{len(launches)} launches")
    return count


# ---- work


def _expect_same(found: Work, expected: Work, of: str) -> None:
    for name in ("kind", "cycles", "count"):
        expect_equal(getattr(found, name), getattr(expected, name), f"{name} of {of}")
    expect_equal(list(found.amounts), list(expected.amounts), f"amounts of {of}")
    for number, (engine, before) in enumerate(zip(found.stalls, expected.stalls, strict=True)):
        expect_equal(list(engine), list(before), f"stalls of engine {number} of {of}")


def _work_of(told: Told, case) -> Work | None:
    (code, first), (again_code, again) = told.work
    expect_equal(again_code, code, f"result of work() of the same plan, asked again: {case}")
    if code == d.EUNSUPPORTED or told.timing[0] == d.EUNSUPPORTED:
        return None
    expect_equal(code, 0, f"result of work(): {case}")
    expect(first.count <= AMOUNTS, f"at most {AMOUNTS} amounts were expected, {first.count} found: {case}")
    _expect_same(again, first, f"work() of the same plan, asked again: {case}")
    expect(first.cycles > 0, f"cycles of work() are 0: {case}")
    most = max(sum(engine) for engine in first.stalls)
    expect(4 * most <= 5 * first.cycles, f"an engine's stalls add up to {most}, of {first.cycles} cycles: {case}")
    return first


def _is_near(launches: dict) -> int:
    """Each launch is estimated from the others: it needs those most like it, and expectations that are off alike."""
    expected = [(key, report.cycles, work) for key, (report, work, _) in launches.items() if report.cycles]
    if len(expected) < LEAST or not estimator.library().exists():
        return 0
    with tempfile.TemporaryDirectory() as folder:
        found = estimator.estimates(expected, Path(folder))
    estimated = [guess / cycles for cycles, guess in found if guess]
    off = sorted(work.cycles / cycles for _, cycles, work in expected)
    expect(
        2 * len(estimated) >= len(expected),
        f"{len(estimated)} of {len(expected)} launches are estimated from the others, at least half were expected: "
        f"cycles of work() are {off[0]:.2g} to {off[-1]:.2g} of those that they take, and not alike at like launches",
    )
    return len(estimated)


@check(
    "work",
    "a chip that says what its cycles are made of: the same of equal launches, and near enough that launches which "
    "nobody simulated are estimated from others",
    CHIP,
    "Plans of which timing() tells the same have the same work",
    "chip",
)
def work(context) -> int:
    _has(context, "work", "the chip does not say what its cycles are made of (work): no launch is estimated")
    told, launches, count = limits(context), {}, 0
    _has(context, "timing", "the chip does not declare what its cycles depend on: no launch is estimated")
    if told.timing_needs_data:
        raise Skipped("the chip's cycles depend on data: no launch is estimated")
    with _open(context) as device:
        listener = Listener(device)
        found = _swept(context, device, listener)
        between = device.alloc(PAGE)  # the same offsets in a page, not the same pages
        found += [(*launch, case) for *_, case in found[:] if (launch := _launch(device, listener, case))]
        device.free(between)
    for report, said, case in found:
        if not (expected := _work_of(said, case)):
            continue
        _, before, _ = launches.setdefault(said.timing[1], (report, expected, case))
        _expect_same(expected, before, f"work() of a plan with the same timing(): {case}")
        count += 1
    if not count:
        raise Skipped("the chip says of none of the operators that were asked what their cycles are made of")
    near = _is_near(launches)
    context.notes.append(f"{len(launches)} different launches, {near} of them estimated from the others")
    return count + near
