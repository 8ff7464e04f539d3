#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Gates and logic levels of each module of the chip, by Yosys and abc.

usage: depth.py [CONFIG] [NAME=NUMBER...]   other sizes than the gated ones, as in base CELLS=4; prints both tables
"""

import json
import re
import statistics
import sys
from pathlib import Path

import levels
import yosys
from files import BUILD

CONFIG, SIZES = "tiny", {"LANES": 8, "CELLS": 4}  # the smallest array that the RTL allows
GATES = "AND,NAND,OR,NOR,XOR,XNOR,ANDNOT,ORNOT,MUX"
# abc maps for delay unless it is told otherwise; every gate costs the same. ifraig on the array takes longer than all
# the rest.
ABC = "+strash;ifraig;balance;map"
ABC_OF_ARRAY = "+strash;balance;map"
# Registers of all cells, and their bits in each: the first cell's are kept, and what only the others need goes, as they
# are copies.
ONE_CELL = {
    "presil_array": {"acc_wdata": 32, "wman": 32, "wexp": 32, "wsign": 32, "w8": 16},
    "presil_epilogue_pipe": dict.fromkeys(("bias", "scale", "s1", "s2", "s3", "s4", "s5", "s6", "r2", "r3"), 32),
}
# Bits that the RTL makes zero in every write of a weight; Yosys doesn't see that through the choice of a cell.
ZERO = {"wman": ~0xFF, "wexp": ~0x1FF, "wsign": ~0x80000100}
LEFT_OUT = "presil_counters"  # 23,000 gates of counters, at most 22 levels: a sixth of the time
TIDY = "opt_expr -fine\nopt_merge\nopt_dff\nopt_clean\n"
MAPPING = (
    f"{yosys.MEMORIES}opt_expr -fine\nopt_merge\nopt_clean\n"
    # Multiplexers as gates first: then it is seen which bits of a register are always zero; operators get narrower.
    "simplemap t:$*ff* t:$*mux t:$and t:$or t:$xor t:$not t:$logic* t:$reduce* %u\nopt_clean\n"
    f"{TIDY}{TIDY}wreduce\nalumacc\ntechmap\n"
    # an enable is a multiplexer before the register
    "dfflegalize -cell $_DFF_P_ x\nopt_clean\nselect -set array presil_array$*\nselect -set rest * @array %d\n"
    f"abc -g {GATES} -script {ABC_OF_ARRAY} @array\nabc -g {GATES} -script {ABC} @rest\nopt_clean\n"
    "write_json gates.json\n"
)


def other_bits(name: str, bit: int, width: int, cells: int) -> str | None:
    """What takes a register's bit's place in RTLIL: nothing (another cell), a constant, a sign; None: it stays."""
    at = bit % (width * cells)
    if at >= width:
        return ""
    if ZERO.get(name, 0) >> at & 1:
        return f"  connect \\{name} [{bit}] 1'0\n"
    if name == "w8" and at > 7:
        return f"  connect \\{name} [{bit}] \\{name} [{bit - at + 7}]\n"
    return None


def one_cell(text: str, cells: int) -> str:
    """RTLIL without the registers of the other cells, and of what is always zero or a sign."""
    module, kept = "", []
    for part in re.split(r"(?m)^(?=module |  cell )", text):
        if part.startswith("module"):
            module = part.split("$")[0].removeprefix("module \\")
        found = re.search(r"connect \\Q \\(\w+) \[(\d+)\]", part) if part.startswith("  cell $_") else None
        width = found and ONE_CELL.get(module, {}).get(found.group(1))
        instead = other_bits(found.group(1), int(found.group(2)), width, cells) if width else None
        if instead is not None:
            kept[-1] = re.sub(r"(  attribute .*\n)+\Z", "", kept[-1])
            part = instead + part.split("\n  end\n", 1)[1]
        kept.append(part)
    return "".join(kept)


def netlist(place: Path, config: str, sizes: dict[str, int]) -> dict:
    """Each module mapped by itself to gates, as JSON; of equal modules one."""
    apart = " ".join(f"{module}*/t:$*ff*" for module in ONE_CELL)
    yosys.run(place, yosys.read(place, config, sizes) + f"simplemap {apart}\nwrite_rtlil word.il\n")
    cells = re.search(r"unsigned CELLS = (\d+);", (place / "presil_config_pkg.sv").read_text())
    text = one_cell((place / "word.il").read_text(), int(cells.group(1)))
    (place / "cut.il").write_text(text)
    copies = yosys.copies(text)
    named = " ".join(copies)
    yosys.run(place, f"read_rtlil cut.il\nselect -set copies {named}\ndelete @copies\nblackbox {LEFT_OUT}$*\n{MAPPING}")
    design = json.loads((place / "gates.json").read_text())
    for module in design["modules"].values():
        for cell in module["cells"].values():
            cell["type"] = copies.get(cell["type"], cell["type"])
    return design


def measure(config: str, sizes: dict[str, int]):
    """({module: (gates, flops, (levels, from, to), levels in the chip)}, worst paths); of a module's several
    instances the deepest."""
    found, paths = levels.analyse(netlist(BUILD / "depth", config, sizes))
    modules = {}
    for name, row in sorted(found.items()):
        module = name.split("$")[0]
        if module not in modules or row[2][0] > modules[module][2][0]:
            modules[module] = row
    return modules, paths


def ten(paths: list) -> list[tuple[int, str, str]]:
    """The ten worst that end in different modules' variables; of those with one start and one length the first: the
    same logic is before many registers."""
    ends, starts = set(), set()
    worst = []
    for level, start, end in paths:
        end, start = yosys.plain(end), yosys.plain(start)
        module = end.rpartition(".")[0]
        if end not in ends and (start, module) not in starts:
            worst.append((level, start, end))
        ends.add(end)
        starts.add((start, module))
    return worst[:10]


def tables(modules: dict, paths: list) -> tuple[list[str], list[str]]:
    rows = [
        f"| {name} | {gates} | {flops} | {alone[0]} | {chip} | `{alone[1]}` → `{alone[2]}` |"
        for name, (gates, flops, alone, chip) in sorted(modules.items(), key=lambda row: -row[1][2][0])
    ]
    worst = ten(paths)
    middle = statistics.median(level for level, _, _ in worst)
    return rows, [f"| {level} | {level / middle:.2f} | `{start}` → `{end}` |" for level, start, end in worst]


if __name__ == "__main__":
    named = [text for text in sys.argv[1:] if "=" not in text]
    sizes = {name: int(value) for name, value in (text.split("=") for text in sys.argv[1:] if "=" in text)}
    for table in tables(*measure(named[0], sizes) if named else measure(CONFIG, {**SIZES, **sizes})):
        print("\n".join(table), end="\n\n")
