// SPDX-License-Identifier: Apache-2.0
// presil_top, as Yosys elaborates it, in a four-state simulator: two launches with every register and memory unknown at
// the start. Says UNKNOWN for each control output that is X behind reset, and for the payload beside a valid.
// Memory: 128-bit words from image.hex, one transaction at a time. Ends with the registers and what the STOREs wrote.
`timescale 1ns / 1ps
module bench;
  parameter WORDS = 16384;                       // 256 KiB
  reg clk = 0, rst = 1;
  always #1 clk = ~clk;

  reg  [11:0] awaddr, araddr;
  reg  [31:0] wdata;
  reg         awvalid = 0, wvalid = 0, arvalid = 0;
  wire        awready, wready, bvalid, arready, rvalid, irq;
  wire [1:0]  bresp, rresp;
  wire [31:0] rdata;
  wire [3:0]  m_awid, m_arid;
  wire [39:0] m_awaddr, m_araddr;
  wire [7:0]  m_awlen, m_arlen;
  wire [2:0]  m_awsize, m_arsize;
  wire [1:0]  m_awburst, m_arburst;
  wire [3:0]  m_awcache, m_awqos, m_arcache, m_arqos;
  wire [2:0]  m_awprot, m_arprot;
  wire        m_awlock, m_arlock;
  wire        m_awvalid, m_wlast, m_wvalid, m_bready, m_arvalid, m_rready;
  wire [127:0] m_wdata;
  wire [15:0] m_wstrb;
  reg         m_bvalid = 0, m_rvalid = 0, m_rlast = 0, reading = 0, writing = 0;
  reg  [3:0]  m_rid = 0, m_bid = 0;
  reg  [127:0] m_rdata = 0;
  reg  [39:0] read_at, write_at;
  reg  [7:0]  read_left;

  presil_top chip (.clk(clk), .rst(rst), .irq(irq),
    .s_axil_awaddr(awaddr), .s_axil_awprot(3'd0), .s_axil_awvalid(awvalid), .s_axil_awready(awready),
    .s_axil_wdata(wdata), .s_axil_wstrb(4'hf), .s_axil_wvalid(wvalid), .s_axil_wready(wready),
    .s_axil_bresp(bresp), .s_axil_bvalid(bvalid), .s_axil_bready(1'b1),
    .s_axil_araddr(araddr), .s_axil_arprot(3'd0), .s_axil_arvalid(arvalid), .s_axil_arready(arready),
    .s_axil_rdata(rdata), .s_axil_rresp(rresp), .s_axil_rvalid(rvalid), .s_axil_rready(1'b1),
    .m_axi_awid(m_awid), .m_axi_awaddr(m_awaddr), .m_axi_awlen(m_awlen), .m_axi_awsize(m_awsize),
    .m_axi_awburst(m_awburst), .m_axi_awlock(m_awlock), .m_axi_awcache(m_awcache), .m_axi_awprot(m_awprot),
    .m_axi_awqos(m_awqos), .m_axi_awvalid(m_awvalid), .m_axi_awready(!writing),
    .m_axi_wdata(m_wdata), .m_axi_wstrb(m_wstrb), .m_axi_wlast(m_wlast), .m_axi_wvalid(m_wvalid),
    .m_axi_wready(writing && !m_bvalid),
    .m_axi_bid(m_bid), .m_axi_bresp(2'd0), .m_axi_bvalid(m_bvalid), .m_axi_bready(m_bready),
    .m_axi_arid(m_arid), .m_axi_araddr(m_araddr), .m_axi_arlen(m_arlen), .m_axi_arsize(m_arsize),
    .m_axi_arburst(m_arburst), .m_axi_arlock(m_arlock), .m_axi_arcache(m_arcache), .m_axi_arprot(m_arprot),
    .m_axi_arqos(m_arqos), .m_axi_arvalid(m_arvalid), .m_axi_arready(!reading),
    .m_axi_rid(m_rid), .m_axi_rdata(m_rdata), .m_axi_rresp(2'd0), .m_axi_rlast(m_rlast), .m_axi_rvalid(m_rvalid),
    .m_axi_rready(m_rready));

  reg [127:0] memory [0:WORDS-1];
  initial $readmemh("image.hex", memory);

  integer i;
  always @(posedge clk) if (!rst) begin
    if (m_arvalid && !reading) begin
      reading <= 1;  read_at <= m_araddr;  read_left <= m_arlen;  m_rid <= m_arid;
    end
    if (reading && (!m_rvalid || m_rready)) begin
      if (m_rvalid && m_rlast) begin
        reading <= 0;  m_rvalid <= 0;
      end else begin
        m_rvalid <= 1;  m_rdata <= memory[read_at >> 4];  m_rlast <= read_left == 0;
        read_at <= read_at + 16;  read_left <= read_left - 1;
      end
    end
    if (m_awvalid && !writing) begin
      writing <= 1;  write_at <= m_awaddr;
    end
    if (m_wvalid && writing && !m_bvalid) begin
      for (i = 0; i < 16; i = i + 1) if (m_wstrb[i]) memory[write_at >> 4][8*i +: 8] <= m_wdata[8*i +: 8];
      write_at <= write_at + 16;  m_bvalid <= m_wlast;
    end
    if (m_bvalid) begin
      m_bvalid <= 0;  writing <= 0;
    end
  end

  integer unknown = 0;
  task look(input [8*12-1:0] name, input bad);
    if (bad && unknown < 20) begin
      $display("UNKNOWN %0s at %0t", name, $time);
      unknown = unknown + 1;
    end
  endtask
  reg behind = 0;                                // the first edge behind reset is over
  always @(negedge clk) begin
    behind <= !rst;
    if (behind) begin
      look("control", (^{irq, awready, wready, bvalid, arready, rvalid,
                         m_awvalid, m_wvalid, m_bready, m_arvalid, m_rready}) === 1'bx);
      if (bvalid === 1) look("bresp", (^bresp) === 1'bx);
      if (rvalid === 1) look("rdata", (^{rresp, rdata}) === 1'bx);
      look("attributes", (^{m_awlock, m_awcache, m_awprot, m_awqos, m_arlock, m_arcache, m_arprot, m_arqos}) === 1'bx);
      if (m_awvalid === 1) look("aw", (^{m_awid, m_awaddr, m_awlen, m_awsize, m_awburst}) === 1'bx);
      if (m_arvalid === 1) look("ar", (^{m_arid, m_araddr, m_arlen, m_arsize, m_arburst}) === 1'bx);
      if (m_wvalid === 1) look("w", (^{m_wstrb, m_wlast}) === 1'bx);
    end
  end

  task write(input [11:0] at, input [31:0] value);
    begin
      awaddr <= at;  wdata <= value;  awvalid <= 1;  wvalid <= 1;
      @(posedge clk);  while (!(awready === 1 && wready === 1)) @(posedge clk);
      awvalid <= 0;  wvalid <= 0;
      @(posedge clk);  while (bvalid !== 1) @(posedge clk);
    end
  endtask
  task read(input [11:0] at);
    begin
      araddr <= at;  arvalid <= 1;
      @(posedge clk);  while (arready !== 1) @(posedge clk);
      arvalid <= 0;
      @(posedge clk);  while (rvalid !== 1) @(posedge clk);
      $display("REG %h %h", at, rdata);
    end
  endtask

  integer n, cycles;
  task launch(input [31:0] tail);
    begin
      write(12'h030, tail);
      cycles = 0;
      while (irq !== 1 && cycles < 3000) begin
        @(posedge clk);  cycles = cycles + 1;
      end
      read(12'h04c);
      write(12'h054, 3);
    end
  endtask

  integer descriptors, out, out_words;
  initial begin
    if (!$value$plusargs("descriptors=%d", descriptors) || !$value$plusargs("out=%h", out)
        || !$value$plusargs("out_words=%d", out_words)) $finish;
    repeat (2) @(posedge clk);
    rst <= 0;
    @(posedge clk);
    for (n = 0; n < 180; n = n + 1) read(12'h400 + 4 * n);      // before any snapshot
    for (n = 0; n < 'h100; n = n + 4) read(n);
    write(12'h024, 0);  write(12'h020, 0);  write(12'h028, 6);  write(12'h050, 3);
    launch(descriptors);
    write(12'h034, 1);                                           // a queue reset, and the doorbell behind it
    launch(descriptors);
    write(12'h034, 2);
    $display("MEASURED");
    for (n = 0; n < 180; n = n + 1) read(12'h400 + 4 * n);
    for (n = 0; n < 'h100; n = n + 4) read(n);
    for (n = 0; n < out_words; n = n + 1) $display("OUT %h", memory[(out >> 4) + n]);
    $display("END %0d", unknown);
    $finish;
  end
endmodule
