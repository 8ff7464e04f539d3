# SPDX-License-Identifier: Apache-2.0
"""Elements that change their place: concatenation, tables of codes; and copies that nobody needs."""

import torch

from torch_presil.aot.host.functions import TYPES, elementwise
from torch_presil.aot.host.host_step import FLOATS, HostOperator, HostStep, dense, host_step, rows
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


def copied(x):
    """The same elements, row by row."""
    raise NotImplementedError("a step of presil-run")


@host_step(aten.clone.default)
class Copied(HostStep):
    function = staticmethod(copied)

    def arguments_of(self, node):
        x = value(node.args[0])
        usable = x.dtype in TYPES and x.dim() <= 8
        return (node.args[0],) if usable and node.kwargs.get("memory_format") is torch.contiguous_format else None

    def result(self, a):
        return rows(a.x.shape, a.x)

    def operators(self, a, out):
        return [HostOperator(COPY, {"input": a.x}, out)]


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
    """torch_presil.pt2e's tables: table[codes + 128], or of each channel, table[codes + 128 + first]."""

    function = staticmethod(gather)
    first = True

    def arguments_of(self, node):
        table, indices = node.args
        found = _codes_of(indices[0]) if len(indices) == 1 else None
        channels = 1 if found is None or found[1] is None else value(found[1]).numel()
        if found is None or list(value(table).shape) != [256 * channels] or value(table).dtype != torch.int8:
            return None
        codes, first = found
        places = self._put(node, widened, codes)
        if first is not None:
            places = self._put(node, elementwise, places, first, "add", torch.int32, None, None, None, None)
        return table, places

    @staticmethod
    def _put(node, function, x, *others):
        with node.graph.inserting_before(node):
            new = node.graph.call_function(function, (x, *others))
        new.meta = {"val": value(x).to(torch.int32), "label": node.name}
        return new

    def result(self, a):
        return dense(a.index.shape, a.table)

    def operators(self, a, out):
        return [HostOperator(GATHER, {"input": a.table, "index": a.index}, out, {"dim": [0]})]


def _codes_of(index):
    """(x, first) of x.to(int32) + 128 + first, first None: nothing is added; None: something else."""
    if getattr(index, "target", None) is not aten.add.Tensor or index.kwargs or len(index.args) != 2:
        return None
    wide, added = index.args
    if added != 128:
        inner = _codes_of(wide)
        known = isinstance(value(added), torch.Tensor) and value(added).dtype == torch.int32
        return (inner[0], added) if inner is not None and inner[1] is None and known else None
    plain = wide.target is aten._to_copy.default and dict(wide.kwargs) == {"dtype": torch.int32}
    return (wide.args[0], None) if plain and value(wide.args[0]).dtype == torch.int8 else None
