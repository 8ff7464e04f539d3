# SPDX-License-Identifier: Apache-2.0
"""What the compiler asks of the nodes of a graph."""

import re
from dataclasses import dataclass

import torch
from torch import fx

aten = torch.ops.aten
FLOATS = (torch.float32, torch.bfloat16, torch.float16)  # of a launch's operands


def value(node):
    """The fake tensor (or number) that the trace had here; None: no node, or nothing known."""
    return node.meta.get("val") if isinstance(node, fx.Node) else None


def only_user(node):
    return next(iter(node.users)) if len(node.users) == 1 else None


def same_shape(a, b) -> bool:
    """Of one type and device, too."""
    a, b = value(a), value(b)
    tensors = isinstance(a, torch.Tensor) and isinstance(b, torch.Tensor)
    return tensors and (a.dtype, a.device, *a.shape) == (b.dtype, b.device, *b.shape)


def unconverted(node):
    """The tensor behind a conversion (autocast's, say) from one of the chip's types to another: packing converts."""
    if not isinstance(node, fx.Node) or node.target is not aten._to_copy.default or set(node.kwargs) != {"dtype"}:
        return node
    return node.args[0] if value(node.args[0]).dtype in FLOATS else node


def constant(node) -> bool:
    """Known before the graph runs, so that it can be packed."""
    node = unconverted(node)
    return node is None or (isinstance(node, fx.Node) and node.op in ("placeholder", "get_attr"))


def named(node) -> dict:
    """All arguments of an ATen operator by name, in the order of its schema, with the defaults of those not given."""
    arguments = node.target._schema.arguments
    given = dict(zip((a.name for a in arguments), node.args)) | dict(node.kwargs)
    return {a.name: given.get(a.name, a.default_value if a.has_default_value() else None) for a in arguments}


def inserted(user, function, *args, val=None):
    """A node before `user`, with its value."""
    with user.graph.inserting_before(user):
        node = user.graph.call_function(function, args)
    node.meta["val"] = function(*fx.map_arg(args, value)) if val is None else val
    return node


_FRAME = re.compile(r'File "([^"]+)", line (\d+), in (\S+)')
_OURS = re.compile(r"site-packages/(torch|torchao)/|<eval_with_key>|torch/_export")


def line_of(node: fx.Node) -> tuple[str | None, int | None]:
    """File and line of the user's model that a node stands for; of a quantization, the line of what it quantizes."""
    for n in (node, *node.all_input_nodes, *node.users):
        frames = _FRAME.findall(n.meta.get("stack_trace") or "")
        for file, line, _ in reversed(frames):
            if not _OURS.search(file):
                return file, int(line)
        if frames and n is node:
            return frames[-1][0], int(frames[-1][1])
    return None, None


def where(node: fx.Node) -> str:
    file, line = line_of(node)
    return f"node {node.name}" + (f" ({file}:{line})" if file else "")


@dataclass(frozen=True)
class Trace:
    """inference: weights may be packed once. where: the device that it was traced on."""

    inference: bool
    where: str = "presil"

    def holds(self, nodes, dtypes) -> bool:
        """Whether these (None left out) are tensors of the device, each of its dtype."""
        pairs = [(value(n), d) for n, d in zip(nodes, dtypes, strict=True) if n is not None]
        return all(isinstance(v, torch.Tensor) and v.device.type == self.where and v.dtype == d for v, d in pairs)

    def floats(self, first, *others) -> bool:
        """Whether these are tensors of the device of one of the chip's floating-point types."""
        dtype = getattr(value(first), "dtype", None)
        return dtype in FLOATS and self.holds((first, *others), (dtype,) * (1 + len(others)))
