# SPDX-License-Identifier: Apache-2.0
"""Finds chip operators in a graph of ATen operators, and folds into each what the chip does behind its array: batch-norm in eval mode, bias, one residual, clamping."""

import operator

import torch
from torch import fx

from torch_presil.compiler import calls

aten = torch.ops.aten
CHIP_DTYPES = (torch.float32, torch.bfloat16)


def _value(node):
    return node.meta.get("val") if isinstance(node, fx.Node) else None


def _on_chip(where, *nodes) -> bool:
    values = [_value(n) for n in nodes if n is not None]
    return all(isinstance(v, torch.Tensor) and v.device.type == where and v.dtype in CHIP_DTYPES and v.dtype == values[0].dtype for v in values)


def _constant(node) -> bool:
    """Known before the graph runs, so that it can be packed."""
    return node is None or (isinstance(node, fx.Node) and node.op in ("placeholder", "get_attr"))


def _conv(node, where):
    x, weight, bias, stride, padding, dilation, transposed, output_padding, groups = node.args
    if not (_on_chip(where, x, weight, bias) and _value(x).dim() == 4 and _constant(weight) and _constant(bias)):
        return None
    return calls.conv, (x, weight, bias, (), 0.0, stride, padding, dilation, transposed, output_padding, groups, None, None, None)


def _weight_of(b, inference):
    """w of t(w), if w can be packed: a parameter that no training step is about to change."""
    turned = b.op == "call_function" and (b.target is aten.t.default or (b.target is aten.permute.default and list(b.args[1]) == [1, 0]))
    return b.args[0] if inference and turned and _constant(b.args[0]) else None


def _product(a, b, bias, inference, where):
    if not _on_chip(where, a, b, *([] if bias is None else [bias])):
        return None
    weight = _weight_of(b, inference)
    if weight is not None and _constant(bias) and (bias is None or _value(bias).dim() == 1):
        return calls.linear, (a, weight, bias, None, None, None)
    return calls.product, (a, b, bias, None, None)


def _chip_call(node, inference, where):
    """(function, arguments) of the chip operator that computes this node, or None."""
    if node.op != "call_function":
        return None
    if node.target is aten.convolution.default:
        return _conv(node, where)
    if node.target in (aten.mm.default, aten.bmm.default):
        return _product(node.args[0], node.args[1], None, inference, where)
    if node.target in (aten.addmm.default, aten.baddbmm.default) and all(v == 1 for v in node.kwargs.values()):
        return _product(node.args[1], node.args[2], node.args[0], inference, where)
    return None


def _only_user(node):
    return next(iter(node.users)) if len(node.users) == 1 else None


def _same_shape(a, b) -> bool:
    a, b = _value(a), _value(b)
    return isinstance(a, torch.Tensor) and isinstance(b, torch.Tensor) and a.dtype == b.dtype and a.device == b.device and list(a.shape) == list(b.shape)


def _set(node, **positions):
    args = list(node.args)
    for index, value in positions.values():
        args[index] = value
    node.args = tuple(args)


def _move(node, behind):
    """To just before `behind`: everything that the node needs by then exists."""
    behind.prepend(node)


def _fold_norm(node) -> bool:
    user = _only_user(node)
    if node.target is not calls.conv or user is None or user.target is not aten._native_batch_norm_legit_no_training.default or node.args[calls.NORM]:
        return False
    x, scale, shift, mean, variance, _, eps = user.args
    if x is not node or not all(_constant(n) for n in (scale, shift, mean, variance)) or any(u.target is not operator.getitem or u.args[1] != 0 for u in user.users):
        return False
    _set(node, norm=(calls.NORM, (mean, variance, scale, shift)), eps=(calls.NORM + 1, eps))
    for u in list(user.users):
        u.replace_all_uses_with(node)
        u.graph.erase_node(u)
    node.graph.erase_node(user)
    return True


def _bounds(user):
    """(low, high) if the node clamps by numbers."""
    if user.target is aten.relu.default:
        return 0.0, None
    if user.target is aten.hardtanh.default:
        low, high = (list(user.args[1:]) + [-1.0, 1.0][len(user.args) - 1:])[:2]
    elif user.target is aten.clamp.default:
        low, high = (list(user.args[1:]) + [user.kwargs.get("min"), user.kwargs.get("max")][len(user.args) - 1:])[:2]
    elif user.target is aten.clamp_min.default:
        low, high = user.args[1], None
    else:
        return None
    return (low, high) if all(v is None or isinstance(v, (int, float)) for v in (low, high)) else None


def _fold_user(node, tail) -> bool:
    """Folds the only user of `tail`, which is the call itself or a view of it."""
    user, at = _only_user(tail), calls.RESIDUAL[node.target]
    if user is None or user.op != "call_function" or node.args[at + 1] is not None or node.args[at + 2] is not None:
        return False
    bounds = _bounds(user)
    if bounds is not None:
        _set(node, low=(at + 1, bounds[0]), high=(at + 2, bounds[1]))
    elif user.target is aten.add.Tensor and not user.kwargs and node.args[at] is None:
        other = user.args[1] if user.args[0] is tail else user.args[0]
        if other is tail or not _same_shape(tail, other) or not _same_shape(tail, user):
            return False
        _move(node, user)
        if tail is not node:
            with user.graph.inserting_before(node):
                viewed = user.graph.call_function(aten.view.default, (other, list(_shape_args(node))))
                viewed.meta["val"] = aten.view.default(_value(other), list(_value(node).shape))
            _move(tail, user)
            other = viewed
        _set(node, residual=(at, other))
    else:
        return False
    user.replace_all_uses_with(tail)
    user.graph.erase_node(user)
    return True


def _shape_args(node):
    """The shape of a 2-D call, symbolic sizes left to view()."""
    rows, columns = _value(node).shape
    return (-1, int(columns)) if isinstance(columns, int) else (int(rows), -1)


def fuse(gm: fx.GraphModule, inference: bool, where: str = "presil") -> int:
    """Rewrites the graph in place; returns how many nodes were folded into chip operators. where: the device that it was traced on."""
    folded = 0
    for node in list(gm.graph.nodes):
        found = _chip_call(node, inference, where)
        if found is None:
            continue
        with gm.graph.inserting_before(node):
            call = gm.graph.call_function(*found)
        call.meta = dict(node.meta)
        call.meta["label"] = node.name
        node.replace_all_uses_with(call)
        gm.graph.erase_node(node)
    for node in list(gm.graph.nodes):
        if node.target not in calls.CALLS:
            continue
        while _fold_norm(node) or _fold_user(node, node):
            folded += 1
        view = _only_user(node)
        shape = _value(node).shape
        if view is not None and view.target in calls.STRICT_VIEWS and len(shape) == 2 and any(isinstance(s, int) for s in shape):
            while _fold_user(node, view):
                folded += 1
    gm.graph.eliminate_dead_code()
    gm.graph.lint()
    return folded
