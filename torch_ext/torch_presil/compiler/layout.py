# SPDX-License-Identifier: Apache-2.0
"""Where the chip's operators can read and write without a copy: convolutions NHWC, products rows, views followed
through.

The graph was traced with the strides that eager mode would have. Here a convolution's result stays NHWC, so every
view is tried on the strides that it will really meet (on meta tensors, symbolic sizes at their hints).
"""

import torch
from torch import fx
from torch._prims_common import suggest_memory_format

from torch_presil.compiler import calls


class NotRecordable(Exception):
    """This operator, on these strides, is no entry of a command list."""


def sizes_of(values):
    """Symbolic sizes at their hints."""
    return [v if isinstance(v, int) else v.node.hint for v in values]


def meta_tensor(value: torch.Tensor) -> torch.Tensor:
    return torch.empty_strided(sizes_of(value.shape), sizes_of(value.stride()), dtype=value.dtype, device="meta")


def loadable(t: torch.Tensor) -> bool:
    """As the chip fetches a matrix [B, M, N]: one of the inner strides is 1, rows don't overlap."""

    def ok(fast, slow):
        return (t.shape[fast] == 1 or t.stride(fast) == 1) and (
            t.shape[slow] == 1 or t.stride(slow) >= max(t.shape[fast], 1)
        )

    return (ok(-1, -2) or ok(-2, -1)) and t.numel() > 0


def _need(condition, what):
    if not condition:
        raise NotRecordable(what)


def _nhwc(t):
    return t.is_contiguous(memory_format=torch.channels_last)


def _rows(t):
    return t.dim() == 2 and (t.shape[1] == 1 or t.stride(1) == 1) and (t.shape[0] == 1 or t.stride(0) >= t.shape[1])


def result(target, args) -> torch.Tensor:
    """An empty tensor as the chip writes it, on the device of the operands. Raises NotRecordable where these operands
    can't be fetched as they are."""
    first, residual = args[0], args[calls.RESIDUAL[target]] if target in calls.RESIDUAL else None
    if target is calls.conv:
        size = calls.conv_size(first, args[1], *args[5:11])
        _need(min(size) > 0 and first.numel() > 0, "an empty convolution")
        _need(
            _nhwc(first) and (residual is None or _nhwc(residual)),
            "a convolution of a tensor that is not channels_last",
        )
        return torch.empty(size, dtype=first.dtype, device=first.device, memory_format=torch.channels_last)
    if target is calls.linear:
        _need(
            _rows(first) and first.numel() > 0 and (residual is None or _rows(residual)),
            "a linear layer of rows that are not contiguous",
        )
        return torch.empty([first.shape[0], args[1].shape[0]], dtype=first.dtype, device=first.device)
    if target in calls.GRADIENTS:
        return _gradient(target, first, args[1], args[2], residual)
    a, b = args[:2]
    _need(loadable(a) and loadable(b), "a product of matrices with strides that the chip can't load")
    _need(residual is None or residual.shape[-1] == 1 or residual.stride(-1) == 1, "a residual without contiguous rows")
    return torch.empty([*a.shape[:-1], b.shape[-1]], dtype=a.dtype, device=a.device)


def _gradient(target, grad, x, weight, residual):
    weight = calls.kernel(weight)
    _need(min(grad.numel(), x.numel(), weight.numel()) > 0, "an empty convolution")
    _need(residual is None or _nhwc(residual), "a gradient added to a tensor that is not channels_last")
    if target is calls.input_grad:
        return torch.empty(x.shape, dtype=x.dtype, device=x.device, memory_format=torch.channels_last)
    if target is calls.weight_grad:
        return torch.empty(
            weight.shape, dtype=weight.dtype, device=weight.device, memory_format=suggest_memory_format(weight)
        )
    return torch.empty([grad.shape[1]], dtype=grad.dtype, device=grad.device)


def _hinted(argument):
    return argument.node.hint if isinstance(argument, torch.SymInt) else argument


def recordable(gm: fx.GraphModule, ask, edges: bool = True) -> tuple:
    """(nodes that can stand in a command list: chip operators that the chip takes and the views between them; for the
    others of these kinds: why not).

    ask(node, arguments, result): on meta tensors; raises NotImplementedError with the chip's reason if it refuses.
    edges: views of what comes from outside stay outside, where their results are converted."""
    found, reasons, simulated = set(), {}, {}

    def lookup(n):
        value = simulated.get(n, n.meta.get("val"))
        return _hinted(value)

    for node in gm.graph.nodes:
        value = node.meta.get("val")
        if node.op == "call_function" and (node.target in calls.CALLS or node.target in calls.VIEWS):
            args = fx.map_arg(node.args, lookup)
            try:
                if node.target in calls.VIEWS:
                    simulated[node] = node.target(*args)
                else:
                    _check_sources(node, found, edges)
                    inputs = [_as_input(node, i, a, found) for i, a in enumerate(args)]
                    made = result(node.target, inputs)
                    ask(node, inputs, made)
                    simulated[node] = made
                found.add(node)
                continue
            except (NotRecordable, RuntimeError, TypeError, ValueError) as error:
                reasons[node] = node.meta["refused"] = str(error).splitlines()[0]
        if isinstance(value, torch.Tensor):
            simulated[node] = meta_tensor(value)
    return found, reasons


def _inside(node, found) -> bool:
    """Whether a node, or what it is a view of, is computed in the list."""
    while node in found and node.target in calls.VIEWS:
        node = node.args[0]
    return node in found


def _check_sources(node, found, edges):
    """A convolution reads what a convolution wrote or what is converted at the partition's edge, never a view
    inside."""
    for i, kind in calls.READS.get(node.target, {}).items():
        source = node.args[i]
        if kind == "nhwc" and source in found and source.target not in calls.WRITES_NHWC:
            _need(edges and not _inside(source, found), "a convolution of a view")


def _as_input(node, index, value, found):
    """What comes from outside of the chip is converted to the layout that the operator wants."""
    if not isinstance(value, torch.Tensor) or _inside(node.args[index], found):
        return value
    kind = calls.READS.get(node.target, {}).get(index)
    if kind == "nhwc":
        return value.contiguous(memory_format=torch.channels_last)
    return value.contiguous() if kind == "rows" else value


def keep_order(x: torch.Tensor, order: tuple) -> torch.Tensor:
    """x with its dimensions in memory in this order, outermost first; copied only if they are not."""
    y = x.permute(order)
    if y.is_contiguous():
        return x
    back = [order.index(i) for i in range(len(order))]
    return y.contiguous().permute(back)


def order_of(value: torch.Tensor):
    """The order of dimensions in memory, if the tensor is dense in some order; else None."""
    sizes, strides = sizes_of(value.shape), sizes_of(value.stride())
    order = sorted(range(len(sizes)), key=lambda i: (-strides[i], -sizes[i], i))
    expected = 1
    for i in reversed(order):
        if sizes[i] != 1 and strides[i] != expected:
            return None
        expected *= max(sizes[i], 1)
    return tuple(order)
