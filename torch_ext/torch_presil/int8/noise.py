# SPDX-License-Identifier: Apache-2.0
"""Where int8 loses: the noise that it adds, layer by layer, against the fp32 network on the CPU.

SQNR = 10·log10(Σx² / Σ(x − q)²) in dB, x of fp32, q of int8 as fp32, sums over all values of all calls of all inputs.
"""

import contextlib
import math
from dataclasses import dataclass, field

import torch

from torch_presil.agreement import compare
from torch_presil.fused_layer import FusedLayer, calls, fused_layers
from torch_presil.inputs import leaves
from torch_presil.int8.observing import CalibrationError
from torch_presil.int8.parameters import QuantizationParameters
from torch_presil.layerwise import device_layers, fetched, placed
from torch_presil.quantize import QuantizedLayer

__all__ = ["Power", "accuracy", "measure", "worst"]


@dataclass
class Power:
    """Σx² and Σ(x − q)² of what was added."""

    signal: float = 0.0
    noise: float = 0.0

    def add(self, expected: torch.Tensor, got: torch.Tensor) -> None:
        """Of one shape. CalibrationError: a value that is not finite."""
        expected = expected.detach().double()
        self.signal += float(expected.square().sum())
        self.noise += float((expected - got.detach().double()).square().sum())

    @property
    def db(self) -> float | None:
        """None: no noise, no signal, or one that is not finite."""
        if not (0.0 < self.signal < math.inf and 0.0 < self.noise < math.inf):
            return None
        return 10.0 * math.log10(self.signal / self.noise)


@dataclass
class Layer:
    """What is counted of one layer over all its calls."""

    chained: Power = field(default_factory=Power)  # all before it in int8
    alone: Power = field(default_factory=Power)  # its input as in fp32, rounded to its codes
    output: Power = field(default_factory=Power)  # of the network, of which only this layer is in int8
    values: int = 0
    cut: int = 0
    input_values: int = 0
    input_cut: int = 0
    low: int = 127
    high: int = -128

    def note_range(self, codes: torch.Tensor) -> None:
        self.low, self.high = min(self.low, int(codes.min())), max(self.high, int(codes.max()))

    def row(self, name: str) -> dict:
        return {
            "name": name,
            "sqnr_db": self.chained.db,
            "alone_sqnr_db": self.alone.db,
            "output_sqnr_db": self.output.db,
            "saturation": self.cut / max(self.values, 1),
            "input_saturation": self.input_cut / max(self.input_values, 1),
            "codes": self.high - self.low,
            "range_used": (self.high - self.low) / 255.0,
        }


def _cut(values: torch.Tensor, q: QuantizationParameters) -> int:
    low, high = q.limits
    return int(((values < low) | (values > high)).sum())


def _fp32(reference, inputs, index: int, function=None) -> list:
    """Tensors that the fp32 network gives; function(module, arguments, output) for each call of a layer."""
    with torch.inference_mode(), calls(reference, lambda m: function and isinstance(m, FusedLayer), function):
        found = [t.float() for t in leaves(inputs.call(reference)) if t.is_floating_point()]
    if not found:
        raise CalibrationError("the model returns no floating-point tensor: there is no noise to measure")
    if not all(bool(torch.isfinite(t).all()) for t in found):
        raise CalibrationError(f"evaluation input {index}: the fp32 network's result is not finite")
    return found


def _on_device(device, inputs, place, function=None) -> list:
    kinds = (FusedLayer, QuantizedLayer)
    with torch.inference_mode(), calls(device, lambda m: function and isinstance(m, kinds), function):
        return [t.cpu().float() for t in leaves(place(inputs).call(device)) if t.is_floating_point()]


def _compare(power: Power, expected: list, got: list) -> None:
    for x, q in zip(expected, got, strict=True):
        power.add(x, q)


@contextlib.contextmanager
def _replaced(reference, name: str, layer):
    """The fp32 network with this layer in int8."""
    instead = lambda module, args, out: fetched(layer, layer(*placed(layer, args)))
    with calls(reference, lambda m: isinstance(m, FusedLayer) and m.name == name, instead):
        yield


def measure(reference, device, inputs: list, place, tell=lambda *_: None) -> dict:
    """{"layers": a row for each, in order; "output": accuracy()}. reference: fp32 with FusedLayers, on the CPU; device:
    its int8 version, all of it, on the device; place(Inputs): on the device. CalibrationError."""
    layers = {name: layer for name, layer in device_layers(device).items() if isinstance(layer, QuantizedLayer)}
    counted = {name: Layer() for name in fused_layers(reference) if name in layers}
    for index, one in enumerate(inputs):
        tell("measuring noise, input", index, len(inputs))
        _measure_one(reference, device, layers, counted, one, index, place)
    return {
        "layers": [layer.row(name) for name, layer in counted.items()],
        "output": accuracy(reference, device, inputs, place),
    }


def _measure_one(reference, device, layers: dict, counted: dict, inputs, index: int, place) -> None:
    exact = {}

    def in_fp32(module, args, out):
        layer, count = layers[module.name], counted[module.name]
        exact.setdefault(module.name, []).append(out)
        count.alone.add(out, fetched(layer, layer(*placed(layer, args))))
        count.values, count.cut = count.values + out.numel(), count.cut + _cut(out, layer.out)
        for value, q in zip(args, (layer.x, layer.residual)):
            count.input_values, count.input_cut = count.input_values + value.numel(), count.input_cut + _cut(value, q)

    def in_int8(module, args, out):
        count = counted[module.name]
        count.chained.add(exact[module.name].pop(0), fetched(module, out))
        count.note_range(out.cpu())

    expected = _fp32(reference, inputs, index, in_fp32)
    _on_device(device, inputs, place, in_int8)
    for name, count in counted.items():
        with _replaced(reference, name, layers[name]):
            _compare(count.output, expected, _fp32(reference, inputs, index))


def accuracy(reference, device, inputs: list, place) -> dict:
    """{sqnr_db: of all tensors that the model returns; top1: share of rows of the first whose largest is where fp32 has
    it, None of tensors without rows; rows}."""
    power, same, rows = Power(), 0, 0
    for index, one in enumerate(inputs):
        expected, got = _fp32(reference, one, index), _on_device(device, one, place)
        _compare(power, expected, got)
        x, q = expected[0], got[0]
        if x.dim() and compare(q, x)["reference"] == "varied":
            same += int((x.argmax(-1) == q.argmax(-1)).sum())
            rows += x[..., 0].numel()
    return {"sqnr_db": power.db, "top1": same / rows if rows else None, "rows": rows}


def worst(layers: list) -> list:
    """Names, the layer first that costs the network's output most when only it is in int8."""
    known = [row for row in layers if row["output_sqnr_db"] is not None]
    return [row["name"] for row in sorted(known, key=lambda row: row["output_sqnr_db"])]
