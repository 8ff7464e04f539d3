# SPDX-License-Identifier: Apache-2.0
"""Modules of a lowered graph. Codes are int8 throughout. On the device each product is one launch; elsewhere the same
integers come from exact sums and docs/numerics.md section 7 in float32."""

import math

import torch
import torch.nn.functional as F
from torch import nn

from torch_presil.pt2e.converted import Codes

__all__ = ["AverageCodes", "Dequantize", "Int8Add", "Int8Layer", "Int8MatMul", "Int8Mul", "Quantize", "Table"]


class Quantize(nn.Module):
    """float → codes; in mode `rtl` and `model` alike the host's work."""

    def __init__(self, q: Codes):
        super().__init__()
        self.q = q

    def forward(self, x):
        return self.q.of(x)


class Dequantize(nn.Module):
    """codes → float32."""

    def __init__(self, q: Codes):
        super().__init__()
        self.q = q

    def forward(self, x):
        return self.q.value(x)


def _rescaled(value: torch.Tensor, zero_point: int, low: int, high: int) -> torch.Tensor:
    """float32 in units of the result's codes → codes."""
    return value.round().clamp(-(2.0**30), 2.0**30).add(zero_point).clamp(low, high).to(torch.int8)


class Int8Layer(nn.Module):
    """Convolution (1-D, 2-D) or linear layer with bias, residual, bounds and what comes out.

    weight: int8 (O, I/groups, KH, KW), linear (O, I). bias: int32 (O,), the input's zero point folded in. scale: fp32
    (O,). zero_point: of the input, and of its padding. out: codes, or None for float32. low, high: codes, or real
    bounds where out is None. residual_scale, residual_zero_point: of an addend in codes, in
    units of the result."""

    def __init__(self, label: str, geometry: tuple | None, dims: int, weight, bias, scale, zero_point: int):
        super().__init__()
        self.label, self.geometry, self.dims, self.zero_point = label, geometry, dims, zero_point
        self.out, self.low, self.high = None, -math.inf, math.inf
        self.residual_scale, self.residual_zero_point = 1.0, 0
        self.register_buffer("weight", weight)
        self.register_buffer("bias", bias)
        self.register_buffer("scale", scale)

    def extra_repr(self) -> str:
        return f"{self.label}, {tuple(self.weight.shape)}, out={self.out}, low={self.low}, high={self.high}"

    def forward(self, x, residual=None):
        if self.dims == 1:
            x, residual = x.unsqueeze(2), None if residual is None else residual.unsqueeze(2)
        y = self._launch(x, residual) if x.device.type == "presil" else self._on_host(x, residual)
        return y.squeeze(2) if self.dims == 1 else y

    def _launch(self, x, residual):
        name = "linear_int8" if self.geometry is None else "conv2d_int8"
        packet = getattr(torch.ops.presil, name)
        first = (x, self.weight, self.bias, self.scale, *(self.geometry or ()), self.zero_point)
        added = (residual, self.residual_scale, self.residual_zero_point)
        if self.out is None:
            return packet.real(*first, *added, self.low, self.high, self.label)
        zero = self.out.zero_point
        if self.high == 127 and self.low in (-128, zero):
            return packet.default(*first, zero, *added, self.low == zero, self.label)
        return packet.range(*first, zero, *added, self.low, self.high, self.label)

    def _on_host(self, x, residual):
        codes, weight = x.double(), self.weight.double()
        if self.geometry is None:
            sums, shape = F.linear(codes, weight), [-1]
        else:
            stride, padding, dilation, groups = self.geometry
            edges = [padding[1], padding[1], padding[0], padding[0]]
            sums = F.conv2d(F.pad(codes, edges, value=self.zero_point), weight, None, stride, 0, dilation, groups)
            shape = [1, -1, 1, 1]
        v = (sums.to(torch.int64) + self.bias.view(shape)).float() * self.scale.view(shape)
        if residual is not None and residual.dtype == torch.int8:
            v = v + (residual.to(torch.int32) - self.residual_zero_point).float() * self.residual_scale
        elif residual is not None:
            v = v + residual
        if self.out is None:
            return v.clamp(self.low, self.high)
        return _rescaled(v, self.out.zero_point, self.low, self.high)


class Int8Add(nn.Module):
    """a + b of codes with scales of their own: a depthwise convolution of a with kernels of one, b its residual."""

    def __init__(self, layer: Int8Layer):
        super().__init__()
        self.layer = layer

    def forward(self, a, b):
        if a.dim() == 4:
            return self.layer(a, b)
        rows = [t.reshape(1, -1, 1, t.size(-1)).permute(0, 3, 2, 1) for t in (a, b)]
        return self.layer(*rows).permute(0, 3, 2, 1).reshape(a.shape)


class Int8Mul(nn.Module):
    """a·b of codes, broadcast: exact products on the host, scaled and rounded once."""

    def __init__(self, a: Codes, b: Codes, out: Codes, low: int, high: int):
        super().__init__()
        self.zero, self.out, self.low, self.high = (a.zero_point, b.zero_point), out, low, high
        self.scale = float(scale_of(a.scale, b.scale, out))

    def forward(self, a, b):
        products = (a.to(torch.int32) - self.zero[0]) * (b.to(torch.int32) - self.zero[1])
        return _rescaled(products.float().mul_(self.scale), self.out.zero_point, self.low, self.high)


class Int8MatMul(nn.Module):
    """a @ b of codes of equal batches: sums on the chip, zero points and scale on the host in integers and float32."""

    def __init__(self, a: Codes, b: Codes, out: Codes | None, low, high):
        super().__init__()
        self.zero, self.out, self.low, self.high = (a.zero_point, b.zero_point), out, low, high
        self.scale = float(scale_of(a.scale, b.scale, out))

    def forward(self, a, b):
        batch, (m, k), n = a.shape[:-2], a.shape[-2:], b.shape[-1]
        za, zb = self.zero
        x, y = a.reshape(-1, m, k), b.reshape(-1, k, n)
        if x.device.type == "presil":
            sums = torch.ops.presil.bmm_int8(x, y)
        else:
            sums = torch.bmm(x.double(), y.double()).to(torch.int32)
        if zb:
            sums = sums - zb * x.sum(2, keepdim=True, dtype=torch.int32)
        if za:
            sums = sums - za * y.sum(1, keepdim=True, dtype=torch.int32)
        v = (sums + za * zb * k).float().mul_(self.scale).reshape(*batch, m, n)
        if self.out is None:
            return v.clamp_(self.low, self.high)
        return _rescaled(v, self.out.zero_point, self.low, self.high)


class AverageCodes(nn.Module):
    """Mean of codes in windows of a plane, rounded once. window: avg_pool2d's arguments, None: the whole plane."""

    def __init__(self, window: tuple | None, zero_point: int, keep: bool):
        super().__init__()
        self.window, self.zero_point, self.keep = window, zero_point, keep

    def forward(self, x):
        window = self.window or (x.shape[-2:],)
        y = torch.ops.presil.avg_pool2d_int8(x, *window, zero_point=self.zero_point)
        return y if self.keep else y.flatten(1)


class Table(nn.Module):
    """Any function of one code: its 256 values. table: int8, (256,) of the codes −128 … 127; (C, 256): of each channel,
    which is dimension 1."""

    def __init__(self, table: torch.Tensor):
        super().__init__()
        self.register_buffer("table", table.flatten())
        first = 256 * torch.arange(len(table), dtype=torch.int32) if table.dim() > 1 else None
        self.register_buffer("first", first)  # of each channel, in the table

    def forward(self, x):
        places = x.to(torch.int32) + 128
        if self.first is not None:
            places = places + self.first.reshape(-1, *[1] * (x.dim() - 2))
        return self.table[places]


def scale_of(x: float, w, out: Codes | None) -> torch.Tensor:
    """(sx·sw)·(1/so) in float32: docs/numerics.md section 7; without `out`, sx·sw."""
    product = torch.tensor(x, dtype=torch.float32) * torch.as_tensor(w, dtype=torch.float32)
    return product if out is None else product * (1.0 / torch.tensor(out.scale, dtype=torch.float32))
