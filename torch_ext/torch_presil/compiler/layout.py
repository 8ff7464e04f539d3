# SPDX-License-Identifier: Apache-2.0
"""Where the chip's operators can read and write without a copy: convolutions NHWC, products rows, views followed
through.

The graph was traced with the strides that eager mode would have. Here a convolution's result stays NHWC, so every
view is tried on the strides that it will really meet (on meta tensors, symbolic sizes at their hints).
"""

import torch
from torch import fx

from torch_presil.compiler import operators
from torch_presil.compiler.nodes import value
from torch_presil.compiler.operands import NotRecordable, converted, need
from torch_presil.compiler.views import VIEWS


def sizes_of(values):
    """Symbolic sizes at their hints."""
    return [v if isinstance(v, int) else v.node.hint for v in values]


def meta_tensor(t: torch.Tensor) -> torch.Tensor:
    return torch.empty_strided(sizes_of(t.shape), sizes_of(t.stride()), dtype=t.dtype, device="meta")


def recordable(gm: fx.GraphModule, ask, edges: bool = True) -> tuple:
    """(nodes that can stand in a command list: chip operators that the chip takes and the views between them; for the
    others of these kinds: why not).

    ask(node, arguments, result): on meta tensors; raises NotImplementedError with the chip's reason if it refuses.
    edges: views of what comes from outside stay outside, where their results are converted."""
    found, reasons, simulated = set(), {}, {}

    def lookup(n):
        known = simulated.get(n, value(n))
        return known.node.hint if isinstance(known, torch.SymInt) else known

    for node in gm.graph.nodes:
        operator = operators.of(node)
        if operator is not None or node.target in VIEWS:
            args = fx.map_arg(node.args, lookup)
            try:
                if operator is None:
                    simulated[node] = node.target(*args)
                else:
                    _check_sources(operator, node, found, edges)
                    inputs = operator.arguments(*(_as_input(operator, node, i, a, found) for i, a in enumerate(args)))
                    made = operator.result(inputs)
                    ask(node, inputs, made)
                    simulated[node] = made
                found.add(node)
                continue
            except (NotRecordable, RuntimeError, TypeError, ValueError) as error:
                reasons[node] = node.meta["refused"] = str(error).splitlines()[0]
        if isinstance(value(node), torch.Tensor):
            simulated[node] = meta_tensor(value(node))
    return found, reasons


def _inside(node, found) -> bool:
    """Whether a node, or what it is a view of, is computed in the list."""
    while node in found and node.target in VIEWS:
        node = node.args[0]
    return node in found


def _check_sources(operator, node, found, edges):
    """A convolution reads what a convolution wrote or what is converted at the partition's edge, never a view
    inside."""
    for i, kind in operator.reads_at.items():
        source = node.args[i]
        if kind == "nhwc" and source in found:
            writer = operators.of(source)
            if writer is None or not writer.writes_nhwc:
                need(edges and not _inside(source, found), "a convolution of a view")


def _as_input(operator, node, index, known, found):
    """What comes from outside of the chip is converted to the layout that the operator wants."""
    if not isinstance(known, torch.Tensor) or _inside(node.args[index], found):
        return known
    return converted(known, operator.reads_at.get(index))


def keep_order(x: torch.Tensor, order: tuple) -> torch.Tensor:
    """x with its dimensions in memory in this order, outermost first; copied only if they are not."""
    y = x.permute(order)
    return x if y.is_contiguous() else y.contiguous().permute([order.index(i) for i in range(len(order))])


def order_of(traced: torch.Tensor):
    """The order of dimensions in memory, if the tensor is dense in some order; else None."""
    t = meta_tensor(traced)
    order = tuple(sorted(range(t.dim()), key=lambda i: (-t.stride(i), -t.size(i), i)))
    return order if t.permute(order).is_contiguous() else None
