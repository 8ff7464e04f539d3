# SPDX-License-Identifier: Apache-2.0
"""A model made ready for the chip: what follows its convolutions and linear layers folded into them (FusedLayer).

The trace is torch.fx's: layers are modules with their names, and sizes of batches stay free. What may be folded the
compiler's rules say (compiler/rules/), which see the trace in ATen's words; what they leave stays as it was traced.
"""

import operator
from collections import Counter

import torch
import torch.nn.functional as F
from torch import fx, nn

from torch_presil.compiler.nodes import value
from torch_presil.compiler.operators import ChipOperator
from torch_presil.compiler.rules import fold_behind
from torch_presil.compiler.rules.clamp import ACTIVATIONS, CLAMPS
from torch_presil.fused_layer import FusedLayer, fusable, fused_layers
from torch_presil.fx_trace import NotTraceable, WriteNotes, noted_run, trace
from torch_presil.inputs import Inputs

__all__ = ["FusedLayer", "NotTraceable", "fuse", "fused_layers"]

aten = torch.ops.aten


def layer(x, made, norm, residual, low, high):
    """Stands for a layer of the model while the rules look at the trace. made: the FusedLayer, which has the norms that
    were folded already."""
    raise NotImplementedError


class _Layer(ChipOperator):
    function = staticmethod(layer)

    def __init__(self, gm: fx.GraphModule, noted: WriteNotes, *more: str):
        super().__init__()
        self.gm, self.noted, self.fuses = gm, noted, frozenset({"clamp", "residual", *more})

    def clamped(self, node, low, high):
        both = super().clamped(node, low, high)
        return both if both in ACTIVATIONS else None

    def reaches(self, node, other, add):
        """The layer stays where it is: of two that meet in an add the later one reads the other's result."""
        return self.noted.movable(other, node, add)

    def absorb(self, node, tail, user, norm=(), eps=0.0, **values):
        if norm:
            tensors = [None if n is None else operator.attrgetter(n.target)(self.gm) for n in norm]
            self.get(node, "made").fold_norm(*tensors, eps)
        super().absorb(node, tail, user, **values)
        self.noted.folded(user, node)


def _words() -> dict:
    """Function, or name of a method -> operator of ATen."""
    found = dict.fromkeys((operator.add, operator.iadd, torch.add, "add", "add_"), aten.add.Tensor)
    for overload in CLAMPS:
        name = overload._schema.name.removeprefix("aten::")
        found |= {getattr(space, name): overload for space in (torch, F) if hasattr(space, name)} | {name: overload}
    return found


WORDS = _words()


def _called(node):
    """Operator and arguments of a call; None: nothing that the rules know."""
    overload = WORDS.get(node.target)
    known = overload and {a.name for a in overload._schema.arguments} | {"inplace"}
    return (overload, node.args) if known and known.issuperset(node.kwargs) else None


def _called_module(gm: fx.GraphModule, node, layers: set):
    """The same of a module; layers: names of those that become FusedLayers, which they do here."""
    module = gm.get_submodule(node.target)
    if len(node.args) != 1 or node.kwargs:
        return None
    if node.target in layers:
        made = FusedLayer(node.target, module)
        gm.set_submodule(node.target, made)
        return layer, (*node.args, made, (), None, None, None)
    if isinstance(module, nn.ReLU):
        return aten.relu.default, node.args
    if isinstance(module, nn.Hardtanh):  # and ReLU6
        return aten.hardtanh.default, (*node.args, module.min_val, module.max_val)
    if isinstance(module, (nn.BatchNorm1d, nn.BatchNorm2d)) and module.running_mean is not None:
        names = ("weight", "bias", "running_mean", "running_var")
        with gm.graph.inserting_before(node):
            kept = [gm.graph.get_attr(f"{node.target}.{n}") if getattr(module, n) is not None else None for n in names]
        return aten.batch_norm.default, (*node.args, *kept, module.training, 0.0, module.eps, False)
    return None


def _in_aten(gm: fx.GraphModule, layers: set) -> dict:
    """Nodes become what the rules know them as. Returns node -> what it was (op, target)."""
    traced = {}
    for node in list(gm.graph.nodes):
        known = None
        if node.op in ("call_function", "call_method"):
            known = _called(node)
        elif node.op == "call_module":
            known = _called_module(gm, node, layers)
        if known is not None:
            traced[node] = node.op, node.target
            node.op, (node.target, node.args) = "call_function", known
    return traced


def _as_traced(gm: fx.GraphModule, traced: dict) -> None:
    """Back, with FusedLayers that know what was folded; the only argument of other modules is what they compute on."""
    for node in gm.graph.nodes:
        node.meta.pop("val", None)
        function, (node.op, node.target) = node.target, traced.get(node, (node.op, node.target))
        if function is layer:
            x, fused, _, residual, *bounds = node.args
            fused.has_residual, fused.activation = residual is not None, ACTIVATIONS[tuple(bounds)]
            node.args = (x, residual) if fused.has_residual else (x,)
        elif node.op == "call_module" and node in traced:
            node.args = node.args[:1]


def fuse(model: nn.Module, example) -> fx.GraphModule:
    """A fused copy of the model, which must be in eval mode and traceable by torch.fx (else: NotTraceable).

    example: one input, or Inputs without names, for the shapes.
    """
    if model.training:
        raise ValueError("fuse() needs a model in eval mode: call model.eval() first")
    inputs = example if isinstance(example, Inputs) else Inputs((example,))
    if inputs.kwargs:
        raise NotTraceable(f"{type(model).__name__} is called with named inputs, which torch.fx does not trace")
    gm = trace(model)
    noted = noted_run(gm, inputs)
    called = Counter(n.target for n in gm.graph.nodes if n.op == "call_module")
    # A layer that is called twice keeps its parts: what follows each call may differ.
    traced = _in_aten(gm, {name for name, times in called.items() if times == 1 and fusable(gm.get_submodule(name))})
    channels_first, others = _Layer(gm, noted, "batch_norm"), _Layer(gm, noted)
    for node in list(traced):
        if node.target is layer:  # batch-norm looks at dimension 1, which are the channels of whole batches
            batched = value(node).dim() == (2 if others.get(node, "made").geometry is None else 4)
            fold_behind(channels_first if batched else others, node)
    _as_traced(gm, traced)
    gm.graph.eliminate_dead_code(lambda n: n.is_impure() or bool(noted.written.get(n)))
    gm.graph.lint()
    gm.recompile()
    gm.delete_all_unused_submodules()
    return gm.eval()
