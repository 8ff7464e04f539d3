# SPDX-License-Identifier: Apache-2.0
"""Operators that presil-run computes on the host between two launches (driver/aot/host_steps.c), in plain C
(presil_reference.h). Every module of this folder is one kind; a compiled graph never has them."""

import importlib
import pkgutil

from torch import fx

from torch_presil.aot.host.host_step import FOUND, HostOperator, HostStep
from torch_presil.compiler import operators

__all__ = ["HostOperator", "is_host", "take_host_operators"]

for _module in sorted(m.name for m in pkgutil.iter_modules(__path__)):
    importlib.import_module(f"{__name__}.{_module}")


def is_host(node) -> bool:
    return isinstance(operators.of(node), HostStep)


def take_host_operators(gm: fx.GraphModule, where: str, first: bool) -> None:
    """Writes the host's operators in place of ATen's, of tensors on the device `where`. first: before the chip's
    operators are found and what is behind them is folded into them; then those that nothing could be folded into."""
    for node in list(gm.graph.nodes):
        step = FOUND.get(node.target) if node.op == "call_function" else None
        if step is not None and step.first == first:
            step.take(node, where)
    gm.graph.eliminate_dead_code()
