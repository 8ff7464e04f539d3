# SPDX-License-Identifier: Apache-2.0
"""A forward on a chip that exists on paper: names of its own, figures that can be added up by hand."""

from torch_presil.perf import document

NAMES = {
    "engines": [{"name": "fetch"}, {"name": "grid", "array": True}, {"name": "unused"}],
    "causes": [
        {"name": "at_work", "works": True, "bound": "grid", "meaning": "multiplies or moves"},
        {"name": "starved", "bound": "memory"},
        {"name": "nothing"},
    ],
    "counters": [{"name": "pages", "unit": "pages"}],
}
LAYERS = ("stem", "body.0.a", "body.0.b", "head")


def report(label: str, site: int, cycles: int, **more) -> dict:
    """Half of the grid's cycles are work; a beat has 32 bytes."""
    work = cycles // 2
    own = {
        "label": label, "site": site, "cycles": cycles, "macs": 8 * work, "passes": 1, "peak_macs_per_cycle": 8,
        "read_bytes": 32 * work, "write_bytes": 320, "read_beats": work, "write_beats": 10, "fill": 0, "drain": 0,
        "stalls": {"fetch": {"at_work": cycles, "starved": 0, "nothing": 0},
                   "grid": {"at_work": work, "starved": cycles - work, "nothing": 0},
                   "unused": {"at_work": 0, "starved": 0, "nothing": cycles}},
        "counters": {"pages": 3}, "verified": -1,
    }  # fmt: skip
    return {**own, **more}


def event(name: str, **more) -> dict:
    own = {"operator": "presil.conv2d.default", "module": name, "line": f"/a/net.py:{len(name)}", "weights": 64,
           "inputs": 1000, "results": 320, "layer": name, "host": {}, "moves": {}}  # fmt: skip
    return {**own, **more}


POOLED = {"max_pool2d.default": {"calls": 1, "seconds": 1e-4, "reason": "no kernel on the chip"}}


def events() -> list:
    pool = event("pool", operator="aten.max_pool2d.default", layer=None, weights=0, host=POOLED)
    return [event("stem"), pool, *(event(name) for name in LAYERS[1:])]


def reports() -> list:
    """body.0.b launches twice."""
    return [report("stem", 1, 1000), report("body.0.a", 3, 400), report("body.0.b", 4, 200), report("body.0.b", 4, 600),
            report("head", 5, 101)]  # fmt: skip


FACTS = {
    "model": "paper:net", "chip": "paper", "dtype": "int8", "mode": "rtl", "batch": 2, "input": [2, 3, 8, 8],
    "seed": 0, "jobs": 1, "traced": True, "properties": {"chip": "paper", "rows": 8}, "names": NAMES,
    "clock": {"mhz": 500, "source": "--clock"}, "memory": {"model": "default", "seed": 0},
    "wall_seconds": 1.0, "sim_seconds": 0.5,
}  # fmt: skip


def made(taken=None, operators=None, extra=None, missing=LAYERS, **facts) -> dict:
    """missing: layers that must launch."""
    launched = reports() if taken is None else taken
    out = document.build({**FACTS, **facts}, launched, operators or events(), list(missing), extra or {})
    return {**out, "batches": [{"batch": out["batch"], **out["total"]}]}


def usage(taken: dict, again: int = 0) -> dict:
    """The report of a chip that also tells what the launch moves and holds."""

    def row(name, role, read, write=0, back=0):
        own = {"name": name, "role": role, "read_bytes": read, "write_bytes": write}
        return {**own, "again_bytes": back, "apart": False}

    rest = taken["read_bytes"] - 64
    traffic = [row("input", "activations", rest, back=again), row("weight", "weights", 64),
               row("output", "results", 0, taken["write_bytes"]), row("partial sums", "partial sums", 0),
               {**row("pages", "commands", 4096), "apart": True}]  # fmt: skip
    memory = {"name": "pad", "capacity": 1000, "reserved": 800, "steps": 4, "peak": taken["cycles"] // 2,
              "mean": taken["cycles"] / 4, "in_use": [0, taken["cycles"] // 2, 100, 0]}  # fmt: skip
    return {**taken, "traffic": traffic, "memories": [memory]}


def used(again: int = 0) -> list:
    return [usage(taken, again) for taken in reports()]
