# SPDX-License-Identifier: Apache-2.0
"""Finds chip operators (operators/) in a graph of ATen operators, and folds into each what the chip does behind its
array (rules/)."""

from torch import fx

from torch_presil.compiler import operators
from torch_presil.compiler.nodes import Trace
from torch_presil.compiler.rules import fold_behind
from torch_presil.compiler.views import drop_heights


def why_not(node, where: str = "presil"):
    """Why an operator that the chip has is left to run by itself; None for other operators."""
    covering = operators.COVERING.get(node.target) if node.op == "call_function" else None
    return covering[0].why_not(node, where) if covering else None


def fuse(gm: fx.GraphModule, inference: bool, where: str = "presil") -> int:
    """Rewrites the graph in place; returns how many nodes were folded into chip operators. where: the device that it
    was traced on."""
    trace = Trace(inference, where)
    for node in list(gm.graph.nodes):
        covering = operators.COVERING.get(node.target, ()) if node.op == "call_function" else ()
        any(operator.rewrite(node, trace) for operator in covering)
    found = [(operators.of(node), node) for node in gm.graph.nodes]
    folded = sum(fold_behind(operator, node) for operator, node in found if operator is not None)
    drop_heights(gm.graph)
    gm.graph.eliminate_dead_code()
    gm.graph.lint()
    return folded
