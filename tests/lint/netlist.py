# SPDX-License-Identifier: Apache-2.0
"""What of a flat netlist (Yosys' write_json) depends on what without a register between."""

from collections import defaultdict, deque

CLOCKED = ("$dff", "$adff", "$sdff", "$dffe", "$memwr", "$meminit", "$check", "$assert", "$print", "$scopeinfo")
BITWISE = ("$and", "$or", "$xor", "$xnor", "$not", "$pos", "$bwmux")  # bit i depends on bit i of each operand
CHOOSING = ("$mux",)  # and on the select


def _cell_edges(cell):
    """(input bit, output bits) of a combinational cell."""
    outputs = [
        bit for port, bits in cell["connections"].items() if cell["port_directions"][port] == "output" for bit in bits
    ]
    for port, bits in cell["connections"].items():
        if cell["port_directions"][port] != "input":
            continue
        by_position = cell["type"] in BITWISE or (cell["type"] in CHOOSING and port != "S")
        for i, bit in enumerate(bits):
            if isinstance(bit, int):  # else a constant
                yield bit, outputs[i : i + 1] if by_position and len(bits) == len(outputs) else outputs


def combinational_paths(module, ignored=("clk", "rst")):
    """{(input port, output port)} between which there is a path without a register."""
    follows = defaultdict(list)
    for cell in module["cells"].values():
        if not cell["type"].startswith(CLOCKED):
            for bit, outputs in _cell_edges(cell):
                follows[bit].append(outputs)
    output_of = {
        bit: name
        for name, port in module["ports"].items()
        if port["direction"] == "output"
        for bit in port["bits"]
        if isinstance(bit, int)
    }
    found = set()
    for name, port in module["ports"].items():
        if port["direction"] != "input" or name in ignored:
            continue
        seen, queue = set(port["bits"]), deque(port["bits"])
        while queue:
            for outputs in follows[queue.popleft()]:
                fresh = [bit for bit in outputs if bit not in seen]
                seen.update(fresh)
                queue.extend(fresh)
        found |= {(name, output_of[bit]) for bit in seen if bit in output_of}
    return found
