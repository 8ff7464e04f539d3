# SPDX-License-Identifier: Apache-2.0
"""Functions of one float or two, conversions, and batch-norm in eval mode, where no launch takes them."""

import math

import torch

from torch_presil.aot.host.host_step import FLOATS, HostOperator, HostStep, dense, host_step
from torch_presil.compiler.nodes import named, value
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


def elementwise(x, other, function, dtype, low, high, approximate, number):
    """dtype: of the result. other: None, or broadcast against x; number: in place of other. low, high: of "clamp".
    approximate: of "gelu"."""
    raise NotImplementedError("a step of presil-run")


def converted(x, dtype):
    """x, as this type. To integers what lies behind the point is cut off."""
    raise NotImplementedError("a step of presil-run")


@host_step(aten._to_copy.default)
class Converted(HostStep):
    function = staticmethod(converted)

    def arguments_of(self, node):
        dtype = node.kwargs.get("dtype")
        x = value(node.args[0])
        here = set(node.kwargs) <= {"dtype", "device"} and value(node).device == x.device
        return (node.args[0], dtype) if here and {dtype, x.dtype} <= TYPES and x.dim() <= 8 else None

    def result(self, a):
        return dense(a.x.shape, a.x, a.dtype)

    def operators(self, a, out):
        # A clamp without bounds is nothing but its rounding.
        function = "clamp" if a.x.dtype in FLOATS and a.dtype in FLOATS else "trunc"
        return [HostOperator(ELEMENTWISE, {"input": a.x}, out, {"function": function})]


def number_of(node):
    """What every element of a node is, or None: a number, or full_like() of one, also seen or converted otherwise."""
    types = []
    while isinstance(value(node), torch.Tensor) and (
        node.target in VIEWS or node.target in (aten._to_copy.default, converted)
    ):
        types.insert(0, value(node).dtype)
        node = node.args[0]
    if getattr(node, "target", None) is aten.full_like.default:
        types.insert(0, value(node).dtype)
        node = node.args[1]
    if not isinstance(node, (int, float)) or isinstance(node, bool) or not set(types) <= TYPES:
        return None
    return _as_types(node, types)


def _as_types(number, types):
    """The number, converted to one type after the other; None: one of integers does not hold it."""
    for dtype in types:
        if dtype not in FLOATS and (not float(number).is_integer() or abs(number) > torch.iinfo(dtype).max):
            return None
        number = torch.tensor(number, dtype=torch.float64).to(dtype).item()
    return float(number)


def rounded_number(node, number):
    """As PyTorch's CPU takes it: sums have it in their type; products and quotients in float32, those of bfloat16
    too."""
    sums = node.target in (aten.add.Tensor, aten.sub.Tensor)
    return torch.tensor(number, dtype=value(node).dtype if sums else torch.float32).item()


def computed(node, operand):
    """An operand of the node as PyTorch computes with it: int32, which may need more bits than a float has, as the
    result's type; and a float32 of no dimensions, which does not widen bfloat16, as rounded_number()."""
    dtype, given = value(node).dtype, value(operand).dtype
    quotients = node.target in (aten.mul.Tensor, aten.div.Tensor)
    narrowed = given == torch.float32 and dtype == torch.bfloat16 and not quotients
    if given != torch.int32 and not narrowed:
        return operand
    with node.graph.inserting_before(node):
        new = node.graph.call_function(converted, (operand, dtype))
    new.meta = {"val": value(operand).to(dtype), "label": operand.name}
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
            return None if found is None else (node.args[0], None, "clamp", value(node).dtype, *found, None, None)
        if node.target in UNARY and set(node.kwargs) <= {"approximate"}:
            approximate = node.kwargs.get("approximate")
            return node.args[0], None, UNARY[node.target], value(node).dtype, None, None, approximate, None
        return None

    @staticmethod
    def _of_two(node):
        x, other = node.args[:2]
        dtype, number = value(node).dtype, number_of(other)
        if node.kwargs or not isinstance(value(x), torch.Tensor):
            return None
        if number is not None and value(node).shape == value(x).shape:
            taken = rounded_number(node, number)
            return computed(node, x), None, BINARY[node.target], dtype, None, None, None, taken
        if not isinstance(value(other), torch.Tensor):
            return None
        return computed(node, x), computed(node, other), BINARY[node.target], dtype, None, None, None, None

    def result(self, a):
        shape = a.x.shape if a.other is None else torch.broadcast_shapes(a.x.shape, a.other.shape)
        return dense(shape, a.x, a.dtype)

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
        x, weight, bias, mean, variance, _, eps = named(node).values()
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
