# SPDX-License-Identifier: Apache-2.0
"""What goes over whole dimensions: largest and smallest elements, softmax, layer norm."""

import math

import torch

from torch_presil.aot.host.host_step import FLOATS, HostOperator, HostStep, host_step, rows
from torch_presil.compiler.nodes import named, value

aten = torch.ops.aten
REDUCTION, SOFTMAX, NORM = 10, 11, 12  # presil_op_kind
EXTREMES = {aten.amin.default: "amin", aten.amax.default: "amax"}


def extreme(x, function, dims, keepdim):
    """dims: those that are reduced, from 0."""
    raise NotImplementedError("a step of presil-run")


@host_step(*EXTREMES)
class Extreme(HostStep):
    function = staticmethod(extreme)

    def arguments_of(self, node):
        x, dims, keepdim = named(node).values()
        rank = value(x).dim()
        if value(x).dtype not in FLOATS or not 0 < rank <= 8 or not value(x).numel():
            return None
        return x, EXTREMES[node.target], sorted(d % rank for d in dims) or list(range(rank)), keepdim

    def result(self, a):
        shape = [1 if i in a.dims else size for i, size in enumerate(a.x.shape)]
        return rows(shape if a.keepdim else [s for i, s in enumerate(shape) if i not in a.dims], a.x)

    def operators(self, a, out):
        return [HostOperator(REDUCTION, {"input": a.x}, out, {"function": a.function, "dims": list(a.dims)})]


def softmax(x, dim):
    raise NotImplementedError("a step of presil-run")


@host_step(aten._softmax.default)
class Softmax(HostStep):
    function = staticmethod(softmax)

    def arguments_of(self, node):
        x, dim, to_float = named(node).values()
        usable = value(x).dtype in FLOATS and 0 < value(x).dim() <= 8 and not to_float
        return (x, dim % value(x).dim()) if usable else None

    def result(self, a):
        return rows(a.x.shape, a.x)

    def operators(self, a, out):
        return [HostOperator(SOFTMAX, {"input": a.x}, out, {"dim": [a.dim]})]


def layer_norm(x, weight, bias, eps):
    """Over the last dimensions, as many as weight has."""
    raise NotImplementedError("a step of presil-run")


@host_step(aten.native_layer_norm.default, aten.layer_norm.default)
class LayerNorm(HostStep):
    function = staticmethod(layer_norm)

    def arguments_of(self, node):
        x, shape, weight, bias, eps = list(named(node).values())[:5]
        known = all(isinstance(value(n), torch.Tensor) and value(n).dtype in FLOATS for n in (x, weight, bias))
        return (x, weight, bias, eps) if known and value(x).dim() <= 8 and math.isfinite(eps) else None

    def result(self, a):
        return rows(a.x.shape, a.x)

    def operators(self, a, out):
        parts = {"input": a.x, "weight": a.weight, "bias": a.bias}
        return [HostOperator(NORM, parts, out, {"function": "layer", "epsilon": [float(a.eps)]})]
