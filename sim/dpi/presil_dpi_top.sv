// SPDX-License-Identifier: Apache-2.0
// A testbench of the whole: clock, the chip of rtl/, and the module that a driver in another process reaches it
// through. Takes +presil_socket=PATH.
module presil_dpi_top import presil_config_pkg::*;
#(
  parameter int unsigned CLOCK_MHZ = 1000,
  parameter string       CONFIG    = ""  // "": the chip's default
);
  timeunit 1ps;
  timeprecision 1ps;

  logic clk = 1'b0;
  initial forever #(500_000 / CLOCK_MHZ) clk = ~clk;

  logic              rst, irq;
  logic [11:0]       s_axil_awaddr, s_axil_araddr;
  logic [2:0]        s_axil_awprot, s_axil_arprot, m_axi_awsize, m_axi_arsize;
  logic [31:0]       s_axil_wdata, s_axil_rdata;
  logic [3:0]        s_axil_wstrb, m_axi_awid, m_axi_bid, m_axi_arid, m_axi_rid;
  logic [1:0]        s_axil_bresp, s_axil_rresp, m_axi_awburst, m_axi_arburst, m_axi_bresp, m_axi_rresp;
  logic              s_axil_awvalid, s_axil_awready, s_axil_wvalid, s_axil_wready, s_axil_bvalid, s_axil_bready;
  logic              s_axil_arvalid, s_axil_arready, s_axil_rvalid, s_axil_rready;
  logic [39:0]       m_axi_awaddr, m_axi_araddr;
  logic [7:0]        m_axi_awlen, m_axi_arlen;
  logic              m_axi_awvalid, m_axi_awready, m_axi_wlast, m_axi_wvalid, m_axi_wready, m_axi_bvalid, m_axi_bready;
  logic              m_axi_arvalid, m_axi_arready, m_axi_rlast, m_axi_rvalid, m_axi_rready;
  logic              m_axi_awlock, m_axi_arlock;  // these and the next two lines: outputs that presil_dpi doesn't read
  logic [3:0]        m_axi_awcache, m_axi_awqos, m_axi_arcache, m_axi_arqos;
  logic [2:0]        m_axi_awprot, m_axi_arprot;
  logic [8*WORD-1:0] m_axi_wdata, m_axi_rdata;
  logic [WORD-1:0]   m_axi_wstrb;

  presil_top u_chip (.*);
  presil_dpi #(.WORD(WORD), .CLOCK_MHZ(CLOCK_MHZ), .CONFIG(CONFIG)) u_driver (.*);
endmodule
