# SPDX-License-Identifier: Apache-2.0
"""Operators that give several parts of one tensor, as slices: then each part is a value of its own, with a scale."""

import operator

import torch
from torch import fx

__all__ = ["as_slices"]

aten = torch.ops.aten
SPLITS = (aten.chunk.default, aten.split.Tensor, aten.split_with_sizes.default)


def as_slices(graph: fx.Graph) -> None:
    """In place. What has symbolic sizes there, or is used as a list, stays."""
    for node in list(graph.nodes):
        if node.op != "call_function" or node.target not in SPLITS:
            continue
        dim = node.args[2] if len(node.args) > 2 else node.kwargs.get("dim", 0)
        sizes = [part.shape[dim] for part in node.meta.get("val", ())]
        if not all(isinstance(n, int) for n in sizes) or any(u.target is not operator.getitem for u in node.users):
            continue
        for part in list(node.users) if sizes else ():
            at = sum(sizes[: part.args[1]])
            with graph.inserting_before(part):
                new = graph.call_function(aten.slice.Tensor, (node.args[0], dim, at, at + sizes[part.args[1]]))
            new.meta = dict(part.meta)
            part.replace_all_uses_with(new)
            graph.erase_node(part)
        if not node.users:
            graph.erase_node(node)
