# SPDX-License-Identifier: Apache-2.0
"""Convolution in 1-D and 2-D, plain and transposed."""

import torch

from torch_presil.compiler.nodes import constant, unconverted, value
from torch_presil.compiler.operands import conv_result, kernel
from torch_presil.compiler.operators.base import ChipOperator, chip_operator, like, tail
from torch_presil.compiler.views import geometry_with_height, with_height

aten = torch.ops.aten


def conv(
    x, weight, bias, norm, eps, stride, padding, dilation, transposed, output_padding, groups, residual, low, high
):
    """x: (N, C, H, W); weight: (O, I, KH, KW), or (O, I, KW); it and bias are converted to the type of x. norm: () or
    (mean, variance, weight, bias) of a batch-norm in eval mode. residual: the output's shape."""
    y = aten.convolution.default(
        x, like(x, kernel(weight)), like(x, bias), stride, padding, dilation, transposed, output_padding, groups
    )
    if norm:
        mean, variance, scale, shift = norm
        y = aten._native_batch_norm_legit_no_training.default(y, scale, shift, mean, variance, 0.0, eps)[0]
    return tail(y, residual, low, high)


@chip_operator
class Conv(ChipOperator):
    function = staticmethod(conv)
    covers = (aten.convolution.default,)
    fuses = frozenset({"batch_norm", "residual", "clamp"})
    reads = {"x": "nhwc", "weight": "weight", "bias": "weight", "norm": "weight", "residual": "nhwc"}
    writes_nhwc = planes = True

    def match(self, node, trace):
        x, weight, bias, *geometry = node.args
        if not (trace.floats(x, weight, bias) and value(x).dim() in (3, 4) and constant(weight) and constant(bias)):
            return None
        if value(x).dim() == 3:
            x, geometry = with_height(x, node), geometry_with_height(geometry)
        return x, unconverted(weight), unconverted(bias), (), 0.0, *geometry, None, None, None

    def result(self, a):
        return conv_result(a, a.x.dtype, a.transposed)

    def record(self, recording, label, a, out):
        asked = a._asdict() | {"label": label, "weight": kernel(a.weight), "norm": list(a.norm), "out": out}
        del asked["output_padding"]  # out has it
        if a.transposed:
            reach = [d * (k - 1) for d, k in zip(a.dilation, asked["weight"].shape[2:])]
            padding = [r - p for r, p in zip(reach, a.padding)]
            asked |= {"stride": (1, 1), "padding": padding, "input_dilation": a.stride}
        recording.conv2d(**asked)
