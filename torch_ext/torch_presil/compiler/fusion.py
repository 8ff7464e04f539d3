# SPDX-License-Identifier: Apache-2.0
"""Finds chip operators in a graph of ATen operators, and folds into each what the chip does behind its array:
batch-norm in eval mode, bias, one residual, clamping."""

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
    return all(
        isinstance(v, torch.Tensor) and v.device.type == where and v.dtype in CHIP_DTYPES and v.dtype == values[0].dtype
        for v in values
    )


def _unconverted(node):
    """The tensor behind a conversion (autocast's, say) from one of the chip's types to another: packing converts."""
    if not isinstance(node, fx.Node) or node.target is not aten._to_copy.default or set(node.kwargs) != {"dtype"}:
        return node
    source = _value(node.args[0])
    return node.args[0] if source.dtype in CHIP_DTYPES else node


def _constant(node) -> bool:
    """Known before the graph runs, so that it can be packed."""
    node = _unconverted(node)
    return node is None or (isinstance(node, fx.Node) and node.op in ("placeholder", "get_attr"))


def _conv(node, where):
    x, weight, bias, *geometry = node.args
    if not (_on_chip(where, x, weight, bias) and _value(x).dim() in (3, 4) and _constant(weight) and _constant(bias)):
        return None
    if _value(x).dim() == 3:
        x, geometry = _with_height(x, node), _with_height_geometry(geometry)
    return calls.conv, (x, _unconverted(weight), _unconverted(bias), (), 0.0, *geometry, None, None, None)


def _with_height(node, user):
    """A tensor of a 1-D convolution `user`, seen as (N, C, 1, L)."""
    with node.graph.inserting_before(user):
        seen = node.graph.call_function(aten.unsqueeze.default, (node, 2))
    seen.meta["val"] = aten.unsqueeze.default(_value(node), 2)
    return seen


def _with_height_geometry(geometry):
    stride, padding, dilation, transposed, output_padding, groups = geometry
    return [[1, *stride], [0, *padding], [1, *dilation], transposed, [0, *output_padding], groups]


def _replace(node, call) -> None:
    """node: of any dimensions; call: of four, or as many."""
    value = _value(node)
    call.meta = dict(node.meta)
    if value.dim() == 3 and call.target in (calls.conv, calls.input_grad, calls.weight_grad):
        call.meta["val"] = aten.unsqueeze.default(value, 2)
        with call.graph.inserting_after(call):
            flat = call.graph.call_function(aten.squeeze.dim, (call, 2))
        flat.meta = dict(node.meta)
        node.replace_all_uses_with(flat)
    else:
        node.replace_all_uses_with(call)
    node.graph.erase_node(node)


def _weight_of(b, inference):
    """w of t(w), if w can be packed: a parameter that no training step is about to change."""
    turned = b.op == "call_function" and (
        b.target is aten.t.default or (b.target is aten.permute.default and list(b.args[1]) == [1, 0])
    )
    return b.args[0] if inference and turned and _constant(b.args[0]) else None


def _product(a, b, bias, inference, where):
    if not _on_chip(where, a, b, *([] if bias is None else [bias])):
        return None
    weight = _weight_of(b, inference)
    if weight is not None and _constant(bias) and (bias is None or _value(bias).dim() == 1):
        return calls.linear, (a, _unconverted(weight), _unconverted(bias), None, None, None)
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


def _split_backward(node, where) -> bool:
    """convolution_backward becomes one chip operator a gradient that is wanted."""
    grad, x, weight, _, *geometry, mask = node.args
    if not (
        _on_chip(where, grad, x, weight)
        and _value(x).dim() in (3, 4)
        and all(u.target is operator.getitem and mask[u.args[1]] for u in node.users)
    ):
        return False
    if _value(x).dim() == 3:
        grad, x, geometry = _with_height(grad, node), _with_height(x, node), _with_height_geometry(geometry)
    for u in list(node.users):
        target = calls.GRADIENTS[u.args[1]]
        with u.graph.inserting_before(u):
            call = u.graph.call_function(
                target, (grad, x, weight, *geometry, *([None] if target in calls.RESIDUAL else []))
            )
        _replace(u, call)
        call.meta["label"] = f"{node.name}.{target.__name__}"
    node.graph.erase_node(node)
    return True


CHIP_OPERATORS = (
    aten.convolution.default,
    aten.convolution_backward.default,
    aten.mm.default,
    aten.bmm.default,
    aten.addmm.default,
    aten.baddbmm.default,
)


def why_not(node, where: str = "presil"):
    """Why an operator that the chip has is left to run by itself; None for other operators."""
    if node.target not in CHIP_OPERATORS:
        return None
    values = [v for v in map(_value, node.all_input_nodes) if isinstance(v, torch.Tensor)]
    if any(v.device.type != where for v in values):
        return f"an operand on {next(v.device for v in values if v.device.type != where)}"
    other = next((v.dtype for v in values if v.dtype not in CHIP_DTYPES), None)
    if other is not None:
        return f"{str(other)[6:]}: a launch takes {' and '.join(str(d)[6:] for d in CHIP_DTYPES)}"
    if "convolution" in str(node.target):
        return "a convolution in 3-D" if values[0].dim() > 4 else "its weight is computed in the graph"
    return "factors other than 1"


def _only_user(node):
    return next(iter(node.users)) if len(node.users) == 1 else None


def _same_shape(a, b) -> bool:
    a, b = _value(a), _value(b)
    return (
        isinstance(a, torch.Tensor)
        and isinstance(b, torch.Tensor)
        and a.dtype == b.dtype
        and a.device == b.device
        and list(a.shape) == list(b.shape)
    )


def _set(node, **positions):
    args = list(node.args)
    for index, value in positions.values():
        args[index] = value
    node.args = tuple(args)


def _move(node, behind):
    """To just before `behind`: everything that the node needs by then exists."""
    behind.prepend(node)


def _fold_norm(node, tail) -> bool:
    user = _only_user(tail)
    if (
        node.target is not calls.conv
        or user is None
        or user.target is not aten._native_batch_norm_legit_no_training.default
        or node.args[calls.NORM]
    ):
        return False
    x, scale, shift, mean, variance, _, eps = user.args
    if (
        x is not tail
        or not all(_constant(n) for n in (scale, shift, mean, variance))
        or any(u.target is not operator.getitem or u.args[1] != 0 for u in user.users)
    ):
        return False
    _set(node, norm=(calls.NORM, (mean, variance, scale, shift)), eps=(calls.NORM + 1, eps))
    for u in list(user.users):
        u.replace_all_uses_with(tail)
        u.graph.erase_node(u)
    node.graph.erase_node(user)
    return True


def _bounds(user):
    """(low, high) if the node clamps by numbers."""
    if user.target is aten.relu.default:
        return 0.0, None
    if user.target is aten.hardtanh.default:
        low, high = (list(user.args[1:]) + [-1.0, 1.0][len(user.args) - 1 :])[:2]
    elif user.target is aten.clamp.default:
        low, high = (list(user.args[1:]) + [user.kwargs.get("min"), user.kwargs.get("max")][len(user.args) - 1 :])[:2]
    elif user.target is aten.clamp_min.default:
        low, high = user.args[1], None
    else:
        return None
    return (low, high) if all(v is None or isinstance(v, (int, float)) for v in (low, high)) else None


def _fold_user(node, tail) -> bool:
    """Folds the only user of `tail`, which is the call itself or a view of it."""
    user, at = _only_user(tail), calls.RESIDUAL.get(node.target)
    clamped = node.target in calls.CLAMPED
    if (
        user is None
        or at is None
        or user.op != "call_function"
        or (clamped and (node.args[at + 1] is not None or node.args[at + 2] is not None))
    ):
        return False
    bounds = _bounds(user) if clamped else None
    if bounds is not None:
        _set(node, low=(at + 1, bounds[0]), high=(at + 2, bounds[1]))
    elif user.target is aten.add.Tensor and not user.kwargs and node.args[at] is None:
        other = user.args[1] if user.args[0] is tail else user.args[0]
        if other is tail or not _same_shape(tail, other) or not _same_shape(tail, user):
            return False
        _move(node, user)
        if tail is not node:
            other = _viewed_like(node, other)
            _move(tail, user)
        _set(node, residual=(at, other))
    else:
        return False
    user.replace_all_uses_with(tail)
    user.graph.erase_node(user)
    return True


def _viewed_like(node, other):
    """`other`, of the shape of a view of the call, in the shape of the call."""
    args = (aten.unsqueeze.default, 2) if _value(node).dim() == 4 else (aten.view.default, list(_shape_args(node)))
    with node.graph.inserting_before(node):
        viewed = node.graph.call_function(args[0], (other, args[1]))
    viewed.meta["val"] = args[0](_value(other), 2 if _value(node).dim() == 4 else list(_value(node).shape))
    return viewed


def _shape_args(node):
    """The shape of a 2-D call, symbolic sizes left to view()."""
    rows, columns = _value(node).shape
    return (-1, int(columns)) if isinstance(columns, int) else (int(rows), -1)


def _is_shape_only(node, view) -> bool:
    """A view of a call through which what follows can be folded: of a product's rows, or of a 1-D convolution."""
    shape = _value(node).shape
    if len(shape) == 4:
        return view.target is aten.squeeze.dim
    return view.target in calls.STRICT_VIEWS and len(shape) == 2 and any(isinstance(s, int) for s in shape)


def _same_args(*args):
    return args


# Operators whose further results only gradients read -> those without them, which ask the chip; kinds of operators;
# their arguments.
FIRST_RESULT = {
    aten.max_pool2d_with_indices.default: (aten.max_pool2d.default, "pool_max", _same_args),
    aten.native_layer_norm.default: (aten.layer_norm.default, "norm", _same_args),
    aten.native_group_norm.default: (
        aten.group_norm.default,
        "norm",
        lambda x, weight, bias, _n, _c, _hxw, groups, eps: (x, groups, weight, bias, eps),
    ),
}


def drop_unread_results(gm: fx.GraphModule, has) -> None:
    """Of operators that the chip has without them. has(kind): whether it does."""
    for node in list(gm.graph.nodes):
        alone, kind, arguments = FIRST_RESULT.get(node.target, (None, None, None))
        if alone is None or not has(kind) or any(u.target is not operator.getitem or u.args[1] for u in node.users):
            continue
        node.target, node.args = alone, arguments(*node.args)
        for u in list(node.users):
            node.meta["val"] = u.meta["val"]
            u.replace_all_uses_with(node)
            gm.graph.erase_node(u)


def fuse(gm: fx.GraphModule, inference: bool, where: str = "presil") -> int:
    """Rewrites the graph in place; returns how many nodes were folded into chip operators. where: the device that it
    was traced on."""
    folded = 0
    for node in list(gm.graph.nodes):
        if node.target is aten.convolution_backward.default:
            _split_backward(node, where)
            continue
        found = _chip_call(node, inference, where)
        if found is None:
            continue
        with gm.graph.inserting_before(node):
            call = gm.graph.call_function(*found)
        _replace(node, call)
        call.meta["label"] = node.name
    for node in list(gm.graph.nodes):
        if node.target not in calls.CALLS:
            continue
        while _fold_norm(node, node) or _fold_user(node, node):
            folded += 1
        view = _only_user(node)
        if view is not None and _is_shape_only(node, view):
            while _fold_norm(node, view) or _fold_user(node, view):
                folded += 1
    for node in list(gm.graph.nodes):  # between two 1-D convolutions
        if (
            node.target is aten.unsqueeze.default
            and node.args[1] == 2
            and node.args[0].target is aten.squeeze.dim
            and node.args[0].args[1] == 2
        ):
            node.replace_all_uses_with(node.args[0].args[0])
    gm.graph.eliminate_dead_code()
    gm.graph.lint()
    return folded
