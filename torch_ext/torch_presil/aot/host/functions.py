# SPDX-License-Identifier: Apache-2.0
"""Functions of one float or two, conversions, and batch-norm in eval mode, where no launch takes them."""

import math

import torch

from torch_presil.aot.host.host_step import FLOATS, HostOperator, HostStep, dense, host_step
from torch_presil.compiler.nodes import bound, value
from torch_presil.compiler.rules.clamp import CLAMPS, bounds
from torch_presil.compiler.views import VIEWS

aten = torch.ops.aten
ELEMENTWISE, NORM = 9, 12  # presil_op_kind
TYPES = {torch.int8, torch.int32, *FLOATS}
UNARY = {
    aten.neg.default: "neg",
    aten.abs.default: "abs",
    aten.sqrt.default: "sqrt",
    aten.exp.default: "exp",
    aten.reciprocal.default: "reciprocal",
    aten.round.default: "round",
    aten.tanh.default: "tanh",
    aten.sigmoid.default: "sigmoid",
    aten.silu.default: "silu",
    aten.gelu.default: "gelu",
    aten.hardsigmoid.default: "hardsigmoid",
    aten.hardswish.default: "hardswish",
}
BINARY = {
    aten.add.Tensor: "add",
    aten.sub.Tensor: "sub",
    aten.mul.Tensor: "mul",
    aten.div.Tensor: "div",
    aten.maximum.default: "maximum",
    aten.minimum.default: "minimum",
}


def elementwise(x, other, function, low, high, approximate, number):
    """other: None, or broadcast against x; number: in place of other. low, high: of "clamp". approximate: of "gelu"."""
    raise NotImplementedError("a step of presil-run")


def converted(x, dtype):
    """x, as this type. To integers what lies behind the point is cut off."""
    raise NotImplementedError("a step of presil-run")


@host_step(aten._to_copy.default)
class Converted(HostStep):
    function = staticmethod(converted)

    def arguments_of(self, node):
        dtype = node.kwargs.get("dtype")
        usable = set(node.kwargs) == {"dtype"} and {dtype, value(node.args[0]).dtype} <= TYPES
        return (node.args[0], dtype) if usable and value(node.args[0]).dim() <= 8 else None

    def result(self, a):
        return dense(a.x.shape, a.x, a.dtype)

    def operators(self, a, out):
        # A clamp without bounds is nothing but its rounding.
        function = "clamp" if a.x.dtype in FLOATS and a.dtype in FLOATS else "trunc"
        return [HostOperator(ELEMENTWISE, {"input": a.x}, out, {"function": function})]


def number_of(node):
    """What every element of a node is, or None: a number, or full_like() of one, also seen or converted otherwise."""
    whole = False
    while isinstance(value(node), torch.Tensor) and (
        node.target in VIEWS or node.target in (aten._to_copy.default, converted)
    ):
        whole |= not value(node).is_floating_point()
        node = node.args[0]
    if getattr(node, "target", None) is aten.full_like.default:
        node = node.args[1]
    known = isinstance(node, (int, float)) and not isinstance(node, bool)
    return float(node) if known and not (whole and (node != int(node) or abs(node) > 127)) else None


def widened_sums(node, dtype):
    """The node; int32 (which may need more bits than a float has) as the type that PyTorch computes in."""
    if value(node).dtype != torch.int32:
        return node
    with node.graph.inserting_after(node):
        new = node.graph.call_function(converted, (node, dtype))
    new.meta = {"val": value(node).to(dtype), "label": node.name}
    return new


@host_step(*UNARY, *BINARY, *CLAMPS)
class Elementwise(HostStep):
    function = staticmethod(elementwise)

    def arguments_of(self, node):
        tensors = [value(a) for a in node.all_input_nodes]
        if value(node).dtype not in FLOATS or any(t.dtype not in TYPES or t.dim() > 8 for t in tensors):
            return None
        if node.target in BINARY:
            return self._of_two(node)
        if tensors[0].dtype != value(node).dtype:
            return None
        if node.target in CLAMPS:
            found = bounds(node)
            return None if found is None else (node.args[0], None, "clamp", *found, None, None)
        if node.target in UNARY and set(node.kwargs) <= {"approximate"}:
            return node.args[0], None, UNARY[node.target], None, None, node.kwargs.get("approximate"), None
        return None

    @staticmethod
    def _of_two(node):
        x, other = node.args[:2]
        dtype, number = value(node).dtype, number_of(other)
        if node.kwargs or not isinstance(value(x), torch.Tensor):
            return None
        if number is not None and value(node).shape == value(x).shape:
            exact = torch.tensor(number, dtype=torch.float32).item()  # PyTorch computes in float32, bfloat16 too
            return (widened_sums(x, dtype), None, BINARY[node.target], None, None, None, exact)
        if not isinstance(value(other), torch.Tensor):
            return None
        return (widened_sums(x, dtype), widened_sums(other, dtype), BINARY[node.target], None, None, None, None)

    def result(self, a):
        if a.other is None:
            return dense(a.x.shape, a.x)
        dtype = torch.promote_types(a.x.dtype, a.other.dtype)
        return dense(torch.broadcast_shapes(a.x.shape, a.other.shape), a.x, dtype)

    def operators(self, a, out):
        attributes = {"function": a.function}
        if a.number is not None:
            attributes["other"] = [a.number]
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
