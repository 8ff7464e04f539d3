# SPDX-License-Identifier: Apache-2.0
"""Memories of the chip as Yosys infers them, and arrays over 1 kbit that are registers."""

import math
import re

import yosys
from files import BUILD

LARGE = 1024  # bits
# Their arithmetic takes Yosys a minute at base's sizes: what of them is a register is found at the smallest.
WIDE = ("presil_array", "presil_epilogue_pipe")
SMALL = {"LANES": 8, "CELLS": 4}


def path(module: str) -> str:
    """presil_bank$presil_top.u_scratchpad.g_bank[0].u_bank -> u_scratchpad.g_bank[*].u_bank"""
    return re.sub(r"\[\d+\]", "[*]", module.partition("$presil_top.")[2] or "-")


def elaborate(config: str) -> str:
    """Memory cells as RTLIL, of all modules but the wide ones."""
    place = BUILD / config / "memories"
    apart = "".join(f"--blackboxed-module {module} " for module in WIDE)
    script = yosys.read(place, config, {}).replace("read_slang ", f"read_slang {apart}")
    yosys.run(place, f"{script}{yosys.MEMORIES}select t:$mem*\nwrite_rtlil -selected memories.il\n")
    return (place / "memories.il").read_text()


def memories(text: str) -> list[tuple]:
    """(array, instances, how many, words, bits, reads with a clock, reads without, writes, byte enables, whether a read
    has what is written in its cycle) of each, the largest first."""
    alike = {}
    for module, kind, name, p, wires in yosys.cells(text):
        if kind.startswith("$mem"):
            clocked, ports = p["RD_CLK_ENABLE"].bit_count(), p["WR_PORTS"]
            # a port for each byte, all of one address, are one with byte enables
            lanes = ports if len(set(re.findall(r"[\\$]\S+(?: \[[\d:]+\])?", wires["WR_ADDR"]))) == 1 else 1
            forward = p["RD_TRANSPARENCY_MASK"] != 0
            shape = (p["SIZE"], p["WIDTH"], clocked, p["RD_PORTS"] - clocked, ports // lanes, lanes, forward)
            array = f"{module.split('$')[0]}.{yosys.variable(name)}"
            alike.setdefault((array, *shape), []).append(path(module))
    rows = [(key[0], sorted(set(paths)), len(paths), *key[1:]) for key, paths in alike.items()]
    return sorted(rows, key=lambda row: (-row[2] * row[3] * row[4], row[0]))


def held(config: str) -> set[str]:
    """Registers and memories of the wide modules, as they are called below presil_top."""
    place = BUILD / config / "held"
    chosen = " ".join(f"{module}$*/{kind}" for module in WIDE for kind in ("t:$*ff*", "m:*"))
    yosys.run(place, f"{yosys.read(place, 'tiny', SMALL)}select {chosen}\nwrite_rtlil -selected held.il\n")
    text = (place / "held.il").read_text()
    names = {f"{module}.{name}" for module, name in yosys.registers(text)}
    for module in re.split(r"(?m)^module ", text)[1:]:
        names |= {f"{module.split()[0]}.{name}" for name in re.findall(r"(?m)^  memory .*\\(\S+)$", module)}
    return {name.partition("$presil_top.")[2] for name in names}


def flops(config: str, flat: str) -> list[tuple[str, int]]:
    """(array, bits) of those over 1 kbit in the wide modules; `flat`: wires and memories of the flat chip as RTLIL."""
    names, bits = held(config), {}
    for kind, options, name in re.findall(r"(?m)^  (wire|memory) (.*)\\(\S+)$", flat):
        size = [int(number) for number in re.findall(r"(?:width|size) (\d+)", options)]
        if name in names:
            bits[name] = math.prod(size)
    assert names <= bits.keys(), names - bits.keys()
    return sorted(((name, size) for name, size in bits.items() if size > LARGE), key=lambda row: (-row[1], row[0]))
