# SPDX-License-Identifier: Apache-2.0
"""One tensor of the result's shape that is added, before anything is clamped."""

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
    user.prepend(node)  # to where what is added exists
    if tail is not node:
        other = viewed_like(node, other)
        user.prepend(tail)
    operator.set(node, residual=other)
    user.replace_all_uses_with(tail)
    user.graph.erase_node(user)
    return True
