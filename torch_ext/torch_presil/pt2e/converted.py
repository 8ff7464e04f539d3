# SPDX-License-Identifier: Apache-2.0
"""What a converted PT2E graph says: its quantization parameters, its constants, its lines."""

import math
from dataclasses import dataclass

import torch
from torch import fx

from torch_presil.compiler.nodes import line_of, where

__all__ = [
    "Codes",
    "Constants",
    "QuantizationError",
    "Refused",
    "label_of",
    "line_of",
    "parameters",
    "role",
    "shape_of",
    "where",
]


class QuantizationError(ValueError):
    """A graph that is not quantized consistently. The text names the node and the user's line."""


class Refused(Exception):
    """Why something stays in float32: a sentence for the report."""


@dataclass(frozen=True)
class Codes:
    """int8 codes as the chip has them: value = (code − zero_point)·scale, low <= code <= high. uint8 of the graph is
    int8 less 128, and so are its zero point and range."""

    scale: float
    zero_point: int
    low: int
    high: int

    def same_values(self, other: "Codes") -> bool:
        return (self.scale, self.zero_point) == (other.scale, other.zero_point)

    def of(self, value: torch.Tensor) -> torch.Tensor:
        """float32 → int8 codes, as quantized_decomposed.quantize_per_tensor rounds."""
        codes = torch.round(value.float() * (1.0 / self.scale)).add_(self.zero_point)
        return codes.clamp_(self.low, self.high).to(torch.int8)

    def value(self, codes: torch.Tensor) -> torch.Tensor:
        """int8 codes → float32, as quantized_decomposed.dequantize_per_tensor."""
        return codes.float().sub_(self.zero_point).mul_(self.scale)

    def code(self, bound: float) -> int:
        """The code of a real bound (infinities are the range's ends)."""
        if math.isinf(bound):
            return self.low if bound < 0 else self.high
        return int(self.of(torch.tensor([bound], dtype=torch.float32)))


def role(node) -> str | None:
    """'quantize', 'dequantize', ..._per_channel, choose_qparams…: of the operators of quantized_decomposed."""
    target = getattr(node, "target", None)
    if getattr(node, "op", None) != "call_function" or not isinstance(target, torch._ops.OpOverload):
        return None
    if target.namespace != "quantized_decomposed":
        return None
    name = target._schema.name.split("::")[1]
    return {"quantize_per_tensor": "quantize", "dequantize_per_tensor": "dequantize"}.get(name, name)


def shape_of(node) -> tuple | None:
    """Static or symbolic, seen through quantization; None: the graph doesn't say."""
    while role(node) in ("quantize", "dequantize"):
        node = node.args[0]
    shape = getattr(getattr(node, "meta", {}).get("val"), "shape", None)
    return None if shape is None else tuple(shape)


def label_of(node: fx.Node) -> str:
    """The module's path where the graph knows it, else the node's name."""
    stack = node.meta.get("nn_module_stack") or {}
    path = [str(entry[0]) for entry in stack.values()]
    return path[-1] if path and path[-1] else node.name


class Constants:
    """Values of nodes that depend on nothing but the module's own tensors."""

    def __init__(self, gm: fx.GraphModule):
        self.gm, self.known = gm, {}

    def has(self, node) -> bool:
        if not isinstance(node, fx.Node):
            return True
        if node not in self.known:
            self.known[node] = node.op == "get_attr" or (
                node.op == "call_function"
                and bool(node.all_input_nodes)
                and all(self.has(n) for n in node.all_input_nodes)
            )
        return self.known[node]

    def value(self, node):
        """On the CPU; detached."""
        if not isinstance(node, fx.Node):
            return node
        if node.op == "get_attr":
            value = self.gm
            for part in node.target.split("."):
                value = getattr(value, part)
            return value.detach().cpu() if isinstance(value, torch.Tensor) else value
        args, kwargs = fx.node.map_aggregate((node.args, node.kwargs), lambda a: self.value(a))
        with torch.no_grad():
            return node.target(*args, **kwargs)


def check_scale(node: fx.Node, scale: torch.Tensor) -> None:
    bad = ~(torch.isfinite(scale) & (scale > 0))
    if bad.any():
        index = int(bad.flatten().nonzero()[0])
        raise QuantizationError(
            f"{where(node)}: scale {float(scale.flatten()[index])}"
            + (f" of channel {index}" if scale.numel() > 1 else "")
            + ": a finite number above 0 expected. Calibrate with data that has no NaN or infinity, and convert again."
        )


def shift_of(node: fx.Node, low: int, high: int, dtype: torch.dtype) -> int:
    """What is taken off codes of `dtype` to have int8: 128 or 0. Raises Refused for other types."""
    if dtype not in (torch.int8, torch.uint8):
        raise Refused(f"codes are {str(dtype).removeprefix('torch.')}; the chip has int8 (and uint8 less 128)")
    shift = 128 if dtype == torch.uint8 else 0
    if not -128 <= low - shift <= high - shift <= 127:
        raise QuantizationError(f"{where(node)}: codes from {low} to {high} are no range of {dtype}. Convert again.")
    return shift


def parameters(node: fx.Node, constants: Constants) -> Codes:
    """Of a quantize or dequantize node per tensor. Raises Refused, or QuantizationError."""
    scale, zero_point, low, high, dtype = node.args[1:6]
    if not all(constants.has(v) for v in (scale, zero_point, low, high)):
        raise Refused("its scale is computed at run time (dynamic quantization); static scales run in int8")
    scale = torch.as_tensor(constants.value(scale), dtype=torch.float64)
    zero_point, low, high = (int(constants.value(v)) for v in (zero_point, low, high))
    check_scale(node, scale)
    shift = shift_of(node, low, high, dtype)
    if not low <= zero_point <= high:
        raise QuantizationError(
            f"{where(node)}: zero point {zero_point} is outside of the codes {low} to {high}. Calibrate again."
        )
    return Codes(float(scale.reshape(())), zero_point - shift, low - shift, high - shift)
