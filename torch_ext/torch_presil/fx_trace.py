# SPDX-License-Identifier: Apache-2.0
"""A model traced by torch.fx: its layers are modules with their names, sizes of batches stay free; and what each node
of the trace writes."""

import copy
import operator
import os
import sys

import torch
from torch import fx, nn

from torch_presil.inputs import Inputs

__all__ = ["NotTraceable", "WriteNotes", "noted_run", "trace"]

LIBRARIES = ("<", *(os.path.dirname(file) + os.sep for file in (torch.__file__, __file__)))


class NotTraceable(ValueError):
    """torch.fx can't trace the model."""


class _Proxy(fx.Proxy):
    """With the operators in place as they were written: fx would take `a += b` for `a = a + b`, and what else knows
    the tensor would not see it."""


for _name in fx.graph.inplace_methods:

    def _in_place(self, other, _target=getattr(operator, _name)):
        return self.tracer.create_proxy("call_function", _target, (self, other), {})

    setattr(_Proxy, f"__{_name}__", _in_place)


class _Tracer(fx.Tracer):
    def create_node(self, *args, **kwargs):
        """With the innermost line of the model, for reports. fx can note all of the stack, but imports 3 s for it."""
        node, frame = super().create_node(*args, **kwargs), sys._getframe(1)
        while frame and frame.f_code.co_filename.startswith(LIBRARIES):
            frame = frame.f_back
        if frame:
            node.stack_trace = f'File "{frame.f_code.co_filename}", line {frame.f_lineno}, in {frame.f_code.co_name}'
        return node

    def proxy(self, node):
        return _Proxy(node, self)


class WriteNotes(fx.passes.shape_prop.ShapeProp):
    """Shapes, and for each node the storage of its result and the storages that it wrote: what the schemas and the
    in-place flags of modules say in many ways, the version counters say in one."""

    def __init__(self, gm: fx.GraphModule):
        super().__init__(gm)
        self.garbage_collect_values = False  # a storage that is gone gives its number to another
        self.storage, self.written = {}, {}
        self.position = {node: i for i, node in enumerate(gm.graph.nodes)}

    def run_node(self, n: fx.Node):
        before = {node: value._version for node, value in self._tensors()}
        result = super().run_node(n)
        self.written[n] = {self.storage[node] for node, value in self._tensors() if value._version != before[node]}
        if isinstance(result, torch.Tensor):
            self.storage[n], n.meta["val"] = result.untyped_storage()._cdata, result
        return result

    def _tensors(self):
        return [
            (node, value)
            for node, value in self.env.items()
            if isinstance(value, torch.Tensor) and not value.is_inference()
        ]

    def folded(self, node: fx.Node, into: fx.Node) -> None:
        """The node is gone; what it gave is what `into` gives."""
        if node in self.storage:
            self.storage[into] = self.storage.pop(node)
        self.written.pop(node, None)

    def movable(self, other: fx.Node, layer: fx.Node, add: fx.Node) -> bool:
        """Whether the add may read `other` where the layer stands, and leave it as it is: it is there by then, nothing
        between writes it, and nobody else sees what an add in place writes."""
        memory, position = self.storage.get(other), self.position
        between = [n for n in self.written if position[layer] <= position[n] < position[add]]
        if memory is None or position[other] > position[layer] or any(memory in self.written[n] for n in between):
            return False
        if memory not in self.written[add]:
            return True
        aliases = [n for n, storage in self.storage.items() if storage == memory and position[n] < position[add]]
        later = lambda n: any(position[user] > position[add] for user in n.users)
        return not any(n.op in ("placeholder", "get_attr") or later(n) for n in aliases)


def trace(model: nn.Module) -> fx.GraphModule:
    """A copy of the model as a graph. NotTraceable."""
    try:
        tracer = _Tracer()
        graph = tracer.trace(copy.deepcopy(model))
        return fx.GraphModule(tracer.root, graph, type(model).__name__)
    except Exception as error:
        raise NotTraceable(
            f"{type(model).__name__} can't be traced by torch.fx ({error}); cosim needs a model without "
            f"data-dependent control flow"
        ) from error


def noted_run(gm: fx.GraphModule, inputs: Inputs) -> WriteNotes:
    """Runs the graph once, on copies of the inputs. NotTraceable."""
    noted = WriteNotes(gm)
    try:
        with torch.inference_mode(False), torch.no_grad():  # inference tensors have no version counters
            noted.propagate(*(a.clone() if isinstance(a, torch.Tensor) else a for a in inputs.args))
    except Exception as error:  # the model runs, what was traced of it doesn't
        raise NotTraceable(f"{type(gm).__name__} can't be traced by torch.fx: {error}") from error
    return noted
