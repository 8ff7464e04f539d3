# SPDX-License-Identifier: Apache-2.0
"""Batch-norm in eval mode, which goes into packed weights: nothing else may be between it and the operator."""

import operator as python_operator

import torch

from torch_presil.compiler.nodes import constant, only_user

aten = torch.ops.aten


def _bare(operator, node) -> bool:
    bounds = operator.get(node, "low"), operator.get(node, "high")
    return not operator.get(node, "norm") and operator.get(node, "residual") is None and bounds == (None, None)


def fold(operator, node, tail) -> bool:
    user = only_user(tail)
    if user is None or user.target is not aten._native_batch_norm_legit_no_training.default:
        return False
    if not _bare(operator, node):
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
