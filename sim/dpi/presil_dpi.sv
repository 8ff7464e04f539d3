// SPDX-License-Identifier: Apache-2.0
// Drives a chip with the ports of presil_top (docs/rtl.md "Top ports") from another process: registers and reset as
// the driver asks for them, and
// the memory behind the AXI4 master. IEEE 1800-2017 and DPI-C, nothing else; libpresil_dpi has the C side
// (presil_dpi.cpp, docs/dpi.md).
//
// The pins are sampled at the rising edge and driven after the falling one, so no order of processes matters. Where
// the driver asks for nothing, the
// function for the falling edge does not return: simulated time stands still.
module presil_dpi #(
  parameter int unsigned WORD      = 64,        // bytes of a bus beat, 4 to 128
  parameter int unsigned ADDR      = 40,        // bits of an address, at most 64
  parameter int unsigned ID        = 4,         // bits of an AXI ID, at most 32
  parameter int unsigned AXIL_ADDR = 12,        // bits of a register's address, at most 32
  parameter int unsigned REGISTERS = 4096,      // bytes of registers
  parameter int unsigned CLOCK_MHZ = 1000,      // what the driver is told
  parameter string       CHIP      = "presil",  // names the driver's knowledge of the chip
  parameter string       CONFIG    = ""         // "": the chip's default
) (
  input  logic              clk,
  output logic              rst,
  input  logic              irq,
  output logic [AXIL_ADDR-1:0] s_axil_awaddr,
  output logic [2:0]        s_axil_awprot,
  output logic              s_axil_awvalid,
  input  logic              s_axil_awready,
  output logic [31:0]       s_axil_wdata,
  output logic [3:0]        s_axil_wstrb,
  output logic              s_axil_wvalid,
  input  logic              s_axil_wready,
  input  logic [1:0]        s_axil_bresp,
  input  logic              s_axil_bvalid,
  output logic              s_axil_bready,
  output logic [AXIL_ADDR-1:0] s_axil_araddr,
  output logic [2:0]        s_axil_arprot,
  output logic              s_axil_arvalid,
  input  logic              s_axil_arready,
  input  logic [31:0]       s_axil_rdata,
  input  logic [1:0]        s_axil_rresp,
  input  logic              s_axil_rvalid,
  output logic              s_axil_rready,
  input  logic [ID-1:0]     m_axi_awid,
  input  logic [ADDR-1:0]   m_axi_awaddr,
  input  logic [7:0]        m_axi_awlen,
  input  logic [2:0]        m_axi_awsize,
  input  logic [1:0]        m_axi_awburst,
  input  logic              m_axi_awvalid,
  output logic              m_axi_awready,
  input  logic [8*WORD-1:0] m_axi_wdata,
  input  logic [WORD-1:0]   m_axi_wstrb,
  input  logic              m_axi_wlast,
  input  logic              m_axi_wvalid,
  output logic              m_axi_wready,
  output logic [ID-1:0]     m_axi_bid,
  output logic [1:0]        m_axi_bresp,
  output logic              m_axi_bvalid,
  input  logic              m_axi_bready,
  input  logic [ID-1:0]     m_axi_arid,
  input  logic [ADDR-1:0]   m_axi_araddr,
  input  logic [7:0]        m_axi_arlen,
  input  logic [2:0]        m_axi_arsize,
  input  logic [1:0]        m_axi_arburst,
  input  logic              m_axi_arvalid,
  output logic              m_axi_arready,
  output logic [ID-1:0]     m_axi_rid,
  output logic [8*WORD-1:0] m_axi_rdata,
  output logic [1:0]        m_axi_rresp,
  output logic              m_axi_rlast,
  output logic              m_axi_rvalid,
  input  logic              m_axi_rready
);
  // Whole bytes, in the order of presil_dpi.cpp's structs read from their end: a packed struct begins with its
  // highest bits.
  typedef struct packed {
    bit [1023:0] wdata;
    bit [127:0]  wstrb;
    bit [63:0]   awaddr, araddr;
    bit [31:0]   awid, arid, axil_rdata;
    bit [7:0]    awlen, awsize, awburst, awvalid, wlast, wvalid, bready;
    bit [7:0]    arlen, arsize, arburst, arvalid, rready;
    bit [7:0]    axil_awready, axil_wready, axil_bresp, axil_bvalid, axil_arready, axil_rresp, axil_rvalid, irq;
  } from_chip_t;

  typedef struct packed {
    bit [1023:0] rdata;
    bit [31:0]   axil_wdata, axil_awaddr, axil_araddr, bid, rid;
    bit [7:0]    awready, wready, bresp, bvalid, arready, rresp, rlast, rvalid;
    bit [7:0]    axil_awvalid, axil_wvalid, axil_wstrb, axil_bready, axil_arvalid, axil_rready, rst;
  } to_chip_t;

  // the same in every instance: a C function has one prototype
  localparam int unsigned FROM_BITS = $bits(from_chip_t), TO_BITS = $bits(to_chip_t);

  import "DPI-C" function chandle presil_dpi_open(input string socket, input string chip, input string configuration,
    input int unsigned word_bytes, input int unsigned clock_mhz, input int unsigned registers);
  import "DPI-C" function void presil_dpi_close(input chandle server);
  import "DPI-C" function void presil_dpi_rising(input chandle server, input bit [FROM_BITS-1:0] pins);
  import "DPI-C" function int presil_dpi_falling(input chandle server, input bit [FROM_BITS-1:0] pins,
    output bit [TO_BITS-1:0] inputs);

  from_chip_t from_chip;
  always_comb begin
    from_chip              = '0;
    from_chip.wdata        = 1024'(m_axi_wdata);
    from_chip.wstrb        = 128'(m_axi_wstrb);
    from_chip.awaddr       = 64'(m_axi_awaddr);
    from_chip.araddr       = 64'(m_axi_araddr);
    from_chip.axil_rdata   = s_axil_rdata;
    from_chip.awid         = 32'(m_axi_awid);
    from_chip.awlen        = m_axi_awlen;
    from_chip.awsize       = 8'(m_axi_awsize);
    from_chip.awburst      = 8'(m_axi_awburst);
    from_chip.awvalid      = 8'(m_axi_awvalid);
    from_chip.wlast        = 8'(m_axi_wlast);
    from_chip.wvalid       = 8'(m_axi_wvalid);
    from_chip.bready       = 8'(m_axi_bready);
    from_chip.arid         = 32'(m_axi_arid);
    from_chip.arlen        = m_axi_arlen;
    from_chip.arsize       = 8'(m_axi_arsize);
    from_chip.arburst      = 8'(m_axi_arburst);
    from_chip.arvalid      = 8'(m_axi_arvalid);
    from_chip.rready       = 8'(m_axi_rready);
    from_chip.axil_awready = 8'(s_axil_awready);
    from_chip.axil_wready  = 8'(s_axil_wready);
    from_chip.axil_bresp   = 8'(s_axil_bresp);
    from_chip.axil_bvalid  = 8'(s_axil_bvalid);
    from_chip.axil_arready = 8'(s_axil_arready);
    from_chip.axil_rresp   = 8'(s_axil_rresp);
    from_chip.axil_rvalid  = 8'(s_axil_rvalid);
    from_chip.irq          = 8'(irq);
  end

  to_chip_t to_chip;

  // `bit` above makes zeros of unknowns, which would hide a chip that doesn't reset what controls it.
  presil_dpi_watch #(.WORD(WORD), .ADDR(ADDR), .ID(ID)) u_watch (.*);

  chandle   server;
  string    socket;

  initial begin
    to_chip     = '0;
    to_chip.rst = 8'd1;
    if (!$value$plusargs("presil_socket=%s", socket)) socket = "presil.sock";
    server = presil_dpi_open(socket, CHIP, CONFIG, WORD, CLOCK_MHZ, REGISTERS);
    if (server == null) $fatal(1, "presil_dpi: not serving on %s (see above)", socket);
  end

  always @(posedge clk) if (server != null) presil_dpi_rising(server, from_chip);

  always @(negedge clk) begin
    bit [TO_BITS-1:0] inputs;
    if (server != null) begin
      if (presil_dpi_falling(server, from_chip, inputs) != 0) $finish;
      to_chip <= inputs;
    end
  end

  final if (server != null) presil_dpi_close(server);

  assign rst            = to_chip.rst[0];
  assign s_axil_awaddr  = to_chip.axil_awaddr[AXIL_ADDR-1:0];
  assign s_axil_awprot  = '0;
  assign s_axil_awvalid = to_chip.axil_awvalid[0];
  assign s_axil_wdata   = to_chip.axil_wdata;
  assign s_axil_wstrb   = to_chip.axil_wstrb[3:0];
  assign s_axil_wvalid  = to_chip.axil_wvalid[0];
  assign s_axil_bready  = to_chip.axil_bready[0];
  assign s_axil_araddr  = to_chip.axil_araddr[AXIL_ADDR-1:0];
  assign s_axil_arprot  = '0;
  assign s_axil_arvalid = to_chip.axil_arvalid[0];
  assign s_axil_rready  = to_chip.axil_rready[0];
  assign m_axi_awready  = to_chip.awready[0];
  assign m_axi_wready   = to_chip.wready[0];
  assign m_axi_bid      = to_chip.bid[ID-1:0];
  assign m_axi_bresp    = to_chip.bresp[1:0];
  assign m_axi_bvalid   = to_chip.bvalid[0];
  assign m_axi_arready  = to_chip.arready[0];
  assign m_axi_rid      = to_chip.rid[ID-1:0];
  assign m_axi_rdata    = to_chip.rdata[8*WORD-1:0];
  assign m_axi_rresp    = to_chip.rresp[1:0];
  assign m_axi_rlast    = to_chip.rlast[0];
  assign m_axi_rvalid   = to_chip.rvalid[0];
endmodule

// Behind reset no handshake of the chip may be unknown (x or z), nor what goes with a valid: an address, strobes, what
// a register reads (data bytes may: nobody says what memory holds). Ends the simulation.
module presil_dpi_watch #(
  parameter int unsigned WORD = 64,
  parameter int unsigned ADDR = 40,
  parameter int unsigned ID   = 4
) (
  input logic            clk,
  input logic            rst,
  input logic            irq,
  input logic            s_axil_awready,
  input logic            s_axil_wready,
  input logic [1:0]      s_axil_bresp,
  input logic            s_axil_bvalid,
  input logic            s_axil_arready,
  input logic [31:0]     s_axil_rdata,
  input logic [1:0]      s_axil_rresp,
  input logic            s_axil_rvalid,
  input logic [ID-1:0]   m_axi_awid,
  input logic [ADDR-1:0] m_axi_awaddr,
  input logic [7:0]      m_axi_awlen,
  input logic [2:0]      m_axi_awsize,
  input logic [1:0]      m_axi_awburst,
  input logic            m_axi_awvalid,
  input logic [WORD-1:0] m_axi_wstrb,
  input logic            m_axi_wlast,
  input logic            m_axi_wvalid,
  input logic            m_axi_bready,
  input logic [ID-1:0]   m_axi_arid,
  input logic [ADDR-1:0] m_axi_araddr,
  input logic [7:0]      m_axi_arlen,
  input logic [2:0]      m_axi_arsize,
  input logic [1:0]      m_axi_arburst,
  input logic            m_axi_arvalid,
  input logic            m_axi_rready
);
  logic watched = 1'b0;
  always @(posedge clk) begin
    watched <= rst === 1'b0;
    if (watched && rst === 1'b0) begin
      // of x and z alike; not $isunknown, which Icarus 11 gets wrong for concatenations
      if (^{irq, s_axil_awready, s_axil_wready, s_axil_bvalid, s_axil_arready, s_axil_rvalid,
            m_axi_awvalid, m_axi_wvalid, m_axi_bready, m_axi_arvalid, m_axi_rready} === 1'bx)
        $fatal(1, "presil_dpi: a handshake of the chip is unknown (x or z) behind reset");
      if (s_axil_bvalid && ^s_axil_bresp === 1'bx) $fatal(1, "presil_dpi: BRESP of a register write is unknown");
      if (s_axil_rvalid && ^{s_axil_rresp, s_axil_rdata} === 1'bx)
        $fatal(1, "presil_dpi: a register reads unknown: %h", s_axil_rdata);
      if (m_axi_awvalid && ^{m_axi_awid, m_axi_awaddr, m_axi_awlen, m_axi_awsize, m_axi_awburst} === 1'bx)
        $fatal(1, "presil_dpi: a write address is unknown: %h, length %h", m_axi_awaddr, m_axi_awlen);
      if (m_axi_arvalid && ^{m_axi_arid, m_axi_araddr, m_axi_arlen, m_axi_arsize, m_axi_arburst} === 1'bx)
        $fatal(1, "presil_dpi: a read address is unknown: %h, length %h", m_axi_araddr, m_axi_arlen);
      if (m_axi_wvalid && ^{m_axi_wstrb, m_axi_wlast} === 1'bx)
        $fatal(1, "presil_dpi: strobes or WLAST are unknown");
    end
  end
endmodule
