# SPDX-License-Identifier: Apache-2.0
"""Runs a model as `presil cosim` does, and notes what a report needs."""

from dataclasses import asdict, dataclass

import torch

from torch_presil import _C, cosim
from torch_presil.estimates import marks
from torch_presil.inputs import leaves
from torch_presil.perf import document, from_plans, identity
from torch_presil.perf.record import Recorded

__all__ = ["Wanted", "run"]


@dataclass
class Wanted:
    """options: as for cosim; batches: the first one is reported in detail; (): that of the inputs. clock_mhz, memory:
    instead of the chip's, and of the setting."""

    options: cosim.Options
    batches: tuple = ()
    clock_mhz: float | None = None
    memory: str | None = None
    prepared: object = None  # the model as it was run, once it has been


def memory_settings(text: str) -> dict:
    """'ideal,latency=20' -> {"model": "ideal", "bytes": 0, "latency": 20, ...}: numbers that reports look at."""
    out = {"model": text or "default"}
    for part in filter(None, text.split(",")):
        key, equals, value = part.partition("=")
        if part == "ideal":
            out["bytes"] = 0
        elif equals and value.isdigit():
            out[key] = int(value)
    return out


def _clock(given: float | None, properties: dict) -> dict | None:
    if given:
        return {"mhz": given, "source": "--clock"}
    if mhz := properties.get("clock_mhz"):
        return {"mhz": mhz, "source": f"the configuration {properties['config']} (clock_mhz)"}
    return None


def _forward(options: cosim.Options, prepared: cosim.Prepared, collected) -> tuple:
    recorded = Recorded(prepared.device)
    plain, prepared.device = prepared.device, recorded
    try:
        out, reports, seconds, _, moves = cosim.run_forward(options, prepared, collected)
    finally:
        prepared.device = plain
    from_plans.name_constants(reports, recorded.constants)
    inside = {}
    for event in recorded.events:
        for kind, move in event.moves.items():
            row = inside.setdefault(kind, {"calls": 0, "bytes": 0, "seconds": 0.0})
            for key in row:
                row[key] += move[key]
    outside = {}
    for kind, move in moves.items():
        left = {key: move[key] - inside.get(kind, {}).get(key, 0) for key in ("calls", "bytes", "seconds")}
        if left["calls"] > 0:
            outside[kind] = left
    return out, reports, [asdict(event) for event in recorded.events], outside, seconds


def _batch_row(batch: int, total: dict) -> dict:
    kept = ("cycles", "seconds", "images_per_second", "images_per_second_with_host", "host_least_cycles", "utilization")
    return {"batch": batch, **{key: total[key] for key in kept}, **marks([total])}


def run(wanted: Wanted) -> dict:
    """The document (document.build). Mode, jobs and memory model are afterwards as they were."""
    options = wanted.options
    memory, seed = _C.get_memory_model(), _C.get_memory_model_seed()
    if wanted.memory is not None:
        torch.backends.presil.memory_model = wanted.memory
    try:
        with cosim.session(options, usage=True) as collected:
            return _run(wanted, collected)
    finally:
        if wanted.memory is not None:
            torch.backends.presil.memory_model = memory
            torch.backends.presil.memory_model_seed = seed


def _run(wanted: Wanted, collected) -> dict:
    options = wanted.options
    prepared, names = cosim._begin(options)
    wanted.prepared = prepared
    batches = wanted.batches or (prepared.example.batch,)
    rows, first, properties = [], None, _C.properties(0)
    for batch in batches:
        if wanted.batches:
            prepared.example = prepared.inputs.draw(1, options.seed + 1, batch)[0]
        out, reports, events, outside, seconds = _forward(options, prepared, collected)
        found = leaves(out)
        if wanted.batches and (not found or found[0].dim() == 0 or len(found[0]) != batch):
            raise ValueError(f"--batch {batch}: the model's result has another first dimension: it has no batch")
        facts = {
            "model": options.model, "chip": options.chip, "dtype": options.dtype, "mode": options.mode,
            "batch": batch, "input": prepared.example.shapes(), "seed": options.seed, "jobs": options.jobs,
            "traced": prepared.traced, "properties": properties, "names": torch.presil.chip_names(),
            "clock": _clock(wanted.clock_mhz, properties),
            "memory": {**memory_settings(_C.get_memory_model()), "seed": _C.get_memory_model_seed()},
            "rtl": _C.identity(0)["rtl"] or None,  # hash of its sources and parameters; None: not known
            "versions": identity.versions(), "libraries": identity.libraries(),
            "wall_seconds": seconds.all, "sim_seconds": sum(r["sim_ns"] for r in reports) * 1e-9,
        }  # fmt: skip
        made = document.build(facts, reports, events, names, outside)
        first = first or made
        rows.append(_batch_row(batch, made["total"]))
        if made is not first:
            first["problems"] += [f"batch {batch}: {text}" for text in made["problems"]]
    return {**first, "batches": rows}
