# SPDX-License-Identifier: Apache-2.0
"""A model made ready for the chip: loaded, calibrated, fused, quantized, moved."""

import copy
import time
from dataclasses import dataclass, field

import torch
from torch.utils import _pytree as pytree

from torch_presil.cosim_options import Options
from torch_presil.fuse import NotTraceable, fuse
from torch_presil.fused_layer import FusedLayer, as_layer, calls, fused_layers, wrap
from torch_presil.inputs import Drawn, Given, Inputs
from torch_presil.int8 import calibration
from torch_presil.layerwise import device_layers
from torch_presil.models import (
    ModelError,
    build_model,
    calibrate_batch_norm,
    has_statistics,
    load_weights,
    select,
)
from torch_presil.quantize import Calibrated

__all__ = ["Prepared", "device_input", "fetch", "prepare", "try_forward"]

BATCH_NORM = 8  # inputs that statistics of random weights, and ranges without the user's data, come from


@dataclass
class Prepared:
    """A model ready for the chip: `reference` fp32 on the CPU, `device` on the chip, `infos` per layer; traced: by
    torch.fx, else its layers stand alone."""

    source: torch.nn.Module
    reference: torch.nn.Module
    device: torch.nn.Module
    example: Inputs
    inputs: object
    traced: bool
    infos: dict = field(default_factory=dict)
    calibrated: Calibrated | None = None  # of int8: what versions with layers in bf16 are built from
    data: calibration.Data | None = None  # the user's, of calibration
    prepare_seconds: float = 0.0


def prepare(options: Options) -> Prepared:
    """Loads, calibrates, fuses, quantizes if asked, and moves to the device. Inputs and names of layers are tried
    before anything that takes long."""
    started = time.perf_counter()
    options.tell("loading model")
    loaded = build_model(options.model, options.seed, options.specs(), options.config)
    data = None
    if options.calibrate:
        form = loaded.inputs.draw(1, options.seed + 1)[0] if options.specs() else None
        data = calibration.load(options.calibrate, form, options.samples, options.tell)
        loaded.inputs = Given(data.inputs[0].kwargs or data.inputs[0].args)
    model, example = loaded.model, loaded.inputs.draw(1, options.seed + 1)[0]
    options.tell("trying the model on the CPU")
    infos = try_forward(model, example, options)
    if options.alone():
        select(infos, options.alone())
    drawn = loaded.inputs.draw(BATCH_NORM if isinstance(loaded.inputs, Drawn) else 1, options.seed + 2)
    if options.weights is not None:
        load_weights(model, options.weights, options.model)
    elif not has_statistics(model):  # of a trained one they are its own
        options.tell("calibrating batch-norm")
        calibrate_batch_norm(model, data.inputs[:BATCH_NORM] if data else drawn)
    options.tell("fusing")
    with torch.no_grad():  # parameters of inference mode could not be packed
        reference, traced = _fused(model, example, infos)
    fused = fused_layers(reference)
    device, calibrated = _for_the_chip(options, reference, data.inputs if data else drawn)
    options.tell("moving to the device")
    device = device.to("presil")
    infos = {name: info for name, info in infos.items() if name in fused} if not traced else _infos(reference)
    seconds = time.perf_counter() - started
    return Prepared(model, reference, device, example, loaded.inputs, traced, infos, calibrated, data, seconds)


def _for_the_chip(options: Options, reference, inputs: list) -> tuple:
    """(model, Calibrated of int8)."""
    calibrated = None
    if options.dtype == "int8":
        options.tell("quantizing")
        calibrated = Calibrated(reference, inputs, options.observer, options.tell)
        device = calibrated.build()
    else:
        device = copy.deepcopy(reference)
        if options.dtype == "bf16":
            device = device.to(torch.bfloat16)
    if options.zero_layer:
        device_layers(device)[options.zero_layer].weight.data.zero_()
    return device, calibrated


def _fused(model, example: Inputs, infos: dict) -> tuple:
    """(model of FusedLayers, True), or, where torch.fx can't trace it, (with its layers one by one, False)."""
    try:
        return fuse(model, example), True
    except NotTraceable:
        if not infos:
            raise ModelError(
                f"{type(model).__name__} calls no convolution or linear layer: the chip has nothing to do"
            ) from None
        return wrap(model, list(infos)), False


def _infos(reference) -> dict:
    return {
        n.target: {"shape": list(n.meta["tensor_meta"].shape), "input": list(n.args[0].meta["tensor_meta"].shape)}
        for n in reference.graph.nodes
        if n.op == "call_module" and isinstance(reference.get_submodule(n.target), FusedLayer)
    }


def try_forward(model, example: Inputs, options: Options) -> dict:
    """One forward in fp32 on the CPU: name -> {"shape", "input"} of the layers that it calls, in order; inputs that the
    model doesn't take are refused here."""
    names, infos = {module: name for name, module in model.named_modules()}, {}

    def note(module, args, out):
        infos.setdefault(names[module], {"shape": list(out.shape), "input": list(args[0].shape)})

    try:
        with torch.inference_mode(), calls(model, lambda m: as_layer(m) is not None, note):
            example.call(model)
    except Exception as error:
        hint = "it is the first of --calibrate" if options.calibrate else "--input gives other sizes, types and names"
        raise ModelError(
            f"{options.model} does not take the input {example.shapes()}: {str(error).strip().splitlines()[0]} ({hint})"
        ) from error
    return infos


def device_input(options: Options, inputs: Inputs) -> Inputs:
    def place(x):
        if options.dtype == "bf16" and x.is_floating_point():
            x = x.to(torch.bfloat16)
        return (x.contiguous(memory_format=torch.channels_last) if x.dim() == 4 else x).to("presil")

    return inputs.map(place)


def fetch(out):
    """A result, of any nesting, on the CPU, floating point as fp32."""
    return pytree.tree_map(
        lambda t: (t.cpu().float() if t.is_floating_point() else t.cpu()) if isinstance(t, torch.Tensor) else t, out
    )
