# SPDX-License-Identifier: Apache-2.0
"""The reference (presil_reference.h) called on arrays that lie as oddly as they may."""

import sys
from pathlib import Path

import numpy

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "torch_ext" / "torch_presil"), str(ROOT / "tests")]

from conform import driver_api as d  # noqa: E402
from conform.reference import NUMPY, Reference  # noqa: E402

DTYPES = {numpy.dtype(kind): dtype for dtype, kind in NUMPY.items() if dtype not in (d.FP8_E4M3, d.FP8_E5M2, d.BF16)}


def strange(array: numpy.ndarray, seed: int) -> numpy.ndarray:
    """The same values in another order of dimensions, with gaps, some dimensions backwards."""
    if not array.ndim:
        return array.copy()
    draw = numpy.random.default_rng(seed)
    order = draw.permutation(array.ndim)
    gaps = [int(draw.integers(1, 4)) for _ in order]
    backwards = [bool(draw.integers(0, 2)) for _ in order]
    room = numpy.zeros([array.shape[i] * gap for i, gap in zip(order, gaps, strict=True)], array.dtype)
    room = room[tuple(slice(None, None, -gap if back else gap) for gap, back in zip(gaps, backwards, strict=True))]
    view = room.transpose(numpy.argsort(order))
    view[...] = array
    return view


def operand(name: str, array: numpy.ndarray, dtype: int | None = None) -> d.Operand:
    stride = [s // array.itemsize for s in array.strides]
    return d.operand(name, DTYPES[array.dtype] if dtype is None else dtype, array.shape, stride)


class Call:
    """One operator on named arrays; others: further outputs (name, dtype, shape). `dtypes` says what arrays are whose
    numpy type does not (bf16 as uint16...)."""

    def __init__(
        self, kind, inputs, shape, out, attributes=None, steps=(), compute=0, dtypes=None, seed=0, others=(), **parts
    ):
        arrays = [strange(numpy.asarray(a), seed + i) for i, a in enumerate(inputs.values())]
        known = dtypes or {}
        operands = [operand(name, a, known.get(name)) for name, a in zip(inputs, arrays, strict=True)]
        self.to = strange(numpy.zeros(shape, NUMPY[out]), seed + 9)
        outputs = [operand("output", self.to, out)]
        self.others = {name: strange(numpy.zeros(size, NUMPY[dtype]), seed + 10) for name, dtype, size in others}
        outputs += [operand(name, self.others[name], dtype) for name, dtype, _ in others]
        self.op = d.Op(kind, operands, outputs, attributes or {}, list(steps), compute)
        self.reference = Reference(self.op, arrays, **parts)

    def result(self) -> numpy.ndarray:
        return self.reference.store(self.to)

    def other(self, name: str) -> numpy.ndarray:
        number = 1 + list(self.others).index(name)
        return self.reference.of_output(number).store(self.others[name])

    def differs(self, found: numpy.ndarray, tolerance=None) -> str | None:
        self.to[...] = found
        return self.reference.differs(self.to, tolerance)
