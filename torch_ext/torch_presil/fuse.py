# SPDX-License-Identifier: Apache-2.0
"""Preparation of a model for the chip: batch-norm folded, ReLU and residual adds fused behind convolutions and linear
layers, by torch.fx; where a model can't be traced, its convolutions and linear layers one by one (`wrap`).

The result computes on any device: on `presil` each fused layer is one chip operator, on the CPU the same layer in
fp32, or, after `set_emulation(model, torch.bfloat16)`, with the chip's rounding points (operands, bias added in fp32,
one rounding of the output).
"""

import contextlib
import copy
import operator
import os
import sys
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import fx, nn
from torch.nn.utils.fusion import fuse_conv_bn_eval, fuse_linear_bn_eval

from torch_presil.inputs import Inputs

__all__ = ["FusedLayer", "NotTraceable", "calls", "fuse", "fused_layers", "label", "set_emulation", "wrap"]

LIBRARIES = ("<", *(os.path.dirname(file) + os.sep for file in (torch.__file__, __file__)))
LABEL_BYTES = 63  # that a launch's report holds


class NotTraceable(ValueError):
    """torch.fx can't trace the model."""


def label(name: str) -> str:
    """What the reports of a layer's launches are called: the name's end, where names differ."""
    return name[-LABEL_BYTES:]


ADDS = (operator.add, operator.iadd, torch.add)
RELUS = (nn.ReLU, F.relu, torch.relu, "relu", "relu_")
RELU6S = (nn.ReLU6, F.relu6)


@dataclass
class Geometry:
    """Of a convolution; linear layers have the default."""

    stride: tuple = (1, 1)
    padding: tuple = (0, 0)
    dilation: tuple = (1, 1)
    groups: int = 1


class FusedLayer(nn.Module):
    """Convolution or linear layer, then bias, residual, activation, in one chip operator.

    name: of the original layer. weight: (O, I/groups, KH, KW), or (O, I) for linear. bias: (O,) or None. activation:
    "none", "relu", "relu6".
    forward(x, residual=None): x (N, C, H, W) or (..., I).
    """

    def __init__(self, name: str, layer: nn.Module):
        super().__init__()
        self.name = name
        self.linear = isinstance(layer, nn.Linear)
        self.weight = nn.Parameter(layer.weight.detach().clone(), requires_grad=False)
        self.bias = None if layer.bias is None else nn.Parameter(layer.bias.detach().clone(), requires_grad=False)
        self.geometry = (
            Geometry() if self.linear else Geometry(layer.stride, _padding(layer), layer.dilation, layer.groups)
        )
        self.activation = "none"
        self.has_residual = False
        self.emulate = None
        for known in ("in_features", "out_features", "in_channels", "out_channels", "kernel_size", "stride"):
            if hasattr(layer, known):  # models look at their layers
                setattr(self, known, getattr(layer, known))

    def extra_repr(self) -> str:
        return (
            f"{self.name}, {'linear' if self.linear else 'conv2d'} {tuple(self.weight.shape)}, "
            f"activation={self.activation}, residual={self.has_residual}"
        )

    def forward(self, x, residual=None):
        if x.device.type == "presil":
            g = self.geometry
            if self.linear:
                return torch.ops.presil.linear(
                    x, self.weight, self.bias, residual, self.activation, None, label(self.name)
                )
            return torch.ops.presil.conv2d(
                x,
                self.weight,
                self.bias,
                g.stride,
                g.padding,
                g.dilation,
                g.groups,
                residual,
                self.activation,
                None,
                label(self.name),
            )
        return self._forward_host(x, residual)

    def _forward_host(self, x, residual):
        rounded = (lambda t: None if t is None else t.to(self.emulate).float()) if self.emulate else (lambda t: t)
        x, weight, g = rounded(x), rounded(self.weight), self.geometry
        bias = None if self.bias is None else self.bias.float() if self.emulate else self.bias
        y = (
            F.linear(x, weight, bias)
            if self.linear
            else F.conv2d(x, weight, bias, g.stride, g.padding, g.dilation, g.groups)
        )
        if residual is not None:
            y = y + rounded(residual)
        if self.activation == "relu":
            y = F.relu(y)
        elif self.activation == "relu6":
            y = F.relu6(y)
        return rounded(y)

    def macs(self, output_shape) -> int:
        """Nominal: output elements × channels per group × kernel."""
        per_output = self.weight[0].numel()
        return int(torch.Size(output_shape).numel()) * per_output


def _padding(layer: nn.Conv2d) -> tuple:
    if layer.padding_mode != "zeros":
        raise ValueError(f"padding_mode {layer.padding_mode!r} can't be fused: the chip pads with zeros")
    if layer.padding == "valid":
        return (0, 0)
    if layer.padding == "same":
        total = [d * (k - 1) for d, k in zip(layer.dilation, layer.kernel_size)]
        if any(t % 2 for t in total):
            raise ValueError("asymmetric 'same' padding can't be fused")
        return tuple(t // 2 for t in total)
    return tuple(layer.padding)


def _fusable(module) -> bool:
    return isinstance(module, nn.Linear) or (
        isinstance(module, nn.Conv2d)
        and not isinstance(module, nn.modules.lazy.LazyModuleMixin)
        and module.padding_mode == "zeros"
    )


def _matches(graph_module, node, kinds) -> bool:
    if node.op == "call_module":
        return any(isinstance(k, type) and isinstance(graph_module.get_submodule(node.target), k) for k in kinds)
    return node.op in ("call_function", "call_method") and node.target in [k for k in kinds if not isinstance(k, type)]


def _fold_batch_norm(gm: fx.GraphModule) -> None:
    for node in list(gm.graph.nodes):
        if not _matches(gm, node, (nn.BatchNorm1d, nn.BatchNorm2d)) or not isinstance(node.args[0], fx.Node):
            continue
        source = node.args[0]
        if source.op != "call_module" or len(source.users) != 1 or not _fusable(gm.get_submodule(source.target)):
            continue
        layer, norm = gm.get_submodule(source.target), gm.get_submodule(node.target)
        if norm.running_mean is None:
            continue
        folded = (fuse_linear_bn_eval if isinstance(layer, nn.Linear) else fuse_conv_bn_eval)(layer, norm)
        gm.set_submodule(source.target, folded)
        node.replace_all_uses_with(source)
        gm.graph.erase_node(node)


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


class _Noting(fx.passes.shape_prop.ShapeProp):
    """Shapes, and for each node the storage of its result and the storages that it wrote: what the schemas and the
    in-place flags of modules say in many ways, the version counters say in one."""

    def __init__(self, gm: fx.GraphModule):
        super().__init__(gm)
        self.garbage_collect_values = False  # a storage that is gone gives its number to another
        self.storage, self.written = {}, {}

    def run_node(self, n: fx.Node):
        before = {node: value._version for node, value in self._tensors()}
        result = super().run_node(n)
        self.written[n] = {self.storage[node] for node, value in self._tensors() if value._version != before[node]}
        if isinstance(result, torch.Tensor):
            self.storage[n] = result.untyped_storage()._cdata
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

    def movable(self, other: fx.Node, layer: fx.Node, add: fx.Node, position: dict) -> bool:
        """Whether the add may read `other` where the layer stands, and leave it as it is: nothing between writes it,
        and nobody else sees what an add in place writes."""
        memory = self.storage.get(other)
        between = [n for n in self.written if position[layer] <= position[n] < position[add]]
        if memory is None or any(memory in self.written[n] for n in between):
            return False
        if memory not in self.written[add]:
            return True
        aliases = [n for n, storage in self.storage.items() if storage == memory and position[n] < position[add]]
        later = lambda n: any(position[user] > position[add] for user in n.users)
        return not any(n.op in ("placeholder", "get_attr") or later(n) for n in aliases)


def _fuse_layer(gm: fx.GraphModule, node: fx.Node, position: dict, noted: _Noting) -> None:
    fused = FusedLayer(node.target, gm.get_submodule(node.target))
    tail = node
    user = _only_user(tail)
    if (
        user is not None
        and user.op == "call_function"
        and user.target in ADDS
        and len(user.args) == 2
        and not user.kwargs
    ):
        other = user.args[1] if user.args[0] is tail else user.args[0]
        # Of two layers that meet in an add, the later one takes it: the other's result exists by then.
        if (
            isinstance(other, fx.Node)
            and other is not tail
            and position[other] < position[tail]
            and _same_shape(tail, other)
            and noted.movable(other, tail, user, position)
        ):
            fused.has_residual = True
            node.args = (node.args[0], other)
            tail = user
            user = _only_user(tail)
    if user is not None:
        for activation, kinds in (("relu", RELUS), ("relu6", RELU6S)):
            if _matches(gm, user, kinds):
                fused.activation = activation
                tail = user
                break
    gm.set_submodule(node.target, fused)
    chain = []
    while tail is not node:
        before = tail.args[0] if tail.args[0] is node or tail.args[0] in _chain(node) else tail.args[1]
        tail.replace_all_uses_with(before)
        gm.graph.erase_node(tail)
        chain.append(tail)
        tail = before
    for gone in reversed(chain):
        noted.folded(gone, node)


def _chain(node: fx.Node) -> list:
    """The node and the nodes behind it that have it as their only way: what may be folded into it."""
    out, current = [node], _only_user(node)
    while current is not None and len(out) < 3:
        out.append(current)
        current = _only_user(current)
    return out


def _only_user(node: fx.Node):
    return next(iter(node.users)) if len(node.users) == 1 else None


def _same_shape(a: fx.Node, b: fx.Node) -> bool:
    shapes = [n.meta.get("tensor_meta") for n in (a, b)]
    return all(s is not None for s in shapes) and shapes[0].shape == shapes[1].shape


def fuse(model: nn.Module, example) -> fx.GraphModule:
    """A fused copy of the model, which must be in eval mode and traceable by torch.fx (else: NotTraceable).

    example: one input, or Inputs without names, for the shapes.
    """
    if model.training:
        raise ValueError("fuse() needs a model in eval mode: call model.eval() first")
    inputs = example if isinstance(example, Inputs) else Inputs((example,))
    if inputs.kwargs:
        raise NotTraceable(f"{type(model).__name__} is called with named inputs, which torch.fx does not trace")
    try:
        tracer = _Tracer()
        graph = tracer.trace(copy.deepcopy(model))
        gm = fx.GraphModule(tracer.root, graph, type(model).__name__)
    except Exception as error:
        raise NotTraceable(
            f"{type(model).__name__} can't be traced by torch.fx ({error}); cosim needs a model without "
            f"data-dependent control flow"
        ) from error
    _fold_batch_norm(gm)
    gm.recompile()
    noted = _Noting(gm)
    try:
        with torch.inference_mode(False), torch.no_grad():  # inference tensors have no version counters
            noted.propagate(*(a.clone() if isinstance(a, torch.Tensor) else a for a in inputs.args))
    except Exception as error:  # the model runs, what was traced of it doesn't
        raise NotTraceable(f"{type(model).__name__} can't be traced by torch.fx: {error}") from error
    position = {node: i for i, node in enumerate(gm.graph.nodes)}
    seen = {}
    for node in list(gm.graph.nodes):
        if node.op == "call_module" and _fusable(gm.get_submodule(node.target)):
            seen[node.target] = seen.get(node.target, 0) + 1
    for node in list(gm.graph.nodes):
        # A layer that is called twice keeps its parts: what follows each call may differ.
        if node.op == "call_module" and seen.get(node.target) == 1:
            _fuse_layer(gm, node, position, noted)
    gm.graph.eliminate_dead_code(lambda n: n.is_impure() or bool(noted.written.get(n)))
    gm.graph.lint()
    gm.recompile()
    gm.delete_all_unused_submodules()
    return gm.eval()


def as_layer(module: nn.Module):
    """The convolution or linear layer that the chip computes for a module, or None."""
    if type(module).__name__ == "Conv1D" and type(module).__module__ == "transformers.pytorch_utils":
        linear = nn.Linear(*module.weight.shape)  # GPT-2's: x @ weight + bias
        linear.weight, linear.bias = nn.Parameter(module.weight.detach().t()), nn.Parameter(module.bias.detach())
        return linear
    return module if _fusable(module) else None


def wrap(model: nn.Module, used) -> nn.Module:
    """A copy whose convolutions and linear layers of the names in `used` are FusedLayers with nothing fused: for models
    that torch.fx can't trace."""
    out = copy.deepcopy(model)
    for name in used:
        if name:
            out.set_submodule(name, FusedLayer(name, as_layer(out.get_submodule(name))))
    return FusedLayer("layer", as_layer(out)) if "" in used else out.eval()


@contextlib.contextmanager
def calls(model: nn.Module, kind, function):
    """While inside, function(module, positional arguments, output) is called for every call of a module for which
    kind(module)."""
    hooks = [m.register_forward_hook(function) for m in model.modules() if kind(m)]
    try:
        yield
    finally:
        for hook in hooks:
            hook.remove()


def fused_layers(model: nn.Module) -> dict:
    """Name -> FusedLayer, in the order of the model."""
    return {m.name: m for m in model.modules() if isinstance(m, FusedLayer)}


def set_emulation(gm: nn.Module, dtype) -> nn.Module:
    """The same model on the CPU with the chip's rounding points (torch.bfloat16), or exactly in fp32 (None)."""
    for layer in fused_layers(gm).values():
        layer.emulate = dtype
    return gm
