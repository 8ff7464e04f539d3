# SPDX-License-Identifier: Apache-2.0
"""Clamping by numbers: ReLU, ReLU6, hardtanh, clamp (csrc/ops/clamps.h)."""

import torch

from torch_presil import _C
from torch_presil.compiler.nodes import named, only_user, same_shape

# What clamps by numbers, and its bounds where it is given none; None: no bound.
CLAMPS = {
    getattr(torch.ops.aten, name + place).default: known for name, known in _C.CLAMPS.items() for place in ("", "_")
}
# Those of layers that know no others: (low, high) -> the activation's name.
ACTIVATIONS = {known: name for name, known in _C.CLAMPS.items() if known != (None, None)} | {(None, None): "none"}


def bounds(node):
    """(low, high) of a node that clamps by numbers, None: no bound; else None."""
    if node.op != "call_function" or node.target not in CLAMPS:
        return None
    given, found = named(node), CLAMPS[node.target]
    found = given.get("min", given.get("min_val", found[0])), given.get("max", given.get("max_val", found[1]))
    return found if all(v is None or isinstance(v, (int, float)) for v in found) else None


def fold(operator, node, tail) -> bool:
    user = only_user(tail)
    found = None if user is None else bounds(user)
    if found is None or not same_shape(tail, user):
        return False
    both = operator.clamped(node, *found)
    if both is None:
        return False
    operator.absorb(node, tail, user, low=both[0], high=both[1])
    return True
