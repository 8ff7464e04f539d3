# SPDX-License-Identifier: Apache-2.0
"""Products of a converted graph: convolutions and linear layers with constant weights, and what lies around them."""

import math
from dataclasses import dataclass

import torch
from torch import fx

from torch_presil.compiler.rules import clamp
from torch_presil.fused_layer import label
from torch_presil.int8.int8_layer import Int8Layer, scale_of
from torch_presil.pt2e.converted import (
    Codes,
    Constants,
    QuantizationError,
    Refused,
    check_scale,
    label_of,
    role,
    shape_of,
    shift_of,
    where,
)

__all__ = ["Chain", "PRODUCTS", "build_layer", "chain_to", "is_product"]

aten = torch.ops.aten
CONVOLUTIONS = {
    aten.conv1d.default: 1,
    aten.conv2d.default: 2,
    aten.conv1d.padding: 1,
    aten.conv2d.padding: 2,
}
LINEARS = (aten.linear.default, aten.addmm.default, aten.mm.default, aten.matmul.default, aten.bmm.default)
PRODUCTS = (*CONVOLUTIONS, *LINEARS)
# What the chip has no int8 operators for, and why.
NO_INT8 = {
    aten.layer_norm.default: "a norm takes mean and deviation of its values as it runs: that has no int8 operator",
    aten.group_norm.default: "a norm takes mean and deviation of its values as it runs: that has no int8 operator",
    aten.softmax.int: "softmax has no int8 operator",
    aten.conv_transpose1d.default: "transposed convolutions have no int8 operator",
    aten.conv_transpose2d.input: "transposed convolutions have no int8 operator",
    aten.conv3d.default: "3-D convolutions have no int8 operator",
    aten.scaled_dot_product_attention.default: "attention has no int8 operator",
    aten.baddbmm.default: "a product with an addend of its own has no int8 operator",
}
ADDS = (aten.add.Tensor, aten.add_.Tensor)
NOTHING = (aten.dropout.default, aten.dropout_.default, aten.alias.default, aten.detach.default)


def is_product(node) -> bool:
    return node.op == "call_function" and node.target in PRODUCTS


def bounds(node: fx.Node) -> tuple[float, float] | None:
    """Of a clamp with constant bounds; None: no such."""
    found = clamp.bounds(node)
    return found and tuple(end if v is None else float(v) for v, end in zip(found, (-math.inf, math.inf), strict=True))


def does_nothing(node: fx.Node) -> bool:
    """Dropout in evaluation, an alias."""
    if node.op != "call_function" or node.target not in NOTHING:
        return False
    return len(node.args) < 3 or not node.args[2]


@dataclass
class Chain:
    """product → (residual) → (bounds), and the nodes of it, the last first."""

    product: fx.Node
    residual: fx.Node | None
    low: float
    high: float
    nodes: list


def used_once(node: fx.Node) -> None:
    if len(node.users) > 1:
        raise Refused(f"the float32 value of {node.name} is used by others, too")


def chain_to(tail: fx.Node, end) -> Chain | None:
    """The chain whose last node is `tail`; None: no product begins it. end(node): it may begin one. Raises Refused."""
    nodes, low, high, residual, node = [], -math.inf, math.inf, None, tail
    while isinstance(node, fx.Node) and node.op == "call_function":
        if nodes and (end(node) or node.target in ADDS or bounds(node) or does_nothing(node)):
            used_once(node)
        nodes.append(node)
        limits = bounds(node)
        if end(node):
            return Chain(node, residual, low, high, nodes)
        if limits:
            if residual is not None:
                raise Refused(f"{node.name} lies between the product and the addition")
            low, high = (min(max(v, low), high) for v in limits)
            node = node.args[0]
        elif does_nothing(node):
            node = node.args[0]
        elif node.target in ADDS and residual is None:
            node, residual = sides(node, end)
        else:
            return None
    return None


def sides(add: fx.Node, end) -> tuple:
    """Of an addition: what leads to a product, and the other. The first that does, else none."""
    if add.kwargs.get("alpha", 1) != 1 or not all(isinstance(a, fx.Node) for a in add.args[:2]):
        return None, None
    for node, other in ((add.args[0], add.args[1]), (add.args[1], add.args[0])):
        inner = node
        while isinstance(inner, fx.Node) and does_nothing(inner):
            inner = inner.args[0]
        if isinstance(inner, fx.Node) and end(inner) and len(inner.users) == 1 and inner is not other:
            return node, other
    return None, None


def same_shape(a: fx.Node, b: fx.Node) -> bool:
    shapes = [shape_of(n) for n in (a, b)]
    return None not in shapes and str(shapes[0]) == str(shapes[1])


VIEWS = (
    aten.t.default,
    aten.transpose.int,
    aten.permute.default,
    aten.view.default,
    aten.reshape.default,
    aten.unsqueeze.default,
    aten.squeeze.dim,
    aten.contiguous.default,
    aten.clone.default,
    aten.alias.default,
    aten.detach.default,
)


def constant_codes(node: fx.Node, constants: Constants) -> tuple[torch.Tensor, torch.Tensor]:
    """(codes less zero point: int16, scale of each: float32) of a dequantized constant, seen through views."""
    if node.op == "call_function" and node.target in VIEWS:
        parts = constant_codes(node.args[0], constants)
        return tuple(node.target(part, *node.args[1:], **node.kwargs) for part in parts)
    kind = role(node)
    if kind not in ("dequantize", "dequantize_per_channel"):
        raise Refused("its weight is float32" if constants.has(node) else "its weight is computed at run time")
    if not constants.has(node):
        raise Refused("its weight is computed at run time")
    codes, scale, zero_point = (constants.value(a) for a in node.args[:3])
    scale, shape = torch.as_tensor(scale, dtype=torch.float32), [1] * codes.dim()
    zero_point = torch.as_tensor(0 if zero_point is None else zero_point)
    if kind == "dequantize_per_channel":
        axis, low, high, dtype = node.args[3:7]
        shape[axis] = codes.shape[axis]
        if scale.numel() != codes.shape[axis] or zero_point.numel() not in (1, codes.shape[axis]):
            raise QuantizationError(
                f"{where(node)}: {scale.numel()} scales for {codes.shape[axis]} channels. Convert again."
            )
    else:
        low, high, dtype = node.args[3:6]
    shift_of(node, low, high, dtype)
    if codes.dtype != dtype:
        raise QuantizationError(f"{where(node)}: the weight is {codes.dtype}, dequantized as {dtype}. Convert again.")
    check_scale(node, scale)
    zeros = zero_point.view(shape if zero_point.numel() > 1 else [1] * codes.dim())
    centred = codes.to(torch.int16) - zeros.to(torch.int16)
    return centred, scale.view(shape if scale.numel() > 1 else [1] * codes.dim()).expand(codes.shape)


def weight_of(node: fx.Node, constants: Constants, transposed: bool) -> tuple[torch.Tensor, torch.Tensor]:
    """int8 (O, …) and scale (O,). Raises Refused where the scale or the type is none of the chip's."""
    codes, scale = constant_codes(node, constants)
    if transposed and codes.dim() != 2:
        raise Refused(f"its weight has {codes.dim()} dimensions")
    if transposed:
        codes, scale = codes.t(), scale.t()
    if codes.numel() and not -128 <= int(codes.min()) <= int(codes.max()) <= 127:
        raise Refused("its weight's codes less their zero point leave int8; symmetric weights run in int8")
    rows = scale.reshape(scale.shape[0], -1)
    if not torch.equal(rows, rows[:, :1].expand_as(rows)):
        raise Refused("its weight has scales along another axis than the output channels")
    return codes.to(torch.int8).contiguous(), rows[:, 0].contiguous()


def bias_of(node, product: torch.Tensor, constants: Constants) -> torch.Tensor:
    """int64 (O,), in units of `product` = sx·sw."""
    if node is None:
        return torch.zeros(product.shape, dtype=torch.int64)
    if not constants.has(node):
        raise Refused("its bias is computed at run time")
    if role(node) in ("dequantize", "dequantize_per_channel"):
        codes, scale, zero_point = (constants.value(a) for a in node.args[:3])
        scale = torch.as_tensor(scale, dtype=torch.float32).expand(codes.shape)
        if codes.dtype == torch.int32 and not torch.as_tensor(zero_point).any() and torch.equal(scale, product):
            return codes.to(torch.int64)
    value = constants.value(node).float()
    if not torch.isfinite(value).all():
        raise QuantizationError(f"{where(node)}: the bias has NaN or infinity.")
    return (value * (1.0 / product)).round().double().to(torch.int64)


def operands(node: fx.Node) -> tuple:
    """(input, weight, bias, whether the weight is transposed) of a product with a constant weight."""
    args = list(node.args)
    if node.target is aten.addmm.default:
        if any(v != 1 for v in (*args[3:], *node.kwargs.values())):
            raise Refused("addmm with factors")
        return args[1], args[2], args[0], True
    bias = args[2] if len(args) > 2 else node.kwargs.get("bias")
    return args[0], args[1], bias, node.target in (aten.mm.default, aten.matmul.default)


def geometry_of(node: fx.Node, kernel) -> tuple | None:
    """(stride, padding, dilation, groups) of two dimensions each; None of a linear layer."""
    if node.target not in CONVOLUTIONS:
        return None
    names = ("stride", "padding", "dilation", "groups")
    values = dict(zip(names, (1, 0, 1, 1), strict=True))
    values |= {**dict(zip(names, node.args[3:], strict=False)), **{k: v for k, v in node.kwargs.items() if k in names}}
    dims = CONVOLUTIONS[node.target]

    def pair(v, missing):
        v = list(v) if isinstance(v, (list, tuple)) else [v] * dims
        return [missing] * (2 - dims) + (v * dims)[:dims]

    stride, dilation = pair(values["stride"], 1), pair(values["dilation"], 1)
    padding = values["padding"]
    if padding == "same":
        whole = [d * (k - 1) for d, k in zip(dilation, kernel, strict=True)]
        if any(w % 2 for w in whole):
            raise Refused("padding 'same' of an even kernel is not the same at both edges")
        return stride, [w // 2 for w in whole], dilation, values["groups"]
    return stride, pair(0 if padding == "valid" else padding, 0), dilation, values["groups"]


def build_layer(node: fx.Node, x: Codes, out: Codes | None, constants: Constants) -> Int8Layer:
    """The product `node` of codes `x`, with its result in codes `out` or float32; bounds and residual are set by the
    caller. Raises Refused."""
    _, weight_node, bias_node, transposed = operands(node)
    if node.target in CONVOLUTIONS and len(shape_of(node) or ()) not in (0, CONVOLUTIONS[node.target] + 2):
        raise Refused("its input has no dimension of the batch")
    weight, scale = weight_of(weight_node, constants, transposed)
    if CONVOLUTIONS.get(node.target) == 1:
        weight = weight.unsqueeze(2)
    product = scale_of(x.scale, scale, None)
    folded = bias_of(bias_node, product, constants) - x.zero_point * weight.flatten(1).sum(1, dtype=torch.int64)
    largest = int((folded.abs() + 128 * weight.flatten(1).abs().sum(1, dtype=torch.int64)).max())
    if largest >= 2**31:
        raise Refused(f"its sums may reach {largest}, beyond int32: its bias is large against its scales")
    layer = Int8Layer(
        label(label_of(node)),
        geometry_of(node, list(weight.shape[2:])),
        CONVOLUTIONS.get(node.target, 0),
        weight,
        folded.to(torch.int32),
        scale_of(x.scale, scale, out).contiguous(),
        x.zero_point,
    )
    layer.out = out
    return layer


def set_result(layer, low: float, high: float, out: Codes | None) -> None:
    """Bounds of a module's result: real ones, or codes. Raises Refused where nothing is left of the range."""
    if out is not None:
        low, high = out.code(low), out.code(high)
        if low >= high:
            raise Refused("its bounds leave a single code")
    layer.out, layer.low, layer.high = out, low, high


def identity_layer(name: str, channels: int, a: Codes, out: Codes) -> Int8Layer:
    """Depthwise, 1×1, of ones: what an addition of codes is made of."""
    weight = torch.ones(channels, 1, 1, 1, dtype=torch.int8)
    bias = torch.full((channels,), -a.zero_point, dtype=torch.int32)
    scale = scale_of(a.scale, torch.ones(channels), out)
    layer = Int8Layer(name, ([1, 1], [0, 0], [1, 1], channels), 2, weight, bias, scale, a.zero_point)
    layer.out = out
    return layer
