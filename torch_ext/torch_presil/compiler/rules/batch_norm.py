# SPDX-License-Identifier: Apache-2.0
"""Batch-norm in eval mode, which goes into packed weights."""

import operator as python_operator

import torch

from torch_presil.compiler.nodes import constant, only_user

aten = torch.ops.aten


def fold(operator, node, tail) -> bool:
    user = only_user(tail)
    if (
        user is None
        or user.target is not aten._native_batch_norm_legit_no_training.default
        or operator.get(node, "norm")
    ):
        return False
    x, scale, shift, mean, variance, _, eps = user.args
    if (
        x is not tail
        or not all(constant(n) for n in (scale, shift, mean, variance))
        or any(u.target is not python_operator.getitem or u.args[1] != 0 for u in user.users)
    ):
        return False
    operator.set(node, norm=(mean, variance, scale, shift), eps=eps)
    for u in list(user.users):
        u.replace_all_uses_with(tail)
        u.graph.erase_node(u)
    node.graph.erase_node(user)
    return True
