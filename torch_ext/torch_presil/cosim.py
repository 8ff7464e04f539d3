# SPDX-License-Identifier: Apache-2.0
"""Co-simulation of a model: every convolution and linear layer on the chip, the rest on the host; cycles, causes,
agreement with PyTorch as one JSON-ready dict."""

import contextlib
from pathlib import Path

import torch

from torch_presil import _C
from torch_presil.agreement import agreement, cosine, digest
from torch_presil.cosim_forward import Seconds, measure_batches, measure_cpu, run_forward
from torch_presil.cosim_options import Options, check
from torch_presil.cosim_prepare import Prepared, prepare
from torch_presil.cosim_rows import CLOCKED, bound, latency, layer_row, merge
from torch_presil.device.capture import capture
from torch_presil.device.reports import reports
from torch_presil.fused_layer import fused_layers, label, set_emulation
from torch_presil.int8 import analysis
from torch_presil.layerwise import check_layers, device_layers, distinct, run_alone
from torch_presil.models import select

__all__ = [
    "Options",
    "Prepared",
    "bound",
    "cosine",
    "device_layers",
    "merge",
    "prepare",
    "run",
    "run_forward",
    "session",
]


def run(options: Options) -> dict:
    """The co-simulation; see the README for the JSON's members. In mode "model" what a clock or a bus would count is
    null."""
    with session(options) as collected:
        return _run(options, collected)


@contextlib.contextmanager
def session(options: Options, usage: bool = False):
    """The device as the options want it, and a collector of reports. Mode and collection of reports are afterwards as
    they were, also after an error."""
    check(options)
    before, jobs, unseen = _C.get_mode(), _C.get_jobs(), _C.get_unseen()
    if options.jobs is None and jobs > 1 and not options.alone() and not options.distinct:
        options.jobs = jobs
    try:
        _C.set_jobs(1)  # until it is about the forward that counts
        if options.unseen:
            _C.set_unseen(options.unseen)
        with _device(options), reports(usage) as collected:
            yield collected
    finally:
        try:
            if options.mode == "hybrid":
                _C.set_mode(options.quiet)  # or its processes would be started again, as many as there were before
            _C.set_jobs(jobs)  # raises what nobody has waited for
        finally:
            if options.unseen:
                _C.set_unseen(unseen)
            _C.set_mode(before)


def _run(options: Options, collected) -> dict:
    prepared, names = _begin(options)
    whole = options.alone() is None and not options.distinct
    result = {
        "model": options.model,
        "chip": options.chip,
        "dtype": options.dtype,
        "mode": None,
        "input": prepared.example.shapes(),
        "seed": options.seed,
        "threads": torch.get_num_threads(),
        "properties": _C.properties(0),
        "prepare_seconds": prepared.prepare_seconds,
    }
    clock = result["properties"].get("clock_mhz")
    if options.analysed():
        result["int8"] = analysis.run(options, prepared, collected)
    if whole:
        out, taken, seconds, host, result["host_moves"] = run_forward(options, prepared, collected)
    else:
        window = _window(options, names)
        taken, alone = run_alone(options, prepared, names, collected, window)
        seconds = Seconds(alone, alone)
        result["trace"], out, host = options.trace and window.path, None, {}
        result["bundle"] = (options.capture or options.capture_path) and window.path
    result["mode"], verify = options.mode, options.mode == "verify"
    if options.mode == "hybrid":  # which of them were simulated differs from run to run
        taken = [{**r, "verified": -1} for r in taken]
    rows = _rows(options, prepared, names, taken, host, verify)
    total = _total(taken, seconds, verify, options.jobs if whole else 1)
    total.update(latency(taken if whole else [], prepared.example.batch, clock))
    result["batches"] = measure_batches(options, prepared, collected, clock, verify)
    if options.baseline and whole:
        options.tell("timing PyTorch on the CPU")
        layouts = measure_cpu(prepared.source, prepared.example)
        total["cpu_layouts"], total["cpu_seconds"] = layouts, min(layouts.values())
    if whole:
        options.tell("comparing with PyTorch")
        total["agreement"], total["output_sha256"] = _agreement(options, prepared, out), digest(out)
    return {**{k: v for k, v in result.items() if k not in ("trace", "bundle") or v}, "total": total, "layers": rows}


def _total(taken: list, seconds: Seconds, verify: bool, jobs: int) -> dict:
    sim, twin = (sum(r[name] for r in taken) * 1e-9 for name in ("sim_ns", "twin_ns"))
    return {
        **layer_row("total", merge(taken), {}, verify),
        "sim_seconds": sim,
        "twin_seconds": twin,
        # With jobs the simulators' seconds are other processors'.
        "host_seconds": seconds.answered - twin if seconds.jobs.get("jobs") else seconds.all - sim - twin,
        "wall_seconds": seconds.all,
        "answered_seconds": seconds.answered,
        "jobs": jobs,
        # Of launches that waited, in host memory.
        **({"jobs_peak_bytes": seconds.jobs["peak_bytes"]} if seconds.jobs.get("jobs") else {}),
        # Of launches: cycles from the timing store; from there, and simulated again to see that they are the same; 0
        # but in mode "hybrid".
        "store_hits": seconds.jobs.get("known", 0) + seconds.jobs.get("sampled", 0),
        "sampled": seconds.jobs.get("sampled", 0),
        "estimated": seconds.jobs.get("estimated", 0),  # neither known nor simulated
        "launches": len(taken),
    }


@contextlib.contextmanager
def _device(options: Options):
    """The device as the options want it, running: a chip, library or server that is not there is found out first."""
    build, transport, chip = _C.get_build(), _C.get_transport(), _C.get_chip()
    try:
        if options.trace:
            _C.set_build("trace")
        if options.transport:
            _C.set_transport(options.transport)
        if options.chip:
            _C.set_chip(options.chip)
        options.tell("starting the simulator")
        _C.set_mode(options.mode)
        _C.open(0)  # a server says which chip it has
        if options.mode not in ("model", "hybrid"):  # processes of "hybrid" have chips by now
            _C.start(0)
    except RuntimeError:
        _give_back(build, transport, chip)
        raise
    options.chip = _C.get_chip()
    try:
        _C.set_mode("model")
    except RuntimeError as error:
        if "has no model in C" not in str(error):
            raise
        options.quiet = "rtl"
        _C.set_mode("rtl")
    yield


def _give_back(build: str, transport: str, chip: str) -> None:
    """What was set before a device that did not open; once it is open these are its own for good."""
    with contextlib.suppress(RuntimeError):
        _C.set_mode("model")
        _C.set_build(build)
        _C.set_transport(transport)
        _C.set_chip(chip)


def _begin(options: Options) -> tuple:
    """Prepares the model: (prepared, names of the layers that were asked for)."""
    prepared = prepare(options)
    names = select(prepared.infos, options.alone())
    layers = fused_layers(prepared.reference)
    if options.trace or options.capture:
        names = names[:1]
    if options.distinct:
        names = distinct(names, layers, prepared.infos)
    if options.announce:
        options.announce({label(n): layers[n].macs(prepared.infos[n]["shape"]) for n in names})
    return prepared, names


def _window(options: Options, names: list):
    """What is kept of the layers that run alone: a waveform, a bundle, or nothing but reports."""
    if options.trace:
        return _Window(options, names)
    if options.capture or options.capture_path:
        path = Path(options.capture_path or f"{names[0]}.presil")
        path.parent.mkdir(parents=True, exist_ok=True)
        return capture(path)
    return contextlib.nullcontext()


class _Window:
    """Waveforms of what runs inside."""

    def __init__(self, options: Options, names: list):
        self.path = str(options.trace_path or f"waveforms/{names[0]}.fst")

    def __enter__(self):
        Path(self.path).parent.mkdir(parents=True, exist_ok=True)
        _C.trace(0, self.path, 0, 1 << 30)
        return self

    def __exit__(self, *exc):
        _C.trace(0, "", 0, 0)
        return False


def _rows(options: Options, prepared: Prepared, names: list, taken: list, host: dict, verify: bool) -> list:
    """One row a layer or operator: the chip's, then the host's, which have no counters."""
    by_name = {}
    for r in taken:
        by_name.setdefault(r["label"], []).append(r)
    rows = [layer_row(n, merge(by_name.pop(label(n))), prepared.infos[n], verify) for n in names if label(n) in by_name]
    # Layers that are called more than once, and functional ones, come under their operator's name.
    rows += [layer_row(n, merge(r), {}, verify) for n, r in by_name.items()]
    if options.check_layers:
        _C.set_mode(options.quiet)
        cosines = check_layers(options, prepared, names)
        for row in rows:
            if row["name"] in cosines:
                row["cosine"] = cosines[row["name"]]
    clocked = (
        dict.fromkeys(CLOCKED)
        if options.mode == "model"
        else {"cycles": 0, "utilization": 0.0, "dram_bytes": 0, "stalls": {}}
    )
    return rows + [
        {
            "name": n,
            "shape": None,
            "where": "host",
            "macs": 0,
            **clocked,
            "bound": None,
            "bit_exact": None,
            "calls": h["calls"],
            "seconds": h["seconds"],
            "reason": h["reason"],
        }
        for n, h in host.items()
    ]


def _agreement(options: Options, prepared: Prepared, out) -> dict:
    """With PyTorch fp32 on the CPU; of a model that was traced also that of an emulation with the chip's rounding
    points."""
    with torch.inference_mode():
        expected = prepared.example.call(prepared.source)
        result = agreement(out, expected)
        if options.dtype == "bf16" and prepared.traced:
            emulated = prepared.example.call(set_emulation(prepared.reference, torch.bfloat16))
            set_emulation(prepared.reference, None)
            result["emulation_cosine"] = agreement(emulated, expected)["cosine"]
    return result
