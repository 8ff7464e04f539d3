#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Memories of the chip as Yosys infers them, and arrays over 1 kbit that are registers.

usage: memories.py [CONFIG]   prints both tables
"""

import re
import sys

import yosys
from files import BUILD

LARGE = 1024  # bits


def path(module: str) -> str:
    """presil_bank$presil_top.u_scratchpad.g_bank[0].u_bank -> u_scratchpad.g_bank[*].u_bank"""
    return re.sub(r"\[\d+\]", "[*]", module.partition("$presil_top.")[2] or "-")


def elaborate(config: str) -> tuple[str, str]:
    """Memory cells, and the rest as processes, which are lowered only where a memory is: base's array alone would take
    minutes and its weights are found as well in what a process assigns."""
    place = BUILD / config / "memories"
    script = yosys.read(place, config, {}).replace("read_slang ", "read_slang --no-proc ")
    script = script.replace("select -assert-none p:*\n", "")
    yosys.run(
        place,
        script + "select p:* w:*\nwrite_rtlil -selected processes.il\nselect -clear\n"
        "proc @holders\nopt_dff -simple-dffe @holders\nmemory_dff @holders\nmemory_collect @holders\n"
        "select t:$mem*\nwrite_rtlil -selected memories.il\n",
    )
    return (place / "memories.il").read_text(), (place / "processes.il").read_text()


def memories(text: str) -> list[tuple]:
    """(array, instances, how many, words, bits, reads synchronous, reads not, writes), the largest first."""
    alike = {}
    for module, kind, name, p, _ in yosys.cells(text):
        if kind.startswith("$mem"):
            synchronous = p["RD_CLK_ENABLE"].bit_count()
            shape = (p["SIZE"], p["WIDTH"], synchronous, p["RD_PORTS"] - synchronous, p["WR_PORTS"])
            alike.setdefault((f"{module.split('$')[0]}.{yosys.variable(name)}", *shape), []).append(path(module))
    rows = [(key[0], sorted(set(paths)), len(paths), *key[1:]) for key, paths in alike.items()]
    return sorted(rows, key=lambda row: (-row[2] * row[3] * row[4], row[0]))


def register_files(text: str) -> list[tuple[str, int]]:
    """(variable, bits of one instance) of all over 1 kbit that processes assign at a clock's edge."""
    found, widths, module = {}, {}, ""
    for line in text.splitlines():
        word = line.split()
        if line.startswith("module "):
            module, widths = word[1].lstrip("\\").split("$")[0], {}
        elif line.startswith("  wire ") and word[-1].startswith("\\"):
            widths[word[-1]] = int(word[word.index("width") + 1]) if "width" in word else 1
        elif word and word[0] == "update":
            name = line.split(None, 1)[1].rsplit(" $", 1)[0]
            for piece in re.finditer(r"(\\\S+)(?: \[(\d+)(?::(\d+))?\])?", name):
                high, low = piece.group(2), piece.group(3) or piece.group(2)
                bits = int(high) - int(low) + 1 if high else widths.get(piece.group(1), 0)
                key = (module, yosys.variable(piece.group(1)))
                found.setdefault(key, {})[(piece.group(1), high)] = bits
    totals = {f"{module}.{name}": sum(parts.values()) for (module, name), parts in found.items()}
    return sorted(((name, bits) for name, bits in totals.items() if bits > LARGE), key=lambda row: (-row[1], row[0]))


def measure(config: str) -> tuple[list, list]:
    memory_text, process_text = elaborate(config)
    return memories(memory_text), register_files(process_text)


if __name__ == "__main__":
    for table in measure(sys.argv[1] if len(sys.argv) > 1 else "base"):
        print("\n".join(map(str, table)), end="\n\n")
