# SPDX-License-Identifier: Apache-2.0
"""Logic levels of a netlist of gates that kept its hierarchy (Yosys' write_json): the longest path of each module
alone, and of the whole chip across the modules' borders."""

import math
from collections import defaultdict

FREE = ("$_NOT_", "$_BUF_", "$scopeinfo")  # no level of their own: the gates come inverted too


class Module:
    """Bits by number, and what drives what within the module."""

    def __init__(self, text: dict, modules: dict):
        self.inside, self.flops, self.gates = {}, 0, 0  # inside: instance -> (module, connections)
        self.edges, self.starts, self.ends = [], {}, {}  # (inputs, output, cost); bit -> name
        self.names = {}
        self.mapped = "blackbox" not in text.get("attributes", {})
        for name, net in sorted(text["netnames"].items(), key=lambda item: ("$" in item[0], len(item[0]))):
            for i, bit in enumerate(net["bits"]):
                self.names.setdefault(bit, name.split("[")[0])
        self.inputs, self.outputs = defaultdict(list), defaultdict(list)
        for name, port in text["ports"].items():
            side = self.inputs if port["direction"] == "input" else self.outputs
            side[name] = port["bits"]
        for name, cell in text["cells"].items():
            kind, wires = cell["type"], cell["connections"]
            if kind in modules:
                self.inside[name] = (kind, wires)
            elif kind.startswith("$mem"):
                self._memory(name, cell["parameters"], wires)
            elif "Q" in wires:
                self.flops += 1
                self.starts[wires["Q"][0]] = self.names.get(wires["Q"][0], name)
                self.ends[wires["D"][0]] = self.starts[wires["Q"][0]]
            elif "Y" in wires:
                self.gates += kind not in FREE
                self.edges.append(([wires[p][0] for p in wires if p != "Y"], wires["Y"][0], kind not in FREE))

    def _memory(self, name, parameters, wires):
        """A synchronous port is a border. An asynchronous one is its multiplexer: log2(words) levels."""
        number = lambda key: int(parameters[key], 2)
        width, ports, address = number("WIDTH"), number("RD_PORTS"), number("ABITS")
        name = name.split("[")[0].lstrip("\\")
        clocked = parameters["RD_CLK_ENABLE"][::-1]
        levels = math.ceil(math.log2(max(2, number("SIZE"))))
        for port in range(ports):
            data = wires["RD_DATA"][port * width : (port + 1) * width]
            at = wires["RD_ADDR"][port * address : (port + 1) * address]
            if clocked[port] == "1":
                self.starts.update(dict.fromkeys(data, name))
                self.ends.update(dict.fromkeys(at, name))
            else:
                hub = f"{name}:{port}"  # one bit for all address bits, so that there are not width * address edges
                self.names[hub] = name
                self.starts[hub + ":cells"] = name
                self.edges.append(([*at, hub + ":cells"], hub, levels))
                self.edges += [([hub], bit, 0) for bit in data]
        for key in ("WR_ADDR", "WR_DATA", "WR_EN", "RD_EN"):
            self.ends.update(dict.fromkeys(wires[key], name))


class Graph:
    """Gates of one module, or of a module and all below it."""

    def __init__(self, modules: dict[str, Module]):
        self.modules, self.edges, self.starts, self.ends = modules, [], {}, {}
        self.owner, self.same = [], {}

    def find(self, bit):
        root = bit
        while root in self.same:
            root = self.same[root]
        while bit != root:  # the next time in one step
            self.same[bit], bit = root, self.same[bit]
        return root

    def add(self, name: str, path: str, below: bool) -> None:
        module = self.modules[name]
        at = lambda bit: (path, bit)
        for inputs, output, cost in module.edges:
            self.edges.append(([at(bit) for bit in inputs if bit not in ("0", "1", "x")], at(output), cost))
            self.owner.append(name)
        prefix = path + "." if path else ""
        self.starts.update({at(bit): prefix + label for bit, label in module.starts.items()})
        self.ends.update({at(bit): prefix + label for bit, label in module.ends.items()})
        for instance, (kind, wires) in module.inside.items():
            child = self.modules[kind]
            enters = below and child.mapped  # else its ports are a border
            inner = prefix + instance
            for port, bits in wires.items():
                into = port in child.inputs
                if enters:
                    for outer, bit in zip(bits, (child.inputs if into else child.outputs)[port]):
                        here, there = (at(outer), (inner, bit)) if into else ((inner, bit), at(outer))
                        if "0" != outer != "1" and self.find(here) != self.find(there):
                            self.same[self.find(there)] = self.find(here)
                else:
                    (self.ends if into else self.starts).update({at(bit): f"{inner}.{port}" for bit in bits})
            if enters:
                self.add(kind, inner, True)
        if not path:
            for side, known in ((module.inputs, self.starts), (module.outputs, self.ends)):
                for port, bits in side.items():
                    for bit in bits:
                        known.setdefault(at(bit), port)

    def solve(self):
        """Levels from the starts to each bit, and from each bit to an end, in one order of the gates."""
        find = self.find
        edges = [([find(bit) for bit in inputs], find(output), cost) for inputs, output, cost in self.edges]
        driver = {output: i for i, (_, output, _) in enumerate(edges)}
        waits, follows = [0] * len(edges), defaultdict(list)
        for i, (inputs, _, _) in enumerate(edges):
            for bit in inputs:
                if bit in driver:
                    waits[i] += 1
                    follows[bit].append(i)
        ready = [i for i, count in enumerate(waits) if not count]
        self.level, self.before, order = defaultdict(int), {}, []
        while ready:
            i = ready.pop()
            order.append(i)
            inputs, output, cost = edges[i]
            worst = max(inputs, key=lambda bit: self.level[bit], default=None)
            self.level[output] = (self.level[worst] if worst is not None else 0) + cost
            self.before[output] = worst
            for j in follows[output]:
                waits[j] -= 1
                if not waits[j]:
                    ready.append(j)
        assert len(order) == len(edges), "a loop without a register"
        self.after = {find(bit): 0 for bit in self.ends}
        through = defaultdict(int)
        for i in reversed(order):
            inputs, output, cost = edges[i]
            if output in self.after:
                owner = self.owner[i]
                through[owner] = max(through[owner], self.level[output] + self.after[output])
                for bit in inputs:
                    self.after[bit] = max(self.after.get(bit, 0), self.after[output] + cost)
        return through

    def worst(self) -> list[tuple[int, str, str]]:
        """(levels, from, to) of the worst path to each register, port or memory; the longest first."""
        known = {self.find(bit): name for bit, name in self.starts.items()}
        found = {}
        for bit, name in self.ends.items():
            bit = self.find(bit)
            if self.level[bit] >= found.get(name, (0, None))[0]:
                found[name] = (self.level[bit], bit)
        result = []
        for name, (level, bit) in found.items():
            while self.before.get(bit) is not None:
                bit = self.before[bit]
            result.append((level, known.get(bit, "a constant or register file"), name))
        return sorted(result, key=lambda row: (-row[0], row[2], row[1]))


def analyse(design: dict, top: str = "presil_top") -> tuple[dict, list]:
    """({module: (gates, flops, (levels alone, from, to), levels in the chip)}, worst paths of the chip)"""
    texts = {name: text for name, text in design["modules"].items() if name.startswith("presil")}
    modules = {name: Module(text, texts) for name, text in texts.items()}
    chip = Graph(modules)
    chip.add(top, "", True)
    through = chip.solve()
    found = {}
    for name, module in modules.items():
        if not module.mapped:
            continue
        alone = Graph(modules)
        alone.add(name, "", False)
        alone.solve()
        found[name] = (module.gates, module.flops, (alone.worst() or [(0, "-", "-")])[0], through[name])
    return found, chip.worst()
