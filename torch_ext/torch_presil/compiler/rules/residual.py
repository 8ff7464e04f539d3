# SPDX-License-Identifier: Apache-2.0
"""One tensor of the result's shape that is added once (alpha 1), before anything is clamped. Where a graph has no
shapes (csrc/jit/fuse.cpp), they are looked at when it runs."""

import torch

from torch_presil.compiler.nodes import only_user, same_shape
from torch_presil.compiler.views import viewed_like

aten = torch.ops.aten


def fold(operator, node, tail) -> bool:
    user = only_user(tail)
    if user is None or user.target is not aten.add.Tensor or user.kwargs or operator.get(node, "residual") is not None:
        return False
    if "low" in operator.at and (operator.get(node, "low"), operator.get(node, "high")) != (None, None):
        return False
    other = user.args[1] if user.args[0] is tail else user.args[0]
    if other is tail or not same_shape(tail, other) or not same_shape(tail, user):
        return False
    if not operator.reaches(node, other, user):
        return False
    if tail is not node:
        other = viewed_like(node, other)
        user.prepend(tail)
    operator.absorb(node, tail, user, residual=other)
    return True
