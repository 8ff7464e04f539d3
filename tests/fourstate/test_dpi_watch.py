# SPDX-License-Identifier: Apache-2.0
"""sim/dpi ends a simulation in which the chip drives what is unknown: each pin in turn, in a four-state simulator. (The
simulator that runs the testbenches in CI knows no x.)"""

import re
import shutil
import subprocess
from pathlib import Path

import pytest

SOURCE = Path(__file__).resolve().parents[2] / "sim" / "dpi" / "presil_dpi.sv"
HANDSHAKES = (
    "irq s_axil_awready s_axil_wready s_axil_bvalid s_axil_arready s_axil_rvalid m_axi_awvalid m_axi_wvalid "
    "m_axi_bready m_axi_arvalid m_axi_rready"
).split()
# pin -> its valid, and what is said
PAYLOAD = {
    "s_axil_bresp": ("s_axil_bvalid", "BRESP of a register write is unknown"),
    "s_axil_rresp": ("s_axil_rvalid", "a register reads unknown: 00000000"),
    "s_axil_rdata": ("s_axil_rvalid", "a register reads unknown: 0000000X"),
    **{f"m_axi_{p}": ("m_axi_awvalid", "a write address is") for p in "awid awaddr awlen awsize awburst".split()},
    **{f"m_axi_{p}": ("m_axi_arvalid", "a read address is") for p in "arid araddr arlen arsize arburst".split()},
    "m_axi_wstrb": ("m_axi_wvalid", "strobes or WLAST are unknown"),
    "m_axi_wlast": ("m_axi_wvalid", "strobes or WLAST are unknown"),
}


BENCH = """
module bench;
  logic clk = 0, rst = 1, bad;
  reg [8*24:1] pin = 0, valid = 0;
  reg [7:0] value = 0;
{declared}
  presil_dpi_watch #(.WORD(4), .ADDR(40), .ID(4)) watch (.*);
  always #1 clk = ~clk;
  task drive(input logic v);
{driven}
  endtask
  initial begin
    bad = $value$plusargs("pin=%s", pin);
    bad = $value$plusargs("valid=%s", valid);
    bad = $value$plusargs("value=%s", value);
    bad = value == "x" ? 1'bx : value == "z" ? 1'bz : 1'b1;
    drive(bad);
    #9 if (!$test$plusargs("always")) drive(1'b0);
    rst = 0;
    #20 $display("ENDED");
    $finish;
  end
endmodule
"""


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """run(pin, valid, value, when): what the simulator says if the lowest bit of `pin` is `value` in reset and, with
    when "always", behind it, and the pin `valid` is 1."""
    assert shutil.which("iverilog"), "Icarus Verilog is missing: apt-get install iverilog"
    place = tmp_path_factory.mktemp("watch")
    module = re.search(r"^module presil_dpi_watch.*?^endmodule\n", SOURCE.read_text(), re.M | re.S)[0]
    module = module.replace("parameter int unsigned", "parameter")  # Icarus 11 doesn't know it
    pins = {name: width for width, name in re.findall(r"input logic +(\[.*?\])? *(\w+)", module)}
    del pins["clk"], pins["rst"]
    assert set(pins) == {*HANDSHAKES, *PAYLOAD}
    declared, driven = [], []
    for name, width in pins.items():
        width = width.replace("WORD", "4").replace("ADDR", "40").replace("ID", "4")
        declared.append(f"  logic {width} {name} = 0;")
        driven.append(f'    if (valid == "{name}") {name} = 1;')
        driven.append(f'    if (pin == "{name}") {name}{"[0]" if width else ""} = v;')
    bench = BENCH.format(declared="\n".join(declared), driven="\n".join(driven))
    (place / "bench.sv").write_text(module + bench)
    subprocess.run(["iverilog", "-g2012", "-o", "bench.vvp", "-s", "bench", "bench.sv"], cwd=place, check=True)

    def run(pin, valid, value, when):
        options = [f"+pin={pin}", f"+valid={valid}", f"+value={value}", f"+{when}"]
        return subprocess.run(["vvp", "-n", "bench.vvp", *options], cwd=place, capture_output=True, text=True).stdout

    return run


@pytest.mark.parametrize("value", ["x", "z"])
@pytest.mark.parametrize("pin", [*HANDSHAKES, *PAYLOAD])
def test_an_unknown_pin_ends_the_simulation(run, pin, value):
    valid, text = PAYLOAD.get(pin, ("none", "a handshake of the chip is unknown (x or z) behind reset"))
    said = run(pin, valid, value, "always")
    assert f"presil_dpi: {text}".replace("X", value.upper()) in said and "ENDED" not in said, said
    assert "ENDED" in run(pin, valid, "1", "always"), "known"
    assert "ENDED" in run(pin, valid, value, "reset"), "in reset"
    if pin in PAYLOAD:
        assert "ENDED" in run(pin, "none", value, "always"), "without its valid"
