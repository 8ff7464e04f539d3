# SPDX-License-Identifier: Apache-2.0
"""Attention in one operator as launches and steps of presil-run: products, a softmax, a mask that is added."""

import torch
from torch.fx.experimental.proxy_tensor import make_fx

from torch_presil.compiler.layout import keep_order, order_of
from torch_presil.compiler.nodes import named, value

__all__ = ["expand_attention"]

aten = torch.ops.aten


def _attention(scale, query, key, values, mask=None):
    scores = query @ key.transpose(-2, -1) * (query.shape[-1] ** -0.5 if scale is None else scale)
    return (scores if mask is None else scores + mask).softmax(-1) @ values


def expand_attention(gm) -> None:
    """Neither the chip nor the host has masks of booleans: what needs one, and heads of groups, stays one operator,
    which is refused by its name."""
    for node in gm.graph.find_nodes(op="call_function", target=aten.scaled_dot_product_attention.default):
        query, key, values, mask, dropout, is_causal, scale, enable_gqa = named(node).values()
        if dropout or is_causal or enable_gqa or not (mask is None or value(mask).is_floating_point()):
            continue
        taken = [n for n in (query, key, values, mask) if n is not None]
        order = order_of(value(node))  # the CPU's attention gives rows of heads, and what follows are views of them
        parts = make_fx(lambda *t: keep_order(_attention(scale, *t), order))(*map(value, taken)).graph  # noqa: B023
        known = dict(zip(parts.find_nodes(op="placeholder"), taken, strict=True))
        with gm.graph.inserting_before(node):
            result = gm.graph.graph_copy(parts, known)
        for new in known.values():
            new.meta.setdefault("stack_trace", node.meta.get("stack_trace"))
        node.replace_all_uses_with(result)
        gm.graph.erase_node(node)
