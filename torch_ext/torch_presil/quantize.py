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
import operator

import torch
import torch.nn.functional as F
from torch import fx, nn

from torch_presil.fused_layer import FusedLayer, fused_layers, label
from torch_presil.int8.int8_layer import Int8Layer, scale_of
from torch_presil.int8.observing import observe_graph, observe_layers
from torch_presil.int8.parameters import QuantizationParameters

__all__ = ["Calibrated", "QuantizationParameters", "QuantizedLayer", "quantize"]


class _WithParameters(nn.Module):
    """Its QuantizationParameters, `q`, are part of the state dict: exactly, as float64."""

    def __init__(self, q: QuantizationParameters):
        super().__init__()
        self.q = q

    def get_extra_state(self) -> torch.Tensor:
        return _state([self.q])

    def set_extra_state(self, state: torch.Tensor) -> None:
        (self.q,) = _parameters(state, 1, type(self).__name__)


def _state(parameters: list) -> torch.Tensor:
    return torch.tensor([[q.scale, q.zero_point] for q in parameters], dtype=torch.float64)


def _parameters(state: torch.Tensor, count: int, what: str) -> list:
    if tuple(state.shape) != (count, 2):
        raise ValueError(
            f"state dict: {what} has {count} pairs of scale and zero point, found a tensor {tuple(state.shape)}: it is "
            f"of another model, or of one that was fused in another way"
        )
    return [QuantizationParameters(scale, int(zero_point)) for scale, zero_point in state.tolist()]


class Quantize(_WithParameters):
    """fp32 → int8 codes: clamp(rint(x·(1/scale) + zero_point), −128, 127)."""

    def forward(self, x):
        return x.float().mul(1.0 / self.q.scale).add_(self.q.zero_point).round_().clamp_(-128, 127).to(torch.int8)


class Dequantize(_WithParameters):
    """int8 codes → fp32."""

    def forward(self, x):
        return x.float().sub_(self.q.zero_point).mul_(self.q.scale)


class To(nn.Module):
    """Another floating-point type: fp32 → bf16 rounds to nearest even, bf16 → fp32 is exact."""

    def __init__(self, dtype: torch.dtype):
        super().__init__()
        self.dtype = dtype

    def forward(self, x):
        return x.to(self.dtype)


class OnCodes(nn.Module):
    """A max-pooling on int8 codes. On the CPU through bfloat16, which holds every code exactly (its int8 max-pooling
    refuses large planes); the device asks the chip, and does so too if the chip refuses."""

    def __init__(self, pool: nn.Module):
        super().__init__()
        self.pool = pool

    def forward(self, x):
        if x.device.type == "presil":
            return self.pool(x)
        return self.pool(x.to(torch.bfloat16)).to(torch.int8)


class AverageOfCodes(_WithParameters):
    """An average pooling on int8 codes, rounded once: nn.AvgPool2d, or the mean of each plane (window None)."""

    def __init__(self, window: nn.AvgPool2d | None, q: QuantizationParameters):
        super().__init__(q)
        self.window = window

    def forward(self, x):
        w, window = self.window, (x.shape[-2:],)
        if w is not None:
            window = w.kernel_size, w.stride, w.padding, w.ceil_mode, w.count_include_pad, w.divisor_override
        return torch.ops.presil.avg_pool2d_int8(x, *window, zero_point=self.q.zero_point)


class QuantizedLayer(Int8Layer):
    """FusedLayer in int8. x, out, residual: its QuantizationParameters."""

    def __init__(self, layer: FusedLayer, x: QuantizationParameters, out: QuantizationParameters, residual):
        weight, g = layer.weight.detach().float(), layer.geometry
        per_channel = weight.flatten(1).abs().amax(1).clamp_min(2.0**-60) / 127.0
        codes = (weight / per_channel.view(-1, *[1] * (weight.dim() - 1))).round().clamp(-128, 127)
        bias = torch.zeros(weight.shape[0]) if layer.bias is None else layer.bias.detach().float()
        codes_of_bias = (bias * (1.0 / scale_of(x.scale, per_channel, None))).round().to(torch.int64)
        folded = codes_of_bias - x.zero_point * codes.flatten(1).sum(1).to(torch.int64)
        super().__init__(
            label(layer.name),
            None if layer.linear else (g.stride, g.padding, g.dilation, g.groups),
            2,
            codes.to(torch.int8),
            folded.clamp(-(2**31), 2**31 - 1).to(torch.int32),
            scale_of(x.scale, per_channel, out),
            x.zero_point,
        )
        self.name, self.linear, self.activation = layer.name, layer.linear, layer.activation
        self.x, self.out, self.residual = x, out, residual
        self._derive()

    def _derive(self) -> None:
        """Numbers of forward(), which torch.compile takes as they are."""
        zero = self.out.zero_point
        self.zero_point, self.low, self.high = self.x.zero_point, -128 if self.activation == "none" else zero, 127
        self.six = min(127, round(6.0 / self.out.scale) + zero)
        if self.residual is not None:
            scales = torch.tensor([self.residual.scale, self.out.scale], dtype=torch.float32)
            self.residual_scale, self.residual_zero_point = float(scales[0] / scales[1]), self.residual.zero_point

    def get_extra_state(self) -> torch.Tensor:
        return _state([self.x, self.out, *filter(None, [self.residual])])

    def set_extra_state(self, state: torch.Tensor) -> None:
        found = _parameters(state, 2 if self.residual is None else 3, self.name)
        self.x, self.out = found[:2]
        self.residual = found[2] if self.residual is not None else None
        self._derive()

    def forward(self, x, residual=None):
        y = super().forward(x, residual)
        return y.clamp_(max=self.six) if self.activation == "relu6" and self.six < 127 else y

    def macs(self, output_shape) -> int:
        return int(torch.Size(output_shape).numel()) * self.weight[0].numel()


ONE = 1, (1, 1), [1, 1], torch.Size((1, 1))
RESHAPES = (torch.flatten, torch.reshape, "view", "reshape", "flatten", "contiguous")


def _average(node, module) -> tuple[bool, nn.AvgPool2d | None]:
    """Whether it is an average pooling of planes, and the window, where it is not the plane."""
    size = getattr(module, "output_size", None)
    if node.target is F.adaptive_avg_pool2d:
        size = node.args[1] if len(node.args) > 1 else node.kwargs.get("output_size")
    if isinstance(module, nn.AvgPool2d):
        return True, module
    return (isinstance(module, nn.AdaptiveAvgPool2d) or node.target is F.adaptive_avg_pool2d) and size in ONE, None


def _on_codes(q) -> bool:
    return isinstance(q, QuantizationParameters)


class _Builder:
    """Writes the quantized graph node by node: each old node becomes a new one with its parameters, torch.bfloat16, or
    None for fp32. found: name of a node -> parameters; keep: names of layers in bf16."""

    def __init__(self, gm: fx.GraphModule, found: dict, keep: frozenset):
        self.gm, self.graph, self.modules, self.value, self.found = gm, fx.Graph(), {}, {}, found
        self.now, self.keep = None, keep

    def call(self, name: str, module: nn.Module, *args):
        self.modules[name] = module
        node = self.graph.create_node("call_module", name, tuple(args))
        node.meta.update(
            {key: self.now.meta[key] for key in ("nn_module_stack", "stack_trace") if key in self.now.meta}
        )
        return node

    def codes(self, node):
        new, q = self.value[node]
        if not _on_codes(q):
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
        elif not _on_codes(q):
            made = self.copy(node, self.real), None
        elif isinstance(module, nn.MaxPool2d):
            made = self.call(f"codes_{node.name}", OnCodes(module), x), q
        elif averages:
            made = self.call(f"codes_{node.name}", AverageOfCodes(window, q), x), q
        elif isinstance(module, (nn.Dropout, nn.Identity, nn.Flatten)) or node.target in RESHAPES:
            made = self.copy(node, lambda n: self.value[n][0]), q
        else:
            made = self.copy(node, self.real), None
        self.value[node] = made

    def layer(self, node, module: FusedLayer) -> tuple:
        if module.name in self.keep:
            args = [self.half(argument) for argument in node.args]
            return self.call(f"kept_{node.name}", copy.deepcopy(module).to(torch.bfloat16), *args), torch.bfloat16
        args, parameters = zip(*(self.codes(argument) for argument in node.args))
        out = self.found[node.name]
        made = QuantizedLayer(module, parameters[0], out, parameters[1] if len(args) > 1 else None)
        return self.call(f"q_{node.name}", made, *args), out

    def copy(self, node, argument):
        new = self.graph.node_copy(node, lambda n: argument(n))
        if node.op == "call_module":
            self.modules[node.target] = self.gm.get_submodule(node.target)
        return new


def _parent(root: nn.Module, name: str) -> tuple:
    """The module that is to hold what is called so, and what it is called there."""
    *path, leaf = name.split(".")
    for part in path:
        if not hasattr(root, part):
            root.add_module(part, nn.Module())
        root = getattr(root, part)
    return root, leaf


def _build(gm: fx.GraphModule, found: dict, keep: frozenset) -> fx.GraphModule:
    gm = copy.deepcopy(gm)  # what stays in fp32 goes to the device with the result
    builder = _Builder(gm, found, keep)
    for node in gm.graph.nodes:
        builder.add(node)
    root = nn.Module()
    for name, module in builder.modules.items():
        parent, leaf = _parent(root, name)
        parent.add_module(leaf, module)
    for node in builder.graph.nodes:
        if node.op == "get_attr":
            parent, leaf = _parent(root, node.target)
            parent.register_buffer(leaf, operator.attrgetter(node.target)(gm).detach())
    out = fx.GraphModule(root, builder.graph).eval()
    out.graph.eliminate_dead_code()
    out.recompile()
    return out


class LayerOnCodes(nn.Module):
    """A quantized layer between fp32 tensors, for a model of which nothing else is in int8."""

    def __init__(self, layer: QuantizedLayer):
        super().__init__()
        self.quantize, self.layer, self.dequantize = Quantize(layer.x), layer, Dequantize(layer.out)

    def forward(self, x):
        return self.dequantize(self.layer(self.quantize(x))).to(x.dtype)


class LayerInHalf(nn.Module):
    """A layer in bf16 between fp32 tensors."""

    def __init__(self, layer: FusedLayer):
        super().__init__()
        self.layer = copy.deepcopy(layer).to(torch.bfloat16)

    def forward(self, x):
        return self.layer(x.to(torch.bfloat16)).to(x.dtype)


def _build_layers(model: nn.Module, found: dict, keep: frozenset) -> nn.Module:
    out = copy.deepcopy(model)
    for name, layer in fused_layers(model).items():
        made = LayerInHalf(layer) if name in keep else LayerOnCodes(QuantizedLayer(layer, *found[name], None))
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
