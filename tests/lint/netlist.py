# SPDX-License-Identifier: Apache-2.0
"""What of a flat netlist (Yosys' write_json) depends on what without a register between, and what drives its nets.
Yosys' own `check` says that too, in 112 s of processor time for tiny."""

from collections import Counter, defaultdict, deque

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


def loop(module):
    """Bits of the first combinational loop that is found, in order; empty: there is none. Of a wide cell every output
    bit counts as following from every input bit, so what has none here has none."""
    follows = defaultdict(list)
    wide = {}  # all outputs of a cell -> a number for them, below 0
    for cell in module["cells"].values():
        if not cell["type"].startswith(CLOCKED):
            for bit, outputs in _cell_edges(cell):
                if len(outputs) > 1 and id(outputs) not in wide:
                    wide[id(outputs)] = -1 - len(wide)
                    follows[wide[id(outputs)]] = outputs
                follows[bit].extend([wide[id(outputs)]] if len(outputs) > 1 else outputs)
    done = set()
    for first in list(follows):
        way, under_way = [(first, iter(follows[first]))], {first}
        while way and first not in done:
            bit, rest = way[-1]
            for fresh in rest:
                if fresh in under_way:
                    bits = [b for b, _ in way]
                    return [b for b in bits[bits.index(fresh) :] if b >= 0]
                if fresh not in done and isinstance(fresh, int):
                    way.append((fresh, iter(follows.get(fresh, ()))))
                    under_way.add(fresh)
                    break
            else:
                way.pop()
                under_way.discard(bit)
                done.add(bit)
    return []


def not_driven_once(module):
    """({bits that are used and nothing drives}, {bits that two drive, or a cell and a constant})."""
    drivers, used = Counter(), set()
    for port in module["ports"].values():
        (drivers.update if port["direction"] == "input" else used.update)(port["bits"])
    constants = set()
    for cell in module["cells"].values():
        for port, bits in cell["connections"].items():
            if cell["port_directions"][port] == "output":
                drivers.update(bits)
                constants.update(bit for bit in bits if not isinstance(bit, int))
            else:
                used.update(bits)
    nothing = {bit for bit in used if isinstance(bit, int) and not drivers[bit]}
    return nothing, constants | {bit for bit, count in drivers.items() if isinstance(bit, int) and count > 1}
