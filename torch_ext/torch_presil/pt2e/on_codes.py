# SPDX-License-Identifier: Apache-2.0
"""Operators that work on codes: those that only move them, means, and functions of one value."""

import torch
from torch import fx

from torch_presil.compiler.rules.clamp import CLAMPS
from torch_presil.int8.int8_layer import Int8Layer, max_pool2d_of_codes, scale_of
from torch_presil.pt2e.constant_products import bounds, does_nothing
from torch_presil.pt2e.converted import Codes, Refused, shape_of
from torch_presil.pt2e.integer_layers import AverageCodes

__all__ = ["average", "is_function", "is_mean", "move", "moved", "moves_codes", "reshapes", "table"]

aten = torch.ops.aten
# Each element of the result is one of the operand's, or the largest of some.
MOVES = (
    aten.view.default,
    aten.reshape.default,
    aten.flatten.using_ints,
    aten.squeeze.dim,
    aten.squeeze.dims,
    aten.squeeze.default,
    aten.unsqueeze.default,
    aten.permute.default,
    aten.transpose.int,
    aten.t.default,
    aten.contiguous.default,
    aten.clone.default,
    aten.expand.default,
    aten.slice.Tensor,
    aten.select.int,
    aten.narrow.default,
    aten.index_select.default,
    aten.flip.default,
    aten.roll.default,
    aten.pixel_shuffle.default,
    aten.channel_shuffle.default,
    aten.unflatten.int,
    aten.max_pool2d.default,
    aten.upsample_nearest2d.vec,
)
FUNCTIONS = (
    aten.hardswish.default,
    aten.hardswish_.default,
    aten.hardsigmoid.default,
    aten.hardsigmoid_.default,
    aten.sigmoid.default,
    aten.sigmoid_.default,
    aten.silu.default,
    aten.silu_.default,
    aten.gelu.default,
    aten.tanh.default,
    aten.tanh_.default,
    aten.leaky_relu.default,
    aten.leaky_relu_.default,
    aten.elu.default,
    aten.elu_.default,
    aten.mish.default,
    aten.softplus.default,
    aten.neg.default,
    aten.abs.default,
    aten.exp.default,
    aten.square.default,
)
# With numbers of each channel, which are constants -> whether it is a function of one value.
OF_CHANNELS = {
    aten.prelu.default: lambda node: True,
    aten.batch_norm.default: lambda node: not node.args[5] and None not in node.args[3:5],  # else by this batch
}
SCALARS = (
    aten.add.Tensor,
    aten.sub.Tensor,
    aten.mul.Tensor,
    aten.div.Tensor,
    aten.add_.Tensor,
    aten.mul_.Tensor,
    aten.div_.Tensor,
    aten.sub_.Tensor,
    aten.mul.Scalar,
    aten.add.Scalar,
)


def moves_codes(node: fx.Node) -> bool:
    """Whether the result's values are the operand's, so that codes may be moved in their place."""
    if node.op != "call_function":
        return False
    if node.target is aten.cat.default or node.target in MOVES or does_nothing(node):
        return True
    return node.target is aten.pad.default and _pads_zero(node)


def _pads_zero(node) -> bool:
    args = [*node.args, "constant", None][:4] if len(node.args) < 4 else node.args
    mode = node.kwargs.get("mode", node.args[2] if len(node.args) > 2 else "constant")
    value = node.kwargs.get("value", node.args[3] if len(node.args) > 3 else None)
    return len(args) == 4 and mode == "constant" and value in (None, 0, 0.0)


def reshapes(node) -> bool:
    """Whether only the shape differs."""
    return isinstance(node, fx.Node) and (
        does_nothing(node) or node.target in MOVES[: MOVES.index(aten.expand.default)]
    )


def moved(node: fx.Node) -> list:
    """The operands whose values they are."""
    return list(node.args[0]) if node.target is aten.cat.default else [node.args[0]]


def move(graph: fx.Graph, node: fx.Node, codes: dict, q: Codes) -> fx.Node:
    """The same on codes, at the graph's point of insertion. codes: of each operand."""
    new = graph.node_copy(node, lambda n: codes.get(n, n))
    if node.target is aten.pad.default:
        new.args, new.kwargs = (*new.args[:2], "constant", float(q.zero_point)), {}
    new.target = {
        aten.max_pool2d.default: max_pool2d_of_codes,
        aten.upsample_nearest2d.vec: upsample_nearest2d_of_codes,
    }.get(node.target, node.target)
    return new


def upsample_nearest2d_of_codes(x, *args, **kwargs):
    """There are no kernels of int8: through bfloat16, which holds every code exactly."""
    return aten.upsample_nearest2d.vec(x.to(torch.bfloat16), *args, **kwargs).to(torch.int8)


def is_mean(node) -> bool:
    return isinstance(node, fx.Node) and node.target in (
        aten.mean.dim,
        aten.adaptive_avg_pool2d.default,
        aten.avg_pool2d.default,
    )


def _window(node: fx.Node) -> tuple[tuple | None, bool]:
    """Arguments of avg_pool2d (None: the whole plane), and whether the plane's dimensions stay. Raises Refused."""
    shape = shape_of(node.args[0]) or ()
    if node.target is aten.avg_pool2d.default:
        return tuple(node.args[1:]), True
    if node.target is aten.adaptive_avg_pool2d.default:
        size = list(node.args[1])
        if size == [1, 1]:
            return None, True
        given = list(shape[2:])
        if not all(isinstance(n, int) and n % o == 0 for n, o in zip(given, size, strict=True)):
            raise Refused(f"an adaptive pooling of {given} to {size}, whose windows are not all of one size")
        return ([n // o for n, o in zip(given, size, strict=True)],), True
    dims = sorted(d % max(len(shape), 1) for d in node.args[1] or ())
    if len(shape) != 4 or dims != [2, 3] or node.kwargs.get("dtype") is not None:
        raise Refused("a mean over other dimensions than those of a plane")
    return None, bool(node.args[2] if len(node.args) > 2 else node.kwargs.get("keepdim", False))


def average(node: fx.Node, mine: Codes, q: Codes):
    """A module for a mean of codes. With another scale behind it: a depthwise convolution of ones. Raises Refused."""
    window, keep = _window(node)
    if mine.same_values(q) and q.low <= mine.low and mine.high <= q.high:
        return AverageCodes(window, mine.zero_point, keep)
    shape = shape_of(node.args[0]) or ()
    if window is not None or not all(isinstance(s, int) for s in shape[1:]):
        raise Refused("a mean with another scale behind it runs in int8 over whole planes of a fixed size")
    channels, height, width = shape[1:]
    weight = torch.ones(channels, 1, height, width, dtype=torch.int8)
    bias = torch.full((channels,), -mine.zero_point * height * width, dtype=torch.int32)
    scale = scale_of(mine.scale, torch.full((channels,), 1.0 / (height * width)), q)
    layer = Int8Layer(node.name, ([1, 1], [0, 0], [1, 1], channels), 2, weight, bias, scale, mine.zero_point)
    layer.out, layer.low, layer.high = q, q.low, q.high
    return layer if keep else torch.nn.Sequential(layer, torch.nn.Flatten())


def is_function(node) -> bool:
    """Of one value, with constants."""
    if not isinstance(node, fx.Node) or node.op != "call_function":
        return False
    if node.target in OF_CHANNELS:
        return all(n.op == "get_attr" for n in node.all_input_nodes[1:]) and OF_CHANNELS[node.target](node)
    if len(node.all_input_nodes) != 1:
        return False
    if node.target in CLAMPS:
        return bounds(node) is not None
    scalar = node.target in SCALARS and isinstance(node.args[0], fx.Node)
    return scalar or node.target in FUNCTIONS or does_nothing(node)


def table(functions: list, mine: Codes, q: Codes, constants) -> torch.Tensor:
    """int8, (256,) results for the codes −128 … 127: what the float32 graph gives, each bit of it. (C, 256) where a
    function has numbers of each channel."""
    value = mine.value(torch.arange(-128, 128).to(torch.int8)).reshape(1, 1, 16, 16)
    for node in functions:
        given = [constants.value(a) for a in node.args[1:]]
        if node.target in OF_CHANNELS:
            channels = max(n.numel() for n in given if isinstance(n, torch.Tensor))
            value = value.expand(1, max(channels, value.shape[1]), 16, 16).contiguous()
        value = node.target(value, *given, **node.kwargs)
    value = value.reshape(-1, 256)
    return q.of(value.squeeze(0))
