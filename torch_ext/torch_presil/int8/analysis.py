# SPDX-License-Identifier: Apache-2.0
"""The part `int8` of a co-simulation's result: noise of every layer, and what layers in bf16 buy for which cycles."""

from torch_presil import _C
from torch_presil.cosim_forward import run_forward
from torch_presil.cosim_options import Options
from torch_presil.cosim_prepare import Prepared, device_input
from torch_presil.cosim_rows import merge
from torch_presil.fused_layer import fused_layers
from torch_presil.inputs import Drawn
from torch_presil.int8 import calibration, mixed, noise

__all__ = ["EVALUATED", "evaluation", "run"]

EVALUATED = 8  # inputs that noise is measured on, unless the user names data for it


def evaluation(options: Options, prepared: Prepared) -> calibration.Data:
    """What the noise is measured on: --evaluate, else the first of --calibrate, else drawn anew."""
    if options.evaluate:
        return calibration.load(options.evaluate, prepared.example, options.samples, options.tell, "--evaluate")
    if prepared.data:
        inputs, source = prepared.data.inputs[:EVALUATED], f"the first of {prepared.data.source}"
    else:
        count = EVALUATED if isinstance(prepared.inputs, Drawn) else 1
        inputs, source = prepared.inputs.draw(count, options.seed + 3), _own(prepared)
    return calibration.Data(inputs, sum(x.batch for x in inputs), source)


def _own(prepared: Prepared) -> str:
    return "drawn" if isinstance(prepared.inputs, Drawn) else "the model's own input"


def run(options: Options, prepared: Prepared, collected) -> dict:
    """prepared.device becomes the first of the mixed ones; see docs/int8.md for the members. collected:
    torch.presil.reports()."""
    data = evaluation(options, prepared)
    place = lambda x: device_input(options, x)
    _C.set_mode(options.quiet)  # the same bits
    found = noise.measure(prepared.reference, prepared.device, data.inputs, place, options.tell)
    collected.take()
    ranked = noise.worst(found["layers"])
    result = {
        "observer": options.observer,
        "calibration": prepared.data.said()
        if prepared.data
        else {"source": _own(prepared), "inputs": None, "samples": None},
        "evaluation": data.said(),
        **found,
        "worst": ranked,
        "kept": [],
        "mixed": [],
    }
    if options.mixed:
        build = lambda keep: prepared.calibrated.build(keep).to("presil")
        judge = lambda model: _judged(options, prepared, model, data, place, collected)
        cycles = lambda model: _cycles(options, prepared, model, collected)
        wanted = sorted({min(n, len(ranked)) for n in options.mixed})
        result["mixed"] = mixed.trade(wanted, ranked, build, judge, cycles, options.tell)
        result["kept"] = result["mixed"][0]["kept"]
        prepared.device = build(result["kept"])
    for row in result["layers"]:
        row["macs"] = fused_layers(prepared.reference)[row["name"]].macs(prepared.infos[row["name"]]["shape"])
    return result


def _judged(options: Options, prepared: Prepared, model, data: calibration.Data, place, collected) -> dict:
    _C.set_mode(options.quiet)
    found = noise.accuracy(prepared.reference, model, data.inputs, place)
    collected.take()
    return found


def _cycles(options: Options, prepared: Prepared, model, collected) -> dict:
    """Of a forward of the example: all its launches after each other. cycles_from: "RTL", "timing store" (which has
    them from the RTL), "estimate" (some of them, at least); None: mode "model" has no clock."""
    before, prepared.device = prepared.device, model
    try:
        _, taken, seconds, _, _ = run_forward(options, prepared, collected)
    finally:
        prepared.device = before
    merged, source = merge(taken), None
    if options.mode == "hybrid":
        source = "estimate" if seconds.jobs.get("estimated") else "timing store"
    elif options.mode != "model":
        source = "RTL"
    return {
        "cycles": merged["cycles"] or None,
        "cycles_from": source,
        "dram_bytes": merged["dram_bytes"],
        "bit_exact": merged["bit_exact"],
    }
