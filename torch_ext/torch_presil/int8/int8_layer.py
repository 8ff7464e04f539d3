# SPDX-License-Identifier: Apache-2.0
"""A layer on codes of int8: on the device one launch; elsewhere the same integers come from exact sums and
docs/numerics.md section 7 in float32."""

import dataclasses
import math

import torch
import torch.nn.functional as F
from torch import nn

__all__ = ["Int8Layer", "WithNumbers", "max_pool2d_of_codes", "rescaled", "scale_of"]


def scale_of(x: float, w, out) -> torch.Tensor:
    """(sx·sw)·(1/so) in float32: docs/numerics.md section 7; without `out`, sx·sw."""
    product = torch.tensor(x, dtype=torch.float32) * torch.as_tensor(w, dtype=torch.float32)
    return product if out is None else product * (1.0 / torch.tensor(out.scale, dtype=torch.float32))


def rescaled(value: torch.Tensor, zero_point: int, low: int, high: int) -> torch.Tensor:
    """float32 in units of the result's codes → codes."""
    return value.round().clamp(-(2.0**30), 2.0**30).add(zero_point).clamp(low, high).to(torch.int8)


def max_pool2d_of_codes(x, *args, **kwargs):
    """On the CPU through bfloat16, which holds every code exactly (its int8 max-pooling refuses large planes); the
    device asks the chip, and does so too if the chip refuses."""
    pool = torch.ops.aten.max_pool2d.default
    if x.device.type == "presil":
        return pool(x, *args, **kwargs)
    return pool(x.to(torch.bfloat16), *args, **kwargs).to(torch.int8)


class WithNumbers(nn.Module):
    """Its attributes of these names, numbers and codes' parameters, are part of the state dict."""

    numbers: tuple = ()

    def get_extra_state(self) -> dict:
        values = {name: getattr(self, name) for name in self.numbers}
        return {name: dataclasses.astuple(v) if dataclasses.is_dataclass(v) else v for name, v in values.items()}

    def set_extra_state(self, state: dict) -> None:
        mine = {name: getattr(self, name) for name in self.numbers}
        if set(state) != set(mine) or any((state[name] is None) != (mine[name] is None) for name in mine):
            raise ValueError(
                f"state dict: {type(self).__name__} has {', '.join(mine)}; it is of another model: {state}"
            )
        for name, value in state.items():
            setattr(self, name, type(mine[name])(*value) if dataclasses.is_dataclass(mine[name]) else value)


class Int8Layer(WithNumbers):
    """Convolution (1-D, 2-D) or linear layer with bias, residual, bounds and what comes out.

    weight: int8 (O, I/groups, KH, KW), linear (O, I). bias: int32 (O,), the input's zero point folded in. scale: fp32
    (O,). zero_point: of the input, and of its padding. out: codes, or None for float32. low, high: codes, or real
    bounds where out is None. residual_scale, residual_zero_point: of an addend in codes, in
    units of the result."""

    numbers = ("zero_point", "out", "low", "high", "residual_scale", "residual_zero_point")

    def __init__(self, label: str, geometry: tuple | None, dims: int, weight, bias, scale, zero_point: int):
        super().__init__()
        self.label, self.geometry, self.dims, self.zero_point = label, geometry, dims, zero_point
        self.out, self.low, self.high = None, -math.inf, math.inf
        self.residual_scale, self.residual_zero_point = 1.0, 0
        self.register_buffer("weight", weight)
        self.register_buffer("bias", bias)
        self.register_buffer("scale", scale)

    def take_residual(self, residual, out) -> None:
        """residual: scale and zero point of the addend's codes; out: of the result's, None: that is float32."""
        scale = torch.tensor(residual.scale, dtype=torch.float32)
        if out is not None:
            scale = scale / torch.tensor(out.scale, dtype=torch.float32)
        self.residual_scale, self.residual_zero_point = float(scale), residual.zero_point

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
        v = (sums.to(torch.int64) + self.bias.view(shape)).to(torch.int32).float() * self.scale.view(shape)
        if residual is not None and residual.dtype == torch.int8:
            v = v + (residual.to(torch.int32) - self.residual_zero_point).float() * self.residual_scale
        elif residual is not None:
            v = v + residual
        if self.out is None:
            return v.clamp(self.low, self.high)
        return rescaled(v, self.out.zero_point, self.low, self.high)
