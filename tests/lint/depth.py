#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Gates and logic levels of each module of the chip, by Yosys and abc.

usage: depth.py [NAME=NUMBER...]   sizes in place of those of the gated configuration, as in LANES=16; prints the tables
"""

import json
import statistics
import sys
from pathlib import Path

import levels
import yosys
from files import BUILD

# tiny with the smallest array that the RTL allows: gates and time grow with LANES * CELLS, and here one core does it.
SIZES = {"LANES": 8, "CELLS": 4}
REGISTER_FILE = 1024  # bits; an array of more is a border, as a memory is
GATES = "AND,NAND,OR,NOR,XOR,XNOR,ANDNOT,ORNOT,MUX"
ABC = "+strash;ifraig;dch,-f;map"  # abc maps for delay unless it is told otherwise; every gate costs the same
APART = ("presil_array", "presil_epilogue_pipe")  # the largest
GROUPS = [("presil", ABC)]


def netlist(place: Path, sizes: dict[str, int]) -> dict:
    """Each module mapped by itself to gates, as JSON. A process for each of GROUPS, because the sandbox has 4 GiB."""
    registers = "select t:$*ff*\nwrite_rtlil -selected registers.il\nselect -clear\n"
    yosys.run(place, yosys.read(place, "tiny", sizes) + registers + "write_rtlil word.il\n")
    held = yosys.registers((place / "registers.il").read_text())
    files = [(module, name) for (module, _), cells in held.items() for name, _ in cells
             if sum(width for _, width in cells) > REGISTER_FILE]  # fmt: skip
    modules = {}
    for number, (chosen, script) in enumerate(GROUPS):
        alone = f"select -set others {others(number)}\nblackbox @others\n"
        gone = "".join(f"delete {module}/{name}\n" for module, name in files if module.startswith(chosen))
        yosys.run(place, f"read_rtlil word.il\n{gone}{alone}{mapping(script)}write_json gates{number}.json\n")
        found = json.loads((place / f"gates{number}.json").read_text())["modules"]
        # a black box of one process is a module of another, or stays one: its outputs start paths
        mapped = {name: text for name, text in found.items() if "blackbox" not in text["attributes"]}
        modules = {**{name: text for name, text in found.items() if name not in modules}, **modules, **mapped}
    return {"modules": modules}


def others(number: int) -> str:
    """What the process of that group takes no part in, as Yosys selects it."""
    named = [f"{name}*" for name in APART]
    if number == 0:
        return " ".join(named)
    return f"presil* {GROUPS[number][0]}$* %d"


def mapping(script: str) -> str:
    # opt_dff makes enables, without which memory_dff doesn't see that a read is registered; dfflegalize takes them
    # apart again, because an enable is a multiplexer before the register.
    return (
        "opt_clean\nopt_expr\nselect -set holders t:$mem* %m\nopt_dff -simple-dffe @holders\n"
        "memory_dff @holders\nmemory_collect @holders\nwreduce\nopt_expr\nalumacc\nopt_clean\n"
        f"techmap\ndfflegalize -cell $_DFF_P_ x\nabc -g {GATES} -script {script}\nopt_clean\n"
    )


def measure(sizes: dict[str, int]):
    """({module: (gates, flops, (levels, from, to), levels in the chip)}, worst paths); of a module's several
    instances the deepest."""
    found, paths = levels.analyse(netlist(BUILD / "depth", {**SIZES, **sizes}))
    modules = {}
    for name, row in sorted(found.items()):
        module = name.split("$")[0]
        if module not in modules or row[2][0] > modules[module][2][0]:
            modules[module] = row
    return modules, paths


def ten(paths: list) -> list[tuple[int, str, str]]:
    """The ten worst, of each pair of variables one: cells and banks are copies."""
    copies = {}
    for level, start, end in paths:
        copies.setdefault((yosys.plain(start), yosys.plain(end)), (level, start, end))
    return list(copies.values())[:10]


def tables(modules: dict, paths: list) -> tuple[list[str], list[str]]:
    rows = [
        f"| {name} | {gates} | {flops} | {alone[0]} | {chip} | `{alone[1]}` → `{alone[2]}` |"
        for name, (gates, flops, alone, chip) in sorted(modules.items(), key=lambda row: -row[1][2][0])
    ]
    worst = ten(paths)
    middle = statistics.median(level for level, _, _ in worst)
    return rows, [f"| {level} | {level / middle:.2f} | `{start}` → `{end}` |" for level, start, end in worst]


if __name__ == "__main__":
    chosen = {name: int(value) for name, value in (text.split("=") for text in sys.argv[1:])}
    for table in tables(*measure(chosen)):
        print("\n".join(table), end="\n\n")
