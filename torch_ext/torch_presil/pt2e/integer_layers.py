# SPDX-License-Identifier: Apache-2.0
"""Modules of a lowered graph. Codes are int8 throughout. On the device each product is one launch; elsewhere the same
integers come from exact sums and docs/numerics.md section 7 in float32."""

import torch
from torch import nn

from torch_presil.int8.int8_layer import Int8Layer, WithNumbers, rescaled, scale_of
from torch_presil.pt2e.converted import Codes

__all__ = ["AverageCodes", "Dequantize", "Int8Add", "Int8MatMul", "Int8Mul", "Quantize", "Table"]


class Quantize(WithNumbers):
    """float → codes; in mode `rtl` and `model` alike the host's work."""

    numbers = ("q",)

    def __init__(self, q: Codes):
        super().__init__()
        self.q = q

    def forward(self, x):
        return self.q.of(x)


class Dequantize(WithNumbers):
    """codes → float32."""

    numbers = ("q",)

    def __init__(self, q: Codes):
        super().__init__()
        self.q = q

    def forward(self, x):
        return self.q.value(x)


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


class Int8Mul(WithNumbers):
    """a·b of codes, broadcast: exact products on the host, scaled and rounded once."""

    numbers = ("zero", "out", "low", "high", "scale")

    def __init__(self, a: Codes, b: Codes, out: Codes, low: int, high: int):
        super().__init__()
        self.zero, self.out, self.low, self.high = (a.zero_point, b.zero_point), out, low, high
        self.scale = float(scale_of(a.scale, b.scale, out))

    def forward(self, a, b):
        products = (a.to(torch.int32) - self.zero[0]) * (b.to(torch.int32) - self.zero[1])
        return rescaled(products.float().mul_(self.scale), self.out.zero_point, self.low, self.high)


class Int8MatMul(WithNumbers):
    """a @ b of codes of equal batches: sums on the chip, zero points and scale on the host in integers and float32."""

    numbers = ("zero", "out", "low", "high", "scale")

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
        return rescaled(v, self.out.zero_point, self.low, self.high)


class AverageCodes(WithNumbers):
    """Mean of codes in windows of a plane, rounded once. window: avg_pool2d's arguments, None: the whole plane."""

    numbers = ("zero_point",)

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
