# SPDX-License-Identifier: Apache-2.0
"""The chip operators: every module of this folder is one, or one kind, found by what the classes say of themselves.
To add one, add a module with a class under @chip_operator (base.py)."""

import importlib
import pkgutil

from torch_presil.compiler.operators.base import COVERING, OPERATORS, ChipOperator

__all__ = ["COVERING", "OPERATORS", "ChipOperator", "of"]

for _module in sorted(m.name for m in pkgutil.iter_modules(__path__)):
    importlib.import_module(f"{__name__}.{_module}")
for _found in COVERING.values():
    _found.sort(key=lambda operator: operator.rank)


def of(node) -> ChipOperator | None:
    """The operator that the node is; None: another node, a view too."""
    return OPERATORS.get(node.target) if node.op == "call_function" else None
