# SPDX-License-Identifier: Apache-2.0
"""Convolution and linear layer on codes of int8 (torch_presil.quantize): integers in, integers out."""

import torch

from torch_presil.compiler.nodes import bound, constant, value
from torch_presil.compiler.operands import are_rows, conv_size, is_nhwc, need, pixels
from torch_presil.compiler.operators.base import ChipOperator, chip_operator
from torch_presil.compiler.views import as_rows, from_rows

aten, presil = torch.ops.aten, torch.ops.presil
DTYPES = (torch.int8, torch.int8, torch.int32, torch.float32)  # of input, weight, bias and scale


def conv_int8(
    x,
    weight,
    bias,
    scale,
    stride,
    padding,
    dilation,
    groups,
    input_zero_point,
    output_zero_point,
    residual,
    residual_scale,
    residual_zero_point,
    low,
    high,
    label,
):
    """presil::conv2d_int8. low, high: bounds of the codes, None: those of int8."""
    y = presil.conv2d_int8.default(
        x,
        weight,
        bias,
        scale,
        stride,
        padding,
        dilation,
        groups,
        input_zero_point,
        output_zero_point,
        residual,
        residual_scale,
        residual_zero_point,
        False,
        label,
    )
    return _bounded(y, low, high)


def linear_int8(
    x,
    weight,
    bias,
    scale,
    input_zero_point,
    output_zero_point,
    residual,
    residual_scale,
    residual_zero_point,
    low,
    high,
    label,
):
    """presil::linear_int8 of rows: x (rows, K), residual (rows, N). low, high: as in conv_int8."""
    y = presil.linear_int8.default(
        x,
        weight,
        bias,
        scale,
        input_zero_point,
        output_zero_point,
        residual,
        residual_scale,
        residual_zero_point,
        False,
        label,
    )
    return _bounded(y, low, high)


def _bounded(y, low, high):
    return y if low is None and high is None else aten.clamp.default(y, low, high)


class _OnCodes(ChipOperator):
    fuses = frozenset({"clamp"})

    def match(self, node, trace):
        *args, relu, label = bound(node)
        x, weight, bias, scale = args[:4]
        residual, zero = args[self.at["residual"]], args[self.at["output_zero_point"]]
        if not (
            trace.holds((*args[:4], residual), (*DTYPES, torch.int8))
            and constant(weight)
            and constant(bias)
            and constant(scale)
        ):
            return None
        return *args, zero if relu else None, None, label

    def label(self, node):
        return bound(node)[-1]

    def clamped(self, low, high, next_low, next_high):
        whole = all(v is None or (isinstance(v, (int, float)) and v == int(v)) for v in (next_low, next_high))
        if not whole:
            return None
        then = [-128 if next_low is None else int(next_low), 127 if next_high is None else int(next_high)]
        before = [-128 if low is None else low, 127 if high is None else high]
        return tuple(min(max(v, then[0]), then[1]) for v in before)

    def why_not_these(self, node, values):
        return "its weight, bias or scale is computed in the graph"

    @staticmethod
    def codes(a) -> dict:
        """What a recording takes for either."""
        names = ("input_zero_point", "output_zero_point", "residual_scale", "residual_zero_point", "low", "high")
        return {name: getattr(a, name) for name in names}


@chip_operator
class ConvInt8(_OnCodes):
    function = staticmethod(conv_int8)
    covers = (presil.conv2d_int8.default,)
    reads = {"x": "nhwc", "weight": "weight", "bias": "weight", "scale": "weight", "residual": "nhwc"}
    writes_nhwc = True

    def result(self, a):
        size = conv_size(a.x, a.weight, a.stride, a.padding, a.dilation, False, (0, 0), a.groups)
        need(min(size) > 0 and a.x.numel() > 0, "an empty convolution")
        need(
            is_nhwc(a.x) and (a.residual is None or is_nhwc(a.residual)),
            "a convolution of a tensor that is not channels_last",
        )
        return torch.empty(size, dtype=torch.int8, device=a.x.device, memory_format=torch.channels_last)

    def record(self, recording, label, a, out):
        recording.conv2d_int8(
            label,
            a.x,
            a.weight,
            a.bias,
            a.scale,
            out,
            stride=a.stride,
            padding=a.padding,
            dilation=a.dilation,
            groups=a.groups,
            residual=a.residual,
            **self.codes(a),
        )


@chip_operator
class LinearInt8(_OnCodes):
    function = staticmethod(linear_int8)
    covers = (presil.linear_int8.default,)
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
        need(
            are_rows(a.x) and a.x.numel() > 0 and (a.residual is None or are_rows(a.residual)),
            "a linear layer of rows that are not contiguous",
        )
        return torch.empty([a.x.shape[0], a.weight.shape[0]], dtype=torch.int8, device=a.x.device)

    def record(self, recording, label, a, out):
        recording.conv2d_int8(
            label,
            pixels(a.x),
            a.weight[:, :, None, None],
            a.bias,
            a.scale,
            pixels(out),
            residual=None if a.residual is None else pixels(a.residual),
            **self.codes(a),
        )
