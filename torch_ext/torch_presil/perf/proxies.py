# SPDX-License-Identifier: Apache-2.0
"""Proxies for area, from the cells that synthesis counts, and for energy, from what launches count; the constants and
where they are from are in proxies.toml, the areas that are known in areas.json (tests/lint/test_synthesis.py writes
it). Needs no torch."""

import json
import re
import tomllib
from pathlib import Path

__all__ = ["area_of", "constants", "energy", "gates"]

HERE = Path(__file__).parent
# Kinds of word-level cells that are counted. Multiplexers, comparators, gates and shifters are not: before optimisation
# they are as wide as the vectors of the source, most of which is wiring.
ADDERS, REGISTERS = ("add", "sub", "neg", "alu"), ("dff", "dffe", "adff", "adffe", "sdff", "sdffe", "sdffce")
CELL = re.compile(r"\$([a-z]\w*?)(?:_(\d+))*$")


def constants() -> dict:
    return tomllib.loads((HERE / "proxies.toml").read_text())


def gates(cells: dict, memory_bits: int) -> dict:
    """NAND2 equivalents: {"multipliers", "adders", "registers", "memory", "total"}. cells: "$add_32" -> count, as
    yosys's `stat -width` names them."""
    c, bits = constants()["area"], dict.fromkeys(("mul", "add", "dff"), 0)
    for name, count in cells.items():
        found = CELL.match(name)
        kind, width = (found[1], int(found[2] or 1)) if found else (name, 1)
        if kind == "mul":
            bits["mul"] += count
        elif kind in ADDERS or kind in REGISTERS:
            bits["add" if kind in ADDERS else "dff"] += count * width
    parts = {"multipliers": bits["mul"] * c["mul"], "adders": bits["add"] * c["add"]}
    parts |= {"registers": bits["dff"] * c["dff"], "memory": memory_bits * c["memory"]}
    return {**{name: round(value) for name, value in parts.items()}, "total": round(sum(parts.values()))}


def area_of(properties: dict) -> dict | None:
    """As gates(); None: nobody has synthesised this chip."""
    known = json.loads((HERE / "areas.json").read_text())
    return known.get(f"{properties.get('chip')} {properties.get('config')}")


def energy(launch: dict, dtype: str, beat_bytes: int | None) -> dict:
    """Picojoule of a launch: {"products", "memory", "dram"}. Every byte that crosses the bus goes through the chip's
    memory once: written, and read."""
    c = constants()["energy"]
    product = c["int8"] if dtype == "int8" and launch["passes"] == 1 else c["bf16"] * launch["passes"]
    moved = launch["beats"] * beat_bytes if beat_bytes else launch["read_bytes"] + launch["write_bytes"]
    return {"products": launch["macs"] * product, "memory": 2 * moved * c["memory"], "dram": moved * c["dram"]}
