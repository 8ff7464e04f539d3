# SPDX-License-Identifier: Apache-2.0
"""Clamping by numbers: ReLU, ReLU6, hardtanh, clamp."""

import torch

from torch_presil.compiler.nodes import only_user, same_shape

aten = torch.ops.aten


# What clamps by numbers, and its bounds where it is given none; None: no bound.
CLAMPS = {
    aten.relu.default: (0.0, None),
    aten.relu_.default: (0.0, None),
    aten.relu6.default: (0.0, 6.0),
    aten.relu6_.default: (0.0, 6.0),
    aten.hardtanh.default: (-1.0, 1.0),
    aten.hardtanh_.default: (-1.0, 1.0),
    aten.clamp.default: (None, None),
    aten.clamp_.default: (None, None),
    aten.clamp_min.default: (None, None),
    aten.clamp_min_.default: (None, None),
}


def bounds(node):
    """(low, high) of a node that clamps by numbers, None: no bound; else None."""
    if node.op != "call_function" or node.target not in CLAMPS:
        return None
    given = list(zip((0, 1), node.args[1:], strict=False))
    given += [(i, node.kwargs.get(key)) for key, i in (("min", 0), ("max", 1), ("min_val", 0), ("max_val", 1))]
    found = list(CLAMPS[node.target])
    for i, value in given:
        found[i] = found[i] if value is None else value
    return tuple(found) if all(v is None or isinstance(v, (int, float)) for v in found) else None


def fold(operator, node, tail) -> bool:
    user = only_user(tail)
    found = None if user is None else bounds(user)
    if found is None or not same_shape(tail, user):
        return False
    both = operator.clamped(node, *found)
    if both is None:
        return False
    operator.set(node, low=both[0], high=both[1])
    user.replace_all_uses_with(tail)
    user.graph.erase_node(user)
    return True
