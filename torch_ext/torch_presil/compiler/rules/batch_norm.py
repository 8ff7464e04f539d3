# SPDX-License-Identifier: Apache-2.0
"""Batch-norm in eval mode, which goes into packed weights: nothing else may be between it and the operator."""

import operator as python_operator

import torch

from torch_presil.compiler.nodes import constant, named, only_user

aten = torch.ops.aten


def _bare(operator, node) -> bool:
    bounds = operator.get(node, "low"), operator.get(node, "high")
    return not operator.get(node, "norm") and operator.get(node, "residual") is None and bounds == (None, None)


def _results(user):
    """The nodes that read a batch-norm's first result, which is all of one that has others for training; None: another
    node, or one that reads those."""
    if user.target is aten.batch_norm.default:
        return [] if not named(user)["training"] else None
    if user.target is not aten._native_batch_norm_legit_no_training.default:
        return None
    first = [u for u in user.users if u.target is python_operator.getitem and u.args[1] == 0]
    return first if len(first) == len(user.users) else None


def fold(operator, node, tail) -> bool:
    user = only_user(tail)
    results = None if user is None else _results(user)
    if results is None or not _bare(operator, node):
        return False
    given = named(user)
    norm = tuple(given[name] for name in ("running_mean", "running_var", "weight", "bias"))
    if given["input"] is not tail or not all(map(constant, norm)):
        return False
    for result in results:
        result.replace_all_uses_with(tail)
        result.graph.erase_node(result)
    operator.absorb(node, tail, user, norm=norm, eps=given["eps"])
    return True
