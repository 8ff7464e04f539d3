# SPDX-License-Identifier: Apache-2.0
"""presil new-chip --top: the port map of tops that have other ports than ours."""

import subprocess
import sys
import tomllib

import pytest
from conform_runs import ROOT

CLI, RTL = ROOT / "torch_ext/torch_presil/cli.py", ROOT / "tests/rtl"


def map_of(tmp_path, *arguments, status: int = 0) -> tuple:
    """(the map, what was printed)."""
    out = tmp_path / "ports.toml"
    command = [sys.executable, str(CLI), "new-chip", *map(str, arguments), "--out", str(out)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.returncode == status, done.stdout + done.stderr
    return tomllib.loads(out.read_text()) if out.exists() else None, " ".join(done.stdout.split())


def test_apb_and_an_upper_case_master(tmp_path):
    made, said = map_of(tmp_path, "--top", RTL / "presil_ports_core.sv", "--top", RTL / "presil_ports_apb_top.sv")
    theirs = tomllib.loads((RTL / "presil_ports_apb.toml").read_text())
    for part in ("clocks", "resets", "interrupts", "registers"):
        assert made[part] == theirs[part], part
    assert [(m["bus"], m["prefix"].upper()) for m in made["memory"]] == [("axi4", "M0_AXI_")]
    assert made["ties"] == {"strap": 0} and "look at ties.strap" in said and "would refuse" not in said


def test_ports_of_presil_top(tmp_path):
    made, said = map_of(tmp_path, "--top", RTL / "presil_stub_top.sv")
    assert made["registers"] == {"bus": "axi4-lite", "prefix": "s_axil_"} and made["clocks"] == {"clk": 1}
    assert made["memory"] == [{"bus": "axi4", "prefix": "m_axi_"}] and made["resets"] == {"rst": "high"}
    assert "ties" not in made and "look at" not in said and "would refuse" not in said


FULL = """module top(input clk, input rstn,
  input [5:0] s_axi_awid, input [11:0] s_axi_awaddr, input [7:0] s_axi_awlen, input [2:0] s_axi_awsize,
  input [1:0] s_axi_awburst, input s_axi_awlock, input [3:0] s_axi_awcache, input [2:0] s_axi_awprot,
  input s_axi_awvalid, output s_axi_awready, input [63:0] s_axi_wdata, input [7:0] s_axi_wstrb, input s_axi_wlast,
  input s_axi_wvalid, output s_axi_wready, output [5:0] s_axi_bid, output [1:0] s_axi_bresp, output s_axi_bvalid,
  input s_axi_bready, input [5:0] s_axi_arid, input [11:0] s_axi_araddr, input [7:0] s_axi_arlen,
  input [2:0] s_axi_arsize, input [1:0] s_axi_arburst, input [3:0] s_axi_arqos, input s_axi_arvalid,
  output s_axi_arready, output [5:0] s_axi_rid, output [63:0] s_axi_rdata, output [1:0] s_axi_rresp,
  output s_axi_rlast, output s_axi_rvalid, input s_axi_rready, output done_irq);
endmodule"""


def test_a_slave_of_full_axi4_is_driven_with_single_beats(tmp_path):
    (tmp_path / "top.sv").write_text(FULL)
    made, said = map_of(tmp_path, "--top", tmp_path / "top.sv")
    assert made["registers"] == {"bus": "axi4-lite", "prefix": "s_axi_"}
    beats = {"len": 0, "burst": 1, "size": 3, "id": 0}
    ties = {f"s_axi_a{way}{wire}": value for way in "rw" for wire, value in beats.items()} | {"s_axi_wlast": 1}
    assert made["ties"] == ties | dict.fromkeys(
        ("s_axi_awlock", "s_axi_awcache", "s_axi_arqos"), 0
    )  # awprot is a wire of AXI4-Lite
    assert said.count("look at") == 2 and "single beats" in said and "s_axi_awlock and 2 more like it" in said


def test_csb_two_clocks_and_verilog_2001(tmp_path):
    """A bus in the manner of NVDLA's CSB; the clock of each bus is what the RTL says."""
    files = "--top", RTL / "presil_ports_core.sv", "--top", RTL / "presil_ports_csb_top.v"
    made, said = map_of(tmp_path, *files, "--verilator-argument", f"-I{RTL}")
    theirs = tomllib.loads((RTL / "presil_ports_csb.toml").read_text())["registers"]
    assert made["registers"] == {key: theirs[key] for key in ("bus", "names", "clock")}
    assert made["memory"] == [{"bus": "axi3", "pattern": "dbb_{channel}_{name}", "clock": "core_clk"}]
    assert made["resets"] == {"rstn": "low"} and set(made["clocks"]) == {"core_clk", "csb_clk"}
    assert made["interrupts"]["done_intr_n"] == {"kind": "level", "active": "low"}
    assert "does csb2chip_addr count words" in said and "would refuse" not in said


def test_two_memory_ports_and_what_is_left_open(tmp_path):
    files = "--top", RTL / "presil_ports_core.sv", "--top", RTL / "presil_ports_lite_top.sv"
    made, said = map_of(tmp_path, *files)
    assert made["registers"] == {"bus": "axi4-lite", "prefix": "cfg_", "bytes": 65536}
    assert [m["prefix"] for m in made["memory"]] == ["ld_", "st_"]
    assert made["resets"] == {"i_por_n": "low", "i_soft_reset": "high"}
    assert "look at o_events_n: an output of 3 bits, left open" in said and "would refuse" not in said


def test_vhdl(tmp_path):
    made, said = map_of(tmp_path, "--top", RTL / "presil_ports_vhdl_top.vhd")
    assert made["registers"] == {"bus": "apb3", "prefix": ""} and made["resets"] == {"rst_n": "low"}
    assert made["memory"] == [{"bus": "axi4", "prefix": "m_axi_"}] and "would refuse" not in said


STRUCTS = """package s_pkg;
  typedef struct packed { logic [31:0] araddr; logic arvalid; } req_t;
endpackage
module top import s_pkg::*; (input logic clk, input logic resetn, output req_t axi_req_o, output logic [31:0] prdata,
    input logic psel, input logic penable, input logic pwrite, input logic [11:0] paddr, input logic [31:0] pwdata);
  always_ff @(posedge clk) prdata <= resetn ? 32'd0 : prdata + 1;
  always_ff @(posedge clk) if (resetn) axi_req_o.arvalid <= 1'b0; else axi_req_o.arvalid <= psel;
endmodule
"""


def test_a_bus_in_a_struct_is_said_and_a_reset_is_what_the_rtl_does(tmp_path):
    (tmp_path / "top.sv").write_text(STRUCTS)
    made, said = map_of(tmp_path, "--top", tmp_path / "top.sv")
    assert made["memory"] == [] and made["registers"]["bus"] == "apb3"
    assert "axi_req_o, a struct (a bus in it is not read: put a wrapper around the top)" in said
    assert made["resets"] == {"resetn": "high"}, "its name says low, its RTL high"


PARTS = """module top(input core_clk, input cfg_aclk, input cfg_areset_b, input clk_en,
  input [11:0] cfg_aw_addr, input cfg_aw_valid, output reg cfg_aw_ready, input [31:0] cfg_w_data, input cfg_w_valid,
  output reg cfg_w_ready, output reg cfg_b_valid, input [11:0] cfg_ar_addr, input cfg_ar_valid, output reg cfg_ar_ready,
  output reg [31:0] cfg_r_data, output reg cfg_r_valid, input cfg_r_ready,
  output reg [31:0] wgt_ar_addr, output reg [7:0] wgt_ar_len, output reg wgt_ar_valid, input wgt_ar_ready,
  input [63:0] wgt_r_data, input wgt_r_last, input wgt_r_valid, output wgt_r_ready,
  output reg evt_done_o, output irq_n_o);
  assign wgt_r_ready = 1, irq_n_o = !evt_done_o;
  always @(posedge cfg_aclk) if (!cfg_areset_b) cfg_r_data <= 0; else cfg_r_data <= cfg_ar_addr;
  always @(posedge core_clk) if (!cfg_areset_b) wgt_ar_valid <= 0; else wgt_ar_valid <= cfg_w_valid;
endmodule
"""


def test_channels_with_an_underscore_behind_them(tmp_path):
    """cfg_aw_addr, wgt_ar_valid: {channel} and {rest}. A clock's enable is no clock, irq_n_o is active where low."""
    (tmp_path / "top.sv").write_text(PARTS)
    made, said = map_of(tmp_path, "--top", tmp_path / "top.sv")
    assert made["registers"] == {"bus": "axi4-lite", "pattern": "cfg_{channel}_{rest}", "clock": "cfg_aclk"}
    assert made["memory"] == [{"bus": "axi4", "pattern": "wgt_{channel}_{rest}", "clock": "core_clk"}]
    assert set(made["clocks"]) == {"core_clk", "cfg_aclk"} and made["ties"] == {"clk_en": 0}
    assert made["interrupts"] == {"irq_n_o": {"kind": "level", "active": "low"}}
    assert "look at evt_done_o" in said and "would refuse" not in said and "interrupts:" not in said


WRAPPED = """module top(input ap_clk, input ap_rst_n, input psel, input penable, input pwrite, input [11:0] paddr,
  input [31:0] pwdata, output reg [31:0] prdata, output m_axi_gmem_AWVALID, input m_axi_gmem_AWREADY,
  output [63:0] m_axi_gmem_AWADDR, output [7:0] m_axi_gmem_AWLEN, output [1:0] m_axi_gmem_AWLOCK,
  output m_axi_gmem_WVALID, input m_axi_gmem_WREADY, output [31:0] m_axi_gmem_WDATA, output m_axi_gmem_WLAST,
  output m_axi_gmem_WID, input m_axi_gmem_BVALID, output done);
  always @(posedge ap_clk) if (!ap_rst_n) prdata <= 0; else prdata <= pwdata;
endmodule
"""


def test_wires_of_axi3_beside_bursts_of_axi4(tmp_path):
    """As tools write them that make RTL of C. Without them the map is what presil_add_chip takes."""
    (tmp_path / "top.sv").write_text(WRAPPED)
    made, said = map_of(tmp_path, "--top", tmp_path / "top.sv")
    assert made["memory"] == [{"bus": "axi4", "prefix": "m_axi_gmem_", "names": {"wid": "", "awlock": ""}}]
    assert "look at m_axi_gmem_WID: a wire of AXI3" in said and "would refuse" not in said
    assert made["interrupts"] == {} and "write yours to [interrupts]" in said and "look at done: an output" in said


@pytest.mark.parametrize("text, said", [("module other; endmodule", "top"), ("modul top;", "Verilator can't read top")])
def test_what_is_no_top_is_refused(text, said, tmp_path):
    (tmp_path / "top.sv").write_text(text)
    made, printed = map_of(tmp_path, "--top", tmp_path / "top.sv", status=2)
    assert made is None and said in printed


def test_a_map_that_is_there_is_kept(tmp_path):
    (tmp_path / "ports.toml").write_text("# mine\n")
    assert "is there already" in map_of(tmp_path, "--top", RTL / "presil_stub_top.sv", status=2)[1]
    assert (tmp_path / "ports.toml").read_text() == "# mine\n"
