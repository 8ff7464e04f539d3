# SPDX-License-Identifier: Apache-2.0
"""Every refusal of sim/ports/port_map.py, each on the ports of presil_top with one thing wrong, in the map or in the
top. That none of them is left out is a test of its own."""

import ast
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "sim" / "ports"))
import port_map  # noqa: E402
from rtl_ports import Port  # noqa: E402

WIDTHS = {"addr": 40, "id": 4, "len": 8, "lock": 1, "data": 128, "strb": 16}


def top(**changes) -> list[Port]:
    """Ports of presil_top; changes: a port's width, or None: it has none of this name."""
    ports = [Port("clk", "input", 1), Port("rst", "input", 1), Port("irq", "output", 1)]
    lite = {"addr": 12, "data": 32, "strb": 4}
    for prefix, wires, widths in (
        ("s_axil_", port_map.REGISTER_WIRES["axi4-lite"], lite),
        ("m_axi_", port_map.READ_WIRES | port_map.WRITE_WIRES, WIDTHS),
    ):
        for wire, (direction, width, _) in wires.items():
            if wire == "wid":  # AXI3's alone
                continue
            known = [bits for part, bits in widths.items() if wire.endswith(part)]
            ports.append(Port(prefix + wire, direction, width or known[0]))
    out = [Port(p.name, p.direction, changes.get(p.name, p.width)) for p in ports]
    there = {p.name for p in ports}
    out += [Port(name, "input", width) for name, width in changes.items() if name not in there and width]
    return [p for p in out if p.width is not None]


class Signals:
    """What the RTL does: as of a top that resets high and has one clock; or of one that resets low, or has another."""

    def __init__(self, level="high", clocks=()):
        self.level, self.clocks = level, set(clocks)

    def reset_level(self, port):
        return self.level

    def clocks_of(self, port, clocks):
        return self.clocks


def refused(folder, changes, ports=None, signals=None) -> tuple[str, set]:
    """What the map is refused with, and the lines of port_map.py that this went through."""
    file = folder / "map.toml"
    path = None
    if isinstance(changes, bytes):
        file.write_bytes(changes)
        path, changes = file, ()
    elif isinstance(changes, Path):
        path, changes = changes, ()
    with pytest.raises(port_map.MapError) as caught:
        port_map.understand(port_map.load(path, changes), "top", ports or top(), signals)
    return str(caught.value), {entry.lineno + 1 for entry in caught.traceback if entry.path.name == "port_map.py"}


CASES = [
    (Path("/no/such.toml"), {}, "the port map can't be read: "),
    (b"clocks = ", {}, "not TOML: "),
    (["clocks = "], {}, "MAP clocks = : not TOML (KEY = VALUE, texts in quotes): "),
    (["clock.clk = 1"], {}, "clock: no such table; there are: clocks, resets, interrupts, registers, memory, ties"),
    (["clocks = 3"], {}, "clocks: a table of port = value expected, found 3"),
    (["clocks = {}"], {}, "clocks: at least one expected, found none"),
    (["clocks.clk = 'fast'"], {}, "clocks.clk: a table expected, found 'fast'"),
    (["clocks.clk = { ratio = 2 }"], {}, "clocks.clk.ratio: no such key; there are: divide"),
    (["clocks.clk = { divide = true }"], {}, "clocks.clk.divide: a whole number from 1 to 64 expected, found True"),
    (["clocks.clk = 65"], {}, "clocks.clk.divide: a whole number from 1 to 64 expected, found 65"),
    (["clocks.ck = 1"], {}, "clocks.ck: top has no port ck; its ports: "),
    (["clocks.irq = 1"], {}, "clocks.irq: irq of top is an output: an input expected"),
    (["resets.rst = 'on'"], {}, 'resets.rst.active: "high" or "low" expected, found \'on\''),
    (["resets.rst = { cycles = 901 }"], {}, "resets.rst.cycles: a whole number from 0 to 900 expected, found 901"),
    (["resets = {}"], {}, "top has ports that the map gives no meaning: rst (input, 1 bit); give inputs a value"),
    (["interrupts.irq = 'level'"], {"irq": 33}, "interrupts: at most 32 bits expected, found 33"),
    (["ties = 5"], {}, "ties: a table of port = value expected, found 5"),
    (["ties.test = 4"], {"test": 2}, "ties.test: a whole number of 2 bits expected, found 4"),
    (["ties.clk = 0"], {}, "ties.clk: clk is taken already, by clocks.clk"),
    ([], {"test": 2}, "top has ports that the map gives no meaning: test (input, 2 bits); give inputs a value"),
    (["registers.bus = 'ahb'"], {}, "registers.bus: one of axi4-lite, apb3, apb4, valid-ready expected, found 'ahb'"),
    (["registers = { prefix = 'a', pattern = '{name}' }"], {}, "registers: prefix or pattern, not both"),
    (
        ["registers.pattern = '{channel}_cfg'"],
        {},
        "registers.pattern: text with {name}, or with {channel} and {rest}, in it expected, found '{channel}_cfg'",
    ),
    (["registers.names.adr = 'x'"], {}, "registers.names.adr: no such wire; there are: awaddr, "),
    (["registers.names.awprot = 3"], {}, "registers.names.awprot: the name of a port expected, found 3"),
    (["registers.names.awaddr = ''"], {}, "registers.names.awaddr: this wire is needed: the name of a port expected"),
    (["memory.names = { arid = 'm_axi_awid', awid = 'm_axi_arid' }"], {},
     "memory[0].names.arid: m_axi_awid found, which is called like awid: the port of arid expected"),
    (["memory.names = { wready = 'm_axi_awready', awready = 'm_axi_wready' }"], {},
     "memory[0].names.awready: m_axi_wready found, which is called like wready: the port of awready expected"),
    ([], {"m_axi_awlock": 2, "m_axi_arlock": 2}, "memory[0]: top has WID, or AxLOCK of 2 bits, which AXI4 has not: "),
    ([], {"s_axil_awvalid": None},
     "registers: top has no port s_axil_awvalid (awvalid, input, 1 bit), which this bus needs: set registers.prefix"),
    ([], {"s_axil_wvalid": 2}, "registers: wvalid: s_axil_wvalid of top has 2 bits: 1 expected"),
    ([], {"s_axil_wdata": 16}, "registers: s_axil_wdata (wdata) has 16 bits: 32 or 64 expected"),
    ([], {"s_axil_rdata": 64}, "registers: s_axil_rdata (rdata) has 64 bits: 32 expected"),
    (["registers.clock = 'pclk'"], {}, "registers.clock: 'pclk' is no clock of the map; there are: clk"),
    ([], {"s_axil_awaddr": 32, "s_axil_araddr": 32}, "registers.bytes is needed: the address has 32 bits"),
    (["registers.base = 2"], {}, "registers.base: a multiple of 4 expected, found 0x2"),
    (["registers.bytes = 0"], {}, "registers.bytes: 4 to 2^31 expected, found 0"),
    (["registers.bytes = 0x2000"], {}, "registers.bytes: 0x2000 from 0x0 on: top has 12 address bits, at most 0x1000"),
    (["registers.pending = 0x1000"], {}, "registers.pending: a multiple of 4 below 0x1000 expected, found 0x1000"),
    (["memory = 3"], {}, "memory: a table for each port expected, found 3"),
    (["memory = [3]"], {}, "memory[0]: a table expected, found 3"),
    (["memory.bus = 'axi5'"], {}, "memory[0].bus: one of axi4, axi3 expected, found 'axi5'"),
    (["memory.direction = 'none'"], {}, "memory[0].direction: \"both\", \"read\" or \"write\" expected, found 'none'"),
    ([], {"m_axi_rdata": 48}, "memory[0]: top has a data bus of 48 bits: 32, 64, 128, 256, 512 or 1024 expected"),
    ([], {"m_axi_rdata": 2048}, "memory[0]: top has a data bus of 2048 bits: 32, 64, 128, 256, 512 or 1024 expected"),
    ([], {"m_axi_wdata": 64}, "memory[0]: m_axi_wdata (wdata) has 64 bits: 128 expected"),
    ([], {"m_axi_wstrb": 8}, "memory[0]: m_axi_wstrb (wstrb) has 8 bits: 16 expected"),
    ([], {"m_axi_bid": 3}, "memory[0]: m_axi_bid (bid) has 3 bits: 4 expected"),
    ([], {"m_axi_arid": 33, "m_axi_rid": 33}, "memory[0]: m_axi_arid has 33 bits: at most 32 expected"),
    (["memory.bus = 'axi3'"], {}, "memory[0]: m_axi_arlen has 8 bits: at most 4 expected with bus = 'axi3'"),
    ([], {"m_axi_arlen": 9}, "memory[0]: m_axi_arlen has 9 bits: at most 8 expected with bus = 'axi4'"),
    ([], {"m_axi_awaddr": 65}, "memory[0]: m_axi_awaddr has 65 bits: at most 64 expected"),
    ([], {"m_axi_wlast": None}, "memory[0]: top has bursts (m_axi_awlen) and no wlast: set memory[0].names.wlast"),
    (["memory.sram = { bytes = 100 }"], {}, "memory[0].sram.bytes: a multiple of 4096 expected, found 100"),
    (["memory.sram = {}"], {}, "memory[0].sram.bytes: a multiple of 4096 expected, found None"),
    (["memory.sram = { bytes = 0x20000000 }"], {}, "memory[0].sram.bytes: 4096 to 2^28 expected, found 536870912"),
]  # fmt: skip


@pytest.mark.parametrize(("changes", "ports", "text"), CASES, ids=[case[2][:50] for case in CASES])
def test_each_refusal(tmp_path, changes, ports, text):
    assert refused(tmp_path, changes, top(**ports))[0].startswith(text)


SIGNALS = [
    (Signals("low"), 'resets.rst: top resets where it is low: "low" expected, found "high"'),
    (
        Signals(clocks=["pclk"]),
        "registers.clock: s_axil_awready (awready) of top changes with pclk: that clock expected",
    ),
]


@pytest.mark.parametrize(("signals", "text"), SIGNALS, ids=["reset", "clock"])
def test_what_the_rtl_does_otherwise(tmp_path, signals, text):
    port_map.understand({}, "top", top(), Signals(clocks=["clk"]))
    assert refused(tmp_path, [], signals=signals)[0].startswith(text)


def two_ports(bits: int) -> list[Port]:
    """presil_top with a second memory port, both with IDs of so many bits."""
    second = [Port(p.name.replace("m_axi_", "m_axi1_"), p.direction, p.width) for p in top() if "m_axi_" in p.name]
    ids = ("_arid", "_rid", "_awid", "_bid", "_wid")
    return [Port(p.name, p.direction, bits if p.name.endswith(ids) else p.width) for p in top() + second]


def test_identifiers_of_two_ports(tmp_path):
    port_map.understand({"memory": [{}, {}]}, "top", two_ports(31))
    text, _ = refused(tmp_path, ["memory = [{}, {}]"], two_ports(32))
    assert text == "memory: 2 ports with IDs of 32 bits need 33 together: at most 32 expected"


def test_no_refusal_is_left_out(tmp_path):
    source = (ROOT / "sim/ports/port_map.py").read_text()
    raised = {node.lineno for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Raise)}
    seen = refused(tmp_path, ["memory = [{}, {}]"], two_ports(32))[1]
    for changes, ports, _ in CASES:
        seen |= refused(tmp_path, changes, top(**ports))[1]
    for signals, _ in SIGNALS:
        seen |= refused(tmp_path, [], signals=signals)[1]
    assert len(raised) > 30 and not raised - seen, f"lines of port_map.py: {sorted(raised - seen)}"
