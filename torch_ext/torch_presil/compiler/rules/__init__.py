# SPDX-License-Identifier: Apache-2.0
"""The rules of fusion: every module of this folder has fold(operator, node, tail), which folds what is behind a chip
operator into it. node: the operator's; tail: it, or a view of it through which one can fold. An operator says which
rules it takes (ChipOperator.fuses, by the names of the modules)."""

import importlib
import pkgutil

from torch_presil.compiler.nodes import only_user
from torch_presil.compiler.views import shape_only

RULES = {m.name: importlib.import_module(f"{__name__}.{m.name}").fold for m in pkgutil.iter_modules(__path__)}


def fold_behind(operator, node) -> int:
    """Folds into a node, which is a chip operator, what its rules allow. Returns how many nodes."""
    folded = 0
    rules = [RULES[name] for name in sorted(operator.fuses)]
    while any(fold(operator, node, node) for fold in rules):
        folded += 1
    view = only_user(node)
    if view is not None and shape_only(node, view):
        while any(fold(operator, node, view) for fold in rules):
            folded += 1
    return folded
