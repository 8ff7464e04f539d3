# SPDX-License-Identifier: Apache-2.0
"""Elements that change their place: concatenation, tables of codes; and copies that nobody needs."""

import torch

from torch_presil.aot.host.host_step import FLOATS, HostOperator, HostStep, dense, host_step
from torch_presil.compiler.nodes import value

aten = torch.ops.aten
COPY, ELEMENTWISE, GATHER = 1, 9, 13  # presil_op_kind


def concatenation(tensors, dim):
    raise NotImplementedError("a step of presil-run")


@host_step(aten.cat.default)
class Concatenation(HostStep):
    function = staticmethod(concatenation)

    def arguments_of(self, node):
        tensors = [value(n) for n in node.args[0]]
        plain = all(t.dtype == tensors[0].dtype and t.dim() == tensors[0].dim() and t.numel() for t in tensors)
        if not plain or tensors[0].dtype not in (torch.int8, *FLOATS):
            return None
        return list(node.args[0]), (node.args[1] if len(node.args) > 1 else 0) % tensors[0].dim()

    def result(self, a):
        shape = list(a.tensors[0].shape)
        shape[a.dim] = sum(t.shape[a.dim] for t in a.tensors)
        return dense(shape, a.tensors[0])

    def operators(self, a, out):
        parts = out.split([t.shape[a.dim] for t in a.tensors], a.dim)
        return [HostOperator(COPY, {"input": t}, part) for t, part in zip(a.tensors, parts)]


def widened(x):
    """int8 codes −128 … 127 as int32 0 … 255."""
    raise NotImplementedError("a step of presil-run")


@host_step()
class Widened(HostStep):
    function = staticmethod(widened)

    def result(self, a):
        return dense(a.x.shape, a.x).to(torch.int32)

    def operators(self, a, out):
        return [HostOperator(ELEMENTWISE, {"input": a.x}, out, {"function": "round"}, (128, 0, 255))]


def gather(table, index):
    raise NotImplementedError("a step of presil-run")


@host_step(aten.index.Tensor)
class Table(HostStep):
    """torch_presil.pt2e's tables: table[codes + 128]."""

    function = staticmethod(gather)
    first = True

    def arguments_of(self, node):
        table, indices = node.args
        codes = _codes_of(indices[0]) if len(indices) == 1 else None
        if codes is None or list(value(table).shape) != [256] or value(table).dtype != torch.int8:
            return None
        with node.graph.inserting_before(node):
            wide = node.graph.call_function(widened, (codes,))
        wide.meta = {"val": value(codes).to(torch.int32), "label": node.name}
        return table, wide

    def result(self, a):
        return dense(a.index.shape, a.table)

    def operators(self, a, out):
        return [HostOperator(GATHER, {"input": a.table, "index": a.index}, out, {"dim": [0]})]


def _codes_of(index):
    """x of x.to(int32) + 128, None: something else."""
    if getattr(index, "target", None) is not aten.add.Tensor or index.args[1:] != (128,) or index.kwargs:
        return None
    wide = index.args[0]
    plain = wide.target is aten._to_copy.default and dict(wide.kwargs) == {"dtype": torch.int32}
    return wide.args[0] if plain and value(wide.args[0]).dtype == torch.int8 else None
