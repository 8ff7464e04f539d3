# SPDX-License-Identifier: Apache-2.0
"""What every chip operator says of itself."""

import inspect
from collections import namedtuple

import torch

from torch_presil.compiler.nodes import FLOATS, value
from torch_presil.compiler.views import without_height

aten = torch.ops.aten
OPERATORS: dict = {}  # function in a compiled graph -> ChipOperator
COVERING: dict = {}  # operator of a traced graph -> the ChipOperators that may stand for it, by rank


class ChipOperator:
    """One kind of entry of a command list. There is one instance of each class."""

    # What stands in a compiled graph. Called directly it computes with PyTorch's operators, one after the other; in a
    # partition record() is called in its place. Its parameters are the operator's arguments.
    function: staticmethod
    parameters: tuple = ()  # their names, where the function's signature leaves some out
    covers: tuple = ()  # operators of traced graphs that it may stand for
    rank = 0  # of several that may stand for one operator the lowest that matches does
    takes: tuple = FLOATS  # types of its operands; (): of each another
    otherwise = "its weight is computed in the graph"  # why one of such operands on the device is left to run by itself
    fuses: frozenset = frozenset()  # names of rules (rules/) that may fold what follows into it
    # What an argument that is no result of a chip operator is converted to: "nhwc", "rows", or "weight" (packed, so
    # that strides don't matter). Others are read as they lie.
    reads: dict = {}
    writes_nhwc = False
    planes = False  # its tensors have four dimensions; those of 1-D convolutions are seen with a height of 1

    def __init__(self):
        names = list(self.parameters or inspect.signature(self.function).parameters)
        self.name, self.at = self.function.__name__, {name: i for i, name in enumerate(names)}
        self.arguments = namedtuple("Arguments", names)
        self.reads_at = {self.at[name]: kind for name, kind in self.reads.items()}

    # ---- in the graph
    def match(self, node, trace):
        """Arguments of the function that computes this node of a traced graph; None: it is none of ours."""
        raise NotImplementedError

    def rewrite(self, node, trace) -> bool:
        """Whether the node is gone, because this operator stands for it."""
        args = self.match(node, trace)
        if args is not None:
            self.put(node, args, self.label(node))
        return args is not None

    def label(self, node) -> str:
        """What it is called in reports."""
        return node.name

    def put(self, node, args, label: str) -> None:
        """In place of the node."""
        with node.graph.inserting_before(node):
            call = node.graph.call_function(self.function, tuple(args))
        call.meta = {**node.meta, "label": label}
        node.replace_all_uses_with(self.standing_for(node, call))
        node.graph.erase_node(node)

    def standing_for(self, node, call):
        """The call, or where it has another shape than the node, a view of it."""
        return without_height(call, node) if self.planes and value(node).dim() == 3 else call

    def get(self, node, name: str):
        return node.args[self.at[name]]

    def set(self, node, **values) -> None:
        args = list(node.args)
        for name, v in values.items():
            args[self.at[name]] = v
        node.args = tuple(args)

    def absorb(self, node, tail, user, **values) -> None:
        """With these arguments the node computes `user` too, the only one behind its tail (rules/)."""
        self.set(node, **values)
        user.replace_all_uses_with(tail)
        user.graph.erase_node(user)

    def reaches(self, node, other, add) -> bool:
        """Whether the node can read what is added to its result. A graph without writes in place lets it move to the
        add, where that exists."""
        add.prepend(node)
        return True

    def clamped(self, node, low, high):
        """Bounds of the node with a clamp behind it; None: not in one operator."""
        return (low, high) if (self.get(node, "low"), self.get(node, "high")) == (None, None) else None

    def why_not(self, node, where: str) -> str:
        """Why a node of those covered is left to run by itself."""
        values = [v for v in map(value, node.all_input_nodes) if isinstance(v, torch.Tensor)]
        for v in values:
            if v.device.type != where:
                return f"an operand on {v.device}"
        for v in values:
            if self.takes and v.dtype not in self.takes:
                return f"{str(v.dtype)[6:]}: a launch takes {', '.join(str(d)[6:] for d in self.takes)}"
        return "a convolution in 3-D" if values[0].dim() > 4 else self.otherwise

    # ---- in a command list; a: the arguments by name
    def result(self, a) -> torch.Tensor:
        """An empty tensor as the chip writes it, on the device of the operands. Raises NotRecordable where these
        operands can't be fetched as they are."""
        raise NotImplementedError

    def record(self, recording, label: str, a, out: torch.Tensor) -> None:
        """Appends it to a recording; out as result() made it. Raises NotImplementedError with the chip's reason."""
        raise NotImplementedError


def chip_operator(cls):
    """Makes the class known."""
    operator = cls()
    OPERATORS[operator.function] = operator
    for target in operator.covers:
        COVERING.setdefault(target, []).append(operator)
    return cls


def like(x, weight):
    """A weight or bias in the type of x."""
    return None if weight is None else weight.to(x.dtype)


def tail(y, residual, low, high):
    """What may be behind a chip operator. low, high: clamp behind everything else, None: no bound."""
    if residual is not None:
        y = y + residual
    return y if low is None and high is None else aten.clamp.default(y, low, high)
