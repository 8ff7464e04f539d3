# SPDX-License-Identifier: Apache-2.0
"""How far off estimates of launches are that the timing store has never seen (docs/hybrid.md): random layers, some of
them kept out (`presil bench --only hybrid.estimate`)."""

import math
import os
import random
import statistics
import tempfile
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import nn

from torch_presil import _C
from torch_presil.fused_layer import label

__all__ = ["PARTS", "TARGETS", "Size", "measure"]

# As TARGETS of bench.py: of 100 launches 50, 95 are nearer.
TARGETS = {
    "hybrid_estimate_median": ("%", 2.0, 1.0, False),
    "hybrid_estimate_95th": ("%", 5.0, 2.0, False),
}
SEED = 13  # PRESIL_BENCH_SEED
COST = {torch.int8: 0.5, torch.bfloat16: 1, torch.float32: 6}  # of a product, in time of the array


@dataclass
class Size:
    known: int  # layers that the store is filled with
    kept_out: int
    channels: int
    pixels: int  # along a side
    rows: int  # of a matrix
    macs: float
    types: tuple = (torch.bfloat16, torch.float32, torch.int8)  # of convolutions; the floats, of products


# The RTL's time decides: tiny has a 64th of the other's products a cycle.
SIZES = {
    "tiny": Size(1000, 1000, 128, 40, 192, 1e7),
    "base": Size(200, 200, 512, 112, 768, 1.5e8),
}


def _between(draw: random.Random, low: int, high: int) -> int:
    """Small ones as often as large ones."""
    return int(math.exp(draw.uniform(math.log(low), math.log(high + 1))))


class _Int8(nn.Module):
    """A convolution of int8 with bias and requantisation, as torch_presil.quantize makes it."""

    def __init__(self, c: int, o: int, kernel: int, stride: int, padding: int, groups: int):
        super().__init__()
        self.register_buffer("weight", torch.zeros(o, c // groups, kernel, kernel, dtype=torch.int8))
        self.register_buffer("bias", torch.zeros(o, dtype=torch.int32))
        self.register_buffer("scale", torch.ones(o))
        self.geometry = ([stride] * 2, [padding] * 2, [1, 1], groups)

    def forward(self, x):
        return torch.ops.presil.conv2d_int8(
            x, self.weight, self.bias, self.scale, *self.geometry, 0, 0, None, 1.0, 0, False, label("conv")
        )


def _convolution(draw: random.Random, size: Size):
    kernel, stride = draw.choice((1, 1, 2, 3, 3, 5, 7)), draw.choice((1, 1, 2, 3))
    n, h, w = _between(draw, 1, 4), _between(draw, kernel, size.pixels), _between(draw, kernel, size.pixels)
    c, o = _between(draw, 1, size.channels), _between(draw, 1, size.channels)
    groups = draw.choice((1, 1, 1, 1, c))
    o = groups if groups > 1 else o
    padding, bias = draw.choice((0, kernel // 2)), draw.random() < 0.6
    dtype = draw.choice(size.types)
    macs = n * h * w * o * (c // groups) * kernel**2 / stride**2
    if macs * COST[dtype] > size.macs:
        return None
    if dtype == torch.int8:
        layer, bias = _Int8(c, o, kernel, stride, padding, groups), True
    else:
        layer = nn.Conv2d(c, o, kernel, stride, padding, groups=groups, bias=bias).to(dtype)
    x = torch.zeros(n, c, h, w, dtype=dtype).to(memory_format=torch.channels_last)
    return (kernel, stride, n, h, w, c, o, groups, padding, dtype, bias), layer.to("presil"), [x]


class _Product(nn.Module):
    def forward(self, a, b):
        return a @ b


def _matmul(draw: random.Random, size: Size):
    floats = [dtype for dtype in size.types if dtype.is_floating_point]
    if not floats:
        return None
    b, m, n, k = draw.choice((1, 1, 2, 5)), *(_between(draw, 1, size.rows) for _ in range(3))
    dtype, turned = draw.choice(floats), draw.random() < 0.4
    if b * m * n * k * COST[dtype] > size.macs:
        return None
    right = torch.zeros(b, n, k, dtype=dtype).mT if turned else torch.zeros(b, k, n, dtype=dtype)
    return (b, m, n, k, dtype, turned), _Product(), [torch.zeros(b, m, k, dtype=dtype), right]


def _layers(count: int, seed: int, size: Size, seen: set):
    """`count` layers, none of which is in `seen`, to which they are added."""
    draw = random.Random(seed)
    while count:
        made = draw.choice((_convolution, _convolution, _matmul))(draw, size)
        if made is None or made[0] in seen:
            continue
        seen.add(made[0])
        count -= 1
        yield made[1], made[2]


def _run(layers) -> list:
    """The reports of the launches, in order."""
    with torch.presil.reports() as collected, torch.no_grad():
        for layer, inputs in layers:
            layer(*(x.to("presil") for x in inputs))
        torch.presil.synchronize()
        return [r for r in collected.take() if r["cycles"]]


def _off(estimated: list, exact: list) -> list:
    if [r["label"] for r in estimated] != [r["label"] for r in exact] or any(r["estimated"] for r in exact):
        raise RuntimeError("the launches of the two runs are not the same ones")
    pairs = [(e, x) for e, x in zip(estimated, exact, strict=True) if e["estimated"]]
    return [100 * abs(e["cycles"] / x["cycles"] - 1) for e, x in pairs]


def _stalls_off(estimated: list, exact: list) -> list:
    """Of each launch with estimated stalls the cause that is furthest off, in percent of the cycles."""
    share = lambda r: [n / r["cycles"] for causes in r["stalls"].values() for n in causes.values()]
    pairs = [(e, x) for e, x in zip(estimated, exact, strict=True) if e.get("stalls_error") is not None]
    return sorted(100 * max(abs(a - b) for a, b in zip(share(e), share(x), strict=True)) for e, x in pairs)


def _bytes_off(estimated: list, exact: list) -> int:
    """Launches whose bytes are said to be known, and are others."""
    moved = lambda r: (r["read_bytes"], r["write_bytes"])
    return sum(e.get("bytes_known", False) and moved(e) != moved(x) for e, x in zip(estimated, exact, strict=True))


def measure(size: Size, seed: int, tell) -> dict:
    """Fills a store with some layers; the others are estimated, then simulated in mode "rtl", which no store is part
    of."""
    mode, unseen = _C.get_mode(), _C.get_unseen()
    store = (_C.get_store(), _C.get_store_sample(), _C.get_store_seed())
    seen: set = set()
    with tempfile.TemporaryDirectory() as folder:
        try:
            _C.set_store(str(Path(folder) / "timings.sqlite"), 0.0, 0)
            _C.set_unseen("simulate")
            _C.set_mode("hybrid")
            tell(f"estimate: seed {seed}, {size.known} layers for the store")
            known = _run(_layers(size.known, seed, size, seen))
            tell(f"estimate: {size.kept_out} others, estimated")
            kept_out = list(_layers(size.kept_out, seed + 1, size, seen))
            _C.set_unseen("estimate")
            estimated = _run(kept_out)
            bound = max((r["cycles_error"] for r in estimated), default=0.0)
            tell("estimate: the same, simulated")
            _C.set_mode("rtl")
            exact = _run(kept_out)
        finally:
            _C.set_mode("model" if mode == "hybrid" else mode)
            _C.set_unseen(unseen)
            _C.set_store(*store)
            _C.set_mode(mode)
    off = sorted(_off(estimated, exact))
    if not off:
        raise RuntimeError(f"none of {len(estimated)} launches was estimated, of {len(known)} known ones")
    stalls = _stalls_off(estimated, exact)
    of_stalls = {
        "hybrid_estimate_stalls_median_percent": statistics.median(stalls),
        "hybrid_estimate_stalls_95th_percent": stalls[math.ceil(0.95 * len(stalls)) - 1],
        "hybrid_estimate_stalls_told_percent": 100 * max(r.get("stalls_error") or 0 for r in estimated),
    } if stalls else {}  # fmt: skip
    return {
        "hybrid_estimate_seed": seed,
        "hybrid_estimate_known_launches": len(known),
        "hybrid_estimate_launches": len(off),
        "hybrid_estimate_simulated_launches": len(estimated) - len(off),
        "hybrid_estimate_median": statistics.median(off),
        "hybrid_estimate_95th": off[math.ceil(0.95 * len(off)) - 1],
        "hybrid_estimate_worst_percent": off[-1],
        "hybrid_estimate_told_percent": 100 * bound,
        **of_stalls,
        "hybrid_estimate_launches_of_other_bytes": _bytes_off(estimated, exact),
    }


def _part(tell) -> dict:
    size = SIZES.get(_C.get_chip(), SIZES["base"])
    return measure(size, int(os.environ.get("PRESIL_BENCH_SEED", SEED)), tell)


PARTS = {"hybrid.estimate": _part}
