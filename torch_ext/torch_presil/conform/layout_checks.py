# SPDX-License-Identifier: Apache-2.0
"""Level chip: activations in a layout of the chip's own, packed and unpacked by its library alone."""

import ctypes
import math

import numpy

from . import driver_api as d
from . import reference as r
from . import sweep
from .cases import TYPES, Convolution, Pool, Product, Types
from .checks import Skipped, check, expect, expect_equal
from .chip_checks import chip_library
from .chip_table import table

CHIP = "driver/include/presil_chip.h"
GUARD, GAP = 64, 3  # bytes around what is packed; elements between rows
MARK = 0xA5


def _asked() -> list:
    """Operators of all kinds and types, whether the chip takes them or not."""
    shapes = (1, 5, 5, 3), (2, 7, 6, 16), (1, 9, 8, 17), (3, 2, 3, 33), (1, 1, 12, 48), (1, 4, 4, 16), (2, 3, 5, 40)
    cases = [Convolution(types, shape, (shape[3], 1, 1)) for types in TYPES for shape in shapes]
    types = [Types(dtype, dtype, 0) for dtype in r.NUMPY]
    cases += [Pool(of, shape, (1, 1), (1, 1)) for of in types for shape in shapes]
    cases += [Product(types, 2, 5, 17, 9) for types in TYPES]
    cases += [case for _, _, listed in sweep.KINDS.values() for case in listed()]
    return [case.asked() for case in cases]


def _wanted(chip, op, operand) -> tuple | None:
    """(layout, bytes) that the chip wants for the operand; None: as it lies."""
    layout, size = ctypes.c_void_p(), ctypes.c_uint64()
    code = chip.call(
        "activation", ctypes.byref(op.c()), ctypes.byref(operand), ctypes.byref(layout), ctypes.byref(size)
    )
    expect(code in (d.OK, d.EUNSUPPORTED), f"activation() gives {code}: 0 or EUNSUPPORTED expected")
    return (layout.value, size.value) if code == d.OK else None


class _Tensor:
    """Random values in memory of the host: without gaps, or with gaps behind each row."""

    def __init__(self, operand, layout: int, gaps: bool):
        self.shape, self.kind = tuple(operand.shape[: operand.ndim]), r.NUMPY[operand.dtype]
        row = self.shape[-1] + (GAP if gaps and operand.ndim > 1 else 0)
        self.whole = (*self.shape[:-1], row)
        stride = [math.prod(self.whole[i + 1 :]) for i in range(len(self.whole))]
        self.operand = d.operand(operand.name.decode(), operand.dtype, self.shape, stride)
        self.operand.layout = layout

    def marked(self) -> numpy.ndarray:
        return numpy.full(math.prod(self.whole) * self.kind().itemsize + 2 * GUARD, MARK, numpy.uint8)

    def laid(self, values: numpy.ndarray) -> numpy.ndarray:
        """The values as they lie, with marks around and between them."""
        raw = self.marked()
        inside = raw[GUARD : len(raw) - GUARD].view(self.kind).reshape(self.whole)
        inside[..., : self.shape[-1]] = values
        return raw


def _at(raw: numpy.ndarray) -> ctypes.c_void_p:
    return ctypes.c_void_p(raw.ctypes.data + GUARD)


def _packed(chip, tensor: _Tensor, laid: numpy.ndarray, size: int, fill: int, what: str) -> bytes:
    before, raw = laid.copy(), numpy.full(size + 2 * GUARD, MARK, numpy.uint8)
    raw[GUARD : GUARD + size] = fill
    expect_equal(
        chip.call("pack_activation", ctypes.byref(tensor.operand), _at(laid), _at(raw)),
        0,
        f"pack_activation() of {what}",
    )
    beside = numpy.concatenate([raw[:GUARD], raw[GUARD + size :]])
    expect(bool((beside == MARK).all()), f"{what}: pack_activation() writes beside the {size} bytes of activation()")
    expect(bool((before == laid).all()), f"{what}: pack_activation() changes what it packs")
    return raw[GUARD : GUARD + size].tobytes()


def _round_trip(chip, operand, layout: int, size: int, what: str) -> int:
    values = r.random_bits(tuple(operand.shape[: operand.ndim]), operand.dtype, size)
    found = []
    for gaps in (False, True):
        tensor = _Tensor(operand, layout, gaps)
        laid = tensor.laid(values)
        found += [_packed(chip, tensor, laid, size, fill, what) for fill in (0x00, 0xFF)]
        back = tensor.marked()
        source = numpy.frombuffer(b"\0" * GUARD + found[-1], numpy.uint8).copy()
        code = chip.call("unpack_activation", ctypes.byref(tensor.operand), _at(source), _at(back))
        expect_equal(code, 0, f"unpack_activation() of {what}")
        expect(bool((back == laid).all()), f"{what}: unpacked it is not what was packed, or bytes between are written")
    expect(found[0] == found[1], f"{what}: pack_activation() leaves some of the {size} bytes as they were")
    expect(found[0] == found[2], f"{what}: the same tensor with other strides is packed to other bytes")
    return 9


@check(
    "activations",
    "tensors in the chip's own layout: packed and unpacked they are what they were, and nothing beside",
    CHIP,
    "what tells layouts apart: tensors of one dtype and",
    "chip",
)
def activations(context) -> int:
    library, count, seen = chip_library(context), 0, set()
    if not library:
        raise Skipped("this chip is in the driver: no library of its own to ask")
    with table(context, library) as chip:
        if not chip.has("activation"):
            raise Skipped("the chip has no activation(): tensors are used as they lie")
        for op in _asked():
            for operand in (*op.inputs, *op.outputs):
                wanted = _wanted(chip, op, operand)
                shape = tuple(operand.shape[: operand.ndim])
                key = (wanted, operand.dtype, shape)
                if wanted is None or key in seen:
                    continue
                seen.add(key)
                what = f"{operand.name.decode()} {r.NAMES[operand.dtype]} {list(shape)}"
                expect_equal(_wanted(chip, op, operand), wanted, f"{what}: activation() a second time")
                expect(wanted[0] is not None and wanted[1] > 0, f"{what}: activation() gives no layout, or no bytes")
                count += 2 + _round_trip(chip, operand, *wanted, what)
    if not count:
        raise Skipped("the chip wants none of the tensors that were asked in a layout of its own")
    context.notes.append(f"{len(seen)} tensors")
    return count
