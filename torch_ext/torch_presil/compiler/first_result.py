# SPDX-License-Identifier: Apache-2.0
"""Operators of which only the first result is read: in the graph they become those without the others, which ask the
chip. A maximum of int8 codes, which a trace shows between conversions, is one operator again."""

import operator

import torch
from torch import fx

aten = torch.ops.aten


# Operators whose further results only gradients read -> those without them; kinds of operators; which arguments they
# take, None: the same.
FIRST_RESULT = {
    aten.max_pool2d_with_indices.default: (aten.max_pool2d.default, "pool_max", None),
    aten.native_layer_norm.default: (aten.layer_norm.default, "norm", None),
    aten.native_group_norm.default: (aten.group_norm.default, "norm", (0, 6, 1, 2, 7)),
}


def drop_unread_results(gm: fx.GraphModule, has) -> None:
    """has(kind): whether the chip has such operators."""
    for node in list(gm.graph.nodes):
        alone, kind, order = FIRST_RESULT.get(node.target, (None, None, None))
        if alone is None or any(u.target is not operator.getitem or u.args[1] for u in node.users):
            continue
        around = _codes_around(node)
        if not has(kind) and around is None:
            continue
        codes, back = around if around and kind == "pool_max" else (node.args[0], None)
        given = node.args if order is None else [node.args[i] for i in order]
        node.target, node.args = alone, (codes, *given[1:])
        for u in [*node.users, *filter(None, [back])]:
            node.meta["val"] = u.meta["val"]
            u.replace_all_uses_with(node)
            gm.graph.erase_node(u)


def _conversion(node, dtype):
    """Whether the node converts to this type, and does nothing else."""
    return node.target is aten._to_copy.default and dict(node.kwargs) == {"dtype": dtype}


def _codes_around(node):
    """(codes, what converts the maxima to int8) of a maximum that knows bfloat16 alone, which holds every code."""
    wide, behind = node.args[0], [user for result in node.users for user in result.users]
    if len(behind) != 1 or not (_conversion(wide, torch.bfloat16) and _conversion(behind[0], torch.int8)):
        return None
    return (wide.args[0], behind[0]) if wide.args[0].meta["val"].dtype == torch.int8 else None
