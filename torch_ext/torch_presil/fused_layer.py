# SPDX-License-Identifier: Apache-2.0
"""A convolution or linear layer with what the chip does behind it, as a module: what fuse() makes of a model's layers,
and `wrap` of those of a model that torch.fx can't trace.

It computes on any device: on `presil` as one chip operator, on the CPU in fp32, or, after `set_emulation(model,
torch.bfloat16)`, with the chip's rounding points (operands, bias added in fp32, one rounding of the output).
"""

import contextlib
import copy

import torch
import torch.nn.functional as F
from torch import nn
from torch.nn.utils.fusion import fuse_conv_bn_weights, fuse_linear_bn_weights

__all__ = ["FusedLayer", "as_layer", "calls", "fusable", "fused_layers", "label", "set_emulation", "wrap"]

LABEL_BYTES = 63  # that a launch's report holds


def label(name: str) -> str:
    """What the reports of a layer's launches are called: the name's end, where names differ."""
    return name[-LABEL_BYTES:]


class FusedLayer(nn.Module):
    """Convolution or linear layer, then bias, residual, activation, in one chip operator.

    name: of the original layer. geometry: stride, padding, dilation, groups; None of a linear layer. weight:
    (O, I/groups, KH, KW), or (O, I) for linear. bias: (O,) or None. activation: "none", "relu", "relu6".
    forward(x, residual=None): x (N, C, H, W) or (..., I).
    """

    def __init__(self, name: str, layer: nn.Module):
        super().__init__()
        self.name = name
        self.weight = nn.Parameter(layer.weight.detach().clone(), requires_grad=False)
        self.bias = None if layer.bias is None else nn.Parameter(layer.bias.detach().clone(), requires_grad=False)
        linear = isinstance(layer, nn.Linear)
        self.geometry = None if linear else (layer.stride, _padding(layer), layer.dilation, layer.groups)
        self.activation = "none"
        self.has_residual = False
        self.emulate = None
        for known in ("in_features", "out_features", "in_channels", "out_channels", "kernel_size", "stride"):
            if hasattr(layer, known):  # models look at their layers
                setattr(self, known, getattr(layer, known))

    def fold_norm(self, mean, variance, scale, shift, eps: float) -> None:
        """A batch-norm in eval mode behind the layer goes into its weights, with PyTorch's own numbers. scale, shift:
        may be None."""
        scale = torch.ones_like(mean) if scale is None else scale
        shift = torch.zeros_like(mean) if shift is None else shift
        folded = fuse_linear_bn_weights if self.geometry is None else fuse_conv_bn_weights
        self.weight, self.bias = folded(self.weight, self.bias, mean, variance, eps, scale, shift)
        self.requires_grad_(False)

    def extra_repr(self) -> str:
        return (
            f"{self.name}, {self._function()} {tuple(self.weight.shape)}, "
            f"activation={self.activation}, residual={self.has_residual}"
        )

    def _function(self) -> str:
        return "linear" if self.geometry is None else "conv2d"

    def forward(self, x, residual=None):
        name, geometry = self._function(), self.geometry or ()
        if x.device.type == "presil":
            behind = residual, self.activation, None, label(self.name)
            return getattr(torch.ops.presil, name)(x, self.weight, self.bias, *geometry, *behind)
        rounded = (lambda t: t.to(self.emulate).float()) if self.emulate else (lambda t: t)
        y = getattr(F, name)(rounded(x), rounded(self.weight), self.bias, *geometry)
        if residual is not None:
            y = y + rounded(residual)
        return rounded(y if self.activation == "none" else getattr(F, self.activation)(y))

    def macs(self, output_shape) -> int:
        """Nominal: output elements × channels per group × kernel."""
        return torch.Size(output_shape).numel() * self.weight[0].numel()


def _padding(layer: nn.Conv2d) -> tuple:
    if layer.padding_mode != "zeros":
        raise ValueError(f"padding_mode {layer.padding_mode!r} can't be fused: the chip pads with zeros")
    left, right, top, bottom = layer._reversed_padding_repeated_twice  # also of "same" and "valid"
    if (left, top) != (right, bottom):
        raise ValueError("asymmetric 'same' padding can't be fused")
    return top, left


def fusable(module) -> bool:
    return isinstance(module, nn.Linear) or (
        isinstance(module, nn.Conv2d)
        and not isinstance(module, nn.modules.lazy.LazyModuleMixin)
        and module.padding_mode == "zeros"
    )


def as_layer(module: nn.Module):
    """The convolution or linear layer that the chip computes for a module, or None."""
    if type(module).__name__ == "Conv1D" and type(module).__module__ == "transformers.pytorch_utils":
        linear = nn.Linear(*module.weight.shape)  # GPT-2's: x @ weight + bias
        linear.weight, linear.bias = nn.Parameter(module.weight.detach().t()), nn.Parameter(module.bias.detach())
        return linear
    return module if fusable(module) else None


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
