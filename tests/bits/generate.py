# SPDX-License-Identifier: Apache-2.0
"""The cases of the operator sweeps (RTL = twin = oracle): shapes, dtypes, epilogues and value families, deterministic
and replayable.

    for case in cases("tiny", seed=1, count=1200): print(case.describe()); operands = case.data()
    case("tiny", 1, 417)                    # the same case again, alone

The first directed_count(chip) indices walk through every value of the ranges in RANGES and LIMITS; those after them
are random combinations of the same ranges, kept below `limit` MACs (times passes). Nothing here knows the driver;
tests/bits/reference.py gives the expected bits.
"""

import json
import random
from dataclasses import dataclass, replace
from functools import cache
from itertools import product
from pathlib import Path

import numpy as np

from .values import CONTAINER, FLOAT_FAMILIES, INT_FAMILIES, Stream, family_values

DTYPES = ("int8", "bf16", "fp32", "fp32_bf16")
PASSES = {"int8": 1, "bf16": 1, "fp32": 6, "fp32_bf16": 1}
ELEMENT = {"int8": "int8", "bf16": "bf16", "fp32": "fp32", "fp32_bf16": "fp32"}
RANGES = {
    "kernel": (1, 2, 3, 4, 5, 6, 7, 11),
    "stride": (1, 2, 3, 4),
    "dilation": (1, 2, 3),
    "padding": (0, 1, 2, 3, 4, 5),
    "channels": (*range(1, 131), 512),
    "size": tuple(range(1, 58)),
    "input_dilation": (1, 2, 3),
}
LIMIT = 200_000  # cost of a random case
ONE, INFINITY = 0x3F800000, 0x7F800000
CLAMPS = {
    "relu": (0, INFINITY),
    "relu6": (0, 0x40C00000),
    "band": (0xC0000000, 0x3F000000),
    "point": (0x3F800000, 0x3F800000),
}


@dataclass(frozen=True)
class EpilogueCase:
    """A variant of the epilogue; what is per channel or per element is made by data()."""

    name: str
    out: str
    bias: bool = False
    scale: bool = False
    residual: str | None = None  # INT8, BF16, FP32
    clamp: tuple[int, int] | None = None  # fp32 patterns
    out_zp: int = 0
    int_lo: int = -128
    int_hi: int = 127
    res_zp: int = 0
    res_scale: int = ONE


def _epilogues():
    e, int8, real = EpilogueCase, [], []
    int8 += [
        e("raw", "RAW32"),
        e("raw+bias", "RAW32", bias=True),
        e("float", "FP32", scale=True),
        e("half", "BF16", bias=True, scale=True),
        e("plain8", "INT8"),
        e("quant", "INT8", True, True, out_zp=3),
        e("quant relu", "INT8", True, True, out_zp=-128, int_lo=-128),
        e("quant relu mid", "INT8", True, True, out_zp=-17, int_lo=-17),
        e("quant relu6", "INT8", True, True, out_zp=-100, int_lo=-100, int_hi=50),
        e("quant add", "INT8", True, True, "INT8", out_zp=9, res_zp=-20, res_scale=0x3F19999A),
        e("quant add relu", "INT8", True, True, "INT8", out_zp=-60, int_lo=-60, res_zp=127, res_scale=0x3FC00000),
        e("quant add half", "INT8", False, True, "BF16"),
        e("quant add float", "INT8", True, False, "FP32", out_zp=-1),
        e("float all", "FP32", True, True, "FP32", CLAMPS["relu"]),
        e("float add8", "FP32", False, True, "INT8", res_zp=5, res_scale=0x3D000000),
        e("half relu6", "BF16", True, True, "BF16", CLAMPS["relu6"]),
        e("as float", "FP32", clamp=CLAMPS["band"]),
        e("plain8 add", "INT8", residual="INT8", out_zp=2, res_zp=-9, res_scale=0x42000000),
        e("as half add", "BF16", residual="FP32"),
    ]
    for out in ("FP32", "BF16"):
        real += [
            e("plain", out),
            e("bias", out, True),
            e("scale", out, False, True),
            e("bias scale", out, True, True),
            e("relu", out, True, clamp=CLAMPS["relu"]),
            e("add half", out, True, residual="BF16"),
            e("add float", out, False, True, "FP32"),
            e("add half relu", out, True, True, "BF16", CLAMPS["relu"]),
            e("add8", out, residual="INT8", res_zp=-3, res_scale=0x3E000000),
            e("band", out, clamp=CLAMPS["band"]),
            e("point", out, True, clamp=CLAMPS["point"]),
        ]
    real += [
        e("to int8", "INT8", True, True, out_zp=7),
        e("to int8 relu", "INT8", out_zp=-128),
        e("to int8 add", "INT8", True, True, "INT8", out_zp=-5, res_zp=11, res_scale=0x40000000),
    ]
    return {"int8": tuple(int8), "bf16": tuple(real), "fp32": tuple(real), "fp32_bf16": tuple(real)}


EPILOGUES = _epilogues()
# a matmul has neither bias nor scale (presil.h)
MATMUL_EPILOGUES = {d: tuple(e for e in variants if not e.bias and not e.scale) for d, variants in EPILOGUES.items()}
FAMILIES = {d: INT_FAMILIES if d == "int8" else FLOAT_FAMILIES for d in DTYPES}


@dataclass(frozen=True)
class Case:
    """What both operators have. `cost`: MACs that the chip executes for it, passes included (macs: nominal)."""

    chip: str
    seed: int
    index: int
    dtype: str
    values: str
    epilogue: EpilogueCase

    @property
    def cost(self):
        return self.macs * PASSES[self.dtype]

    def stream(self, what):
        return Stream(self.chip, self.seed, self.index, what)

    def operand(self, what, shape):
        return family_values(self.stream(what), ELEMENT[self.dtype], self.values, shape)

    def extras(self, channels):
        """bias, scale [channels] and residual [output shape] as the epilogue wants them, None where it does not."""
        e, real = self.epilogue, self.dtype != "int8"
        out = {"bias": None, "scale": None, "residual": None}
        if e.bias and real:
            out["bias"] = family_values(
                self.stream("bias"),
                "fp32",
                "mixed" if self.values in ("mixed", "nan", "infinity") else "wide",
                (channels,),
            )
        elif e.bias:
            s = self.stream("bias")
            magnitude = s.bits((channels,), 31) >> np.where(
                s.chance((channels,), 10), np.uint64(0), s.below((channels,), 20) + np.uint64(11)
            )
            out["bias"] = np.where(s.chance((channels,), 50), magnitude, -magnitude).astype(
                np.uint32
            )  # mostly small, some of the whole range
        if e.scale:
            family = "full" if self.values == "full" else "normal"
            scale = family_values(self.stream("scale"), "fp32", family, (channels,)) & np.uint32(0x7FFFFFFF)
            quantising = not real and e.out != "FP32" and family == "normal"
            out["scale"] = (
                (scale - np.uint32(10 << 23)) if quantising else scale
            )  # so that int8 outputs are not all saturated
        if e.residual:
            family = "random" if e.residual == "INT8" else self.values if real else "wide"
            out["residual"] = family_values(self.stream("residual"), e.residual.lower(), family, self.output_shape)
        return out

    def tail(self):
        return (
            f"{self.dtype} {self.values} epilogue={self.epilogue.name}>{self.epilogue.out} "
            f"cost={self.cost} case({self.chip!r}, {self.seed}, {self.index})"
        )


@dataclass(frozen=True)
class MatmulCase(Case):
    """out[i] = a[i] @ b[i]; transpose_*: the operand lies transposed in memory; shared_b: one b for the batch."""

    m: int = 1
    n: int = 1
    k: int = 1
    batch: int = 1
    transpose_a: bool = False
    transpose_b: bool = False
    shared_b: bool = False

    kind = "matmul"

    @property
    def shape_key(self):
        return (
            self.kind,
            self.chip,
            self.dtype,
            self.batch,
            self.m,
            self.n,
            self.k,
            self.transpose_a,
            self.transpose_b,
            self.shared_b,
        )

    @property
    def output_shape(self):
        return self.batch, self.m, self.n

    @property
    def macs(self):
        return self.batch * self.m * self.n * self.k

    def data(self):
        """a and b in their memory order ([B][M][K] or [B][K][M]; [B][K][N] or [B][N][K]) and the extras, arrays of
        bit patterns."""
        a, b = (
            self.operand("a", (self.batch, self.m, self.k)),
            self.operand("b", (1 if self.shared_b else self.batch, self.n, self.k)),
        )
        if self.values == "cancel":
            b[..., 1 : self.k // 2 * 2 : 2] = b[
                ..., 0 : self.k // 2 * 2 : 2
            ]  # a alternates in sign along k, b must not
        a, b = (a.swapaxes(1, 2) if self.transpose_a else a), (b if self.transpose_b else b.swapaxes(1, 2))
        return {"a": np.ascontiguousarray(a), "b": np.ascontiguousarray(b), **self.extras(self.n)}

    def describe(self):
        batch = f"{self.batch}x " if self.batch > 1 else ""
        return (
            f"matmul {batch}{self.m}x{self.k}{'t' if self.transpose_a else ''} @ "
            f"{self.k}x{self.n}{'t' if self.transpose_b else ''} {self.tail()}"
        )


@dataclass(frozen=True)
class ConvCase(Case):
    """conv2d of x [N][C][H][W] with w [O][C/groups][KY][KX]; pad: the int8 zero point as a byte; channels_last: how x
    lies in memory."""

    batch: int = 1
    channels: int = 1
    size: tuple[int, int] = (1, 1)
    out_channels: int = 1
    kernel: tuple[int, int] = (1, 1)
    stride: tuple[int, int] = (1, 1)
    padding: tuple[int, int] = (0, 0)
    dilation: tuple[int, int] = (1, 1)
    groups: int = 1
    input_dilation: tuple[int, int] = (1, 1)
    pad: int = 0
    channels_last: bool = True

    kind = "conv2d"

    @property
    def shape_key(self):
        return (
            self.kind,
            self.chip,
            self.dtype,
            self.batch,
            self.channels,
            self.size,
            self.out_channels,
            self.kernel,
            self.stride,
            self.padding,
            self.dilation,
            self.groups,
            self.input_dilation,
            self.channels_last,
        )

    @property
    def output_size(self):
        return tuple(
            ((s - 1) * i + 1 + 2 * p - d * (k - 1) - 1) // st + 1
            for s, i, p, d, k, st in zip(
                self.size, self.input_dilation, self.padding, self.dilation, self.kernel, self.stride
            )
        )

    @property
    def output_shape(self):
        return self.batch, self.out_channels, *self.output_size

    @property
    def macs(self):
        oh, ow = self.output_size
        return self.batch * self.out_channels * oh * ow * self.channels // self.groups * self.kernel[0] * self.kernel[1]

    def data(self):
        """x, w and the extras, arrays of bit patterns, in the order of the indices (the test lays them out in
        memory)."""
        per_group = self.channels // self.groups
        x = self.operand("x", (self.batch, *self.size, self.channels)).transpose(0, 3, 1, 2)
        w = self.operand("w", (self.out_channels, *self.kernel, per_group))
        if self.values == "cancel":
            w[..., 1 : per_group // 2 * 2 : 2] = w[..., 0 : per_group // 2 * 2 : 2]
        return {
            "x": np.ascontiguousarray(x),
            "w": np.ascontiguousarray(w.transpose(0, 3, 1, 2)),
            **self.extras(self.out_channels),
        }

    def describe(self):
        x = f"{self.batch}x{self.channels}x{self.size[0]}x{self.size[1]}"
        parts = [
            f"conv2d {x} {'nhwc' if self.channels_last else 'nchw'} o{self.out_channels} "
            f"k{self.kernel[0]}x{self.kernel[1]}"
        ]
        for name, value, usual in (
            ("stride", self.stride, (1, 1)),
            ("padding", self.padding, (0, 0)),
            ("dilation", self.dilation, (1, 1)),
            ("input_dilation", self.input_dilation, (1, 1)),
            ("groups", self.groups, 1),
            ("pad", self.pad, 0),
        ):
            if value != usual:
                parts.append(f"{name}={value if isinstance(value, int) else 'x'.join(map(str, value))}")
        return " ".join([*parts, self.tail()])


# --- limits of a configuration ----------------------------------------------------------------
@cache
def configurations():
    return json.loads((Path(__file__).resolve().parents[2] / "rtl" / "configs.json").read_text())


def limits(chip, dtype):
    """The sizes at and around which the hardware's loops end: {name: value} for m, n and k of a matmul."""
    c = configurations()[chip]
    n = c["lanes"] // (1 if dtype == "int8" else 2)
    return {"k": (n, 2 * n, 4 * n), "n": (c["cells"], 2 * c["cells"]), "m": (c["lanes"], c["cells"], c["acc_rows"])}


def around(values):
    return sorted({1, 2, *(v + d for v in values for d in (-1, 0, 1) if v + d > 0)})


# --- directed cases: every value of every range -----------------------------------------------
def directed_matmuls(chip):
    for dtype in DTYPES:
        at = {axis: around(v) for axis, v in limits(chip, dtype).items()}
        for axis in ("m", "n", "k"):
            for value in at[axis]:
                yield dict(dtype=dtype, **{a: value if a == axis else 3 for a in ("m", "n", "k")})
        corner = {axis: v[-1] for axis, v in limits(chip, dtype).items()}
        for d in (-1, 0, 1):  # all at once: several tiles in every direction
            yield dict(dtype=dtype, **{axis: v + d for axis, v in corner.items()})


def directed_convolutions(chip):
    """Square and one-sided values of each range, every channel count and size, packing and group boundaries."""
    for k in RANGES["kernel"]:
        for dtype in DTYPES:
            yield dict(dtype=dtype, kernel=(k, k), channels=3, out_channels=5, size=(k + 2, k + 1), padding=(k // 2, 0))
            yield dict(dtype=dtype, kernel=(1, k), channels=9, out_channels=2, size=(3, 12))
            yield dict(dtype=dtype, kernel=(k, 1), channels=9, out_channels=2, size=(12, 3))
    for s in RANGES["stride"]:
        for other in RANGES["stride"]:
            yield dict(kernel=(3, 3), channels=5, out_channels=3, size=(11, 12), stride=(s, other), padding=(1, 1))
    for d in RANGES["dilation"]:
        for other in RANGES["dilation"]:
            yield dict(kernel=(3, 2), channels=4, out_channels=3, size=(9, 10), dilation=(d, other), padding=(d, 0))
    for p in RANGES["padding"]:
        for other in RANGES["padding"]:
            yield dict(kernel=(3, 3), channels=2, out_channels=3, size=(5, 4), padding=(p, other))
    for i in RANGES["input_dilation"]:
        for other in RANGES["input_dilation"]:
            yield dict(
                kernel=(3, 3), channels=6, out_channels=3, size=(4, 5), input_dilation=(i, other), padding=(2, 1)
            )
    for c in RANGES["channels"]:
        yield dict(kernel=(1, 1) if c % 2 else (3, 3), channels=c, out_channels=3, size=(4, 3), padding=(1, 1))
        yield dict(kernel=(3, 2), channels=c, out_channels=c, groups=c, size=(4, 3))
    for size in RANGES["size"]:
        yield dict(kernel=(3, 3), channels=2, out_channels=2, size=(size, 58 - size), padding=(1, 1))
    yield dict(kernel=(3, 3), channels=3, out_channels=2, size=(57, 57), stride=(2, 2), padding=(1, 1))
    yield from directed_boundaries(chip)
    yield from directed_depthwise(chip)


# Dilations, strides, sizes of depthwise kernels: phases of equal size or not, along one axis or both, with strides of
# one or several dilations; one output too few for phases.
DILATED = (
    ((2, 2), (1, 1), (8, 9)),
    ((3, 1), (1, 1), (9, 5)),
    ((1, 4), (1, 1), (4, 11)),
    ((4, 1), (1, 1), (7, 6)),
    ((2, 3), (2, 6), (9, 20)),
    ((4, 2), (2, 3), (13, 10)),
    ((1, 2), (1, 1), (2, 150)),
)

# A dilated input: kernels that are no multiple of it, and smaller ones; windows' ends; with a stride; with a dilated
# kernel along the other axis.
SPREAD = (
    dict(input_dilation=(2, 2), kernel=(4, 4), size=(5, 6)),
    dict(input_dilation=(1, 3), kernel=(2, 2), size=(4, 5)),
    dict(input_dilation=(3, 3), kernel=(1, 1), size=(3, 4)),
    dict(input_dilation=(2, 2), kernel=(3, 11), size=(2, 62)),
    dict(input_dilation=(3, 2), kernel=(5, 4), size=(4, 6), stride=(2, 1)),
    dict(input_dilation=(2, 4), kernel=(13, 3), size=(4, 7), stride=(1, 6)),
    dict(input_dilation=(2, 1), kernel=(3, 3), size=(5, 9), dilation=(1, 2)),
    dict(input_dilation=(2, 1), kernel=(3, 3), size=(6, 5), dilation=(3, 1)),  # grouped
)


def directed_depthwise(chip):
    """A channel for each output: the pieces of kernels, rows longer than a window's, what is too far apart for one."""
    channels = configurations()[chip]["cells"] + 1
    one = dict(channels=channels, out_channels=channels, groups=channels)
    for dtype in DTYPES:
        for each in (2, 3, 4, 8):  # outputs of a channel
            some = dict(channels=channels, out_channels=each * channels, groups=channels)
            yield some | dict(dtype=dtype, kernel=(3, 3), size=(5, 6), padding=(1, 1), stride=(1 + each % 3, 1))
        for each in (5, *around((channels - 1, 2 * channels - 2))):  # a channel of them fills the cells
            some = dict(channels=3, out_channels=3 * each, groups=3)
            yield some | dict(dtype=dtype, kernel=(2, 3), size=(4, 5), padding=(0, 1))
        for number, kernel in enumerate(((3, 3), (1, 1), (2, 3), (4, 1), (5, 5), (7, 2), (3, 11), (7, 7))):
            padding = tuple(k // 2 for k in kernel)
            stride = (1 + number % 2, 1 + number // 2 % 2)
            yield one | dict(dtype=dtype, kernel=kernel, size=(7, 9), padding=padding, stride=stride)
        for geometry, each in product(SPREAD, (1, 3)):
            some = dict(channels=channels, out_channels=each * channels, groups=channels)
            yield some | dict(dtype=dtype, padding=tuple(k // 2 for k in geometry["kernel"])) | geometry
        for other in (dict(stride=(2, 3)), dict(dilation=(1, 2)), dict(input_dilation=(2, 1))):
            yield one | dict(dtype=dtype, kernel=(3, 3), size=(6, 7), padding=(2, 2)) | other
        for stride in (1, 2):
            size = (3, 130)
            yield one | dict(dtype=dtype, kernel=(3, 3), size=size, padding=(1, 1), stride=(stride, stride))
        for dilation, stride, size in DILATED:
            geometry = dict(dilation=dilation, stride=stride, size=size)
            yield one | dict(dtype=dtype, kernel=(3, 3), padding=(dilation[0], 1)) | geometry
            yield one | dict(dtype=dtype, kernel=(2, 7), padding=(1, 3 * dilation[1])) | geometry
            yield one | dict(dtype=dtype, kernel=(7, 2), padding=(3 * dilation[0], 1)) | geometry


def directed_boundaries(chip):
    """Around the packing rule, the groups' cell groups, the cells and the accumulator rows, for every dtype."""
    c = configurations()[chip]
    for dtype in DTYPES:
        e = 1 if dtype == "int8" else 2
        half = c["lanes"] // 2 // e  # most channels that are packed
        for channels in (half - 1, half, half + 1):
            for kernel in ((3, 3), (7, 7), (2, 5)):
                yield dict(dtype=dtype, kernel=kernel, channels=channels, out_channels=2, size=(7, 8), padding=(1, 2))
        for o in around((c["cells"],)):
            yield dict(dtype=dtype, kernel=(2, 2), channels=3, out_channels=o, size=(3, 3))
            for groups in (2, o):
                yield dict(
                    dtype=dtype,
                    kernel=(2, 1),
                    channels=groups * 3,
                    out_channels=groups * max(1, o // groups),
                    groups=groups,
                    size=(3, 3),
                )
        for pixels in around((c["acc_rows"],))[2:]:
            yield dict(dtype=dtype, kernel=(1, 1), channels=5, out_channels=3, size=(1, pixels))
            yield dict(dtype=dtype, kernel=(3, 1), channels=2, out_channels=3, size=(pixels, 1), padding=(1, 0))


@cache
def directed(chip):
    """All directed parameter sets, with dtype, epilogue and values dealt out in turn where they are not fixed."""
    out = []
    for kind, source in (("matmul", directed_matmuls(chip)), ("conv2d", directed_convolutions(chip))):
        turns = {}
        for number, fields in enumerate(source):
            dtype = fields.setdefault("dtype", DTYPES[number % 4])
            turn = turns[dtype] = turns.get(dtype, -1) + 1
            variants = (MATMUL_EPILOGUES if kind == "matmul" else EPILOGUES)[dtype]
            fields["epilogue"] = variants[turn % len(variants)]
            fields["values"] = FAMILIES[dtype][(turn + turn // len(variants)) % len(FAMILIES[dtype])]
            if kind == "matmul":
                fields.update(
                    transpose_a=bool(turn & 1),
                    transpose_b=bool(turn & 2),
                    batch=2 if turn % 5 == 4 else 1,
                    shared_b=turn % 10 == 4,
                )
            else:
                fields.update(
                    channels_last=turn % 4 != 3,
                    pad=(0, 0x80, 0x05, 0x7F)[turn % 4] if dtype == "int8" else 0,
                    batch=2 if turn % 7 == 3 else 1,
                )
            out.append((kind, fields))
    return tuple(out)


def directed_count(chip):
    return len(directed(chip))


# --- random cases -----------------------------------------------------------------------------
def random_matmul(r, chip, dtype):
    at = {axis: around(v) for axis, v in limits(chip, dtype).items()}
    fields = {
        axis: r.choice((r.choice(at[axis]), r.randint(1, at[axis][-1]), r.randint(1, 9))) for axis in ("m", "n", "k")
    }
    fields.update(
        batch=r.choice((1, 1, 1, 2, 3)),
        transpose_a=r.random() < 0.4,
        transpose_b=r.random() < 0.5,
        shared_b=r.random() < 0.3,
        epilogue=r.choice(MATMUL_EPILOGUES[dtype]),
    )
    return fields


def random_convolution(r, chip, dtype):
    cells = configurations()[chip]["cells"]
    pair = lambda name, usual: r.choice(
        ((usual, usual), (v := r.choice(RANGES[name]), v), (r.choice(RANGES[name]), r.choice(RANGES[name])))
    )
    groups = r.choice((1, 1, 1, 2, "C"))
    channels = r.choice((r.randint(1, 130), r.randint(1, 20), r.choice(around(limits(chip, dtype)["k"]))))
    outputs = r.choice((r.randint(1, 2 * cells + 3), r.choice(around((cells,))), r.randint(1, 6)))
    if groups == 2:
        channels, outputs = 2 * -(-channels // 2), 2 * -(-outputs // 2)
    elif groups == "C":
        groups, outputs = channels, channels * r.choice((1, 2, 3))
    kernel = r.choice(((1, 1), (3, 3), pair("kernel", 3), pair("kernel", 3)))
    fields = dict(
        channels=channels,
        out_channels=outputs,
        groups=groups,
        kernel=kernel,
        stride=pair("stride", 1),
        padding=pair("padding", 0),
        dilation=pair("dilation", 1),
        input_dilation=pair("input_dilation", 1) if r.random() < 0.2 else (1, 1),
        batch=r.choice((1, 1, 1, 2, 3)),
        channels_last=r.random() < 0.75,
        pad=r.choice((0, 0x80, r.getrandbits(8))) if dtype == "int8" else 0,
        epilogue=r.choice(EPILOGUES[dtype]),
    )
    top = r.choice((6, 14, 57))
    fields["size"] = tuple(r.randint(1, top) for _ in range(2))
    return grow_to_output(fields)


def grow_to_output(fields):
    """Makes the input large enough for one output element."""
    need = [
        -(-(d * (k - 1) - 2 * p) // i) + 1
        for d, k, p, i in zip(fields["dilation"], fields["kernel"], fields["padding"], fields["input_dilation"])
    ]
    return {**fields, "size": tuple(max(1, s, n) for s, n in zip(fields["size"], need))}


def shrink(case, r, limit):
    """Halves a dimension at a time until the cost is within the limit."""
    for _ in range(60):
        if case.cost <= limit:
            return case
        if case.kind == "matmul":
            axis = r.choice([a for a in ("m", "n", "k", "batch") if getattr(case, a) > 1])
            case = replace(case, **{axis: getattr(case, axis) // 2})
        else:
            case = replace(case, **shrink_convolution(case, r))
    return case


def shrink_convolution(case, r):
    choices = ["size"] * 3 + ["outputs", "batch"] + ["channels"] * (case.groups <= 2)
    what = r.choice(choices)
    if what == "size":
        at = r.randrange(2)
        size = tuple(max(1, s // 2) if i == at else s for i, s in enumerate(case.size))
        return grow_to_output(
            dict(
                size=size,
                dilation=case.dilation,
                kernel=case.kernel,
                padding=case.padding,
                input_dilation=case.input_dilation,
            )
        )
    if what == "outputs":
        return dict(out_channels=case.groups * max(1, case.out_channels // case.groups // 2))
    if what == "channels":
        return dict(channels=case.groups * max(1, case.channels // case.groups // 2))
    return dict(batch=1)


# --- the cases --------------------------------------------------------------------------------
def case(chip, seed, index, limit=LIMIT):
    """The index-th case of a chip and seed."""
    fixed = directed(chip)
    if index < len(fixed):
        kind, fields = fixed[index]
        return (MatmulCase if kind == "matmul" else ConvCase)(chip=chip, seed=seed, index=index, **fields)
    r = random.Random(f"{chip} {seed} {index}")
    dtype = r.choice(DTYPES)
    kind, draw = (MatmulCase, random_matmul) if r.random() < 0.35 else (ConvCase, random_convolution)
    drawn = kind(
        chip=chip, seed=seed, index=index, dtype=dtype, values=r.choice(FAMILIES[dtype]), **draw(r, chip, dtype)
    )
    return shrink(drawn, r, limit)


def cases(chip, seed, count=1500, limit=LIMIT):
    """Cases 0..count-1 (count below directed_count leaves directed ones out: the smaller sweep takes a stride of them
    instead)."""
    fixed = directed_count(chip)
    if count >= fixed:
        return [case(chip, seed, i, limit) for i in range(count)]
    return [case(chip, seed, i * fixed // count, limit) for i in range(count)]


def shapes(some):
    """How many different shapes the cases have."""
    return len({c.shape_key for c in some})


assert set(ELEMENT.values()) <= set(CONTAINER)
