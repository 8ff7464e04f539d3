# SPDX-License-Identifier: Apache-2.0
"""Operators in place, as exported graphs still have them, become those that return a new value."""

import torch
from torch import fx

__all__ = ["functionalize"]


def _is_view(node: fx.Node) -> bool:
    schema = getattr(node.target, "_schema", None)
    return schema is None or any(r.alias_info is not None for r in schema.returns)


def _functional(target):
    """relu of relu_; None: it writes to no operand, or has no such form."""
    if not isinstance(target, torch._ops.OpOverload) or not target._schema.is_mutable:
        return None
    name = target._schema.name.split("::")[1]
    packet = getattr(getattr(torch.ops, target.namespace), name.removesuffix("_"), None)
    return getattr(packet, target._overloadname, None) if name.endswith("_") else None


def functionalize(graph: fx.Graph) -> None:
    """Of values that are computed in the graph. Views of others, inputs and the module's tensors stay written to."""
    order = {node: i for i, node in enumerate(graph.nodes)}
    for node in graph.nodes:
        if node.op != "call_function":
            continue
        target = _functional(node.target)
        written = node.args[0] if node.args else None
        if target is None or not isinstance(written, fx.Node) or written.op != "call_function" or _is_view(written):
            continue
        for user in list(written.users):
            if order[user] > order[node]:
                user.replace_input_with(written, node)
        node.target = target
