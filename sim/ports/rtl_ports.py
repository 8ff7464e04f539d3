# SPDX-License-Identifier: Apache-2.0
"""The ports of a top module, as Verilator's front end has them: elaborated, with the widths that parameters give."""

import dataclasses
import json
import os
import subprocess
import tempfile
from pathlib import Path

from rtl_signals import Signals, walk

WORDS = {"int": 32, "integer": 32, "byte": 8, "shortint": 16, "longint": 64, "time": 64}


class RtlError(Exception):
    """The sources can't be read, or have no such top."""


@dataclasses.dataclass(frozen=True)
class Port:
    name: str
    direction: str  # "input", "output", "inout"
    width: int  # bits
    struct: bool = False


LARGEST = 4 << 20  # nodes of a model's tree, every instance counted, that is looked at in whole


def read_ports(verilator, top, arguments):
    """Ports of `top` in their order. arguments: of Verilator: sources, -I, -D, -f, -G."""
    return ports_of(read_tree(verilator, top, arguments), top)


def read_signals(verilator, top, arguments):
    """What the RTL does with the ports of `top` (rtl_signals.Signals); None: it is too large to be looked at."""
    if nodes_of(read_tree(verilator, top, arguments), top) > LARGEST:
        return None
    return Signals(read_tree(verilator, top, ["--flatten", *arguments]))


def nodes_of(tree, top):
    """Nodes of the whole model: of each module as often as there are instances of it."""
    modules = {module["addr"]: module for module in tree["modulesp"]}
    counts = {}

    def count(address):
        if address not in counts:
            counts[address] = 0  # of what instances itself
            own = list(walk([modules[address]]))
            counts[address] = len(own) + sum(
                count(n["modp"]) for n in own if n["type"] == "CELL" and n["modp"] in modules
            )
        return counts[address]

    return count(top_of(tree, top)["addr"])


def read_tree(verilator, top, arguments):
    with tempfile.TemporaryDirectory() as folder:
        command = [verilator, "--json-only", "--Mdir", folder, "--prefix", "Vchip", "--top-module", top, "--quiet"]
        command += ["-Wno-fatal", "-Wno-lint", "-Wno-style", *arguments]
        try:
            done = subprocess.run(command, capture_output=True, text=True, env=os.environ)
        except OSError as error:
            raise RtlError(f"{verilator} can't be run: {error}") from None
        tree = Path(folder) / "Vchip.tree.json"
        if done.returncode or not tree.exists():
            raise RtlError(f"Verilator can't read {top}:\n{done.stderr.strip()}")
        return json.loads(tree.read_text())


def top_of(tree, top):
    modules = [m for m in tree["modulesp"] if m.get("level") == 1 or m.get("origName") == top]
    if not modules:
        raise RtlError(f"the sources have no module {top}")
    return modules[0]


def ports_of(tree, top):
    types = {t["addr"]: t for misc in tree["miscsp"] for t in misc.get("typesp", [])}
    out = []
    for var in top_of(tree, top)["stmtsp"]:
        if var["type"] == "VAR" and var.get("direction", "NONE") != "NONE" and var.get("isPrimaryIO", True):
            width, kind = width_of(var, var["dtypep"], types), types[var["dtypep"]]
            while kind["type"] == "REFDTYPE":
                kind = types[kind["refDTypep"]]
            out.append(Port(var["origName"], var["direction"].lower(), width, kind["type"] == "STRUCTDTYPE"))
    return out


def width_of(var, address, types):
    kind = types[address]
    name = kind["type"]
    if name == "BASICDTYPE":
        return range_of(kind["range"]) if kind.get("range") else WORDS.get(kind["keyword"], 1)
    if name in ("REFDTYPE", "ENUMDTYPE"):
        return width_of(var, kind["refDTypep"], types)
    if name == "PACKARRAYDTYPE":
        return range_of(kind["declRange"].strip("[]")) * width_of(var, kind["refDTypep"], types)
    if name == "STRUCTDTYPE":
        return sum(width_of(var, member["dtypep"], types) for member in kind["membersp"])
    raise RtlError(f"port {var['origName']} is a {name}: packed bits expected (put a wrapper around the top)")


def range_of(text):
    high, low = text.split(":")
    return abs(int(high) - int(low)) + 1
