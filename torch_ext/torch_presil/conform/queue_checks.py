# SPDX-License-Identifier: Apache-2.0
"""Level chip: several launches with the chip at once, where it takes them."""

from . import driver_api as d
from .cases import Copying
from .checks import Skipped, check, expect_equal
from .chip_checks import _bench, _open, _small_work, limits
from .context import pattern

CHIP = "driver/include/presil_chip.h"
SIZE = 4096


@check(
    "queue",
    "launches that are submitted before the first is over: each one's result, in the order of submit(), and a report",
    CHIP,
    "They are over in the order of submit()",
    "chip",
)
def queue(context) -> int:
    told = limits(context)
    if not told or told.queue_depth < 2:
        raise Skipped("it takes one launch at a time (queue_depth)")
    count = 0
    for depth in (1, 2, told.queue_depth):
        with _open(context, queue_depth=depth) as device:
            count += _side_by_side(context, device, 3 * depth) + _one_behind_the_other(device, 3 * depth)
    context.notes.append(f"up to {told.queue_depth} at once")
    return count


def _run_all(device, ops: list, what: str) -> None:
    """All are enqueued before anything is waited for; each has a report, in their order."""
    device.reports.clear()
    for op in ops:
        device.enqueue(op)
    device.synchronize()
    expect_equal(len(device.reports), len(ops), f"reports of {len(ops)} {what}")
    expect_equal([report.status for report in device.reports], [0] * len(ops), f"statuses of {what}")
    numbers = [report.launch for report in device.reports]
    expect_equal(numbers, sorted(numbers), f"order of the reports of {what}")


def _side_by_side(context, device, count: int) -> int:
    """Each with tensors of its own; then all to the same place: what is there in the end is the last one's."""
    work = _small_work(context, device)
    with _bench(context, device) as bench:
        ops = [work.placed(bench, seed) for seed in range(count)]
        expected = [bench.reference(op) for op in ops]
        mixed = [each for op in ops for each in (op, d.Op(d.NOP))]
        _run_all(device, mixed, f"launches in flight ({work}), each with an empty one behind it")
        for op, right in zip(ops, expected, strict=True):
            bench.is_right(op, right, f"{work}, in flight with others")
        for op in ops[1:]:
            op.outputs = ops[0].outputs
        _run_all(device, ops, f"launches to one place ({work})")
        bench.is_right(ops[-1], expected[-1], f"{work}, the last of {count} to one place")
    return count + 1


def _one_behind_the_other(device, count: int) -> int:
    """Copies of which each reads what the one before wrote."""
    op = Copying(SIZE).asked()
    if device.supported(op) is not None:
        return 0
    places = [device.alloc(SIZE) for _ in range(count + 1)]
    for place in places:
        device.poke(place, bytes(SIZE))
    data = pattern(SIZE, 5)
    device.poke(places[0], data)
    chain = []
    for source, target in zip(places[:-1], places[1:], strict=True):
        chain.append(Copying(SIZE).asked())
        chain[-1].inputs[0].data, chain[-1].outputs[0].data = source, target
    _run_all(device, chain, "copies in a chain")
    for n, place in enumerate(places[1:]):
        expect_equal(device.peek(place, SIZE) == data, True, f"copy {n} of a chain has what the one before wrote")
        device.free(place)
    device.free(places[0])
    return count
