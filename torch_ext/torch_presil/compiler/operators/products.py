# SPDX-License-Identifier: Apache-2.0
"""Products of matrices: with a weight that the chip keeps packed, and of any two."""

import torch

from torch_presil.compiler.nodes import constant, unconverted, value
from torch_presil.compiler.operands import as_images, batched, linear_result, loadable, need
from torch_presil.compiler.operators.base import ChipOperator, chip_operator, like, tail

aten = torch.ops.aten


def linear(x, weight, bias, residual, low, high):
    """x: (rows, K), weight: (N, K), which the chip keeps packed; it and bias are converted to the type of x.
    residual: (rows, N)."""
    weight, bias = like(x, weight), like(x, bias)
    y = aten.mm.default(x, weight.t()) if bias is None else aten.addmm.default(bias, x, weight.t())
    return tail(y, residual, low, high)


def product(a, b, residual, low, high):
    """a: (M, K) or (B, M, K), b: (K, N) or (B, K, N). residual: broadcast to the result."""
    y = aten.mm.default(a, b) if a.dim() == 2 else aten.bmm.default(a, b)
    return tail(y, residual, low, high)


def product_int8(a, b, residual=None, low=None, high=None):
    """a: (M, K), b: (K, N), int8; sums in int32, which wrap around. Nothing is behind them."""
    return aten._int_mm.default(a, b)


class _Product(ChipOperator):
    covers = (aten.mm.default, aten.bmm.default, aten.addmm.default, aten.baddbmm.default)
    fuses = frozenset({"residual", "clamp"})
    otherwise = "factors other than 1"

    def match(self, node, trace):
        if any(v != 1 for v in node.kwargs.values()):
            return None
        *bias, a, b = node.args
        return self.match_product(a, b, *(bias or [None]), trace) if trace.floats(a, b, *bias) else None

    def match_product(self, a, b, bias, trace):
        raise NotImplementedError


@chip_operator
class Linear(_Product):
    function = staticmethod(linear)
    reads = {"x": "rows", "weight": "weight", "bias": "weight", "residual": "rows"}

    def match_product(self, a, b, bias, trace):
        turned = b.op == "call_function" and (
            b.target is aten.t.default or (b.target is aten.permute.default and list(b.args[1]) == [1, 0])
        )
        # A weight that no training step is about to change, and that is known before the graph runs.
        if not (trace.inference and turned and constant(b.args[0]) and constant(bias)):
            return None
        if bias is not None and value(bias).dim() != 1:
            return None
        return a, unconverted(b.args[0]), unconverted(bias), None, None, None

    def result(self, a):
        return linear_result(a, a.x.dtype)

    def record(self, recording, label, a, out):
        recording.conv2d(**a._asdict() | as_images(a, out), label=label, product=True)


@chip_operator
class Product(_Product):
    function = staticmethod(product)
    rank = 1  # what is no linear layer

    def match_product(self, a, b, bias, trace):
        return a, b, bias, None, None

    def result(self, a):
        need(loadable(a.a) and loadable(a.b), "a product of matrices with strides that the chip can't load")
        r = a.residual
        need(r is None or r.shape[-1] == 1 or r.stride(-1) == 1, "a residual without contiguous rows")
        dtype = torch.int32 if a.a.dtype == torch.int8 else a.a.dtype
        return torch.empty([*a.a.shape[:-1], a.b.shape[-1]], dtype=dtype, device=a.a.device)

    def record(self, recording, label, a, out):
        residual = None if a.residual is None else batched(a.residual.expand(out.shape))
        recording.matmul(label, batched(a.a), batched(a.b), residual, a.low, a.high, batched(out))


@chip_operator
class ProductInt8(Product):
    function, fuses = staticmethod(product_int8), frozenset()
    covers = (aten._int_mm.default,)
    takes, otherwise = (), "operands that are not both int8"

    def match(self, node, trace):
        return (*node.args, None, None, None) if trace.holds(node.args, (torch.int8, torch.int8)) else None
