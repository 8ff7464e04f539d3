# SPDX-License-Identifier: Apache-2.0
"""Level chip: whose cycles depend on commands alone (presil_chip_ops.timing) has them whatever the tensors hold."""

import numpy

from . import driver_api as d
from . import sweep
from .cases import TYPES, Bench, Convolution, Copying, Pool, Product, Types
from .checks import Failed, Skipped, check, expect_equal
from .chip_checks import _open, chip_library, limits
from .chip_table import table

CHIP = "driver/include/presil_chip.h"
PAGE = 4096
# Bits of what is special: NaN, both infinities, largest, smallest, -0, one; of integers their bounds.
BF16 = (0x7FC0, 0xFF80, 0x7F80, 0x7F7F, 0xFF7F, 0x0001, 0x8000, 0x3F80)
SPECIAL = {
    d.BF16: (numpy.uint16, BF16),
    d.FP16: (numpy.uint16, (0x7E00, 0xFC00, 0x7C00, 0x7BFF, 0xFBFF, 0x0001, 0x8000, 0x3C00)),
    d.FP32: (numpy.uint32, tuple(v << 16 for v in BF16) + (1, 0x7F7FFFFF, 0xFF7FFFFF)),
    d.INT8: (numpy.uint8, (0x80, 0x7F, 0xFF, 0x00, 0x01)),
    d.INT32: (numpy.uint32, (0x80000000, 0x7FFFFFFF, 0xFFFFFFFF, 0, 1)),
}
FLOATS = (d.BF16, d.FP16, d.FP32)
BYTES = (numpy.uint8, (0x80, 0x7F, 0xFF, 0x00))


def _special(dtype: int, count: int) -> bytes:
    element, bits = SPECIAL.get(dtype, BYTES)
    return numpy.resize(numpy.array(bits, element), count).tobytes()[:count]


def _one_value(dtype: int, count: int) -> bytes:
    """The largest everywhere: every product is the same, every sum grows."""
    element, bits = SPECIAL.get(dtype, BYTES)
    return numpy.full(count, bits[3 if dtype in FLOATS else 1], element).tobytes()[:count]


def _sparse(dtype: int, count: int) -> bytes:
    """Zeros, and something in one byte of 64 of the second half: what skips zeros, or gates by them, shows."""
    data = numpy.zeros(count, numpy.uint8)
    data[count // 2 :: 64] = 0x41
    return data.tobytes()


def _alternating(dtype: int, count: int) -> bytes:
    """Neighbours differ in every bit: what depends on toggling shows."""
    return numpy.resize(numpy.array((0x55, 0xAA), numpy.uint8), count).tobytes()


CONTENTS = {
    "zeros": lambda dtype, count: bytes(count),
    "NaN, infinities and bounds": _special,
    "its largest value": _one_value,
    "almost only zeros": _sparse,
    "alternating bits": _alternating,
    "other random bits": lambda dtype, count: numpy.random.default_rng(7).bytes(count),
}


def _numbers(report: d.Report) -> dict:
    """What the chip and its clock say of a launch."""
    found = {name: getattr(report, name) for name in ("cycles", "read_bytes", "write_bytes", "read_beats")}
    found |= {name: getattr(report, name) for name in ("write_beats", "descriptors")}
    return found | {"stalls": [list(engine) for engine in report.stalls]}


def _expect_same(found: dict, expected: dict, where: str) -> None:
    for name, value in expected.items():
        expect_equal(found[name], value, f"{name} {where}")


class _TimedBench(Bench):
    """Runs an operator on what it was given, then on other contents in the same place; nothing is compared but what the
    launches took."""

    def __init__(self, device: d.Device):
        super().__init__(device, None)
        self.numbers, self.launches = None, 0

    def compare(self, op: d.Op, what: str) -> d.Report:
        report = self.device.run(op)
        self.numbers, self.launches = _numbers(report), 1
        for contents, fill in CONTENTS.items():
            for operand in op.inputs:
                if hasattr(operand, "host") and operand.name != b"index":
                    self.device.poke(operand.data, fill(operand.dtype, operand.host.nbytes))
            _expect_same(_numbers(self.device.run(op)), self.numbers, f"on {contents}: {what}")
            self.launches += 1
        return report


def _cases() -> list:
    products = [Product(types, 1, 17, 33, 31, columns) for types in TYPES for columns in (True, False)]
    kernels = [
        Convolution(types, (1, 9, 8, 17), (9, 3, 3), stride=(2, 2), padding=(1, 1), packed=packed)
        for types in TYPES
        for packed in (True, False)
    ]
    pools = [
        Pool(Types(d.FP32, d.FP32, 2), (1, 7, 7, 16), (3, 3), (2, 2), (1, 1), largest) for largest in (True, False)
    ]
    others = [case for _, _, cases in sweep.KINDS.values() for case in cases()[:2]]
    return [Copying(4096), Copying(70000), *products, *kernels, *pools, *others]


def _timed(device, case) -> tuple:
    """(numbers, launches); None of an operator that the chip refuses."""
    with _TimedBench(device) as bench:
        try:
            case.run(bench)
        except d.DeviceError as error:
            if error.code != d.EUNSUPPORTED:
                raise Failed(f"{case}: {error}") from error
        return bench.numbers, bench.launches


@check(
    "timing",
    "a chip that declares what its cycles depend on: they are the same on random, zero, special and adversarial data, "
    "and at other addresses",
    CHIP,
    "The declaration that cycles and counters do not depend on the values of tensors",
    "chip",
)
def timing(context) -> int:
    library, told = chip_library(context), limits(context)
    if not library:
        raise Skipped("this chip is in the driver: no library of its own to ask")
    with table(context, library) as chip:
        if told.timing_needs_data or not chip.has("timing"):
            raise Skipped("the chip does not declare what its cycles depend on: none of them are kept for mode hybrid")
    count, taken = 0, 0
    with _open(context) as device:
        for case in [*[Product(TYPES[0], *shape) for shape in context.products()], *_cases()]:
            numbers, launches = _timed(device, case)
            if not numbers:
                continue
            between = device.alloc(PAGE)  # the same offsets in a page, not the same pages
            elsewhere, again = _timed(device, case)
            device.free(between)
            _expect_same(elsewhere, numbers, f"at other addresses: {case}")
            count, taken = count + launches + again, taken + 1
    if not count:
        raise Skipped("the chip takes none of the operators that were asked")
    context.notes.append(f"{taken} operators, each on {len(CONTENTS) + 1} contents, twice")
    return count
