# SPDX-License-Identifier: Apache-2.0
"""The gradients of a convolution: one operator for each that is wanted."""

import operator

import torch

from torch_presil.compiler.nodes import value
from torch_presil.compiler.operands import is_nhwc, kernel, need
from torch_presil.compiler.operators.base import ChipOperator, chip_operator, tail
from torch_presil.compiler.views import geometry_with_height, with_height

aten = torch.ops.aten


# Arguments of all three, those of the convolution. grad: (N, O, H', W').
PARAMETERS = ("grad", "x", "weight", "stride", "padding", "dilation", "transposed", "output_padding", "groups")


def _gradient(which, grad, x, weight, *geometry):
    *_, transposed, _, groups = geometry
    bias_size, mask = [weight.shape[1] * groups if transposed else weight.shape[0]], [i == which for i in range(3)]
    return aten.convolution_backward.default(grad, x, kernel(weight), bias_size, *geometry, mask)[which]


def input_grad(*args):
    """Result and residual, the last argument: x's shape."""
    return tail(_gradient(0, *args[:-1]), args[-1], None, None)


def weight_grad(*args):
    """Always with four dimensions; weight: for its shape."""
    return _gradient(1, *args)


def bias_grad(*args):
    """Only grad counts."""
    return _gradient(2, *args)


class Gradient(ChipOperator):
    parameters = PARAMETERS
    covers = (aten.convolution_backward.default,)
    which = 0  # of convolution_backward's results

    def rewrite(self, node, trace):
        grad, x, weight, _, *geometry, mask = node.args
        if not (
            trace.floats(grad, x, weight)
            and value(x).dim() in (3, 4)
            and all(u.target is operator.getitem and mask[u.args[1]] for u in node.users)
        ):
            return False
        wanted = [u for u in node.users if u.args[1] == self.which]
        if wanted and value(x).dim() == 3:
            grad, x, geometry = with_height(grad, node), with_height(x, node), geometry_with_height(geometry)
        for u in wanted:
            args = (grad, x, weight, *geometry, *([None] if "residual" in self.at else []))
            self.put(u, args, f"{node.name}.{self.name}")
        if not node.users:
            node.graph.erase_node(node)
        return not node.users

    @staticmethod
    def geometry(a) -> list:
        return [list(a.stride), list(a.padding), list(a.dilation), a.transposed, a.groups]

    def check(self, a) -> None:
        need(min(t.numel() for t in (a.grad, a.x, a.weight)) > 0, "an empty convolution")


@chip_operator
class InputGrad(Gradient):
    function, parameters = staticmethod(input_grad), (*PARAMETERS, "residual")
    fuses = frozenset({"residual"})
    reads = {"residual": "nhwc", "weight": "nhwc"}
    writes_nhwc = planes = True

    def result(self, a):
        self.check(a)
        need(a.residual is None or is_nhwc(a.residual), "a gradient added to a tensor that is not channels_last")
        return torch.empty(a.x.shape, dtype=a.x.dtype, device=a.x.device, memory_format=torch.channels_last)

    def record(self, recording, label, a, out):
        recording.input_grad(label, a.grad, kernel(a.weight), *self.geometry(a), a.residual, out)


@chip_operator
class WeightGrad(Gradient):
    function, which, planes = staticmethod(weight_grad), 1, True

    def result(self, a):
        """As the chip makes it, the outputs, its cells, side by side: who adds it to a weight's gradient turns it."""
        self.check(a)
        outputs, *rest = kernel(a.weight).shape
        w = torch.empty([*rest, outputs], dtype=a.weight.dtype, device=a.weight.device)
        return w.permute(3, 0, 1, 2)

    def record(self, recording, label, a, out):
        recording.weight_grad(label, a.grad, a.x, *self.geometry(a), out)


@chip_operator
class BiasGrad(Gradient):
    function, which = staticmethod(bias_grad), 2

    def result(self, a):
        self.check(a)
        return torch.empty([a.grad.shape[1]], dtype=a.grad.dtype, device=a.grad.device)

    def record(self, recording, label, a, out):
        recording.bias_grad(label, a.grad, out)
