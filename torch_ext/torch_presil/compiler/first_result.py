# SPDX-License-Identifier: Apache-2.0
"""Operators of which only the first result is read: in the graph they become those without the others, which ask the
chip. A maximum of int8 codes, which a trace shows between conversions, is one operator again."""

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
    """has(kind): whether the chip has such operators."""
    for node in list(gm.graph.nodes):
        alone, kind, arguments = FIRST_RESULT.get(node.target, (None, None, None))
        if alone is None or any(u.target is not operator.getitem or u.args[1] for u in node.users):
            continue
        if not has(kind) and _codes_around(node) is None:
            continue
        node.target, node.args = alone, arguments(*node.args)
        for u in list(node.users):
            node.meta["val"] = u.meta["val"]
            u.replace_all_uses_with(node)
            gm.graph.erase_node(u)
        _of_codes(node)


def _conversion(node, dtype):
    """Whether the node converts to this type, and does nothing else."""
    return node.target is aten._to_copy.default and dict(node.kwargs) == {"dtype": dtype}


def _codes_around(node):
    """(codes, what converts the maxima to int8) of a maximum that knows bfloat16 alone, which holds every code."""
    wide, users = node.args[0], list(node.users)
    if len(users) == 1 and users[0].target is operator.getitem:
        users = list(users[0].users)
    codes = wide.args[0] if _conversion(wide, torch.bfloat16) else None
    back = len(users) == 1 and _conversion(users[0], torch.int8)
    return (codes, users[0]) if back and codes is not None and codes.meta["val"].dtype == torch.int8 else None


def _of_codes(node) -> None:
    found = _codes_around(node) if node.target is aten.max_pool2d.default else None
    if found is not None:
        codes, back = found
        node.args, node.meta["val"] = (codes, *node.args[1:]), back.meta["val"]
        back.replace_all_uses_with(node)
        node.graph.erase_node(back)
