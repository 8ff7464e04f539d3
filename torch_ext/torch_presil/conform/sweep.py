# SPDX-License-Identifier: Apache-2.0
"""Operators of all kinds that have no cases of their own: what is asked of a chip, at sizes where tiles end."""

from dataclasses import dataclass

import numpy

from . import driver_api as d
from . import reference as r

SIZES = (1, 2, 15, 16, 17, 33)
SCALED = (d.Step(d.SCALE, d.NO_OPERAND, 1 / 512), d.Step(d.QUANTIZE, d.NO_OPERAND, 0, 0, 0, 3, -128, 127))
# Operands, results, how products are formed, steps.
PRODUCTS = (
    (d.INT8, d.INT32, 0, ()),
    (d.INT8, d.INT8, 0, SCALED),
    (d.BF16, d.BF16, 1, ()),
    (d.BF16, d.FP32, 1, ()),
    (d.FP32, d.FP32, 2, ()),
)
FLOATS = (d.FP32, d.BF16, d.FP16)
ALL = (d.INT8, d.UINT8, d.INT16, d.INT32, *FLOATS)


@dataclass(frozen=True)
class Operator:
    """One operator: inputs are (name, dtype, shape), the output (dtype, shape), others as inputs. over: the input that
    the output is."""

    kind: int
    inputs: tuple
    out: tuple
    attributes: tuple = ()
    steps: tuple = ()
    compute: int = 0
    others: tuple = ()
    over: str = ""

    def __str__(self) -> str:
        inputs = ", ".join(f"{name} {r.NAMES[dtype]} {list(shape)}" for name, dtype, shape in self.inputs)
        more = "".join(f", {name} {value}" for name, value in self.attributes)
        others = "".join(f", {name}" for name, _, _ in self.others)
        where = f" over {self.over}" if self.over else ""
        return f"{inputs} to {r.NAMES[self.out[0]]} {list(self.out[1])}{where}{others}{more}"

    def asked(self) -> d.Op:
        inputs = [d.operand(*i) for i in ((name, dtype, shape) for name, dtype, shape in self.inputs)]
        return self._op(inputs, [d.operand("output", *self.out), *(d.operand(*other) for other in self.others)])

    def _op(self, inputs: list, outputs: list) -> d.Op:
        return d.Op(self.kind, inputs, outputs, dict(self.attributes), list(self.steps), self.compute)

    def operands(self, bench, seed: int) -> list:
        return [
            bench.tensor(name, self._values(name, dtype, shape, seed + i), dtype)
            for i, (name, dtype, shape) in enumerate(self.inputs)
        ]

    def run(self, bench, seed: int = 1) -> d.Report:
        outputs = [bench.output(shape, dtype, name) for name, dtype, shape in (("output", *self.out), *self.others)]
        inputs = self.operands(bench, seed)
        for operand in inputs:
            if operand.name.decode() == self.over:
                bench.device.poke(outputs[0].data, operand.host.tobytes())
                operand.data = outputs[0].data
        op = self._op(inputs, outputs)
        return bench.compare(op, str(self))

    def _values(self, name: str, dtype: int, shape: tuple, seed: int) -> numpy.ndarray:
        if name == "index":
            most = self.inputs[0][2][dict(self.attributes).get("dim", [0])[0]]
            return numpy.random.default_rng(seed).integers(0, most, shape).astype(r.NUMPY[dtype])
        values = r.random_bits(shape, dtype, seed)
        return abs(values) if name == "variance" else values


def transposed(channels: int = 8, size: int = 5, kernel: int = 3, stride: int = 2, groups: int = 1, types=PRODUCTS[0]):
    operand, result, compute, steps = types
    out = (size - 1) * stride + kernel - 2 * (kernel // 2)
    inputs = ("input", operand, (1, size, size, channels)), ("weight", operand, (channels, kernel, kernel, 6 // groups))
    attributes = ("stride", [stride] * 2), ("padding", [kernel // 2] * 2), ("groups", [groups])
    return Operator(d.CONV_TRANSPOSE, inputs, (result, (1, out, out, 6)), attributes, steps, compute)


def depthwise(channels: int = 8, size: int = 6, kernel: int = 3, stride: int = 1, types=PRODUCTS[0]):
    operand, result, compute, steps = types
    out = (size + 2 * (kernel // 2) - kernel) // stride + 1
    inputs = ("input", operand, (2, size, size, channels)), ("weight", operand, (channels, kernel, kernel, 1))
    attributes = ("stride", [stride] * 2), ("padding", [kernel // 2] * 2)
    return Operator(d.DEPTHWISE, inputs, (result, (2, out, out, channels)), attributes, steps, compute)


def gradient(channels: int = 8, size: int = 6, kernel: int = 3, stride: int = 1, groups: int = 1, types=PRODUCTS[4]):
    operand, result, compute, _ = types
    out = (size + 2 * (kernel // 2) - kernel) // stride + 1
    inputs = ("input", operand, (2, size, size, channels)), ("grad", operand, (2, out, out, 4))
    attributes = ("stride", [stride] * 2), ("padding", [kernel // 2] * 2), ("groups", [groups])
    shape = (4, kernel, kernel, channels // groups)
    return Operator(d.WEIGHT_GRADIENT, inputs, (result, shape), attributes, (), compute)


def elementwise(
    columns: int = 16, function: str = "add", dtype: int = d.INT8, other: tuple = (), over: str = "", more: tuple = ()
):
    shape = (3, columns)
    inputs = [("input", dtype, shape)]
    if function in ("add", "sub", "mul", "maximum", "minimum"):
        inputs.append(("other", dtype, other or shape))
    return Operator(d.ELEMENTWISE, tuple(inputs), (dtype, shape), (("function", function), *more), over=over)


def reduction(columns: int = 16, function: str = "sum", dtype: int = d.INT32, dims: tuple = (1,)):
    shape = (3, columns, 5)
    out = tuple(1 if i in dims else size for i, size in enumerate(shape))
    attributes = ("function", function), ("dims", list(dims))
    return Operator(d.REDUCTION, (("input", dtype, shape),), (dtype, out), attributes)


def softmax(columns: int = 16, dtype: int = d.FP32, dim: int = -1, logarithm: int = 0):
    shape = (3, columns, 5) if dim == 1 else (3, columns)
    attributes = ("dim", [dim]), ("log", [logarithm])
    return Operator(d.SOFTMAX, (("input", dtype, shape),), (dtype, shape), attributes)


def norm(channels: int = 16, function: str = "layer", dtype: int = d.FP32, parts: tuple = ("weight", "bias"), groups=1):
    shape = (2, 3, 4, channels)
    inputs = ("input", dtype, shape), *((name, dtype, (channels,)) for name in parts)
    attributes = (("function", function), ("epsilon", 1e-3)) + ((("groups", [groups]),) if groups > 1 else ())
    return Operator(d.NORM, inputs, (dtype, shape), attributes)


def norm_with_statistics(channels: int = 16, function: str = "layer", dtype: int = d.FP32, dims: int = 1):
    """What PyTorch keeps for gradients."""
    shape = (2, 3, channels)
    inputs = [("input", dtype, shape), ("weight", dtype, shape[-dims:])]
    if function == "layer":
        inputs.append(("bias", dtype, shape[-dims:]))
    statistics = shape[:-dims] + (1,) * dims
    names = ("mean", "rstd") if function == "layer" else ("rstd",)
    attributes = ("function", function), ("epsilon", 1e-3)
    others = tuple((name, dtype, statistics) for name in names)
    return Operator(d.NORM, tuple(inputs), (dtype, shape), attributes, others=others)


def pool_with_index(channels: int = 16, dtype: int = d.FP32, index: int = d.INT64, kernel=2, stride=2, padding=0):
    size = (7 + 2 * padding - kernel) // stride + 1
    shape, out = (2, 7, 7, channels), (2, size, size, channels)
    attributes = ("kernel", [kernel] * 2), ("stride", [stride] * 2), ("padding", [padding] * 2)
    inputs = (("input", dtype, shape),)
    return Operator(d.POOL_MAX, inputs, (dtype, out), attributes, others=(("index", index, out),))


def gather(columns: int = 16, dtype: int = d.FP32, index: int = d.INT32, dim: int = 0, beside: bool = False):
    shape = (5, columns)
    indices = shape if beside else (2, 3)
    out = shape if beside else shape[:dim] + indices + shape[dim + 1 :]
    inputs = ("input", dtype, shape), ("index", index, indices)
    return Operator(d.GATHER, inputs, (dtype, out), (("dim", [dim]),))


def products_of(make) -> list:
    """A convolution of some kind: all types, then channels, kernels and strides in turn."""
    known = PRODUCTS[2:] if make is gradient else PRODUCTS  # gradients are of floats (presil.h)
    cases = [make(types=types, **more) for types in known for more in ({}, {"kernel": 1}, {"stride": 2, "size": 7})]
    cases += [make(channels, types=types) for types in (known[1], known[-1]) for channels in SIZES]
    if make is not depthwise:
        cases += [make(groups=2, types=types) for types in known]
    return cases


TWO, ONE = ("add", "sub", "mul", "maximum", "minimum"), ("neg", "abs", "relu")
CURVES = ("sigmoid", "tanh", "exp", "gelu", "silu", "hardswish")
VARIED = (
    ("gelu", (("approximate", "tanh"),)),
    ("clamp", (("low", 0.0), ("high", 6.0))),
    ("clamp", (("low", -0.5),)),
    ("clamp", (("high", 0.5),)),
)


def elementwises() -> list:
    cases = [elementwise(function=f, dtype=t) for f in TWO + ONE for t in ALL]
    cases += [elementwise(size, dtype=t) for size in SIZES for t in (d.INT8, d.BF16, d.FP32)]
    cases += [elementwise(16, f, t) for f in CURVES for t in FLOATS]
    cases += [elementwise(16, f, t, more=more) for f, more in VARIED for t in FLOATS]
    return cases + [elementwise(other=other, dtype=t) for other in ((16,), (3, 1), (1,)) for t in (d.INT8, d.FP32)]


def in_place() -> list:
    """For a chip whose limits say so."""
    cases = [elementwise(size, f, t, over="input") for size in SIZES for f in ("add", "relu") for t in (d.INT8, d.FP32)]
    cases += [elementwise(16, f, t, over=over) for f in TWO for t in (d.INT8, *FLOATS) for over in ("input", "other")]
    cases += [elementwise(16, f, t, over="input") for f in ("neg", *CURVES) for t in FLOATS]
    cases += [elementwise(16, f, d.FP32, over="input", more=more) for f, more in VARIED]
    return cases + [elementwise(other=other, dtype=d.FP32, over="input") for other in ((16,), (3, 1), (1,))]


def norms() -> list:
    cases = [norm(16, f, t) for f in ("layer", "batch", "group") for t in FLOATS]
    cases += [norm(16, "rms", t, ("weight",)) for t in FLOATS]
    cases += [norm(size, f, d.FP32, parts) for size in SIZES for f in ("layer", "batch") for parts in ((), ("weight",))]
    cases += [norm(16, "batch", t, ("weight", "bias", "mean", "variance")) for t in FLOATS]
    cases += [norm(16, "group", groups=groups) for groups in (2, 16)]
    cases += [norm_with_statistics(16, f, t, dims) for f in ("layer", "rms") for t in FLOATS for dims in (1, 2)]
    return cases + [norm_with_statistics(size) for size in SIZES]


def indices() -> list:
    cases = [pool_with_index(16, t, i) for t in (d.INT8, *FLOATS) for i in (d.INT32, d.INT64)]
    return cases + [
        pool_with_index(size, t, d.INT64, 3, stride, padding)
        for size in SIZES
        for t in (d.INT8, d.FP32)
        for stride, padding in ((1, 0), (2, 1))
    ]


# Check -> the paragraph, one of a size, and the sweep.
KINDS = {
    "conv-transpose": ("PRESIL_OP_CONV_TRANSPOSE = 3", transposed, lambda: products_of(transposed)),
    "depthwise": ("PRESIL_OP_DEPTHWISE = 4", depthwise, lambda: products_of(depthwise)),
    "weight-gradient": ("PRESIL_OP_WEIGHT_GRADIENT = 6", gradient, lambda: products_of(gradient)),
    "elementwise": ("PRESIL_OP_ELEMENTWISE = 9", elementwise, elementwises),
    "reduction": (
        "PRESIL_OP_REDUCTION = 10",
        reduction,
        lambda: (
            [reduction(16, f, t) for f in ("sum", "mean", "amax", "amin") for t in (d.INT32, d.INT8, *FLOATS)]
            + [
                reduction(size, "sum", t, dims)
                for size in SIZES
                for t in (d.INT32, d.FP32)
                for dims in ((0,), (1,), (0, 2))
            ]
        ),
    ),
    "pool-index": ("PRESIL_OP_POOL_MAX = 7", pool_with_index, indices),
    "softmax": (
        "PRESIL_OP_SOFTMAX = 11",
        softmax,
        lambda: [softmax(size, t, dim, log) for size in SIZES for t in FLOATS for dim in (-1, 1) for log in (0, 1)],
    ),
    "norm": ("PRESIL_OP_NORM = 12", norm, norms),
    "gather": (
        "PRESIL_OP_GATHER = 13",
        gather,
        lambda: [
            gather(size, t, index, dim, beside)
            for size in SIZES[2:]
            for t in (d.INT8, d.BF16, d.FP32)
            for index in (d.INT32, d.INT64)
            for dim in (0, 1)
            for beside in (False, True)
        ],
    ),
}
