# SPDX-License-Identifier: Apache-2.0
"""Forwards that are measured: on the chip in one or several processes, by batch size, and PyTorch's own on the CPU."""

import os
import statistics
import time
from dataclasses import dataclass, field

import torch

from torch_presil import _C, farmed
from torch_presil.cosim_options import Options
from torch_presil.cosim_prepare import Prepared, device_input, fetch
from torch_presil.cosim_rows import latency, merge
from torch_presil.inputs import Inputs, leaves

__all__ = ["Seconds", "measure_batches", "measure_cpu", "run_forward"]


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
