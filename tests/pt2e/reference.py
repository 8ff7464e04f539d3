# SPDX-License-Identifier: Apache-2.0
"""What a converted graph comes to in integers (docs/pt2e.md, "The contract"), from the graph as PT2E left it: NumPy's
exact sums of centred codes, and docs/numerics.md section 7 in float32. Shares no code with torch_presil.pt2e: nothing
is matched or rewritten here, values are pending until a quantization or a float32 operator reads them."""

import math
import operator
from dataclasses import dataclass, field, replace

import numpy as np
import torch
from torch import fx

aten = torch.ops.aten
decomposed = torch.ops.quantized_decomposed
f32 = np.float32


@dataclass
class Codes:
    """A dequantized value: centred = codes − zero_point, exact."""

    centred: np.ndarray
    scale: np.float32
    parameters: tuple  # scale, zero_point, low, high as the graph has them, in its own dtype

    def real(self) -> torch.Tensor:
        return torch.from_numpy(self.centred.astype(f32) * self.scale)


@dataclass
class Pending:
    """sums·scale + addend, between bounds. scale: of each output channel (axis 1 or last), in float32."""

    sums: np.ndarray
    scale: np.ndarray
    addend: object = None
    bounds: list = field(default_factory=list)

    def real(self) -> torch.Tensor:
        v = self.sums.astype(f32) * self.scale
        if isinstance(self.addend, Codes):
            v = v + self.addend.centred.astype(f32) * self.addend.scale
        elif self.addend is not None:
            v = v + self.addend.numpy()
        for low, high in self.bounds:
            v = np.clip(v, f32(low), f32(high))
        return torch.from_numpy(np.ascontiguousarray(v, dtype=f32))

    def quantized(self, scale, zero_point, low, high) -> np.ndarray:
        inverse = f32(1) / f32(scale)
        v = self.sums.astype(f32) * (self.scale * inverse)
        if self.addend is not None:
            v = v + self.addend.centred.astype(f32) * (self.addend.scale / f32(scale))
        codes = np.rint(v).astype(np.int64) + zero_point
        for least, most in self.bounds:
            ends = [_bound(b, scale, zero_point) for b in (least, most)]
            codes = np.clip(codes, *ends)
        return np.clip(codes, low, high)


@dataclass
class Mean:
    """Sums of centred codes over `count` places, still to be divided. whole: of planes, not of windows in them."""

    sums: np.ndarray
    count: object  # one, or one of each window
    source: Codes
    whole: bool
    floating: torch.Tensor  # what a float32 operator reads: the float32 graph's own

    def in_integers(self, scale, zero_point) -> bool:
        return self.whole or (scale, zero_point) == self.source.parameters[:2]

    def quantized(self, scale, zero_point, low, high):
        if (scale, zero_point) == self.source.parameters[:2]:
            codes = np.rint(self.sums / self.count).astype(np.int64)
        else:
            factor = (self.source.scale * f32(1.0 / self.count)) * (f32(1) / f32(scale))
            codes = np.rint(self.sums.astype(f32) * factor).astype(np.int64)
        return np.clip(codes + zero_point, low, high)


def _bound(b, scale, zero_point):
    if math.isinf(b):
        return -(2**40) if b < 0 else 2**40
    return int(np.rint(f32(b) * f32(1.0 / scale))) + zero_point


def convolved(x: np.ndarray, w: np.ndarray, stride, padding, dilation, groups) -> np.ndarray:
    """Exact sums (float64 holds them), NCHW."""
    x = np.pad(x.astype(np.float64), ((0, 0), (0, 0), (padding[0],) * 2, (padding[1],) * 2))
    reach = [d * (k - 1) + 1 for d, k in zip(dilation, w.shape[2:], strict=True)]
    windows = np.lib.stride_tricks.sliding_window_view(x, reach, (2, 3))
    windows = windows[:, :, :: stride[0], :: stride[1], :: dilation[0], :: dilation[1]]
    n, c, h, v = windows.shape[:4]
    per = w.shape[0] // groups
    out = np.empty((n, w.shape[0], h, v))
    for g in range(groups):
        part = windows[:, g * (c // groups) : (g + 1) * (c // groups)]
        rows = part.transpose(0, 2, 3, 1, 4, 5).reshape(n * h * v, -1)
        kernel = w[g * per : (g + 1) * per].astype(np.float64).reshape(per, -1)
        out[:, g * per : (g + 1) * per] = (rows @ kernel.T).reshape(n, h, v, per).transpose(0, 3, 1, 2)
    return out.astype(np.int64)


MOVES = {
    aten.view.default, aten.reshape.default, aten.flatten.using_ints, aten.permute.default, aten.transpose.int,
    aten.max_pool2d.default, aten.squeeze.dim, aten.unsqueeze.default, aten.contiguous.default, aten.clone.default,
    aten.slice.Tensor, aten.select.int, aten.dropout.default, aten.dropout_.default, aten.expand.default,
}  # fmt: skip


PARTS = {aten.chunk.default, aten.split.Tensor, aten.split_with_sizes.default}


class Reference(fx.Interpreter):
    """run(*inputs) gives the float32 results; `codes` has those of each quantize node of an activation, as int8."""

    def __init__(self, gm):
        super().__init__(gm)
        self.codes = {}

    def run_node(self, n):
        self.node = n
        return super().run_node(n)

    def call_module(self, target, args, kwargs):
        return None  # the guards of the export

    def output(self, target, args, kwargs):
        return fx.node.map_aggregate(args[0], real)

    def call_function(self, target, args, kwargs):
        name = str(target)
        if name.startswith("quantized_decomposed.quantize_per_tensor"):
            return self.quantize(*args)
        if name.startswith("quantized_decomposed.dequantize_per_tensor"):
            codes, scale, zero_point, low, high, _ = args
            return dequantized(codes, torch.tensor(scale), torch.tensor(zero_point), 0, (scale, zero_point, low, high))
        if name.startswith("quantized_decomposed.dequantize_per_channel"):
            return dequantized(*args[:4], None)
        if target is operator.getitem:
            return args[0][args[1]]
        for rule in (self.product, self.pointwise, self.moving):
            value = rule(target, args, kwargs)
            if value is not None:
                return value
        return super().call_function(target, *fx.node.map_aggregate((args, kwargs), real))

    def quantize(self, x, scale, zero_point, low, high, dtype):
        read_as_float = any(not str(u.target).startswith("quantized") for u in self.node.args[0].users)
        if isinstance(x, Codes) and x.parameters == (scale, zero_point, low, high):
            codes = x.centred + zero_point
        elif (isinstance(x, Mean) and x.in_integers(scale, zero_point)) or (
            isinstance(x, Pending) and not read_as_float and (x.addend is None or isinstance(x.addend, Codes))
        ):
            codes = x.quantized(scale, zero_point, low, high)
        else:
            v = real(x) * (1.0 / scale)
            codes = (torch.round(v) + zero_point).clamp(low, high).to(torch.int64).numpy()
        self.codes[self.node.name] = torch.from_numpy(codes - (128 if dtype == torch.uint8 else 0)).to(torch.int8)
        return codes

    def product(self, target, args, kwargs):
        name = str(target).split(".")[1]
        if name not in ("conv2d", "conv1d", "linear", "matmul") or not isinstance(args[0], Codes):
            return None
        x, w = args[:2]
        bias = args[2] if len(args) > 2 else None
        if name == "matmul":
            sums = np.matmul(x.centred.astype(np.float64), w.centred.astype(np.float64)).astype(np.int64)
            return Pending(sums, x.scale * w.scale)
        scale = x.scale * np.broadcast_to(w.scale.reshape(-1), w.centred.shape[:1])
        if name == "linear":
            sums, shape = (x.centred.astype(np.float64) @ w.centred.astype(np.float64).T).astype(np.int64), (-1,)
        else:
            geometry = [*args[3:], *[1, 0, 1, 1][len(args) - 3 :]] if len(args) > 3 else [1, 0, 1, 1]
            sums, shape = self.convolution(x.centred, w.centred, geometry, name == "conv1d")
        if bias is not None:
            unit = (f32(1) / scale).astype(f32)
            sums = sums + np.rint(bias.detach().numpy() * unit).astype(np.int64).reshape(shape)
        return Pending(sums, scale.reshape(shape))

    @staticmethod
    def convolution(x, w, geometry, line):
        stride, padding, dilation, groups = geometry
        if padding == "same":
            padding = [d * (k - 1) // 2 for d, k in zip(dilation, w.shape[2:], strict=True)]
        if not line:
            pair = lambda v: v if isinstance(v, list) else [v, v]
            return convolved(x, w, pair(stride), pair(padding), pair(dilation), groups), (1, -1, 1, 1)
        pair = lambda v, one: [one, v[0] if isinstance(v, list) else v]
        sums = convolved(x[:, :, None], w[:, :, None], pair(stride, 1), pair(padding, 0), pair(dilation, 1), groups)
        return sums[:, :, 0], (1, -1, 1)

    def pointwise(self, target, args, kwargs):
        name = str(target).split(".")[1].removesuffix("_")
        if name == "add" and len(args) == 2:
            for a, b in (args, args[::-1]):
                if isinstance(a, Pending) and a.addend is None and not a.bounds and not isinstance(b, (int, float)):
                    return replace(a, addend=b if isinstance(b, Codes) else real(b))
            if all(isinstance(a, Codes) for a in args):
                return Pending(args[0].centred, args[0].scale, args[1])
        if name == "mul" and all(isinstance(a, Codes) for a in args):
            return Pending(args[0].centred * args[1].centred, args[0].scale * args[1].scale)
        if name in ("relu", "hardtanh", "clamp", "relu6") and isinstance(args[0], Pending):
            ends = {"relu": (0, math.inf), "relu6": (0, 6), "hardtanh": (-1, 1)}.get(name, (-math.inf, math.inf))
            given = [*args[1:], *kwargs.values()]
            ends = [e if v is None else v for e, v in zip(ends, [*given, None, None], strict=False)]
            return replace(args[0], bounds=[*args[0].bounds, ends])
        return None

    def moving(self, target, args, kwargs):
        if target is aten.cat.default and all(isinstance(a, Codes) for a in args[0]):
            if len({a.parameters for a in args[0]}) == 1:
                joined = np.concatenate([a.centred for a in args[0]], args[1] if len(args) > 1 else 0)
                return replace(args[0][0], centred=joined)
        if not args or not isinstance(args[0], (Codes, Mean)):
            return None
        if target is aten.pad.default and isinstance(args[0], Codes):
            edges = np.reshape(args[1], (-1, 2))[::-1]
            whole = [(0, 0)] * (args[0].centred.ndim - len(edges)) + [tuple(e) for e in edges]
            return replace(args[0], centred=np.pad(args[0].centred, whole))
        if target in MOVES:
            mean = isinstance(args[0], Mean)
            values = torch.from_numpy((args[0].sums if mean else args[0].centred).astype(np.float64))
            moved = target(values, *args[1:], **kwargs).numpy().astype(np.int64)
            if not mean:
                return replace(args[0], centred=moved)
            return replace(args[0], sums=moved, floating=target(args[0].floating, *args[1:], **kwargs))
        if target in PARTS and isinstance(args[0], Codes):
            parts = target(torch.from_numpy(args[0].centred), *args[1:], **kwargs)
            return [replace(args[0], centred=part.numpy()) for part in parts]
        found = averaged(target, args[0].centred, args) if isinstance(args[0], Codes) else None
        return found and Mean(*found[:2], args[0], found[2], target(args[0].real(), *args[1:], **kwargs))


def averaged(target, x: np.ndarray, args):
    """(sums, how many places each is of, whether of whole planes) of what averages planes; None: something else."""
    if target is aten.mean.dim and sorted(args[1]) in ([2, 3], [-2, -1]):
        keep = len(args) > 2 and bool(args[2])
        return x.sum((2, 3), keepdims=keep), x.shape[2] * x.shape[3], True
    if target is aten.avg_pool2d.default:
        ones, values = torch.ones(1, 1, *x.shape[2:], dtype=torch.float64), torch.from_numpy(x.astype(np.float64))
        undivided = [*args[1:], *[[], [0, 0], False, True][len(args) - 2 :]][:5] + [1]
        counts = target(ones, *undivided) / target(ones, *args[1:])  # what the mean of ones was divided by
        return target(values, *undivided).numpy().astype(np.int64), np.rint(counts.numpy()), False
    if target is not aten.adaptive_avg_pool2d.default:
        return None
    (high, wide), (rows, columns) = x.shape[2:], args[1]
    if high % rows or wide % columns:
        return None  # windows of several sizes: float32
    sums = x.reshape(*x.shape[:2], rows, high // rows, columns, wide // columns).sum((3, 5))
    return sums, (high // rows) * (wide // columns), rows * columns == 1


def dequantized(codes, scale, zero_point, axis, parameters) -> Codes:
    codes = np.asarray(codes).astype(np.int64)
    shape = [1] * codes.ndim
    if scale.numel() > 1:
        shape[axis] = -1
    zero = zero_point.numpy().astype(np.int64).reshape(shape if zero_point.numel() > 1 else [1] * codes.ndim)
    factor = scale.numpy().astype(f32)
    return Codes(codes - zero, factor.reshape(shape) if factor.size > 1 else f32(factor.reshape(-1)[0]), parameters)


def real(value):
    if isinstance(value, (Codes, Pending)):
        return value.real()
    if isinstance(value, Mean):
        return value.floating
    return value
