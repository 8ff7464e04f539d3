# SPDX-License-Identifier: Apache-2.0
"""Co-simulation of a model: every convolution and linear layer on the chip, the rest on the host; cycles, causes,
agreement with PyTorch as one JSON-ready dict."""

import contextlib
import copy
import os
import statistics
import time
from dataclasses import dataclass, field
from pathlib import Path

import torch
from torch.utils import _pytree as pytree

from torch_presil import _C, farmed
from torch_presil.agreement import agreement, cosine, digest
from torch_presil.device.capture import capture
from torch_presil.device.reports import reports
from torch_presil.estimates import HOW, marks
from torch_presil.fuse import (
    FusedLayer,
    NotTraceable,
    as_layer,
    calls,
    fuse,
    fused_layers,
    label,
    set_emulation,
    wrap,
)
from torch_presil.inputs import Drawn, Inputs, InputSpec, leaves
from torch_presil.layerwise import check_layers, device_layers, distinct, run_alone
from torch_presil.models import ModelError, build_model, calibrate_batch_norm, load_weights, select
from torch_presil.quantize import quantize, quantize_layers

__all__ = ["Options", "bound", "cosine", "run", "session"]

DTYPES = ("bf16", "int8", "fp32")
MODES = ("rtl", "model", "verify", "hybrid")


@dataclass
class Options:
    model: str
    shape: tuple | None = None  # of the only input, in float32
    dtype: str = "bf16"
    chip: str | None = None  # None: "base", or what the transport's server has
    mode: str = "rtl"
    # Processes that run the RTL; with more than one, "rtl" is "verify". 0: the processors. None: those of
    # torch.backends.presil.jobs if that is above 1, else PRESIL_JOBS; without either the processors, where the chip can
    # be had in several processes, else 1.
    jobs: int | None = 1
    most_jobs: int | None = None  # instead of the processors, where jobs is None and there is no PRESIL_JOBS
    layers: str | None = None
    distinct: bool = False  # of layers with the same geometry only the first, each fed its fp32 input
    weights: str | None = None
    trace: str | None = None
    trace_path: str | None = None
    capture: str | None = None  # run this layer alone, and keep its launches as a bundle at capture_path
    capture_path: str | None = None  # without capture: all layers that run alone (layers, distinct)
    seed: int = 0
    forwards: int = 2  # the last one is measured
    quiet: str = "model"  # mode of what is not measured; of a chip without an executor: "rtl"
    check_layers: bool = True  # each layer fed its fp32 input, compared with fp32 (in mode "model": the same bits)
    baseline: bool = True  # time PyTorch fp32 on one CPU thread
    batches: tuple = ()  # also run with each of these as the first dimension, for latency and throughput
    inputs: tuple = ()  # InputSpec each, instead of shape; neither: the factory's, else 1×3×224×224
    config: dict | None = None  # settings of the configuration of a class of transformers
    unseen: str | None = None  # torch.backends.presil.unseen, of mode "hybrid"; None: as it is
    transport: str | None = None  # torch.backends.presil.transport; None: as it is
    farm: str | None = None  # where the RTL runs, as for presil regress (docs/farm.md); jobs: of "local"
    progress: object = None  # callable(stage: str, done: int, of: int)
    announce: object = None  # callable({layer: MACs}), once the layers are known
    zero_layer: str | None = None  # control: this layer's weights are set to zero on the chip
    other_input: bool = False  # control: the chip gets another input

    def alone(self) -> str | None:
        """The pattern of layers that run alone; None: the whole model runs."""
        return self.trace or self.capture or self.layers

    def specs(self) -> tuple:
        return tuple(self.inputs) or ((InputSpec(tuple(self.shape)),) if self.shape else ())

    def tell(self, stage: str, done: int = 0, of: int = 0) -> None:
        if self.progress:
            self.progress(stage, done, of)


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
    prepare_seconds: float = 0.0


def prepare(options: Options) -> Prepared:
    """Loads, calibrates, fuses, quantizes if asked, and moves to the device. Inputs and names of layers are tried
    before anything that takes long."""
    started = time.perf_counter()
    options.tell("loading model")
    loaded = build_model(options.model, options.seed, options.specs(), options.config)
    model, example = loaded.model, loaded.inputs.draw(1, options.seed + 1)[0]
    options.tell("trying the model on the CPU")
    infos = try_forward(model, example, options)
    if options.alone():
        select(infos, options.alone())
    calibration = loaded.inputs.draw(8 if isinstance(loaded.inputs, Drawn) else 1, options.seed + 2)
    if options.weights is not None:
        load_weights(model, options.weights, options.model)
    else:
        options.tell("calibrating batch-norm")
        calibrate_batch_norm(model, calibration)
    options.tell("fusing")
    with torch.no_grad():  # parameters of inference mode could not be packed
        reference, traced = _fused(model, example, infos)
    fused = fused_layers(reference)
    device = _for_the_chip(options, reference, traced, calibration)
    options.tell("moving to the device")
    device = device.to("presil")
    infos = {name: info for name, info in infos.items() if name in fused} if not traced else _infos(reference)
    return Prepared(model, reference, device, example, loaded.inputs, traced, infos, time.perf_counter() - started)


def _for_the_chip(options: Options, reference, traced: bool, calibration: list):
    if options.dtype == "int8":
        options.tell("quantizing")
        device = quantize(reference, calibration) if traced else quantize_layers(reference, calibration)
    else:
        device = copy.deepcopy(reference)
        if options.dtype == "bf16":
            device = device.to(torch.bfloat16)
    if options.zero_layer:
        device_layers(device)[options.zero_layer].weight.data.zero_()
    return device


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
        raise ModelError(
            f"{options.model} does not take the input {example.shapes()}: {str(error).strip().splitlines()[0]} "
            f"(--input gives other sizes, types and names)"
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


def bound(stalls: dict, names: dict) -> str | None:
    """What bounds a launch, in one word of the chip's (torch.presil.chip_names): by what its array does most of the
    time. None: the chip names no array."""
    array = next((engine["name"] for engine in names["engines"] if engine.get("array")), None)
    cycles = stalls.get(array)
    if not cycles:
        return None
    working = {cause["name"] for cause in names["causes"] if cause.get("works")}
    most = max(cycles, key=lambda cause: (cycles[cause], cause in working))
    words = {cause["name"]: cause.get("bound", "overhead") for cause in names["causes"]}
    return words[most]


CLOCKED = ("cycles", "utilization", "dram_bytes", "fill_drain", "stalls")  # null in mode "model", which has no clock


def merge(reports: list) -> dict:
    """Several launches of one layer as one: counters add up; exact only if every one was compared and equal."""
    out = {
        "macs": 0,
        "cycles": 0,
        "dram_bytes": 0,
        "peak": 0,
        "sim_ns": 0,
        "twin_ns": 0,
        "launches": len(reports),
        "commands": 0,
        "fill_drain": 0,
        "stalls": {},
        "differences": [],
        "difference_cycle": None,  # of the first
    }
    verified = []
    for r in reports:
        out["macs"] += r["macs"]
        out["cycles"] += r["cycles"]
        out["peak"] += r["cycles"] * r["peak_macs_per_cycle"] / max(r["passes"], 1)
        out["dram_bytes"] += r["read_bytes"] + r["write_bytes"]
        out["sim_ns"] += r["sim_ns"]
        out["twin_ns"] += r["twin_ns"]
        out["commands"] += r.get(torch.presil.chip_names().get("commands"), 0)
        out["fill_drain"] += r["fill"] + r["drain"]
        for engine, causes in r["stalls"].items():
            into = out["stalls"].setdefault(engine, {})
            for cause, cycles in causes.items():
                into[cause] = into.get(cause, 0) + cycles
        verified.append(r["verified"])
        if r["difference"]:
            if not out["differences"]:
                out["difference_cycle"] = r["difference_cycle"]
            out["differences"].append(r["difference"])
    out["marks"] = marks(reports)
    out["bit_exact"] = None if all(v < 0 for v in verified) else all(v == 1 for v in verified)
    out["utilization"] = out["macs"] / out["peak"] if out["peak"] else 0.0
    if not out["cycles"]:
        out.update(dict.fromkeys(CLOCKED))
    if out["marks"]:  # what is not known of what was estimated
        known = {"dram_bytes": out["marks"]["bytes_known"], "stalls": out["marks"]["stalls_error"] is not None}
        out.update({name: None for name in CLOCKED[2:] if not known.get(name)})
    return out


def layer_row(name: str, merged: dict, info: dict, verify: bool) -> dict:
    exact, names = merged["bit_exact"], torch.presil.chip_names()
    if verify and exact is None:
        exact = False
    return {
        "name": name,
        "shape": info.get("shape"),
        "input": info.get("input"),
        "where": "chip",
        "macs": merged["macs"],
        "cycles": merged["cycles"],
        **merged["marks"],
        "utilization": merged["utilization"],
        "dram_bytes": merged["dram_bytes"],
        "stalls": merged["stalls"],
        "bound": bound(merged["stalls"], names) if merged["stalls"] else None,
        "bit_exact": exact,
        # In the chip's word, if it has one; and if its array tells when it begins and ends.
        **({names["commands"]: merged["commands"]} if "commands" in names else {}),
        **({"fill_drain": merged["fill_drain"]} if merged["fill_drain"] != 0 else {}),
        "sim_seconds": merged["sim_ns"] * 1e-9,
        "differences": merged["differences"],
        "difference_cycle": merged["difference_cycle"],
    }


def measure_cpu(model, example: Inputs) -> dict:
    """PyTorch fp32 on one thread: the better of NCHW and channels_last, median of five, in seconds."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    layouts = {"nchw": torch.contiguous_format, "channels_last": torch.channels_last}
    if all(t.dim() != 4 for t in example.tensors()):
        del layouts["channels_last"]
    best = {}
    try:
        for name, layout in layouts.items():
            inputs = example.map(lambda t: t.contiguous(memory_format=layout) if t.dim() == 4 else t)  # noqa: B023
            m = model.to(memory_format=layout)
            with torch.inference_mode():
                inputs.call(m)
                times = []
                for _ in range(5):
                    start = time.perf_counter()
                    inputs.call(m)
                    times.append(time.perf_counter() - start)
            best[name] = statistics.median(times)
    finally:
        torch.set_num_threads(threads)
    return best


@dataclass
class Seconds:
    """Wall time of a forward: until PyTorch had its result, and until all of it had run on the chip."""

    answered: float
    all: float
    jobs: dict = field(default_factory=dict)  # _C.jobs_stats() of the processes, which may have ended since


def _begin_jobs(options: Options) -> None:
    """Mode and processes of the forward that counts; without processes where nobody asked for them and they can't be
    had: a chip without a model, or whose commands can't be stored, or that there is once."""
    if options.mode == "hybrid":
        _begin_hybrid(options)
        return
    _C.set_mode(options.mode)
    if options.mode == "model":
        options.jobs = 1
    elif options.jobs is None and not os.environ.get("PRESIL_JOBS"):
        options.jobs = options.most_jobs or _C.processors()
        try:
            _C.set_jobs(options.jobs)
        except RuntimeError as error:
            options.jobs = 1
            options.tell(f"in one process: {str(error).splitlines()[0]}")
            options.tell("forward")
    else:
        asked = int(os.environ["PRESIL_JOBS"]) if options.jobs is None else options.jobs
        options.jobs = asked or _C.processors()
        _C.set_jobs(options.jobs)
    if options.jobs > 1 and options.mode == "rtl":
        options.mode = "verify"


def _begin_hybrid(options: Options) -> None:
    """Its processes start once, and are there if nothing has to run, too: they say whose cycles are known."""
    asked = int(os.environ.get("PRESIL_JOBS") or options.most_jobs or 0) if options.jobs is None else options.jobs
    options.jobs = asked or _C.processors()
    _C.set_jobs(options.jobs)  # in a mode without processes
    _C.set_mode("hybrid")


def run_forward(options: Options, prepared: Prepared, collected) -> tuple:
    """(output fp32, reports, Seconds, host operators, host moves) of the last of `forwards` forwards."""
    example = prepared.example
    if options.other_input:
        example = prepared.inputs.draw(1, options.seed + 77)[0]
    total = len(prepared.infos)
    for number in range(max(1, options.forwards)):
        last = number == max(1, options.forwards) - 1
        options.tell("forward" if last else "warm-up forward", 0, total)
        # The warm-up packs weights and plans; with the twin it costs least, and leaves the same state.
        if last and not options.farm:
            _begin_jobs(options)
        else:
            _C.set_mode(options.quiet)
        torch.presil.reset_host_operators()
        collected.take()
        once = lambda: _once(options, prepared, example)  # noqa: B023
        if last and options.farm:
            out, taken, seconds = farmed.forward(options, once, collected)
        else:
            (out, seconds), taken = once(), collected.take()
    return out, taken, seconds, torch.presil.host_operators(), torch.presil.host_moves()


def _once(options: Options, prepared: Prepared, example: Inputs) -> tuple:
    """(output fp32, Seconds) of a forward."""
    with torch.inference_mode():
        start = time.perf_counter()
        out = fetch(device_input(options, example).call(prepared.device))
        answered = time.perf_counter() - start
        _C.synchronize(0)
        return out, Seconds(answered, time.perf_counter() - start, _C.jobs_stats(0))


def latency(reports: list, batch: int, clock_mhz: int | None) -> dict:
    """Simulated time of one forward: all its launches after each other; what ran on the host takes none. None without
    a clock (mode "model")."""
    cycles = sum(r["cycles"] for r in reports) or None
    return {
        "latency_cycles": cycles,
        "images_per_second_simulated": batch * clock_mhz * 1e6 / cycles if cycles and clock_mhz else None,
    }


def measure_batches(options: Options, prepared: Prepared, collected, clock_mhz: int | None, verify: bool) -> list:
    """One row a batch size: latency, throughput and utilization of a forward with seeded inputs."""
    rows, layers = [], len(prepared.infos)
    for batch in options.batches:
        options.tell(f"batch {batch}", 0, layers)
        x = device_input(options, prepared.inputs.draw(1, options.seed + 1, batch)[0])
        _C.set_mode(options.mode)
        collected.take()
        with torch.inference_mode():
            out = x.call(prepared.device)
            _C.synchronize(0)
        found = leaves(out)
        if not found or found[0].dim() == 0 or len(found[0]) != batch:
            raise ValueError(
                f"--batches {batch}: the model returned {len(found[0]) if found and found[0].dim() else 'no'} rows; it "
                f"does not keep the first dimension, so a throughput has no meaning"
            )
        taken = collected.take()
        merged = merge(taken)
        exact = merged["bit_exact"] or False if verify else None
        rows.append(
            {
                "batch": batch,
                **latency(taken, batch, clock_mhz),
                "macs": merged["macs"],
                "utilization": merged["utilization"],
                "bit_exact": exact,
                "sim_seconds": merged["sim_ns"] * 1e-9,
            }
        )
    return rows


def run(options: Options) -> dict:
    """The co-simulation; see the README for the JSON's members. In mode "model" what a clock or a bus would count is
    null."""
    with session(options) as collected:
        return _run(options, collected)


@contextlib.contextmanager
def session(options: Options, usage: bool = False):
    """The device as the options want it, and a collector of reports. Mode and collection of reports are afterwards as
    they were, also after an error."""
    _check(options)
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


def _check(options: Options) -> None:
    """What can be refused without device and model."""
    if options.dtype not in DTYPES or options.mode not in MODES:
        raise ValueError(f"dtype must be one of {DTYPES}, mode one of {MODES}; got {options.dtype!r}, {options.mode!r}")
    if options.farm:
        farmed.check(options)
    if options.jobs not in (None, 1) and (options.jobs < 0 or options.alone() or options.distinct):
        raise ValueError(
            "--jobs is at least 0, and runs whole forwards on several processors: it can't be combined with --layers, "
            "--trace or --capture"
        )
    if options.mode == "hybrid" and (options.alone() or options.distinct or options.batches):
        raise ValueError(
            "mode 'hybrid' runs whole forwards: it can't be combined with --layers, --trace, --capture or --batches"
        )
    if options.unseen not in (None, *HOW) or (options.unseen and options.mode != "hybrid"):
        raise ValueError(
            f"--unseen is one of {HOW}, of mode 'hybrid'; got {options.unseen!r} and mode {options.mode!r}"
        )
    if options.batches and options.alone():
        raise ValueError("--batches measures whole forwards: it can't be combined with --layers, --trace or --capture")
    if options.trace and options.capture:
        raise ValueError("--trace and --capture: one at a time (presil-replay --trace makes a waveform of a bundle)")
    if options.trace and options.mode == "model":
        raise ValueError("--trace writes the RTL's waveforms, and mode 'model' has none: use mode 'rtl' or 'verify'")


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
