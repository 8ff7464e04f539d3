# SPDX-License-Identifier: Apache-2.0
"""The figures of docs/hybrid.md: a network that the timing store knows, against the twin alone (`presil bench --only
hybrid`)."""

import statistics
import tempfile
from pathlib import Path

from torch_presil import _C, cosim

__all__ = ["PARTS", "TARGETS", "without_seconds"]

# As TARGETS of bench.py.
TARGETS = {
    "resnet50_bf16_hybrid_vs_twin": ("×", 1.3, 1.1, False),
    "resnet50_int8_hybrid_vs_twin": ("×", 1.3, 1.1, False),
    "resnet50_bf16_hybrid_without_sample_vs_twin": ("×", 1.1, 1.05, False),
    "resnet50_int8_hybrid_without_sample_vs_twin": ("×", 1.1, 1.05, False),
}
ROUNDS = 5  # launches of a sample differ in length
OF_THE_RUN = ("jobs_peak_bytes", "store_hits", "sampled", "cpu_layouts")


def without_seconds(value):
    """A co-simulation's JSON without what differs from run to run: seconds, and where the cycles are known from."""
    if isinstance(value, dict):
        return {
            name: without_seconds(part)
            for name, part in value.items()
            if not name.endswith("seconds") and name not in OF_THE_RUN
        }
    return [without_seconds(part) for part in value] if isinstance(value, list) else value


def _cosim(dtype: str, mode: str, tell) -> dict:
    options = cosim.Options(
        "torchvision.models:resnet50", dtype=dtype, mode=mode, jobs=None, baseline=False, check_layers=False
    )
    tell(f"resnet50 {dtype}: {mode}")
    return cosim.run(options)


def _check_second(found: dict, first: dict) -> None:
    if without_seconds(found) != without_seconds(first):
        raise RuntimeError(f"{found['dtype']}: the second run in mode hybrid has another result than the first")
    if found["total"]["store_hits"] != found["total"]["launches"]:
        raise RuntimeError(f"{found['dtype']}: a launch was not known the second time")


def resnet50(dtype: str, tell) -> dict:
    """The forward that counts, side by side, its median over ROUNDS samples."""
    before, share, seed = _C.get_store(), _C.get_store_sample(), _C.get_store_seed()
    ways = {"twin": ("model", share), "without": ("hybrid", 0.0), "hybrid": ("hybrid", share)}
    seconds, sampled = {way: [] for way in ways}, 0
    with tempfile.TemporaryDirectory() as folder:
        try:
            path = str(Path(folder) / "timings.sqlite")
            _C.set_store(path, share, 0)
            first = _cosim(dtype, "hybrid", tell)
            for number in range(ROUNDS):
                for way, (mode, sample) in ways.items():
                    _C.set_store(path, sample, number)
                    found = _cosim(dtype, mode, tell)
                    seconds[way].append(found["total"]["wall_seconds"])
                sampled += found["total"]["sampled"]
                _check_second(found, first)
        finally:
            _C.set_store(before, share, seed)
    name = f"resnet50_{dtype}"
    twin, without, hybrid = (statistics.median(seconds[way]) for way in ways)
    return {
        f"{name}_hybrid_first_seconds": first["total"]["wall_seconds"],
        f"{name}_hybrid_second_seconds": hybrid,
        f"{name}_hybrid_slowest_seconds": max(seconds["hybrid"]),
        f"{name}_hybrid_twin_seconds": twin,
        f"{name}_hybrid_vs_twin": hybrid / twin,
        f"{name}_hybrid_without_sample_vs_twin": without / twin,
        f"{name}_hybrid_sampled_launches": sampled,
    }


PARTS = {
    "hybrid.bf16": lambda tell: resnet50("bf16", tell),
    "hybrid.int8": lambda tell: resnet50("int8", tell),
}
