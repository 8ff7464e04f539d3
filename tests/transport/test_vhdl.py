# SPDX-License-Identifier: Apache-2.0
"""A chip in VHDL, translated by ghdl, does what its sister in SystemVerilog does (test_ports.py); and what is said
where it can't be."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from .servers import BUILD
from .test_ports import BASE, ID, SCRATCH, SIZE, WORD, Transport, copy

HERE = Path(__file__).parent


def configure(folder: Path, *options: str) -> subprocess.CompletedProcess:
    command = ["cmake", "-S", HERE / "vhdl", "-B", folder, "-G", "Ninja", f"-DPresil_DIR={BUILD / 'cmake'}", *options]
    return subprocess.run(command, capture_output=True, text=True)


def build(folder: Path, *target: str) -> subprocess.CompletedProcess:
    return subprocess.run(["cmake", "--build", folder, *target], capture_output=True, text=True)


def test_a_chip_in_vhdl(tmp_path):
    for done in (configure(tmp_path), build(tmp_path)):
        assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    library = tmp_path / "libpresil_sim_vhdl_fast.so"
    with Transport(library, memory_bytes=SIZE, memory_base=BASE, options="monitor=1") as chip:
        chip.properties = {"word": 16, "pending": None}
        assert [chip.read32(at) for at in (ID, WORD, SCRATCH)] == [0x504F5254, 16, 0x12345678]
        chip.write32(SCRATCH, 0xA5A55A5A)
        assert chip.read32(SCRATCH) == 0xA5A55A5A
        cycles = [[copy(chip, launch, 3, 7) for launch in (1, 2)] for _ in range(2)]
        assert cycles[0] == cycles[1] and all(right for taken in cycles for _, right in taken)


def test_what_others_select_is_in_the_verilog(tmp_path):
    """ghdl 2.0 leaves it out, and a latch would come of it."""
    (tmp_path / "c.vhd").write_text(
        "library ieee; use ieee.std_logic_1164.all;\n"
        "entity c is port (s : in std_logic_vector(1 downto 0); a, b, d : in std_logic; q, z : out std_logic); end;\n"
        "architecture r of c is begin process (all) begin case s is\n"
        "when \"00\" => q <= a; z <= '1'; when \"01\" => q <= b; z <= d; when others => q <= d; z <= '0';\n"
        "end case; end process; end;\n"
    )
    script = HERE.parents[1] / "sim/vhdl.py"
    subprocess.run([sys.executable, script, "ghdl", "c", tmp_path / "c.v", "", tmp_path / "c.vhd"], check=True)
    text = (tmp_path / "c.v").read_text()
    defaults = re.findall(r"default: \w+ <= (\S+);", text)
    assert len(defaults) == text.count("endcase") and sorted(defaults) == ["1'b0", "d"]


def test_an_entity_below_a_top_in_systemverilog(tmp_path):
    """Translated alone, with its default WORD; a top around it is made of the ports that this has given it."""
    entity = HERE.parent / "rtl/presil_ports_vhdl_top.vhd"
    top, options = tmp_path / "above_top.sv", ["-DTOP=above_top", "-DPARAMETERS="]
    top.touch()
    assert configure(tmp_path, f"-DSOURCES={entity};{top}", *options).returncode == 0
    assert build(tmp_path, "--target", "presil_vhdl_vhdl").returncode == 0
    ports = (tmp_path / "presil_vhdl_vhdl.v").read_text().split(";")[0].replace("presil_ports_vhdl_top", "above_top")
    top.write_text(f"{ports};\n  presil_ports_vhdl_top u_below (.*);\nendmodule\n")
    done = build(tmp_path, "--target", "presil_sim_vhdl_fast_verilate")
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    assert "[63:0]" in ports and "above_top" in (tmp_path / "presil_ports_vhdl.dir/presil_ports.sv").read_text()


def test_ghdl_is_named_where_it_is_missing(tmp_path):
    done = configure(tmp_path, "-DPRESIL_GHDL=/no/such/ghdl")
    said = " ".join(done.stderr.split())
    assert done.returncode and "presil_add_chip: vhdl has VHDL" in said and "(Debian's package: ghdl)" in said


@pytest.mark.parametrize(("line", "instead", "text"), [
    ("signal state : state_t;", "signal state : state_u;", 'no declaration for "state_u"'),
    ("if rising_edge(clk) then", "if rising_edge(clk) then wait for 1 ns;", "wait"),
])  # fmt: skip
def test_what_ghdl_refuses_is_said(tmp_path, line, instead, text):
    source = (HERE.parent / "rtl/presil_ports_vhdl_top.vhd").read_text()
    assert source.count(line) == 1
    (tmp_path / "bad.vhd").write_text(source.replace(line, instead))
    assert configure(tmp_path / "b", f"-DSOURCES={tmp_path}/bad.vhd").returncode == 0
    done = build(tmp_path / "b", "--target", "presil_vhdl_vhdl")
    said = done.stdout + done.stderr
    assert done.returncode and "ghdl doesn't translate the VHDL entity presil_ports_vhdl_top" in said and text in said
