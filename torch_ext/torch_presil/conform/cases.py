# SPDX-License-Identifier: Apache-2.0
"""Operators on a device, run and compared with the reference."""

import ctypes
from dataclasses import dataclass

import numpy

from . import driver_api as d
from . import reference as r
from .checks import Failed, expect

INT8_LOW, INT8_HIGH = -128, 127


@dataclass(frozen=True)
class Types:
    """of both operands, of the result, and how products are formed."""

    operand: int
    result: int
    compute: int

    def __str__(self) -> str:
        return f"{r.NAMES[self.operand]} to {r.NAMES[self.result]}"


TYPES = (
    Types(d.INT8, d.INT32, 0),
    Types(d.INT8, d.INT8, 0),
    Types(d.BF16, d.BF16, 1),
    Types(d.BF16, d.FP32, 1),
    Types(d.FP32, d.FP32, 2),
)


class Bench:
    """A device, and tensors on it that are freed at the end. tolerance: what the chip declares; None: it is exact, or
    adds in some order."""

    def __init__(self, device: d.Device, tolerance: float | None):
        self.device, self.tolerance, self.blocks, self.packed = device, tolerance, [], []

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for weights in self.packed:
            self.device.driver.presil_weights_destroy(weights)
        for block in self.blocks:
            self.device.free(block)

    def place(self, count: int) -> int:
        address = self.device.alloc(max(count, 1))
        self.blocks.append(address)
        return address

    def tensor(self, name: str, array: numpy.ndarray, dtype: int, row: int = 1, columns: bool = False) -> d.Operand:
        """array in device memory; rows begin at multiples of `row` elements; columns: the last two dimensions lie
        transposed."""
        laid = numpy.ascontiguousarray(array.swapaxes(-1, -2) if columns else array)
        width = -(-laid.shape[-1] // row) * row
        padded = numpy.zeros((*laid.shape[:-1], width), laid.dtype)
        padded[..., : laid.shape[-1]] = laid
        stride = [1] * laid.ndim
        for i in reversed(range(laid.ndim - 1)):
            stride[i] = stride[i + 1] * padded.shape[i + 1]
        if columns:
            stride[-1], stride[-2] = stride[-2], stride[-1]
        address = self.place(padded.nbytes)
        self.device.poke(address, padded.tobytes())
        made = d.operand(name, dtype, array.shape, stride, address)
        made.host = padded
        return made

    def output(self, shape, dtype: int, name: str = "output") -> d.Operand:
        count = int(numpy.prod(shape)) * r.NUMPY[dtype]().itemsize
        address = self.place(count + 64)
        self.device.poke(address, b"\xa5" * (count + 64))
        return d.operand(name, dtype, shape, None, address)

    def compare(self, op: d.Op, what: str) -> d.Report:
        """Runs the operator; its outputs have to be what the reference says, and nothing behind them may change. Inputs
        are of tensor(); of packed weights `lies` is the kernel as it was given, with bias and scale."""
        expected = self.reference(op)
        report = self.device.run(op)
        self.is_right(op, expected, what)
        expect(report is not None, f"{what}: the launch gave no report")
        return report

    def reference(self, op: d.Op) -> r.Reference:
        known = [getattr(operand, "lies", operand) for operand in op.inputs]
        asked = d.Op(op.kind, known, op.outputs, op.attributes, op.steps, op.compute)
        parts = next((operand.parts for operand in known if hasattr(operand, "parts")), {})
        return r.Reference(asked, [operand.host for operand in known], **parts)

    def is_right(self, op: d.Op, expected: r.Reference, what: str) -> None:
        for number, out in enumerate(op.outputs):
            name = out.name.decode()
            told = what if name == "output" else f"{what}, {name}"
            self._output_is_right(out, expected.of_output(number), told)

    def _output_is_right(self, out: d.Operand, expected: r.Reference, what: str) -> None:
        shape, element = tuple(out.shape[: out.ndim]), r.NUMPY[out.dtype]
        count = int(numpy.prod(shape)) * element().itemsize
        raw = self.device.peek(out.data, count + 64)
        if wrong := expected.differs(numpy.frombuffer(raw[:count], element), self.tolerance):
            raise Failed(f"{what}: {wrong}")
        expect(raw[count:] == b"\xa5" * 64, f"{what}: bytes behind the output were written")


def quantize(types: Types) -> list:
    """The steps that int8 results end with."""
    if types.result != d.INT8:
        return []
    return [d.Step(d.QUANTIZE, d.NO_OPERAND, 0, 0, 0, 3, INT8_LOW, INT8_HIGH)]


def channel_scales(channels: int, seed: int) -> numpy.ndarray:
    """fp32, of few bits: chips that multiply by integers have them, too."""
    return (numpy.random.default_rng(seed).integers(16, 128, channels) / 128).astype(numpy.float32)


@dataclass(frozen=True)
class Product:
    """C = A * B, B by rows or by columns, rows at multiples of `row` elements."""

    types: Types
    batches: int
    m: int
    k: int
    n: int
    columns: bool = True
    row: int = 16

    def __str__(self) -> str:
        lies = "columns" if self.columns else "rows"
        return f"matmul {self.types} {self.batches}x{self.m}x{self.k}x{self.n}, b by {lies} of {self.row}"

    def macs(self) -> int:
        return self.batches * self.m * self.k * self.n

    def asked(self) -> d.Op:
        """Without addresses."""
        t, up = self.types, lambda count: -(-count // self.row) * self.row
        long_b = up(self.k if self.columns else self.n)
        b_stride = [long_b * (self.n if self.columns else self.k)]
        b_stride += [1, long_b] if self.columns else [long_b, 1]
        a = d.operand("a", t.operand, (self.batches, self.m, self.k), (self.m * up(self.k), up(self.k), 1))
        b = d.operand("b", t.operand, (self.batches, self.k, self.n), b_stride)
        out = d.operand("output", t.result, (self.batches, self.m, self.n))
        return d.Op(d.MATMUL, [a, b], [out], {}, quantize(t), t.compute)

    def operands(self, bench: Bench, seed: int) -> list:
        t = self.types
        a = r.random_bits((self.batches, self.m, self.k), t.operand, seed)
        b = r.random_bits((self.batches, self.k, self.n), t.operand, seed + 1)
        if t.result == d.INT8:
            a, b = numpy.clip(a, -3, 3), numpy.clip(b, -2, 2)  # or every result would be a bound
        return [bench.tensor("a", a, t.operand, self.row), bench.tensor("b", b, t.operand, self.row, self.columns)]

    def placed(self, bench: Bench, seed: int = 1) -> d.Op:
        op = self.asked()
        op.inputs = self.operands(bench, seed)
        op.outputs = [bench.output((self.batches, self.m, self.n), self.types.result)]
        return op

    def run(self, bench: Bench, seed: int = 1) -> d.Report:
        return bench.compare(self.placed(bench, seed), str(self))


@dataclass(frozen=True)
class Copying:
    """The chip's own copy of bytes."""

    size: int = 4096

    def asked(self) -> d.Op:
        return d.Op(d.COPY, [d.operand("input", d.INT8, (self.size,))], [d.operand("output", d.INT8, (self.size,))])

    def macs(self) -> int:
        return 0

    def __str__(self) -> str:
        return f"copy of {self.size} bytes"

    def placed(self, bench: Bench, seed: int = 1) -> d.Op:
        data = r.random_bits((self.size,), d.INT8, seed)
        op = self.asked()
        op.inputs, op.outputs = [bench.tensor("input", data, d.INT8)], [bench.output((self.size,), d.INT8)]
        return op

    def run(self, bench: Bench, seed: int = 1) -> d.Report:
        return bench.compare(self.placed(bench, seed), str(self))


@dataclass(frozen=True)
class Convolution:
    """A convolution, its weights by view or packed by the chip; packed_parts: what is packed with them, of "bias" and
    "scale"."""

    types: Types
    shape: tuple  # N, H, W, C
    kernel: tuple  # O, KH, KW
    stride: tuple = (1, 1)
    padding: tuple = (0, 0)
    dilation: tuple = (1, 1)
    groups: int = 1
    packed: bool = False
    packed_parts: tuple = ()

    def __str__(self) -> str:
        size = "x".join(map(str, self.shape)) + " by " + "x".join(map(str, self.kernel))
        more = f"stride {self.stride}, padding {self.padding}, dilation {self.dilation}, {self.groups} groups"
        lie = " with ".join(("packed", *self.packed_parts)) if self.packed else "by view"
        return f"conv {self.types} {size}, {more}, weights {lie}"

    def weight_shape(self) -> tuple:
        return (*self.kernel, self.shape[3] // self.groups)

    def out_shape(self) -> tuple:
        def size(i: int) -> int:
            reach = self.dilation[i] * (self.kernel[1 + i] - 1) + 1
            return (self.shape[1 + i] + 2 * self.padding[i] - reach) // self.stride[i] + 1

        return (self.shape[0], size(0), size(1), self.kernel[0])

    def asked(self, weight: d.Operand | None = None) -> d.Op:
        t = self.types
        attributes = {}
        for name, value in (("stride", self.stride), ("padding", self.padding), ("dilation", self.dilation)):
            if any(v != (name != "padding") for v in value):
                attributes[name] = list(value)
        if self.groups != 1:
            attributes["groups"] = [self.groups]
        inputs = [
            d.operand("input", t.operand, self.shape),
            weight or d.operand("weight", t.operand, self.weight_shape()),
        ]
        out = d.operand("output", t.result, self.out_shape())
        return d.Op(d.CONV, inputs, [out], attributes, quantize(t), t.compute)

    def operands(self, bench: Bench, seed: int) -> list:
        t = self.types
        x = r.random_bits(self.shape, t.operand, seed)
        w = r.random_bits(self.weight_shape(), t.operand, seed + 1)
        if t.operand == d.INT8 and t.result == d.INT8:
            x, w = numpy.clip(x, -3, 3), numpy.clip(w, -2, 2)
        weight = self._packed(bench, w, seed + 2) if self.packed else bench.tensor("weight", w, t.operand)
        return [bench.tensor("input", x, t.operand), weight]

    def run(self, bench: Bench, seed: int = 1) -> d.Report:
        inputs = self.operands(bench, seed)
        op = self.asked(inputs[1])
        op.inputs[0], op.outputs = inputs[0], [bench.output(self.out_shape(), self.types.result)]
        return bench.compare(op, str(self))

    def _packed(self, bench: Bench, w: numpy.ndarray, seed: int) -> d.Operand:
        described, parts = self.described(w), self.parts(seed)
        for name, values in parts.items():
            setattr(described, name, values.ctypes.data)
        made = bench.device.weights(described)
        bench.packed.append(made)
        operand = bench.device.weights_operand(made)
        operand.lies = d.operand("weight", self.types.operand, w.shape)
        operand.lies.host, operand.lies.parts = described.kept, parts
        return operand

    def parts(self, seed: int) -> dict:
        """One value for each channel of the output: what is packed beside the kernel."""
        draw, channels, found = numpy.random.default_rng(seed), self.kernel[0], {}
        if "bias" in self.packed_parts:
            integers = self.types.compute == 0
            found["bias"] = draw.integers(-60, 61, channels).astype(numpy.int32 if integers else numpy.float32)
        if "scale" in self.packed_parts:
            found["scale"] = channel_scales(channels, seed + 1)
        return found

    def described(self, w: numpy.ndarray) -> d.Weights:
        """presil_weights_desc; its shape is O, I/groups, KH, KW."""
        o, kh, kw, c = w.shape
        laid = numpy.ascontiguousarray(w)
        made = d.Weights(size=ctypes.sizeof(d.Weights), compute=self.types.compute, weight=laid.ctypes.data)
        made.kept, made.weight_dtype, made.groups = laid, self.types.operand, self.groups
        made.shape[:], made.stride[:] = (o, c, kh, kw), (kh * kw * c, 1, kw * c, c)
        made.dilation[:], made.input_dilation[:] = self.dilation, (1, 1)
        return made


def many_channels(packed: bool) -> list:
    """Convolutions by size: the channels of the input, and of the output, in each type."""

    def made(types: Types, of_input: bool):
        def sized(size: int) -> Convolution:
            c, o = (size, 3) if of_input else (3, size)
            return Convolution(types, (1, 4, 4, c), (o, 1, 1), packed=packed)

        return sized

    return [made(types, of_input) for types in TYPES for of_input in (True, False)]


@dataclass(frozen=True)
class Pool:
    types: Types
    shape: tuple
    kernel: tuple
    stride: tuple
    padding: tuple = (0, 0)
    largest: bool = True

    def __str__(self) -> str:
        kind = "max" if self.largest else "average"
        return (
            f"pool {kind} {self.types} {self.shape}, kernel {self.kernel}, stride {self.stride}, padding {self.padding}"
        )

    def asked(self) -> d.Op:
        attributes = {"kernel": list(self.kernel), "stride": list(self.stride)}
        if any(self.padding):
            attributes["padding"] = list(self.padding)
        out = [(self.shape[1 + i] + 2 * self.padding[i] - self.kernel[i]) // self.stride[i] + 1 for i in (0, 1)]
        inputs = [d.operand("input", self.types.operand, self.shape)]
        outputs = [d.operand("output", self.types.result, (self.shape[0], *out, self.shape[3]))]
        return d.Op(d.POOL_MAX if self.largest else d.POOL_AVERAGE, inputs, outputs, attributes, [], 0)

    def run(self, bench: Bench, seed: int = 1) -> d.Report:
        x = r.random_bits(self.shape, self.types.operand, seed)
        op = self.asked()
        shape = tuple(op.outputs[0].shape[:4])
        op.inputs, op.outputs = [bench.tensor("input", x, self.types.operand)], [bench.output(shape, self.types.result)]
        return bench.compare(op, str(self))


def many_pooled(types: Types, largest: bool):
    return lambda size: Pool(types, (1, 4, 4, size), (2, 2), (2, 2), (0, 0), largest)
