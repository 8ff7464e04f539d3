# SPDX-License-Identifier: Apache-2.0
"""tiny, odd and base elaborate for synthesis with Yosys; docs/synthesis.md holds the cell counts, and areas.json of
presil perf what they are in gates (PRESIL_UPDATE_DOCS=1 rewrites both). What they say already of this RTL is not
measured again (measured.py)."""

import importlib.util
import json
import os
import re
from functools import cache

import measured
import pytest
import yosys
from files import BUILD, ROOT
from netlist import combinational_paths, loop, not_driven_once

TABLE = ROOT / "docs" / "synthesis.md"
PERF = ROOT / "torch_ext" / "torch_presil" / "perf"
spec = importlib.util.spec_from_file_location("perf_proxies", PERF / "proxies.py")  # alone: it needs no torch
proxies = importlib.util.module_from_spec(spec)
spec.loader.exec_module(proxies)
TOLERANCE = 0.05  # of a count in the table; a larger change deserves a look


# Wires and memories of two modules, for test_depth.py, which hasn't the time to read base again.
WIDE = "select w:u_matrix.u_array.* w:u_epilogue.u_pipe.* m:u_epilogue.u_pipe.*; write_rtlil -selected wide.il"


@cache
def synthesize(config: str, further: str = "") -> dict[str, int]:
    """Word-level cells of all instances below presil_top after elaboration; `further` are commands that Yosys runs
    then."""
    place = BUILD / config / "synthesis"
    files = yosys.copied(place, config)
    yosys.run(
        place,
        f"read_slang --threads 1 --no-proc --top presil_top {files}; hierarchy -check -top presil_top; "
        f"tee -q -o cells.json stat -json; tee -q -o widths.json stat -width -json; {further or WIDE}",
    )
    design = json.loads((place / "cells.json").read_text())["design"]
    kinds = design["num_cells_by_type"]
    return {
        "cells": design["num_cells"],
        "multipliers": kinds.get("$mul", 0),
        "adders": kinds.get("$add", 0) + kinds.get("$sub", 0),
        "multiplexers": kinds.get("$mux", 0) + kinds.get("$bmux", 0),
        "memories": design["num_memories"],
        "memory_bits": design["num_memory_bits"],
    }


@measured.once
def test_synthesis_checks_tiny():
    """No combinational loop, no net with two drivers or none; and no path without a register from an input to an
    output, which AXI forbids. (base outgrows the 4 GiB of yowasp's sandbox after elaboration.)"""
    synthesize("tiny", "proc; flatten; opt_clean; write_json flat.json")
    flat = json.loads((BUILD / "tiny" / "synthesis" / "flat.json").read_text())["modules"]["presil_top"]
    assert len(flat["cells"]) > 10_000 and len(flat["ports"]) > 50
    assert not combinational_paths(flat)
    assert not loop(flat)
    assert not_driven_once(flat) == (set(), set())


def cell(kind, **connections):
    directions = {port: "output" if port in "YQ" else "input" for port in connections}
    return {"type": kind, "connections": connections, "port_directions": directions}


def module(ports: dict, cells: list) -> dict:
    return {
        "ports": {name: {"direction": d, "bits": bits} for name, (d, bits) in ports.items()},
        "cells": {str(i): c for i, c in enumerate(cells)},
    }


def test_a_path_without_a_register_is_found():
    ports = {"a": ("input", [2, 3]), "b": ("input", [4]), "clk": ("input", [5])}
    ports |= {"y": ("output", [10]), "z": ("output", [11]), "q": ("output", [12])}
    cells = [
        cell("$not", A=[2, 3], Y=[6, 7]),  # bit by bit: a[1] alone reaches y
        cell("$mux", A=[7], B=["0"], S=[4], Y=[10]),
        cell("$dff", CLK=[5], D=[6], Q=[11]),
        cell("$add", A=[11, "0"], B=["1", "0"], Y=[8, 12]),
    ]
    assert combinational_paths(module(ports, cells)) == {("a", "y"), ("b", "y")}


def test_loops_and_drivers_are_found():
    ports = {"a": ("input", [2, 3]), "clk": ("input", [4]), "y": ("output", [8])}
    register = cell("$dff", CLK=[4], D=[7], Q=[5])  # its way back is no loop
    cells = [register, cell("$add", A=[5, 2], B=["1", "0"], Y=[6, 7]), cell("$mux", A=[6], B=[3], S=[2], Y=[8])]
    sound = module(ports, cells)
    assert loop(sound) == [] and not_driven_once(sound) == (set(), set())
    around = cell("$mux", A=["0"], B=[8], S=[3], Y=[9])  # 6, 8, 9 and, as the carry could reach it, 6
    closed = [register, cell("$add", A=[5, 9], B=["1", "0"], Y=[6, 7]), cells[2], around]
    assert sorted(loop(module(ports, closed))) == [6, 8, 9]
    assert loop(module(ports, [*cells, cell("$or", A=[10, 11], B=["0", "0"], Y=[11, 12])])) == []  # bit by bit
    assert loop(module(ports, [*cells, cell("$or", A=[10], B=["0"], Y=[10])])) == [10]
    assert not_driven_once(module(ports, [*cells, cell("$not", A=[20], Y=[21])])) == ({20}, set())
    assert not_driven_once(module(ports, [*cells, cell("$not", A=[2], Y=[8])])) == (set(), {8})
    assert not_driven_once(module(ports, [*cells, cell("$not", A=[2], Y=[3])])) == (set(), {3})
    assert not_driven_once(module(ports, [*cells, cell("$not", A=[2], Y=["0"])])) == (set(), {"0"})


FAULTS = """
module faults(input clk, input [1:0] a, output [2:0] y, output q);
  wire [1:0] around; wire open; reg kept;
  assign around = a + {1'b0, around[1]};
  assign y = {open & a[0], around};
  always @(posedge clk) kept <= !kept;
  assign q = kept;
endmodule
"""


def test_what_yosys_writes_of_a_loop_and_an_open_net(tmp_path):
    (tmp_path / "faults.sv").write_text(FAULTS)
    yosys.run(
        tmp_path,
        "read_slang --threads 1 --no-proc --top faults faults.sv; proc; flatten; opt_clean; write_json flat.json",
    )
    flat = json.loads((tmp_path / "flat.json").read_text())["modules"]["faults"]
    nets = {name: net["bits"] for name, net in flat["netnames"].items()}
    assert set(loop(flat)) & set(nets["around"]) and not set(loop(flat)) & set(nets["kept"])
    assert not_driven_once(flat) == (set(nets["open"]), set())


def check_area(config: str) -> None:
    """areas.json has what the cells are today."""
    widths = json.loads((BUILD / config / "synthesis" / "widths.json").read_text())["design"]
    now = proxies.gates(widths["num_cells_by_type"], widths["num_memory_bits"])
    file, key = PERF / "areas.json", f"presil {config}"
    if os.environ.get("PRESIL_UPDATE_DOCS") == "1":
        file.write_text(json.dumps({**json.loads(file.read_text()), key: now}, indent=1) + "\n")
    written = json.loads(file.read_text())[key]
    assert all(abs(now[part] - written[part]) <= TOLERANCE * written[part] for part in now), (now, written)


@pytest.mark.parametrize("config", ["tiny", "odd", "base"])
@measured.once
def test_synthesis_elaborates(config):
    found = synthesize(config)
    assert found["cells"] > 1000, found
    check_area(config)
    row = f"| {config} | {' | '.join(map(str, found.values()))} |"
    if os.environ.get("PRESIL_UPDATE_DOCS") == "1":
        TABLE.write_text(re.sub(rf"^\| {config} \|.*$", row, TABLE.read_text(), flags=re.M))
    line = re.search(rf"^\| {config} \|(.*)\|$", TABLE.read_text(), re.M)
    assert line, f"docs/synthesis.md has no row of {config}: {row}"
    written = [int(text) for text in line.group(1).split("|")]
    assert len(written) == len(found)
    assert all(abs(now - then) <= TOLERANCE * then for now, then in zip(found.values(), written)), (
        f"docs/synthesis.md is out of date; now {row}"
    )
