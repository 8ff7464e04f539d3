# SPDX-License-Identifier: Apache-2.0
"""Functions of one float or two, and batch-norm in eval mode, where they are not folded into a launch."""

import math

import torch

from torch_presil.aot.host.host_step import FLOATS, HostOperator, HostStep, dense, host_step
from torch_presil.compiler.nodes import bound, value
from torch_presil.compiler.rules.clamp import CLAMPS, bounds

aten = torch.ops.aten
ELEMENTWISE, NORM = 9, 12  # presil_op_kind
UNARY = {
    aten.neg.default: "neg",
    aten.abs.default: "abs",
    aten.sqrt.default: "sqrt",
    aten.exp.default: "exp",
    aten.tanh.default: "tanh",
    aten.sigmoid.default: "sigmoid",
    aten.silu.default: "silu",
    aten.gelu.default: "gelu",
    aten.hardsigmoid.default: "hardsigmoid",
    aten.hardswish.default: "hardswish",
}
BINARY = {aten.add.Tensor: "add", aten.sub.Tensor: "sub", aten.mul.Tensor: "mul", aten.div.Tensor: "div"}


def elementwise(x, other, function, low, high, approximate):
    """other: None, or broadcast against x. low, high: of "clamp". approximate: of "gelu"."""
    raise NotImplementedError("a step of presil-run")


@host_step(*UNARY, *BINARY, *CLAMPS)
class Elementwise(HostStep):
    function = staticmethod(elementwise)

    def arguments_of(self, node):
        tensors = [value(a) for a in node.all_input_nodes]
        if any(t.dtype not in FLOATS or t.dtype != tensors[0].dtype or t.dim() > 8 for t in tensors):
            return None
        if node.target in CLAMPS:
            found = bounds(node)
            return None if found is None else (node.args[0], None, "clamp", *found, None)
        if node.target in UNARY:
            return node.args[0], None, UNARY[node.target], None, None, node.kwargs.get("approximate")
        x, other = node.args[:2]
        plain = not node.kwargs and isinstance(value(x), torch.Tensor) and isinstance(value(other), torch.Tensor)
        return (x, other, BINARY[node.target], None, None, None) if plain else None

    def result(self, a):
        return dense(a.x.shape if a.other is None else torch.broadcast_shapes(a.x.shape, a.other.shape), a.x)

    def operators(self, a, out):
        attributes = {"function": a.function}
        if a.function == "clamp":
            attributes |= {n: [float(v)] for n, v in (("low", a.low), ("high", a.high)) if v is not None}
        if a.approximate:
            attributes["approximate"] = a.approximate
        inputs = {"input": a.x} if a.other is None else {"input": a.x, "other": a.other}
        return [HostOperator(ELEMENTWISE, inputs, out, attributes)]


def batch_norm(x, weight, bias, mean, variance, eps):
    """x: (N, C, H, W)."""
    raise NotImplementedError("a step of presil-run")


@host_step(aten._native_batch_norm_legit_no_training.default)
class BatchNorm(HostStep):
    function = staticmethod(batch_norm)

    def arguments_of(self, node):
        x, weight, bias, mean, variance, _, eps = bound(node)
        known = all(isinstance(value(n), torch.Tensor) and value(n).dtype in FLOATS for n in (weight, bias))
        usable = known and value(x).dim() == 4 and value(x).dtype in FLOATS and math.isfinite(eps)
        return (x, weight, bias, mean, variance, eps) if usable else None

    def result(self, a):
        return dense(a.x.shape, a.x)

    def operators(self, a, out):
        pixels = (0, 2, 3, 1)
        parts = {"weight": a.weight, "bias": a.bias, "mean": a.mean, "variance": a.variance}
        attributes = {"function": "batch", "epsilon": [float(a.eps)]}
        return [HostOperator(NORM, {"input": a.x.permute(pixels), **parts}, out.permute(pixels), attributes)]
