# SPDX-License-Identifier: Apache-2.0
"""A port map (docs/ports.md): read, checked against itself, and every wire of a bus found among the ports of a top."""

import copy
import dataclasses
import re
import tomllib

REGISTER_BUSES = ("axi4-lite", "apb3", "apb4", "valid-ready")
MEMORY_BUSES = ("axi4", "axi3")

# Wires: name -> (direction at the chip, bits or None: any, needed)
APB = {
    "psel": ("input", 1, True),
    "penable": ("input", 1, True),
    "paddr": ("input", None, True),
    "pwrite": ("input", 1, True),
    "pwdata": ("input", 32, True),
    "prdata": ("output", 32, True),
    "pready": ("output", 1, False),
    "pslverr": ("output", 1, False),
}
REGISTER_WIRES = {
    "axi4-lite": {
        "awaddr": ("input", None, True),
        "awprot": ("input", 3, False),
        "awvalid": ("input", 1, True),
        "awready": ("output", 1, True),
        "wdata": ("input", None, True),
        "wstrb": ("input", None, False),
        "wvalid": ("input", 1, True),
        "wready": ("output", 1, True),
        "bresp": ("output", 2, False),
        "bvalid": ("output", 1, True),
        "bready": ("input", 1, False),
        "araddr": ("input", None, True),
        "arprot": ("input", 3, False),
        "arvalid": ("input", 1, True),
        "arready": ("output", 1, True),
        "rdata": ("output", None, True),
        "rresp": ("output", 2, False),
        "rvalid": ("output", 1, True),
        "rready": ("input", 1, False),
    },
    "apb3": APB,
    "apb4": APB | {"pstrb": ("input", 4, False), "pprot": ("input", 3, False)},
    "valid-ready": {
        "valid": ("input", 1, True),
        "ready": ("output", 1, False),
        "addr": ("input", None, True),
        "wdata": ("input", 32, True),
        "write": ("input", 1, True),
        "posted": ("input", 1, False),
        "rvalid": ("output", 1, True),
        "rdata": ("output", 32, True),
        "bvalid": ("output", 1, False),
    },
}


def request_wires(c):
    return {
        f"{c}id": ("output", None, False),
        f"{c}addr": ("output", None, True),
        f"{c}len": ("output", None, False),
        f"{c}size": ("output", 3, False),
        f"{c}burst": ("output", 2, False),
        f"{c}lock": ("output", None, False),
        f"{c}valid": ("output", 1, True),
        f"{c}ready": ("input", 1, True),
    }


READ_WIRES = request_wires("ar") | {
    "rid": ("input", None, False),
    "rdata": ("input", None, True),
    "rresp": ("input", 2, False),
    "rlast": ("input", 1, False),
    "rvalid": ("input", 1, True),
    "rready": ("output", 1, False),
}
WRITE_WIRES = request_wires("aw") | {
    "wid": ("output", None, False),
    "wdata": ("output", None, True),
    "wstrb": ("output", None, False),
    "wlast": ("output", 1, False),
    "wvalid": ("output", 1, True),
    "wready": ("input", 1, True),
    "bid": ("input", None, False),
    "bresp": ("input", 2, False),
    "bvalid": ("input", 1, False),
    "bready": ("output", 1, False),
}

PATTERN = "text with {name}, or with {channel} and {rest}, in it"

# Tables of the map: key -> (type, what is expected, default)
CLOCK = {"divide": (int, "a whole number from 1 to 64", 1)}
RESET = {"active": (str, '"high" or "low"', "high"), "cycles": (int, "a whole number from 0 to 900", 0)}
INTERRUPT = {"kind": (str, '"level" or "pulse"', "level"), "active": (str, '"high" or "low"', "high")}
REGISTERS = {
    "bus": (str, "one of " + ", ".join(REGISTER_BUSES), "axi4-lite"),
    "prefix": (str, "text", None),
    "pattern": (str, PATTERN, None),
    "names": (dict, "a table of wire = port", {}),
    "clock": (str, "a clock of [clocks]", None),
    "bytes": (int, "a multiple of 4", None),
    "base": (int, "a multiple of 4", 0),
    "word_addressed": (bool, "true or false", False),
    "pending": (int, "a multiple of 4 below bytes", None),
}
MEMORY = {
    "bus": (str, "one of " + ", ".join(MEMORY_BUSES), "axi4"),
    "prefix": (str, "text", None),
    "pattern": (str, PATTERN, None),
    "names": (dict, "a table of wire = port", {}),
    "clock": (str, "a clock of [clocks]", None),
    "direction": (str, '"both", "read" or "write"', None),
    "sram": (dict, "a table of base and bytes", None),
}
SRAM = {"base": (int, "a multiple of 4096", 0), "bytes": (int, "a multiple of 4096", None)}
SECTIONS = ("clocks", "resets", "interrupts", "registers", "memory", "ties")


class MapError(Exception):
    """What is wrong: the key, what was found, what was expected."""


@dataclasses.dataclass
class Bus:
    key: str  # in the map: "registers", "memory[0]"
    kind: str
    wires: dict  # wire -> Port, of those that the top has
    clock: str
    settings: dict

    def has(self, wire):
        return wire in self.wires

    def width(self, wire):
        return self.wires[wire].width


@dataclasses.dataclass
class Map:
    clocks: dict  # port -> {"divide"}
    resets: dict
    interrupts: dict
    registers: Bus
    memory: list
    ties: dict  # port -> value


# ---- reading


def load(path, changes=()):
    """The tables of a TOML file (None: an empty one), with `changes` ("registers.bus = 'apb4'") on top."""
    tables = {}
    if path:
        try:
            with open(path, "rb") as file:
                tables = tomllib.load(file)
        except OSError as error:
            raise MapError(f"the port map can't be read: {error}") from None
        except tomllib.TOMLDecodeError as error:
            raise MapError(f"not TOML: {error}") from None
    for change in changes:
        try:
            merge(tables, tomllib.loads(change))
        except tomllib.TOMLDecodeError as error:
            raise MapError(f"MAP {change}: not TOML (KEY = VALUE, texts in quotes): {error}") from None
    return tables


def merge(into, new):
    for key, value in new.items():
        if isinstance(value, dict) and isinstance(into.get(key), dict):
            merge(into[key], value)
        else:
            into[key] = copy.deepcopy(value)


def settings(table, keys, where):
    """`table` with the defaults of `keys`."""
    if not isinstance(table, dict):
        raise MapError(f"{where}: a table expected, found {table!r}")
    for key, value in table.items():
        if key not in keys:
            raise MapError(f"{where}.{key}: no such key; there are: {', '.join(keys)}")
        kind, expected, _ = keys[key]
        if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
            raise MapError(f"{where}.{key}: {expected} expected, found {value!r}")
    out = {key: table.get(key, default) for key, (_, _, default) in keys.items()}
    for key, choices in (("active", ("high", "low")), ("kind", ("level", "pulse"))):
        if out.get(key, choices[0]) not in choices:
            raise MapError(f"{where}.{key}: {keys[key][1]} expected, found {out[key]!r}")
    return out


def short(table, where, short_key, short_type, keys):
    """[section] of port = value, where value is the one key `short_key` or a table."""
    out = {}
    if not isinstance(table, dict):
        raise MapError(f"{where}: a table of port = value expected, found {table!r}")
    for port, value in table.items():
        if isinstance(value, short_type) and not isinstance(value, bool):
            value = {short_key: value}
        out[port] = settings(value, keys, f"{where}.{port}")
    return out


def in_range(where, value, low, high, expected):
    if not low <= value <= high:
        raise MapError(f"{where}: {expected} expected, found {value}")


# ---- against the top


class Finder:
    """Gives every port of a top to one key of the map."""

    def __init__(self, top, ports):
        self.top = top
        self.ports = {port.name: port for port in ports}
        self.lower = {}
        for port in ports:
            self.lower.setdefault(port.name.lower(), port)
        self.used = {}  # port -> key

    def take(self, key, name, direction, width=None):
        port = self.ports.get(name)
        if not port:
            raise MapError(f"{key}: {self.top} has no port {name}; {self.like(name)}")
        return self.give(key, port, direction, width)

    def give(self, key, port, direction, width=None):
        if port.direction != direction:
            raise MapError(f"{key}: {port.name} of {self.top} is an {port.direction}: an {direction} expected")
        if width is not None and port.width != width:
            raise MapError(f"{key}: {port.name} of {self.top} has {bits(port.width)}: {width} expected")
        if port.name in self.used:
            raise MapError(f"{key}: {port.name} is taken already, by {self.used[port.name]}")
        self.used[port.name] = key
        return port

    # A wire by prefix or pattern, whatever its case, with or without _i and _o.
    def by_pattern(self, pattern, wire, direction):
        name = called(pattern, wire).lower()
        for ending in ("", "_i" if direction == "input" else "_o"):
            if name + ending in self.lower:
                return self.lower[name + ending]
        return None

    def like(self, name):
        free = [port for port in self.ports if port not in self.used]
        near = [port for port in free if common(port.lower(), name.lower()) >= 3]
        return f"its ports: {', '.join(sorted(near or free, key=lambda p: -common(p.lower(), name.lower()))[:12])}"


def common(a, b):
    longest = max((len(part) for part in re.split(r"[_\d]+", b) if part and part in a), default=0)
    return max(longest, next((i for i, (x, y) in enumerate(zip(a, b, strict=False)) if x != y), min(len(a), len(b))))


def bits(count):
    return "1 bit" if count == 1 else f"{count} bits"


def channel_of(wire):
    return wire[:2] if wire[:2] in ("aw", "ar") else wire[:1]


def called(pattern, wire):
    """The port that is a wire: {name} is all of it (awvalid), {channel} and {rest} its parts (aw, valid)."""
    channel = channel_of(wire)
    parts = {"name": wire, "channel": channel, "rest": wire[len(channel) :]}
    return re.sub(r"{(name|channel|rest)}", lambda match: parts[match[1]], pattern)


def wires_of(finder, key, table, kinds, default_prefix):
    """wire -> Port of a bus; what the top lacks and doesn't need is left out."""
    pattern = table["pattern"]
    if pattern is not None and table["prefix"] is not None:
        raise MapError(f"{key}: prefix or pattern, not both")
    if pattern is not None and "{name}" not in pattern and not ("{channel}" in pattern and "{rest}" in pattern):
        raise MapError(f"{key}.pattern: {PATTERN} expected, found {pattern!r}")
    if pattern is None:
        pattern = (default_prefix if table["prefix"] is None else table["prefix"]) + "{name}"
    for wire in table["names"]:
        if wire not in kinds:
            raise MapError(f"{key}.names.{wire}: no such wire; there are: {', '.join(kinds)}")
    out = {}
    for wire, (direction, width, needed) in kinds.items():
        if wire in table["names"]:
            name = table["names"][wire]
            if not isinstance(name, str):
                raise MapError(f"{key}.names.{wire}: the name of a port expected, found {name!r}")
            if name:
                other = called_like(name, kinds, direction)
                if other not in (None, wire):
                    raise MapError(
                        f"{key}.names.{wire}: {name} found, which is called like {other}: the port of {wire} expected "
                        "(if it is the right one, call it otherwise in a wrapper around the top)"
                    )
                out[wire] = finder.take(f"{key}.names.{wire}", name, direction, width)
            elif needed:
                raise MapError(f"{key}.names.{wire}: this wire is needed: the name of a port expected, found none")
            continue
        port = finder.by_pattern(pattern, wire, direction)
        if port:
            out[wire] = finder.give(f"{key}: {wire}", port, direction, width)
        elif needed:
            name = called(pattern, wire)
            raise MapError(
                f"{key}: {finder.top} has no port {name} ({wire}, {direction}"
                f"{', ' + bits(width) if width else ''}), which this bus needs: set {key}.prefix, {key}.pattern or "
                f"{key}.names.{wire}; {finder.like(name)}"
            )
    return out


def called_like(name, kinds, direction):
    """The wire of that direction that a port is called like; None: like none."""
    plain = re.sub("_[io]$", "", name.lower())
    return max((w for w, kind in kinds.items() if kind[0] == direction and plain.endswith(w)), key=len, default=None)


def same_width(key, bus, wires, expected=None):
    """All of the wires that are there have one width, `expected` if given."""
    widths = {wire: bus.width(wire) for wire in wires if bus.has(wire)}
    if expected is None and widths:
        expected = next(iter(widths.values()))
    for wire, width in widths.items():
        if width != expected:
            raise MapError(f"{key}: {bus.wires[wire].name} ({wire}) has {bits(width)}: {expected} expected")


def clock_of(key, name, clocks):
    if name is None:
        return next(iter(clocks))
    if name not in clocks:
        raise MapError(f"{key}.clock: {name!r} is no clock of the map; there are: {', '.join(clocks)}")
    return name


def find_registers(finder, table, clocks):
    key = "registers"
    s = settings(table, REGISTERS, key)
    if s["bus"] not in REGISTER_BUSES:
        raise MapError(f"{key}.bus: {REGISTERS['bus'][1]} expected, found {s['bus']!r}")
    prefix = {"axi4-lite": "s_axil_", "valid-ready": "csb_"}.get(s["bus"], "s_apb_")
    wires = wires_of(finder, key, s, REGISTER_WIRES[s["bus"]], prefix)
    bus = Bus(key, s["bus"], wires, clock_of(key, s["clock"], clocks), s)
    if s["bus"] == "axi4-lite":
        data = bus.width("wdata")
        if data not in (32, 64):
            raise MapError(f"{key}: {wires['wdata'].name} (wdata) has {bits(data)}: 32 or 64 expected")
        same_width(key, bus, ("wdata", "rdata"))
        same_width(key, bus, ("awaddr", "araddr"))
        same_width(key, bus, ("wstrb",), data // 8)
    address = wires["awaddr" if s["bus"] == "axi4-lite" else "paddr" if "paddr" in wires else "addr"].width
    if s["word_addressed"]:
        address += 2
    if s["bytes"] is None:
        if address > 24:
            raise MapError(
                f"{key}.bytes is needed: the address has {address} bits; how many bytes of registers are there?"
            )
        s["bytes"] = 1 << address
    for name in ("bytes", "base", "pending"):
        if s[name] is not None and (s[name] % 4 or s[name] < 0):
            raise MapError(f"{key}.{name}: {REGISTERS[name][1]} expected, found {s[name]:#x}")
    in_range(f"{key}.bytes", s["bytes"], 4, 1 << 31, "4 to 2^31")
    if s["base"] + s["bytes"] > 1 << address:
        raise MapError(
            f"{key}.bytes: {s['bytes']:#x} from {s['base']:#x} on: {finder.top} has {address} address bits, "
            f"at most {1 << address:#x} expected"
        )
    if s["pending"] is not None and s["pending"] >= s["bytes"]:
        raise MapError(f"{key}.pending: a multiple of 4 below {s['bytes']:#x} expected, found {s['pending']:#x}")
    return bus


def find_memory(finder, index, table, clocks):
    key = f"memory[{index}]"
    s = settings(table, MEMORY, key)
    if s["bus"] not in MEMORY_BUSES:
        raise MapError(f"{key}.bus: {MEMORY['bus'][1]} expected, found {s['bus']!r}")
    prefix = "m_axi_" if index == 0 else f"m_axi{index}_"
    direction = s["direction"] or guess_direction(finder, s, prefix)
    if direction not in ("both", "read", "write"):
        raise MapError(f"{key}.direction: {MEMORY['direction'][1]} expected, found {direction!r}")
    s["direction"] = direction
    if s["sram"] is not None:
        s["sram"] = find_sram(key, s["sram"])
    kinds = (READ_WIRES if direction != "write" else {}) | (WRITE_WIRES if direction != "read" else {})
    bus = Bus(key, s["bus"], wires_of(finder, key, s, kinds, prefix), clock_of(key, s["clock"], clocks), s)
    data = bus.width("rdata" if direction != "write" else "wdata")
    if data not in (32, 64, 128, 256, 512, 1024):
        raise MapError(f"{key}: {finder.top} has a data bus of {bits(data)}: 32, 64, 128, 256, 512 or 1024 expected")
    same_width(key, bus, ("rdata", "wdata"))
    same_width(key, bus, ("wstrb",), data // 8)
    same_width(key, bus, ("awid", "bid") + (("wid",) if s["bus"] == "axi3" else ()))
    same_width(key, bus, ("arid", "rid"))
    for wire in ("arid", "awid"):
        if bus.has(wire) and bus.width(wire) > 32:
            raise MapError(f"{key}: {bus.wires[wire].name} has {bits(bus.width(wire))}: at most 32 expected")
    if s["bus"] == "axi4" and (bus.has("wid") or any(bus.has(w) and bus.width(w) > 1 for w in ("awlock", "arlock"))):
        raise MapError(
            f"{key}: {finder.top} has WID, or AxLOCK of 2 bits, which AXI4 has not: bus = 'axi3', or names = "
            "{ wid = '', awlock = '', arlock = '' }"
        )
    longest = 4 if s["bus"] == "axi3" else 8
    for wire in ("arlen", "awlen"):
        if bus.has(wire) and bus.width(wire) > longest:
            raise MapError(
                f"{key}: {bus.wires[wire].name} has {bits(bus.width(wire))}: at most {longest} expected "
                f"with bus = {s['bus']!r}"
            )
    for wire in ("araddr", "awaddr"):
        if bus.has(wire) and bus.width(wire) > 64:
            raise MapError(f"{key}: {bus.wires[wire].name} has {bits(bus.width(wire))}: at most 64 expected")
    if bus.has("awlen") and not bus.has("wlast"):
        raise MapError(
            f"{key}: {finder.top} has bursts ({bus.wires['awlen'].name}) and no wlast: set {key}.names.wlast"
        )
    return bus


def find_sram(key, table):
    s = settings(table, SRAM, f"{key}.sram")
    for name in SRAM:
        if s[name] is None or s[name] % 4096 or s[name] < 0:
            raise MapError(f"{key}.sram.{name}: {SRAM[name][1]} expected, found {s[name]}")
    in_range(f"{key}.sram.bytes", s["bytes"], 4096, 1 << 28, "4096 to 2^28")
    return s


def check_together(buses):
    """Ports on the memory's bus share its IDs."""
    outer = [bus for bus in buses if not bus.settings["sram"]]
    widths = [bus.width(w) for bus in outer for w in ("arid", "awid") if bus.has(w)]
    total = max(widths, default=1) + (len(outer) - 1).bit_length() if outer else 0
    if total > 32:
        raise MapError(
            f"memory: {len(outer)} ports with IDs of {max(widths)} bits need {total} together: at most 32 expected"
        )


def guess_direction(finder, s, prefix):
    pattern = s["pattern"] or (prefix if s["prefix"] is None else s["prefix"]) + "{name}"
    found = {
        way: f"{channel}valid" in s["names"] or finder.by_pattern(pattern, f"{channel}valid", "output")
        for way, channel in (("read", "ar"), ("write", "aw"))
    }
    if found["read"] and not found["write"]:
        return "read"
    return "write" if found["write"] and not found["read"] else "both"


def check_signals(found, signals, top):
    """What the map says of resets and clocks is what the RTL does with them."""
    for name, reset in found.resets.items():
        level = signals.reset_level(name)
        if level not in (None, reset["active"]):
            raise MapError(
                f'resets.{name}: {top} resets where it is {level}: "{level}" expected, found "{reset["active"]}"'
            )
    for bus in (found.registers, *found.memory):
        for wire, port in bus.wires.items():
            clocks = signals.clocks_of(port.name, found.clocks) if port.direction == "output" else set()
            if clocks and bus.clock not in clocks:
                raise MapError(
                    f"{bus.key}.clock: {port.name} ({wire}) of {top} changes with {', '.join(clocks)}: "
                    f"that clock expected, found {bus.clock}"
                )


def understand(tables, top, ports, signals=None):
    """The map of `top`; throws MapError. signals: what the RTL does with its ports, rtl_signals.Signals."""
    for section in tables:
        if section not in SECTIONS:
            raise MapError(f"{section}: no such table; there are: {', '.join(SECTIONS)}")
    finder = Finder(top, ports)
    clocks = short(tables.get("clocks", {"clk": 1}), "clocks", "divide", int, CLOCK)
    if not clocks:
        raise MapError("clocks: at least one expected, found none")
    for name, clock in clocks.items():
        finder.take(f"clocks.{name}", name, "input", 1)
        in_range(f"clocks.{name}.divide", clock["divide"], 1, 64, CLOCK["divide"][1])
    resets = short(tables.get("resets", {"rst": "high"}), "resets", "active", str, RESET)
    for name, reset in resets.items():
        finder.take(f"resets.{name}", name, "input", 1)
        in_range(f"resets.{name}.cycles", reset["cycles"], 0, 900, RESET["cycles"][1])
    interrupts = short(tables.get("interrupts", {"irq": "level"}), "interrupts", "kind", str, INTERRUPT)
    count = sum(finder.take(f"interrupts.{name}", name, "output").width for name in interrupts)
    if count > 32:
        raise MapError(f"interrupts: at most 32 bits expected, found {count}")
    ties = tables.get("ties", {})
    if not isinstance(ties, dict):
        raise MapError(f"ties: a table of port = value expected, found {ties!r}")
    for name, value in ties.items():
        port = finder.take(f"ties.{name}", name, "input")
        if not isinstance(value, int) or not 0 <= int(value) < 1 << port.width:
            raise MapError(f"ties.{name}: a whole number of {bits(port.width)} expected, found {value!r}")
    registers = find_registers(finder, tables.get("registers", {}), clocks)
    memory = tables.get("memory", [{}])
    memory = [memory] if isinstance(memory, dict) else memory
    if not isinstance(memory, list):
        raise MapError(f"memory: a table for each port expected, found {memory!r}")
    buses = [find_memory(finder, i, table, clocks) for i, table in enumerate(memory)]
    check_together(buses)
    lost = [p for p in ports if p.direction != "output" and p.name not in finder.used]
    if lost:
        what = ", ".join(f"{p.name} ({p.direction}, {bits(p.width)})" for p in lost)
        raise MapError(f"{top} has ports that the map gives no meaning: {what}; give inputs a value in [ties]")
    out = Map(clocks, resets, interrupts, registers, buses, {k: int(v) for k, v in ties.items()})
    if signals:
        check_signals(out, signals, top)
    unused = [p.name for p in ports if p.name not in finder.used]
    return out, unused
