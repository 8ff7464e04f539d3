# SPDX-License-Identifier: Apache-2.0
"""Clamping by numbers: ReLU, ReLU6, hardtanh, clamp."""

import torch

from torch_presil.compiler.nodes import only_user, same_shape

aten = torch.ops.aten


def bounds(user):
    """(low, high) of a node that clamps by numbers, None: no bound; else None."""
    args = list(user.args[1:])
    if user.target is aten.relu.default:
        low, high = 0.0, None
    elif user.target is aten.hardtanh.default:
        low, high = (args + [-1.0, 1.0][len(args) :])[:2]
    elif user.target is aten.clamp.default:
        low, high = (args + [user.kwargs.get("min"), user.kwargs.get("max")][len(args) :])[:2]
    elif user.target is aten.clamp_min.default:
        low, high = args[0], None
    else:
        return None
    return (low, high) if all(v is None or isinstance(v, (int, float)) for v in (low, high)) else None


def fold(operator, node, tail) -> bool:
    user = only_user(tail)
    found = None if user is None or user.op != "call_function" else bounds(user)
    if found is None or not same_shape(tail, user):
        return False
    both = operator.clamped(node, *found)
    if both is None:
        return False
    operator.set(node, low=both[0], high=both[1])
    user.replace_all_uses_with(tail)
    user.graph.erase_node(user)
    return True
