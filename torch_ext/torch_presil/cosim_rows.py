# SPDX-License-Identifier: Apache-2.0
"""Launches' reports as rows of the result: counters added up, what bounds a layer, latency."""

import torch

from torch_presil.estimates import marks

__all__ = ["CLOCKED", "bound", "latency", "layer_row", "merge"]


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


def latency(reports: list, batch: int, clock_mhz: int | None) -> dict:
    """Simulated time of one forward: all its launches after each other; what ran on the host takes none. None without
    a clock (mode "model")."""
    cycles = sum(r["cycles"] for r in reports) or None
    return {
        "latency_cycles": cycles,
        "images_per_second_simulated": batch * clock_mhz * 1e6 / cycles if cycles and clock_mhz else None,
    }
