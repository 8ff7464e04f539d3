// SPDX-License-Identifier: Apache-2.0
// Whole chip: AXI4-Lite registers, command processor, four engines, scratchpad, one AXI4 master.
// Reset: synchronous, active high, at least two cycles. Ports: docs/rtl.md "Top ports".
module presil_top import presil_config_pkg::*; (
  input  logic              clk,
  input  logic              rst,
  output logic              irq,            // level: (IRQ_STATUS & IRQ_ENABLE) != 0
  input  logic [11:0]       s_axil_awaddr,
  input  logic [2:0]        s_axil_awprot,
  input  logic              s_axil_awvalid,
  output logic              s_axil_awready,
  input  logic [31:0]       s_axil_wdata,
  input  logic [3:0]        s_axil_wstrb,
  input  logic              s_axil_wvalid,
  output logic              s_axil_wready,
  output logic [1:0]        s_axil_bresp,
  output logic              s_axil_bvalid,
  input  logic              s_axil_bready,
  input  logic [11:0]       s_axil_araddr,
  input  logic [2:0]        s_axil_arprot,
  input  logic              s_axil_arvalid,
  output logic              s_axil_arready,
  output logic [31:0]       s_axil_rdata,
  output logic [1:0]        s_axil_rresp,
  output logic              s_axil_rvalid,
  input  logic              s_axil_rready,
  output logic [3:0]        m_axi_awid,     // 0 store
  output logic [39:0]       m_axi_awaddr,   // WORD-aligned
  output logic [7:0]        m_axi_awlen,
  output logic [2:0]        m_axi_awsize,   // log2(WORD)
  output logic [1:0]        m_axi_awburst,  // INCR
  output logic              m_axi_awvalid,
  input  logic              m_axi_awready,
  output logic [8*WORD-1:0] m_axi_wdata,
  output logic [WORD-1:0]   m_axi_wstrb,
  output logic              m_axi_wlast,
  output logic              m_axi_wvalid,
  input  logic              m_axi_wready,
  input  logic [3:0]        m_axi_bid,
  input  logic [1:0]        m_axi_bresp,
  input  logic              m_axi_bvalid,
  output logic              m_axi_bready,
  output logic [3:0]        m_axi_arid,     // 0 load, 1 descriptor fetch
  output logic [39:0]       m_axi_araddr,   // WORD-aligned
  output logic [7:0]        m_axi_arlen,
  output logic [2:0]        m_axi_arsize,
  output logic [1:0]        m_axi_arburst,
  output logic              m_axi_arvalid,
  input  logic              m_axi_arready,
  input  logic [3:0]        m_axi_rid,
  input  logic [8*WORD-1:0] m_axi_rdata,
  input  logic [1:0]        m_axi_rresp,
  input  logic              m_axi_rlast,
  input  logic              m_axi_rvalid,
  output logic              m_axi_rready
);
endmodule
