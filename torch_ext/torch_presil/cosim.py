# SPDX-License-Identifier: Apache-2.0
"""Co-simulation of a model: every convolution and linear layer on the chip, the rest on the host; cycles, causes,
agreement with PyTorch as one JSON-ready dict."""

import statistics
import time
from dataclasses import dataclass, field
from pathlib import Path

import torch
from torch import fx

from torch_presil import _C
from torch_presil.fuse import FusedLayer, fuse, set_emulation
from torch_presil.models import calibrate_batch_norm, load_model, seeded_inputs, select
from torch_presil.quantize import QuantizedLayer, quantize

__all__ = ["Options", "run", "PEAK_CAUSES"]

DTYPES = ("bf16", "int8", "fp32")
MODES = ("rtl", "model", "verify")

# What bounds a launch, in one word, by the cause that held the matrix engine up most.
PEAK_CAUSES = {
    "wait_load": "load",
    "wait_store": "store",
    "wait_epilogue": "epilogue",
    "weights": "weights",
    "bus_data": "load",
    "bus_request": "load",
}


@dataclass
class Options:
    model: str
    shape: tuple = (1, 3, 224, 224)
    dtype: str = "bf16"
    chip: str | None = None  # None: "base", or what the transport's server has
    mode: str = "rtl"
    layers: str | None = None
    weights: str | None = None
    trace: str | None = None
    trace_path: str | None = None
    seed: int = 0
    forwards: int = 2  # the last one is measured
    check_layers: bool = True  # each layer fed its fp32 input, compared with fp32 (in mode "model": the same bits)
    baseline: bool = True  # time PyTorch fp32 on one CPU thread
    batches: tuple = ()  # also run with each of these as the first dimension, for latency and throughput
    transport: str | None = None  # torch.backends.presil.transport; None: as it is
    progress: object = None  # callable(stage: str, done: int, of: int)
    announce: object = None  # callable({layer: MACs}), once the layers are known
    zero_layer: str | None = None  # control: this layer's weights are set to zero on the chip
    other_input: bool = False  # control: the chip gets another input

    def tell(self, stage: str, done: int = 0, of: int = 0) -> None:
        if self.progress:
            self.progress(stage, done, of)


@dataclass
class Prepared:
    """A model ready for the chip: `reference` fp32 on the CPU, `device` on the chip, `infos` per layer."""

    source: torch.nn.Module
    reference: fx.GraphModule
    device: fx.GraphModule
    example: torch.Tensor
    infos: dict = field(default_factory=dict)
    prepare_seconds: float = 0.0


def cosine(a: torch.Tensor, b: torch.Tensor) -> float:
    """Of two tensors with their means removed; 0 if either is constant."""
    a, b = a.double().flatten(), b.double().flatten()
    a, b = a - a.mean(), b - b.mean()
    norm = a.norm() * b.norm()
    return float(a @ b / norm) if norm > 0 else 0.0


def prepare(options: Options) -> Prepared:
    """Loads, calibrates, fuses, quantizes if asked, and moves to the device; packs the weights by one forward in mode
    `model`."""
    started = time.perf_counter()
    options.tell("loading model")
    model = load_model(options.model, options.weights, options.seed)
    example = seeded_inputs(options.shape, 1, options.seed + 1)[0]
    calibration = seeded_inputs(options.shape, 8, options.seed + 2)
    if options.weights is None:
        options.tell("calibrating batch-norm")
        calibrate_batch_norm(model, calibration)
    options.tell("fusing")
    with torch.inference_mode():
        reference = fuse(model, example)
    infos = {
        n.target: {"shape": list(n.meta["tensor_meta"].shape), "input": list(n.args[0].meta["tensor_meta"].shape)}
        for n in reference.graph.nodes
        if n.op == "call_module" and isinstance(reference.get_submodule(n.target), FusedLayer)
    }
    if options.dtype == "int8":
        options.tell("quantizing")
        device = quantize(reference, calibration)
    else:
        import copy

        device = copy.deepcopy(reference)
        if options.dtype == "bf16":
            device = device.to(torch.bfloat16)
    if options.zero_layer:
        for module in device.modules():
            if getattr(module, "name", None) == options.zero_layer:
                module.weight.data.zero_()
    options.tell("moving to the device")
    device = device.to("presil")
    return Prepared(model, reference, device, example, infos, time.perf_counter() - started)


def device_input(options: Options, x: torch.Tensor) -> torch.Tensor:
    if options.dtype == "bf16":
        x = x.to(torch.bfloat16)
    return (x.contiguous(memory_format=torch.channels_last) if x.dim() == 4 else x).to("presil")


def bound(stalls: dict) -> str:
    matrix = stalls["matrix"]
    busy = matrix["busy"]
    others = {cause: cycles for cause, cycles in matrix.items() if cause != "busy"}
    cause = max(others, key=others.get)
    if busy >= others[cause]:
        return "compute"
    return PEAK_CAUSES.get(cause, "overhead")


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
        "descriptors": 0,
        "fill_drain": 0,
        "stalls": {},
        "differences": [],
    }
    verified = []
    for r in reports:
        out["macs"] += r["macs"]
        out["cycles"] += r["cycles"]
        out["peak"] += r["cycles"] * r["peak_macs_per_cycle"] / r["passes"]
        out["dram_bytes"] += r["read_bytes"] + r["write_bytes"]
        out["sim_ns"] += r["sim_ns"]
        out["twin_ns"] += r["twin_ns"]
        out["descriptors"] += r["descriptors"]
        out["fill_drain"] += r["fill"] + r["drain"]
        for engine, causes in r["stalls"].items():
            into = out["stalls"].setdefault(engine, {})
            for cause, cycles in causes.items():
                into[cause] = into.get(cause, 0) + cycles
        verified.append(r["verified"])
        if r["difference"]:
            out["differences"].append(r["difference"])
    out["bit_exact"] = None if all(v < 0 for v in verified) else all(v == 1 for v in verified)
    out["utilization"] = out["macs"] / out["peak"] if out["peak"] else 0.0
    if not out["cycles"]:
        out.update(dict.fromkeys(CLOCKED))
    return out


def layer_row(name: str, merged: dict, info: dict, verify: bool) -> dict:
    exact = merged["bit_exact"]
    if verify and exact is None:
        exact = False
    return {
        "name": name,
        "shape": info.get("shape"),
        "input": info.get("input"),
        "where": "chip",
        "macs": merged["macs"],
        "cycles": merged["cycles"],
        "utilization": merged["utilization"],
        "dram_bytes": merged["dram_bytes"],
        "stalls": merged["stalls"],
        "bound": bound(merged["stalls"]) if merged["cycles"] else None,
        "bit_exact": exact,
        "descriptors": merged["descriptors"],
        "fill_drain": merged["fill_drain"],
        "sim_seconds": merged["sim_ns"] * 1e-9,
        "differences": merged["differences"],
    }


def measure_cpu(model, x) -> dict:
    """PyTorch fp32 on one thread: the better of NCHW and channels_last, median of five, in seconds."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    best = {}
    try:
        for name, layout in (("nchw", torch.contiguous_format), ("channels_last", torch.channels_last)):
            m, y = (model, x) if x.dim() != 4 else (model.to(memory_format=layout), x.contiguous(memory_format=layout))
            with torch.inference_mode():
                m(y)
                times = []
                for _ in range(5):
                    start = time.perf_counter()
                    m(y)
                    times.append(time.perf_counter() - start)
            best[name] = statistics.median(times)
    finally:
        torch.set_num_threads(threads)
    return best


def to_float(value) -> torch.Tensor:
    return value.detach().cpu().float()


class _LayerFeeder(fx.Interpreter):
    """Runs the fp32 reference and hands each fused layer's (module, inputs, output) to a callback."""

    def __init__(self, gm, callback):
        super().__init__(gm)
        self.callback = callback

    def call_module(self, target, args, kwargs):
        out = super().call_module(target, args, kwargs)
        if isinstance(self.fetch_attr(target), FusedLayer):
            self.callback(target, args, out)
        return out


def _device_layers(device: fx.GraphModule) -> dict:
    return {m.name: m for m in device.modules() if isinstance(m, (FusedLayer, QuantizedLayer))}


def run_layer(options: Options, layer, inputs) -> torch.Tensor:
    """One layer on the chip with fp32 inputs, converted as the layer wants them; its output as fp32."""
    if isinstance(layer, QuantizedLayer):
        parameters = [layer.x, layer.residual]
        args = [_codes(t, q) for t, q in zip(inputs, parameters)]
        out = layer(*[_place(a) for a in args])
        return (to_float(out) - layer.out.zero_point) * layer.out.scale
    args = [t.to(torch.bfloat16) if options.dtype == "bf16" else t for t in inputs]
    return to_float(layer(*[_place(a) for a in args]))


def _codes(t, q):
    return t.mul(1.0 / q.scale).add(q.zero_point).round().clamp(-128, 127).to(torch.int8)


def _place(t):
    return (t.contiguous(memory_format=torch.channels_last) if t.dim() == 4 else t).to("presil")


def check_layers(options: Options, prepared: Prepared, names: list) -> dict:
    """Cosine (means removed) of each layer fed its fp32 input, against fp32."""
    layers, out = _device_layers(prepared.device), {}

    def one(name, inputs, expected):
        if name in names:
            options.tell("checking layers", len(out), len(names))
            out[name] = cosine(run_layer(options, layers[name], inputs), expected)

    with torch.inference_mode():
        _LayerFeeder(prepared.reference, one).run(prepared.example)
    return out


def run_layers_alone(options: Options, prepared: Prepared, names: list) -> list:
    """Only the chosen layers, each fed its fp32 input: the reports."""
    layers, reports = _device_layers(prepared.device), []

    def one(name, inputs, _):
        if name in names:
            options.tell(name, len(reports), len(names))
            run_layer(options, layers[name], inputs)
            _C.synchronize(0)
            reports.extend(_C.take_reports())

    with torch.inference_mode():
        _LayerFeeder(prepared.reference, one).run(prepared.example)
    return reports


def run_forward(options: Options, prepared: Prepared) -> tuple:
    """(output fp32, reports, wall seconds, host operators) of the last of `forwards` forwards."""
    example = prepared.example if not options.other_input else seeded_inputs(options.shape, 1, options.seed + 77)[0]
    total = len(prepared.infos)
    for number in range(max(1, options.forwards)):
        last = number == max(1, options.forwards) - 1
        options.tell("forward" if last else "warm-up forward", 0, total)
        # The warm-up packs weights and plans; with the twin it costs least, and leaves the same state.
        _C.set_mode(options.mode if last else "model")
        _C.reset_host_operators()
        _C.take_reports()
        with torch.inference_mode():
            start = time.perf_counter()
            out = prepared.device(device_input(options, example))
            _C.synchronize(0)
            out = to_float(out)
            seconds = time.perf_counter() - start
    return out, _C.take_reports(), seconds, _C.host_operators()


def latency(reports: list, batch: int, clock_mhz: int) -> dict:
    """Simulated time of one forward: all its launches after each other; what ran on the host takes none. None without
    a clock (mode "model")."""
    cycles = sum(r["cycles"] for r in reports) or None
    return {
        "latency_cycles": cycles,
        "images_per_second_simulated": batch * clock_mhz * 1e6 / cycles if cycles else None,
    }


def measure_batches(options: Options, prepared: Prepared, clock_mhz: int, verify: bool) -> list:
    """One row a batch size: latency, throughput and utilization of a forward with seeded inputs."""
    rows, layers = [], len(prepared.infos)
    for batch in options.batches:
        options.tell(f"batch {batch}", 0, layers)
        x = device_input(options, seeded_inputs((batch, *options.shape[1:]), 1, options.seed + 1)[0])
        _C.set_mode(options.mode)
        _C.take_reports()
        with torch.inference_mode():
            out = prepared.device(x)
            _C.synchronize(0)
        if len(out) != batch:
            raise ValueError(
                f"--batches {batch}: the model returned {len(out)} rows; it does not keep the first dimension, so "
                f"a throughput has no meaning"
            )
        reports = _C.take_reports()
        merged = merge(reports)
        exact = merged["bit_exact"] or False if verify else None
        rows.append(
            {
                "batch": batch,
                **latency(reports, batch, clock_mhz),
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
    prepared, names = _begin(options)
    verify, whole = options.mode == "verify", options.layers is None and options.trace is None
    result = {
        "model": options.model,
        "chip": options.chip,
        "dtype": options.dtype,
        "mode": options.mode,
        "input": list(options.shape),
        "seed": options.seed,
        "properties": _C.properties(0),
        "prepare_seconds": prepared.prepare_seconds,
    }
    if whole:
        out, reports, seconds, host = run_forward(options, prepared)
    else:
        reports, seconds, result["trace"] = _run_chosen(options, prepared, names)
        out, host = None, {}
    rows = _rows(options, prepared, names, reports, host, verify)
    total = layer_row("total", merge(reports), {}, verify) if reports else {}
    sim = sum(r["sim_ns"] for r in reports) * 1e-9
    twin = sum(r["twin_ns"] for r in reports) * 1e-9
    total.update(
        {
            "sim_seconds": sim,
            "twin_seconds": twin,
            "host_seconds": seconds - sim - twin,
            "wall_seconds": seconds,
            "launches": len(reports),
        }
    )
    total.update(latency(reports if whole else [], options.shape[0], result["properties"]["clock_mhz"]))
    result["batches"] = measure_batches(options, prepared, result["properties"]["clock_mhz"], verify)
    if options.baseline and whole:
        options.tell("timing PyTorch on the CPU")
        layouts = measure_cpu(prepared.source, prepared.example)
        total["cpu_layouts"], total["cpu_seconds"] = layouts, min(layouts.values())
    if whole:
        options.tell("comparing with PyTorch")
        total["agreement"] = agreement(options, prepared, out)
    _C.collect_reports(False)
    return {**{k: v for k, v in result.items() if k != "trace" or v}, "total": total, "layers": rows}


def _begin(options: Options) -> tuple:
    """Checks the options, sets the device up, and prepares the model: (prepared, names of the layers that were asked
    for)."""
    if options.dtype not in DTYPES or options.mode not in MODES:
        raise ValueError(f"dtype must be one of {DTYPES}, mode one of {MODES}; got {options.dtype!r}, {options.mode!r}")
    if options.batches and (options.layers or options.trace):
        raise ValueError("--batches measures whole forwards: it can't be combined with --layers or --trace")
    if options.trace:
        _C.set_build("trace")
    if options.transport:
        _C.set_transport(options.transport)
    if options.chip:
        _C.set_chip(options.chip)
    elif _C.get_transport() != "inproc" and options.mode != "model":
        _C.set_mode(options.mode)
        _C.open(0)  # the server says which chip it has
    options.chip = _C.get_chip()
    _C.set_mode("model")
    prepared = prepare(options)
    names = select(prepared.infos, options.trace or options.layers)
    if options.announce:
        options.announce({n: prepared.reference.get_submodule(n).macs(prepared.infos[n]["shape"]) for n in names})
    _C.collect_reports(True)
    if options.mode != "model":
        options.tell("starting the simulator")
        _C.start(0)
    return prepared, names


def _run_chosen(options: Options, prepared: Prepared, names: list) -> tuple:
    """(reports, wall seconds, path of the waveforms or None) of the chosen layers alone."""
    _C.set_mode(options.mode)
    path = None
    if options.trace:
        path = Path(options.trace_path or f"waveforms/{names[0]}.fst")
        path.parent.mkdir(parents=True, exist_ok=True)
        _C.trace(0, str(path), 0, 1 << 30)
    start = time.perf_counter()
    reports = run_layers_alone(options, prepared, names)
    seconds = time.perf_counter() - start
    if options.trace:
        _C.trace(0, "", 0, 0)
    return reports, seconds, str(path) if path else None


def _rows(options: Options, prepared: Prepared, names: list, reports: list, host: dict, verify: bool) -> list:
    """One row a layer or operator: the chip's, then the host's, which have no counters."""
    by_name = {}
    for r in reports:
        by_name.setdefault(r["label"], []).append(r)
    # A report's label holds 63 bytes.
    rows = [layer_row(n, merge(by_name.pop(n[:63])), prepared.infos[n], verify) for n in names if n[:63] in by_name]
    # Layers that are called more than once, and functional ones, come under their operator's name.
    rows += [layer_row(n, merge(r), {}, verify) for n, r in by_name.items()]
    if options.check_layers:
        _C.set_mode("model")
        cosines = check_layers(options, prepared, names)
        for row in rows:
            row["cosine"] = cosines.get(row["name"])
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


def agreement(options: Options, prepared: Prepared, out: torch.Tensor) -> dict:
    """With PyTorch fp32 on the CPU: cosine (means removed), largest absolute error, same top-1; and the same of an
    emulation with the chip's rounding points."""
    with torch.inference_mode():
        expected = prepared.source(prepared.example)
        result = {
            "cosine": cosine(out, expected),
            "max_abs": float((out - expected).abs().max()),
            "top1": bool((out.argmax(-1) == expected.argmax(-1)).all()),
        }
        if options.dtype == "bf16":
            emulated = set_emulation(prepared.reference, torch.bfloat16)(prepared.example)
            set_emulation(prepared.reference, None)
            result["emulation_cosine"] = cosine(emulated, expected)
    return result
