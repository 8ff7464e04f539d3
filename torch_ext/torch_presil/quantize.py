# SPDX-License-Identifier: Apache-2.0
"""Post-training static quantization of a fused model (fuse.py) for the chip's int8 engine.

Activations: quint8 per tensor, affine, by an observer of the calibration inputs (int8/observers.py); on the device as
int8 = quint8 − 128, zero points likewise. Weights: qint8 per output channel, symmetric. Requantisation is
docs/numerics.md section 7. What is neither convolution nor linear computes in fp32 on the host between dequantisation
and quantisation; pooling and reshapes work on the codes, and keep scale and zero point, as PyTorch's quantized networks
do. Layers that are asked to stay in bf16 take the values of codes, rounded to bf16, and give bf16. The state dict holds
every scale and zero point.
"""

import copy
from collections import OrderedDict

import torch
import torch.nn.functional as F
from torch import fx, nn

from torch_presil.fused_layer import FusedLayer, fused_layers, label
from torch_presil.int8.int8_layer import Int8Layer, max_pool2d_of_codes, scale_of
from torch_presil.int8.observing import observe_graph, observe_layers
from torch_presil.int8.parameters import QuantizationParameters

__all__ = ["Calibrated", "QuantizationParameters", "QuantizedLayer", "quantize"]


class _WithParameters(nn.Module):
    """What it holds of QuantizationParameters is part of the state dict: exactly, as float64."""

    held = ("q",)  # their attributes; None: there are none

    def _names(self) -> list:
        return [name for name in self.held if getattr(self, name) is not None]

    def get_extra_state(self) -> torch.Tensor:
        found = [getattr(self, name) for name in self._names()]
        return torch.tensor([[q.scale, q.zero_point] for q in found], dtype=torch.float64)

    def set_extra_state(self, state: torch.Tensor) -> None:
        names = self._names()
        if tuple(state.shape) != (len(names), 2):
            raise ValueError(
                f"state dict: {getattr(self, 'name', type(self).__name__)} has {len(names)} pairs of scale and zero "
                f"point, found a tensor {tuple(state.shape)}: it is of another model, or of one that was fused in "
                f"another way"
            )
        for name, (scale, zero_point) in zip(names, state.tolist()):
            setattr(self, name, QuantizationParameters(scale, int(zero_point)))


class _OfOne(_WithParameters):
    def __init__(self, q: QuantizationParameters):
        super().__init__()
        self.q = q


class Quantize(_OfOne):
    """fp32 → int8 codes."""

    def forward(self, x):
        return self.q.of(x)


class Dequantize(_OfOne):
    """int8 codes → fp32."""

    def forward(self, x):
        return self.q.value(x)


class To(nn.Module):
    """Another floating-point type: fp32 → bf16 rounds to nearest even, bf16 → fp32 is exact."""

    def __init__(self, dtype: torch.dtype):
        super().__init__()
        self.dtype = dtype

    def forward(self, x):
        return x.to(self.dtype)


class AverageOfCodes(_OfOne):
    """An average pooling on int8 codes, rounded once. window: avg_pool2d's arguments; None: the mean of each plane."""

    def __init__(self, window: tuple | None, q: QuantizationParameters):
        super().__init__(q)
        self.window = window

    def forward(self, x):
        window = self.window or (x.shape[-2:],)
        return torch.ops.presil.avg_pool2d_int8(x, *window, zero_point=self.q.zero_point)


class QuantizedLayer(_WithParameters, Int8Layer):
    """FusedLayer in int8. x, out, residual: its QuantizationParameters."""

    held = ("x", "out", "residual")

    def __init__(self, layer: FusedLayer, x: QuantizationParameters, out: QuantizationParameters, residual):
        weight = layer.weight.detach().float()
        per_channel = weight.flatten(1).abs().amax(1).clamp_min(2.0**-60) / 127.0
        codes = (weight / per_channel.view(-1, *[1] * (weight.dim() - 1))).round().clamp(-128, 127)
        bias = torch.zeros(weight.shape[0]) if layer.bias is None else layer.bias.detach().float()
        codes_of_bias = (bias * (1.0 / scale_of(x.scale, per_channel, None))).round().to(torch.int64)
        folded = codes_of_bias - x.zero_point * codes.flatten(1).sum(1).to(torch.int64)
        super().__init__(
            label(layer.name),
            layer.geometry,
            2,
            codes.to(torch.int8),
            folded.clamp(-(2**31), 2**31 - 1).to(torch.int32),
            scale_of(x.scale, per_channel, out),
            x.zero_point,
        )
        self.name, self.activation = layer.name, layer.activation
        self.x, self.out, self.residual = x, out, residual
        self._derive()

    def _derive(self) -> None:
        """Numbers of forward(), which torch.compile takes as they are."""
        zero = self.out.zero_point
        self.zero_point, self.low = self.x.zero_point, -128 if self.activation == "none" else zero
        self.high = min(127, round(6.0 / self.out.scale) + zero) if self.activation == "relu6" else 127
        if self.residual is not None:
            self.take_residual(self.residual, self.out)

    def set_extra_state(self, state: torch.Tensor) -> None:
        super().set_extra_state(state)
        self._derive()


ONE = 1, (1, 1), [1, 1], torch.Size((1, 1))
RESHAPES = (torch.flatten, torch.reshape, "view", "reshape", "flatten", "contiguous")


def _average(node, m) -> tuple[bool, tuple | None]:
    """Whether it is an average pooling of planes, and the window, where it is not the plane. m: its module, or None."""
    if isinstance(m, nn.AvgPool2d):
        return True, (m.kernel_size, m.stride, m.padding, m.ceil_mode, m.count_include_pad, m.divisor_override)
    if node.target is F.adaptive_avg_pool2d:
        return (node.args[1] if len(node.args) > 1 else node.kwargs.get("output_size")) in ONE, None
    return isinstance(m, nn.AdaptiveAvgPool2d) and m.output_size in ONE, None


class _Builder:
    """Writes the quantized graph node by node: each old node becomes a new one with its parameters, torch.bfloat16, or
    None for fp32. found: name of a node -> parameters; keep: names of layers in bf16."""

    def __init__(self, gm: fx.GraphModule, found: dict, keep: frozenset):
        self.gm, self.graph, self.modules, self.value, self.found = gm, fx.Graph(), {}, {}, found
        self.now, self.keep = None, keep

    def call(self, name: str, module: nn.Module, *args):
        self.modules[name] = module
        return self.said(self.graph.call_module(name, args))

    def said(self, node):
        node.meta.update(
            {key: self.now.meta[key] for key in ("nn_module_stack", "stack_trace") if key in self.now.meta}
        )
        return node

    def codes(self, node):
        new, q = self.value[node]
        if not isinstance(q, QuantizationParameters):
            q = self.found[node.name]
            new = self.call(f"quantize_{node.name}", Quantize(q), new)
        return new, q

    def real(self, node):
        new, q = self.value[node]
        if q is torch.bfloat16:
            return self.call(f"widen_{node.name}_{len(self.modules)}", To(torch.float32), new)
        return new if q is None else self.call(f"dequantize_{node.name}_{len(self.modules)}", Dequantize(q), new)

    def half(self, node):
        new, q = self.value[node]
        if q is torch.bfloat16:
            return new
        return self.call(f"narrow_{node.name}_{len(self.modules)}", To(torch.bfloat16), self.real(node))

    def add(self, node) -> None:
        self.now = node  # what its new nodes stand for, for reports
        module = self.gm.get_submodule(node.target) if node.op == "call_module" else None
        first = node.args[0] if node.args else None
        x, q = self.value[first] if isinstance(first, fx.Node) else (None, None)
        averages, window = _average(node, module)
        if isinstance(module, FusedLayer):
            made = self.layer(node, module)
        elif not isinstance(q, QuantizationParameters):
            made = self.graph.node_copy(node, self.real), None
        elif isinstance(module, nn.MaxPool2d):
            window = (getattr(module, name) for name in ("kernel_size", "stride", "padding", "dilation", "ceil_mode"))
            made = self.said(self.graph.call_function(max_pool2d_of_codes, (x, *window))), q
        elif averages:
            made = self.call(f"codes_{node.name}", AverageOfCodes(window, q), x), q
        elif isinstance(module, (nn.Dropout, nn.Identity, nn.Flatten)) or node.target in RESHAPES:
            made = self.graph.node_copy(node, lambda n: self.value[n][0]), q
        else:
            made = self.graph.node_copy(node, self.real), None
        self.value[node] = made

    def layer(self, node, module: FusedLayer) -> tuple:
        if module.name in self.keep:
            args = [self.half(argument) for argument in node.args]
            return self.call(f"kept_{node.name}", copy.deepcopy(module).to(torch.bfloat16), *args), torch.bfloat16
        args, parameters = zip(*(self.codes(argument) for argument in node.args))
        out = self.found[node.name]
        made = QuantizedLayer(module, parameters[0], out, parameters[1] if len(args) > 1 else None)
        return self.call(f"q_{node.name}", made, *args), out


def _build(gm: fx.GraphModule, found: dict, keep: frozenset) -> fx.GraphModule:
    gm = copy.deepcopy(gm)  # what stays in fp32 goes to the device with the result
    builder = _Builder(gm, found, keep)
    for node in gm.graph.nodes:
        builder.add(node)
    for name, module in builder.modules.items():
        gm.add_submodule(name, module)
    out = fx.GraphModule(gm, builder.graph).eval().requires_grad_(False)  # with what the graph calls
    out.graph.eliminate_dead_code()
    out.recompile()
    return out


def _by_itself(layer: FusedLayer, found: tuple, kept: bool) -> nn.Module:
    """A layer in int8, or kept in bf16, between fp32 tensors: of a model of which nothing else is in int8."""
    if kept:
        first, made, last = To(torch.bfloat16), copy.deepcopy(layer).to(torch.bfloat16), To(torch.float32)
    else:
        first, made, last = Quantize(found[0]), QuantizedLayer(layer, *found, None), Dequantize(found[1])
    return nn.Sequential(OrderedDict(quantize=first, layer=made, dequantize=last))


def _build_layers(model: nn.Module, found: dict, keep: frozenset) -> nn.Module:
    out = copy.deepcopy(model)
    for name, layer in fused_layers(model).items():
        made = _by_itself(layer, found[name], name in keep)
        if layer is model:
            return made
        out.set_submodule(name, made)
    return out


class Calibrated:
    """A fused model (fuse.fuse), or a wrapped one (fused_layer.wrap), in which each layer is quantized by itself, and
    what was observed of it in calibration: fp32 tensors, or Inputs, on the CPU; observer: int8.observers.maker().
    ValueError: data that say nothing of a range (CalibrationError), or no such observer."""

    def __init__(self, model: nn.Module, calibration: list, observer="minmax", tell=lambda *_: None):
        self.model, self.whole = model, isinstance(model, fx.GraphModule)
        self.found = (observe_graph if self.whole else observe_layers)(model, calibration, observer, tell)

    def build(self, keep=()) -> nn.Module:
        """The int8 version; layers named in `keep` stay in bf16. ValueError: there is none of that name."""
        layers = fused_layers(self.model)
        if unknown := [name for name in keep if name not in layers]:
            raise ValueError(f"keep: expected names of layers such as {', '.join(list(layers)[:3])}, found {unknown}")
        return (_build if self.whole else _build_layers)(self.model, self.found, frozenset(keep))


def quantize(model: nn.Module, calibration: list, observer="minmax", keep=()) -> nn.Module:
    """int8 version of a fused model, or of a wrapped one; its arguments are Calibrated's."""
    return Calibrated(model, calibration, observer).build(keep)
