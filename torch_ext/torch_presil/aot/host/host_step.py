# SPDX-License-Identifier: Apache-2.0
"""What every operator of the host says of itself."""

import operator as python_operator
from dataclasses import dataclass, field

import torch

from torch_presil.compiler.nodes import inserted, value
from torch_presil.compiler.operators.base import OPERATORS, ChipOperator

aten = torch.ops.aten
FOUND: dict = {}  # operator of an exported graph -> HostStep
FLOATS = (torch.float32, torch.bfloat16)


@dataclass
class HostOperator:
    """One operator of presil_op.h. kind: presil_op_kind. inputs, attributes: by name (integers, reals, or a text).
    quantize: (zero point, lowest, highest) of the step QUANTIZE."""

    kind: int
    inputs: dict
    output: torch.Tensor
    attributes: dict = field(default_factory=dict)
    quantize: tuple | None = None


class HostStep(ChipOperator):
    """Not under @chip_operator: it is in no command list."""

    first = False  # whether it is taken before the chip's operators are
    writes_nhwc = True

    def arguments_of(self, node):
        """Arguments of the function that stands for this node, as match(); None: it is none of ours."""
        raise NotImplementedError

    def operators(self, a, out) -> list:
        """What is to be computed, in order."""
        raise NotImplementedError

    def record(self, recording, label, a, out):
        for operator in self.operators(a, out):
            recording.on_host(operator)

    def take(self, node, where: str) -> None:
        tensors = [v for v in map(value, node.all_input_nodes) if isinstance(v, torch.Tensor)]
        if not tensors or any(v.device.type != where for v in tensors):
            return
        args, results = self.arguments_of(node), _results(node)
        if args is not None and results is not None:
            for old in results:
                self._stand_for(old, args, node.name)

    def _stand_for(self, old, args, label) -> None:
        val = value(old)
        flat = self.planes and val.dim() == 2
        with old.graph.inserting_before(old):
            call = old.graph.call_function(self.function, tuple(args))
        call.meta = {**old.meta, "val": val[:, :, None, None] if flat else val, "label": label}
        old.replace_all_uses_with(inserted(old, aten.squeeze.dims, call, [2, 3], val=val) if flat else call)


def _results(node):
    """Who stands for the result: the node, or what takes the first of several, if nobody takes another."""
    if not isinstance(value(node), (tuple, list)):
        return [node]
    users = list(node.users)
    first = all(u.target is python_operator.getitem and u.args[1] == 0 for u in users)
    return users if first else None


def host_step(*targets):
    """Makes a class known: it stands for these operators of an exported graph."""

    def known(cls):
        step = cls()
        OPERATORS[step.function] = step
        FOUND.update(dict.fromkeys(targets, step))
        return cls

    return known


def dense(shape, like: torch.Tensor, dtype=None) -> torch.Tensor:
    """An empty result: planes as convolutions read them. dtype: where it is not that of `like`."""
    planes = torch.channels_last if len(shape) == 4 else torch.contiguous_format
    return torch.empty(list(shape), dtype=dtype or like.dtype, device=like.device, memory_format=planes)


def rows(shape, like: torch.Tensor) -> torch.Tensor:
    """An empty result, row by row: what products of matrices read."""
    return torch.empty(list(shape), dtype=like.dtype, device=like.device)
