# SPDX-License-Identifier: Apache-2.0
"""Operators of which only the first result is read: in the graph they become those without the others, which ask the
chip, and take int8."""

import operator

import torch
from torch import fx

aten = torch.ops.aten


def _same_args(*args):
    return args


# Operators whose further results only gradients read -> those without them; kinds of operators; their arguments.
FIRST_RESULT = {
    aten.max_pool2d_with_indices.default: (aten.max_pool2d.default, "pool_max", _same_args),
    aten.native_layer_norm.default: (aten.layer_norm.default, "norm", _same_args),
    aten.native_group_norm.default: (
        aten.group_norm.default,
        "norm",
        lambda x, weight, bias, _n, _c, _hxw, groups, eps: (x, groups, weight, bias, eps),
    ),
}


def drop_unread_results(gm: fx.GraphModule, has) -> None:
    """has(kind): whether the chip has such operators. Of int8 it is the operator alone that knows codes."""
    for node in list(gm.graph.nodes):
        alone, kind, arguments = FIRST_RESULT.get(node.target, (None, None, None))
        if alone is None or any(u.target is not operator.getitem or u.args[1] for u in node.users):
            continue
        firsts = [u.meta["val"] for u in node.users]
        if not has(kind) and not any(v.dtype == torch.int8 for v in firsts):
            continue
        node.target, node.args = alone, arguments(*node.args)
        for u in list(node.users):
            node.meta["val"] = u.meta["val"]
            u.replace_all_uses_with(node)
            gm.graph.erase_node(u)
