# SPDX-License-Identifier: Apache-2.0
"""Convolution and linear layer on codes of int8 (torch_presil.quantize): integers in, integers or real values out."""

import math

import torch

from torch_presil.compiler.nodes import constant, named, value
from torch_presil.compiler.operands import as_images, conv_result, linear_result
from torch_presil.compiler.operators.base import ChipOperator, chip_operator
from torch_presil.compiler.views import as_rows, from_rows

aten, presil = torch.ops.aten, torch.ops.presil
DTYPES = (torch.int8, torch.int8, torch.int32, torch.float32)  # of input, weight, bias and scale
# What both layers take around their product, in this order (_computed).
AROUND = ("input_zero_point", "output_zero_point", "residual", "residual_scale", "residual_zero_point")
AROUND += ("low", "high", "label")


def conv_int8(x, weight, bias, scale, stride, padding, dilation, groups, *around):
    """presil::conv2d_int8."""
    operands = x, weight, bias, scale, stride, padding, dilation, groups
    return _computed(presil.conv2d_int8, operands, *around)


def linear_int8(x, weight, bias, scale, *around):
    """presil::linear_int8 of rows: x (rows, K), residual (rows, N); all else as in conv_int8."""
    return _computed(presil.linear_int8, (x, weight, bias, scale), *around)


def _computed(packet, operands, zero, output_zero_point, residual, residual_scale, residual_zero, low, high, label):
    """zero, residual_zero: zero points. low, high: bounds of the codes, None: no bound; output_zero_point None:
    float32, and real bounds. residual: codes, or float32 where the result is."""
    added = residual, residual_scale, residual_zero
    if output_zero_point is None:
        low, high = -math.inf if low is None else low, math.inf if high is None else high
        return packet.real(*operands, zero, *added, low, high, label)
    y = packet.default(*operands, zero, output_zero_point, *added, False, label)
    return y if low is None and high is None else aten.clamp.default(y, low, high)


class _OnCodes(ChipOperator):
    fuses = frozenset({"clamp"})
    takes, otherwise = (), "its weight, bias or scale is computed in the graph"

    def match(self, node, trace):
        given = named(node)
        given["x"], zero = given["input"], given.setdefault("output_zero_point", None)
        low, high = given.get("low", zero if given.get("relu") else None), given.get("high")
        given["low"], given["high"] = (None if v in (-math.inf, math.inf) else v for v in (low, high))
        operands, residual = [given[name] for name in ("x", "weight", "bias", "scale")], given["residual"]
        added = trace.holds((residual,), (torch.int8,)) or (zero is None and trace.holds((residual,), (torch.float32,)))
        if not (trace.holds(operands, DTYPES) and added and all(map(constant, operands[1:]))):
            return None
        return tuple(given[name] for name in self.arguments._fields)

    def label(self, node):
        return named(node)["label"]

    def clamped(self, node, next_low, next_high):
        if self.get(node, "output_zero_point") is None:
            return super().clamped(node, next_low, next_high)
        low, high = self.get(node, "low"), self.get(node, "high")
        if not all(v is None or float(v).is_integer() for v in (next_low, next_high)):
            return None
        then = [-128 if next_low is None else int(next_low), 127 if next_high is None else int(next_high)]
        before = [-128 if low is None else low, 127 if high is None else high]
        return tuple(min(max(v, then[0]), then[1]) for v in before)

    @staticmethod
    def dtype(a) -> torch.dtype:
        return torch.float32 if a.output_zero_point is None else torch.int8


@chip_operator
class ConvInt8(_OnCodes):
    function = staticmethod(conv_int8)
    parameters = ("x", "weight", "bias", "scale", "stride", "padding", "dilation", "groups", *AROUND)
    covers = tuple(getattr(presil.conv2d_int8, name) for name in presil.conv2d_int8.overloads())
    reads = {"x": "nhwc", "weight": "weight", "bias": "weight", "scale": "weight", "residual": "nhwc"}
    writes_nhwc = True

    def result(self, a):
        return conv_result(a, self.dtype(a))

    def record(self, recording, label, a, out):
        recording.conv2d_int8(**a._asdict() | {"label": label, "out": out})


@chip_operator
class LinearInt8(_OnCodes):
    function = staticmethod(linear_int8)
    parameters = ("x", "weight", "bias", "scale", *AROUND)
    covers = tuple(getattr(presil.linear_int8, name) for name in presil.linear_int8.overloads())
    reads = {"x": "rows", "weight": "weight", "bias": "weight", "scale": "weight", "residual": "rows"}

    def match(self, node, trace):
        args = super().match(node, trace)
        if args is None or value(node).dim() == 2:
            return args
        return tuple(
            as_rows(a, node) if i in (self.at["x"], self.at["residual"]) and a else a for i, a in enumerate(args)
        )

    def standing_for(self, node, call):
        return call if value(node).dim() == 2 else from_rows(call, node)

    def result(self, a):
        return linear_result(a, self.dtype(a))

    def record(self, recording, label, a, out):
        recording.conv2d_int8(**a._asdict() | {"label": label} | as_images(a, out))
