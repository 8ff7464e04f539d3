# SPDX-License-Identifier: Apache-2.0
"""Operators that only look at memory in another way, and what can be folded through them."""

import math

import torch
from torch import fx

from torch_presil.compiler.nodes import inserted, value

aten = torch.ops.aten
VIEWS = {
    aten.view.default,
    aten._unsafe_view.default,
    aten.t.default,
    aten.permute.default,
    aten.transpose.int,
    aten.expand.default,
    aten.unsqueeze.default,
    aten.squeeze.dim,
    aten.squeeze.dims,
    aten.select.int,
    aten.slice.Tensor,
    aten.alias.default,
    aten.detach.default,
}
STRICT_VIEWS = {aten.view.default, aten._unsafe_view.default}  # fail on strides that don't fit


def shape_only(node, view) -> bool:
    """A view of a chip operator through which what follows can be folded: of a product's rows, or of a 1-D
    convolution."""
    shape = value(node).shape
    if len(shape) == 4:
        return view.target is aten.squeeze.dim
    return view.target in STRICT_VIEWS and len(shape) == 2 and any(isinstance(s, int) for s in shape)


def viewed_like(node, other):
    """`other`, of the shape of such a view, in the shape of the operator; before the operator."""
    shape = value(node).shape
    if len(shape) == 4:
        return inserted(node, aten.unsqueeze.default, other, 2)
    rows, columns = shape  # a symbolic size is left to view()
    val = aten.view.default(value(other), [rows, columns])
    return inserted(node, aten.view.default, other, [-1, columns] if isinstance(columns, int) else [rows, -1], val=val)


def with_height(node, user):
    """A tensor of a 1-D convolution `user`, seen as (N, C, 1, L)."""
    return inserted(user, aten.unsqueeze.default, node, 2)


def without_height(call, node):
    """The result of a 1-D convolution `node`, of what computes it with a height of 1."""
    call.meta["val"] = aten.unsqueeze.default(value(node), 2)
    return inserted(node, aten.squeeze.dim, call, 2)


def as_rows(node, user):
    """A tensor (..., K) of `user`, seen as (rows, K)."""
    width = value(node).shape[-1]
    rows = aten.reshape.default(value(node), [math.prod(value(node).shape[:-1]), width])
    return inserted(user, aten.view.default, node, [-1, width], val=rows)


def from_rows(call, node):
    """The result (..., N) of `node`, of what computes it as (rows, N)."""
    shape, source = value(node).shape, node.args[0]
    call.meta["val"] = aten.reshape.default(value(node), [math.prod(shape[:-1]), shape[-1]])
    sizes = [s if isinstance(s, int) else _size(source, i, call) for i, s in enumerate(shape)]
    return inserted(node, aten.view.default, call, sizes, val=value(node))


def _size(source, dim: int, user):
    """A symbolic size for `user`; of a view that was given it, the one it was given: asked for, it would come too late
    to be in one launch with it."""
    given = source.args[1][dim] if source.target in STRICT_VIEWS else None
    return given if isinstance(given, fx.Node) else inserted(user, aten.sym_size.int, source, dim)


def geometry_with_height(geometry) -> list:
    stride, padding, dilation, transposed, output_padding, groups = geometry
    return [[1, *stride], [0, *padding], [1, *dilation], transposed, [0, *output_padding], groups]


def drop_heights(graph) -> None:
    """Between two 1-D convolutions."""
    for node in list(graph.nodes):
        if node.target is not aten.unsqueeze.default or node.args[1] != 2:
            continue
        flat = node.args[0]
        if flat.target is aten.squeeze.dim and flat.args[1] == 2:
            node.replace_all_uses_with(flat.args[0])
