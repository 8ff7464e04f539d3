# SPDX-License-Identifier: Apache-2.0
"""Runs a fused model in fp32 over its calibration data, and notes the tensors that int8 layers take and give."""

import torch
from torch import fx

from torch_presil.fused_layer import FusedLayer, calls, fused_layers
from torch_presil.inputs import Inputs, ModelError
from torch_presil.int8 import observers

__all__ = ["CalibrationError", "check_finite", "observe_graph", "observe_layers"]


class CalibrationError(ModelError):
    """Data from which no range follows; the text names the input, and the layer or operator."""


def check_finite(values: torch.Tensor, where: str) -> None:
    """CalibrationError: NaN or infinity."""
    low, high = torch.aminmax(values)
    if bool(torch.isfinite(low) & torch.isfinite(high)):
        return
    wrong = int((~torch.isfinite(values)).sum())
    raise CalibrationError(
        f"{where}: {wrong} of {values.numel()} values are NaN or infinite; a scale needs finite ones: look at the data "
        f"and at what the layer before makes of them"
    )


def _as_inputs(calibration: list) -> list:
    found = [x if isinstance(x, Inputs) else Inputs((x,)) for x in calibration]
    if not found:
        raise CalibrationError("calibration: expected at least one input, found none")
    for index, inputs in enumerate(found):
        for tensor in inputs.tensors():
            if not tensor.numel():
                raise CalibrationError(
                    f"calibration input {index}: expected values, found an empty tensor {tuple(tensor.shape)}"
                )
            if tensor.is_floating_point():
                check_finite(tensor, f"calibration input {index}")
    return found


class _Observing(fx.Interpreter):
    """Observers of what quantized layers take and give: {node: observer}."""

    def __init__(self, gm: fx.GraphModule, make):
        super().__init__(gm)
        layers = [
            n for n in gm.graph.nodes if n.op == "call_module" and isinstance(self.submodules[n.target], FusedLayer)
        ]
        self.observers = {n: make() for n in dict.fromkeys(m for layer in layers for m in (*layer.args, layer))}
        self.index = 0

    def _where(self, n: fx.Node) -> str:
        what = {"call_module": "layer", "placeholder": "argument"}.get(n.op, "operator")
        line = f" ({n.stack_trace.strip().splitlines()[0]})" if n.stack_trace and what == "operator" else ""
        return f"calibration input {self.index}, {what} {n.target if what == 'layer' else n.name}{line}"

    def run_node(self, n):
        try:
            value = super().run_node(n)
        except (RuntimeError, TypeError, ValueError, IndexError) as error:
            raise CalibrationError(f"{self._where(n)}: {str(error).strip().splitlines()[0]}") from error
        if n in self.observers:
            check_finite(value, self._where(n))
            self.observers[n].note(value)
        return value


def observe_graph(gm: fx.GraphModule, calibration: list, observer, tell=lambda *_: None) -> dict:
    """Name of a node -> QuantizationParameters, of each that an int8 layer takes or gives. calibration: fp32 tensors,
    or Inputs without names; tell(stage, done, of). CalibrationError, ValueError (observer)."""
    observing = _Observing(gm, observers.maker(observer))
    inputs = _as_inputs(calibration)
    with torch.inference_mode():
        for observing.index, x in enumerate(inputs):
            tell("calibrating", observing.index, len(inputs))
            observing.run(*x.args)
    return {node.name: one.parameters() for node, one in observing.observers.items()}


def observe_layers(model: torch.nn.Module, calibration: list, observer, tell=lambda *_: None) -> dict:
    """Name of a layer of a wrapped model -> (parameters of its input, of its output)."""
    make = observers.maker(observer)
    noted, index, inputs = {}, 0, _as_inputs(calibration)

    def note(module, args, out):
        pair = noted.setdefault(module.name, (make(), make()))
        for one, value, side in zip(pair, (args[0], out), ("takes", "gives")):
            check_finite(value, f"calibration input {index}, what layer {module.name} {side}")
            one.note(value)

    with torch.inference_mode(), calls(model, lambda m: isinstance(m, FusedLayer), note):
        for index, x in enumerate(inputs):  # noqa: B007 - note() reads it
            tell("calibrating", index, len(inputs))
            _call(model, x, index)
    if silent := [name for name in fused_layers(model) if name not in noted]:
        raise CalibrationError(f"calibration: no input reaches the layers {', '.join(silent)}")
    return {name: tuple(one.parameters() for one in pair) for name, pair in noted.items()}


def _call(model, x: Inputs, index: int) -> None:
    try:
        x.call(model)
    except CalibrationError:
        raise
    except (RuntimeError, TypeError, ValueError, IndexError) as error:
        raise CalibrationError(
            f"calibration input {index}, {x.shapes()}: {str(error).strip().splitlines()[0]}"
        ) from error
