# SPDX-License-Identifier: Apache-2.0
"""What a forward calls, operator by operator: module, line, tensors, and the launches and host work of each.

`Recorded(model)` is called like the model; its `events` are then those of the last call, in order. A launch's report
has the number of its event (from 1) as `site`.
"""

import re
from dataclasses import dataclass, field

import torch
from torch import fx
from torch.nn.modules import module as hooks
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import TorchDispatchMode

from torch_presil import _C
from torch_presil.fused_layer import FusedLayer
from torch_presil.quantize import QuantizedLayer

__all__ = ["Event", "Recorded"]

FRAME = re.compile(r'File "(.+?)", line (\d+), in (\S+)')


@dataclass
class Event:
    """One operator as the model calls it. Bytes are of tensors on the device, each storage once."""

    operator: str
    module: str  # dotted name; "" is the model itself
    line: str | None  # "file:number"
    weights: int = 0  # bytes of parameters and buffers that it takes
    inputs: int = 0
    results: int = 0  # bytes of what it returns and did not take
    layer: str | None = None  # of a convolution or linear layer that was prepared for the chip
    host: dict = field(default_factory=dict)  # operator -> {"calls", "seconds", "reason"}: computed by the CPU
    moves: dict = field(default_factory=dict)  # kind -> {"calls", "bytes", "seconds"}: copied or converted by the CPU


def _difference(after: dict, before: dict, sums: tuple) -> dict:
    """Of two tables of counters: what came in between."""
    out = {}
    for name, row in after.items():
        old = before.get(name)
        if old is None or row["calls"] != old["calls"]:
            out[name] = {**row, **{key: row[key] - (old[key] if old else 0) for key in sums}}
    return out


def _bytes(tensor: torch.Tensor) -> int:
    """That an operator has to touch: of an expanded tensor what is in memory."""
    return min(tensor.numel() * tensor.element_size(), tensor.untyped_storage().nbytes())


class _Operators(TorchDispatchMode):
    """Notes each operator in `owner.events`."""

    def __init__(self, owner: "Recorded"):
        super().__init__()
        self.owner = owner

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        owner, kwargs = self.owner, kwargs or {}
        event = Event(str(function), *owner.place())
        event.layer = owner.layer
        owner.events.append(event)
        taken = owner.note_inputs(event, (args, kwargs))
        host, moves = _C.host_operators(), _C.host_moves()
        outer = _C.set_site(len(owner.events))
        try:
            out = function(*args, **kwargs)
        finally:
            _C.set_site(outer)
        event.host = _difference(_C.host_operators(), host, ("calls", "seconds"))
        event.moves = _difference(_C.host_moves(), moves, ("calls", "bytes", "seconds"))
        owner.note_results(event, out, taken)
        return out


class _Nodes(fx.Interpreter):
    """A traced model node by node: each knows the module and the line that it came from."""

    def __init__(self, owner: "Recorded", model: fx.GraphModule):
        super().__init__(model)
        self.owner = owner

    def run_node(self, n: fx.Node):
        stack = list(n.meta.get("nn_module_stack", {}).values())
        module = self.module.get_submodule(n.target) if n.op == "call_module" else None
        name = stack[-1][0] if stack else ""
        self.owner.node = (self.owner.layers.get(module, name), _last_line(n.meta.get("stack_trace")))
        try:
            return super().run_node(n)
        finally:
            self.owner.node = None


def _last_line(trace: str | None) -> str | None:
    """The innermost line of a trace that is neither torch's nor this package's."""
    found = [f for f in FRAME.findall(trace or "") if not re.search(r"/(torch|torch_presil)/|^<", f[0])]
    return f"{found[-1][0]}:{found[-1][1]}" if found else None


class Recorded:
    """The model with a note of every operator that a call of it makes."""

    def __init__(self, model: torch.nn.Module):
        self.model, self.events, self.node, self.layer = model, [], None, None
        self.names = {module: name for name, module in model.named_modules()}
        self.layers = {m: m.name for m in self.names if isinstance(m, (FusedLayer, QuantizedLayer))}
        self.open = []  # modules that are being called, outermost first
        constants = [*model.parameters(), *model.buffers()]
        storages = [(t.untyped_storage(), t.dim()) for t in constants if t.device.type == "presil"]
        self.constants = {s.data_ptr(): (s.nbytes(), dims) for s, dims in storages}

    def __call__(self, *args, **kwargs):
        self.events.clear()
        self.open.clear()
        traced = isinstance(self.model, fx.GraphModule) and not kwargs
        called = _Nodes(self, self.model).run if traced else self.model
        enter = hooks.register_module_forward_pre_hook(self._enter)
        leave = hooks.register_module_forward_hook(self._leave, always_call=True)
        try:
            with _Operators(self):
                return called(*args, **kwargs)
        finally:
            enter.remove()
            leave.remove()

    def _enter(self, module, args) -> None:
        self.open.append(module)
        self.layer = self.layers.get(module, self.layer)

    def _leave(self, module, args, out) -> None:
        if self.open and self.open[-1] is module:
            self.open.pop()
        if module in self.layers:
            self.layer = None

    def place(self) -> tuple:
        """(module, line) of what is called now."""
        if self.node:
            return self.node
        source = _C.current_source()
        line = f"{source['file']}:{source['line']}" if source else None
        if self.layer is not None:
            return self.layer, line
        return next((self.names[m] for m in reversed(self.open) if m in self.names), ""), line

    def note_inputs(self, event: Event, value) -> set:
        """Adds up what the operator takes; the storages."""
        seen = set()
        for t in _on_device(value):
            key = t.untyped_storage().data_ptr()
            if key in seen:
                continue
            seen.add(key)
            if key in self.constants:
                event.weights += _bytes(t)
            else:
                event.inputs += _bytes(t)
        return seen

    @staticmethod
    def note_results(event: Event, value, taken: set) -> None:
        seen = set()
        for t in _on_device(value):
            key = t.untyped_storage().data_ptr()
            written_in_place = key in taken and event.host and event.operator.split(".")[1].endswith("_")
            if key not in seen and (key not in taken or written_in_place):
                event.results += _bytes(t)
            seen.add(key)


def _on_device(value) -> list:
    return [t for t in pytree.tree_leaves(value) if isinstance(t, torch.Tensor) and t.device.type == "presil"]
