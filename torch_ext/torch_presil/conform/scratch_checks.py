# SPDX-License-Identifier: Apache-2.0
"""Level chip: memory that a launch needs only while it runs."""

from . import driver_api as d
from .checks import Skipped, check, expect, expect_equal
from .chip_checks import _bench, _open, _small_work, limits
from .context import pattern

CHIP = "driver/include/presil_chip.h"
PAGE = 4096


def _least(fits, most: int) -> int:
    """The smallest size that is enough."""
    low = 1
    while low < most:
        middle = (low + most) // 2
        low, most = (low, middle) if fits(middle) else (middle + 1, most)
    return low


@check(
    "scratch",
    "memory that a launch needs only while it runs: what is in it before changes nothing, and nothing beside it is "
    "written",
    CHIP,
    "Device memory that the launch needs only while it runs",
    "chip",
)
def scratch(context) -> int:
    with _open(context) as device:
        work = _small_work(context, device)

        def run() -> d.Report:
            with _bench(context, device) as bench:
                return work.run(bench)

        def fits(size: int) -> bool:
            device.place_scratch(places[0] + PAGE, size)
            try:
                run()
            except d.DeviceError as error:
                if error.code != d.EINVAL:
                    raise
                return False
            return True

        run()
        block = device.scratch()
        if not block:
            raise Skipped("the launches that were asked for need no scratch memory")
        places = [device.alloc(block + 2 * PAGE) for _ in range(2)]
        if not fits(block):
            raise Skipped("it wants its scratch memory at multiples of more than a page")
        size, cycles, count = _least(fits, block), set(), 0
        for place in places:
            for contents in (bytes(block + 2 * PAGE), b"\xff" * (block + 2 * PAGE), pattern(block + 2 * PAGE, 1)):
                device.place_scratch(place + PAGE, size)
                device.poke(place, contents)
                cycles.add(run().cycles)
                found = device.peek(place, len(contents))
                for what, part in (("before", slice(PAGE)), ("behind", slice(PAGE + size, None))):
                    expect(found[part] == contents[part], f"it wrote {what} its scratch memory of {size} bytes")
                count += 3
        for place in places:
            device.free(place)
        context.notes.append(f"{size} bytes")
    told = limits(context)
    if not (told and told.timing_needs_data):
        expect_equal(len(cycles), 1, f"how many different cycles there are ({sorted(cycles)})")
    return count
