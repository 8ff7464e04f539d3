# SPDX-License-Identifier: Apache-2.0
"""Poolings, and means of planes."""

import torch

from torch_presil.aot.host.host_step import FLOATS, HostOperator, HostStep, dense, host_step
from torch_presil.compiler.nodes import named, value

aten, presil = torch.ops.aten, torch.ops.presil
MAX, AVERAGE = 7, 8  # presil_op_kind
PIXELS = (0, 2, 3, 1)


def pool(x, kind, size, kernel, stride, padding, dilation, counts_padding, divisor, zero_point):
    """x: (N, C, H, W). size: of the result's planes. divisor 0: the window's own. zero_point: of codes, else None."""
    raise NotImplementedError("a step of presil-run")


@host_step(
    aten.max_pool2d.default,
    aten.max_pool2d_with_indices.default,
    aten.avg_pool2d.default,
    presil.avg_pool2d_int8.default,
    aten.mean.dim,
    aten._adaptive_avg_pool2d.default,
    aten.adaptive_avg_pool2d.default,
)
class Pool(HostStep):
    function = staticmethod(pool)
    first = planes = True

    def arguments_of(self, node):
        x = value(node.args[0])
        if x.dim() != 4 or x.dtype not in (torch.int8, *FLOATS):
            return None
        args = _POOLINGS[node.target](node, x)
        return None if args is None else (node.args[0], *args)

    def result(self, a):
        return dense([*a.x.shape[:2], *a.size], a.x)

    def operators(self, a, out):
        attributes = {"kernel": a.kernel, "stride": a.stride, "padding": a.padding}
        if a.kind == MAX:
            attributes["dilation"] = a.dilation
        else:
            attributes |= {"count_include_pad": [int(a.counts_padding)], "divisor": [a.divisor]}
        quantize = None
        if a.zero_point is not None:
            attributes["zero_point"], quantize = [a.zero_point], (a.zero_point, -128, 127)
        return [HostOperator(a.kind, {"input": a.x.permute(PIXELS)}, out.permute(PIXELS), attributes, quantize)]


def _pair(given, otherwise=None) -> list:
    given = list(given) if given else list(otherwise)
    return given * 2 if len(given) == 1 else given


def _plane(node) -> list:
    val = value(node)
    return list((val[0] if isinstance(val, (tuple, list)) else val).shape[2:])


def _max(node, x):
    kernel, stride, padding, dilation = list(named(node).values())[1:5]
    kernel = _pair(kernel)
    return MAX, _plane(node), kernel, _pair(stride, kernel), _pair(padding), _pair(dilation), True, 0, None


def _average(node, x):
    kernel, stride, padding, _, counts_padding, divisor, *zero_point = list(named(node).values())[1:]
    kernel, zero = _pair(kernel), zero_point[0] if zero_point else None
    if divisor == 0 or (zero is None) == (x.dtype == torch.int8):
        return None
    more = _pair(padding), [1, 1], bool(counts_padding), divisor or 0, zero
    return AVERAGE, _plane(node), kernel, _pair(stride, kernel), *more


def _windows(x, size):
    """An average whose windows are as large as each other, and don't overlap."""
    if x.dtype == torch.int8 or any(n % m for n, m in zip(x.shape[2:], size)):
        return None
    kernel = [n // m for n, m in zip(x.shape[2:], size)]
    return AVERAGE, list(size), kernel, kernel, [0, 0], [1, 1], True, 0, None


def _mean(node, x):
    _, dims, _, dtype = named(node).values()
    whole = sorted(d % 4 for d in dims or ()) == [2, 3] and dtype in (None, x.dtype)
    return _windows(x, (1, 1)) if whole else None


def _adaptive(node, x):
    return _windows(x, tuple(node.args[1]))


_POOLINGS = {
    aten.max_pool2d.default: _max,
    aten.max_pool2d_with_indices.default: _max,
    aten.avg_pool2d.default: _average,
    presil.avg_pool2d_int8.default: _average,
    aten.mean.dim: _mean,
    aten._adaptive_avg_pool2d.default: _adaptive,
    aten.adaptive_avg_pool2d.default: _adaptive,
}
