# SPDX-License-Identifier: Apache-2.0
"""Layers of a prepared model one at a time: each fed what it gets in PyTorch's fp32 forward."""

import time
from dataclasses import dataclass

import torch

from torch_presil import _C
from torch_presil.agreement import cosine
from torch_presil.fused_layer import FusedLayer, calls, label
from torch_presil.quantize import QuantizedLayer

__all__ = ["Call", "device_layers", "feed", "check_layers", "distinct", "run_alone"]


@dataclass
class Call:
    """One call of a layer in the fp32 forward: its inputs and output on the CPU."""

    name: str
    inputs: tuple
    expected: torch.Tensor


def is_fused(module) -> bool:
    return isinstance(module, FusedLayer)


def device_layers(device) -> dict:
    return {m.name: m for m in device.modules() if isinstance(m, (FusedLayer, QuantizedLayer))}


def feed(reference, example, names, function) -> None:
    """Runs the fp32 reference; function(Call) for each call of the layers in `names`."""

    def one(module, args, out):
        if module.name in names:
            function(Call(module.name, args, out))

    with torch.inference_mode(), calls(reference, is_fused, one):
        example.call(reference)


def distinct(names: list, layers: dict, infos: dict) -> list:
    """The first of the names with each geometry, sizes and epilogue: the others are the same work for the chip."""
    first = {}
    for name in names:
        layer, info = layers[name], infos[name]
        sizes = tuple(layer.weight.shape), tuple(info["input"]), tuple(info["shape"])
        epilogue = layer.bias is not None, layer.activation, layer.has_residual
        first.setdefault(tuple(map(str, (layer.geometry, sizes, epilogue))), name)
    return list(first.values())


def _place(t):
    return (t.contiguous(memory_format=torch.channels_last) if t.dim() == 4 else t).to("presil")


def placed(layer, inputs) -> list:
    """fp32 inputs as the layer wants them, on the device."""
    if isinstance(layer, QuantizedLayer):
        return [_place(q.of(t)) for t, q in zip(inputs, [layer.x, layer.residual])]
    return [_place(t.to(layer.weight.dtype)) for t in inputs]


def fetched(layer, out) -> torch.Tensor:
    """The output as fp32 on the CPU."""
    out = out.detach().cpu()
    return layer.out.value(out) if isinstance(layer, QuantizedLayer) else out.float()


def check_layers(options, prepared, names: list) -> dict:
    """Name -> cosine (means removed) of the layer fed its fp32 input, against fp32: the least of its calls; None where
    the reference is constant."""
    layers, out = device_layers(prepared.device), {}

    def one(call):
        options.tell("checking layers", len(out), len(names))
        layer = layers[call.name]
        value = cosine(fetched(layer, layer(*placed(layer, call.inputs))), call.expected)
        known = [v for v in (value, out.get(call.name)) if v is not None]
        out[call.name] = min(known, default=None)

    feed(prepared.reference, prepared.example, names, one)
    return out


def run_alone(options, prepared, names: list, collected, window) -> tuple:
    """(reports, wall seconds) of the chosen layers alone in the mode of the options, inside the context `window`; what
    feeds them is not in the seconds. collected: torch.presil.reports()."""
    layers, waiting = device_layers(prepared.device), []
    feed(prepared.reference, prepared.example, names, waiting.append)
    waiting = [(layers[c.name], placed(layers[c.name], c.inputs)) for c in waiting]
    reports, seconds = [], 0.0
    with torch.inference_mode():
        _C.set_mode(options.quiet)  # packs weights and plans; costs least there, and leaves the same state
        for layer, inputs in waiting:
            layer(*inputs)
        collected.take()
        _C.set_mode(options.mode)
        with window:
            for number, (layer, inputs) in enumerate(waiting):
                options.tell(label(layer.name), number, len(waiting))
                start = time.perf_counter()
                layer(*inputs)
                _C.synchronize(0)
                seconds += time.perf_counter() - start
                reports.extend(collected.take())
    return reports, seconds
