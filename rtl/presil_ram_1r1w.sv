// SPDX-License-Identifier: Apache-2.0
// Memory of the chip: ROWS rows of type T, one read and one write port, both synchronous: that of scratchpad,
// accumulators and line buffer. The queues are arrays of their modules.
// Read: q has the row in the cycle after `re` and keeps it until the next read. Write: at the edge; with BYTES != 0 (T
// is packed then and has so many bytes) of the bytes that `be` enables, otherwise of the whole row (be is 1).
// Collision, both ports at one row: q has the row as it was before; with FORWARD (whole rows only) as it is written.
// Reset: none, what was never written is unknown. Errors: none; rows from ROWS on are not asked for.
// A vendor's memory: define PRESIL_RAM_MACRO as the name of a module with the same ports, the row as bits [WIDTH-1:0],
// and the parameters ROWS, WIDTH, BYTES and FORWARD; it takes the array's place.
module presil_ram_1r1w #(
  parameter  int unsigned ROWS    = 2,
  parameter  int unsigned BYTES   = 0,
  parameter  bit          FORWARD = 1'b0,
  parameter  type         T       = logic [7:0],
  localparam int unsigned AW      = $clog2(ROWS),
  localparam int unsigned ENABLES = BYTES == 0 ? 1 : BYTES
) (
  input  logic               clk,
  input  logic               re,
  input  logic [AW-1:0]      raddr,
  output T                   q,
  input  logic               we,
  input  logic [AW-1:0]      waddr,
  input  logic [ENABLES-1:0] be,
  input  T                   wdata
);
`ifdef PRESIL_RAM_MACRO
  localparam int unsigned WIDTH = $bits(T);
  logic [WIDTH-1:0] q_bits, wdata_bits;
  assign wdata_bits = {>>{wdata}};
  assign q = {>>{q_bits}};
  `PRESIL_RAM_MACRO #(.ROWS(ROWS), .WIDTH(WIDTH), .BYTES(BYTES), .FORWARD(FORWARD)) u_macro (.clk, .re, .raddr,
    .q(q_bits), .we, .waddr, .be, .wdata(wdata_bits));
`else
  T mem [ROWS];

  if (BYTES == 0) begin : g_rows
    logic unused;
    assign unused = &be;
    always_ff @(posedge clk) begin
      if (we) mem[waddr] <= wdata;
      if (re) begin
        if (FORWARD && we && waddr == raddr) q <= wdata;
        else q <= mem[raddr];
      end
    end
  end else begin : g_bytes
`ifdef SYNTHESIS
    always_ff @(posedge clk) begin
      for (int unsigned b = 0; b < BYTES; b++)
        if (we && be[b]) mem[waddr][8*b +: 8] <= wdata[8*b +: 8];
      if (re) q <= mem[raddr];
    end
`else
    // The same, 32 bits at a time: a simulator would keep a list of the bytes.
    function automatic T merge();
      for (int unsigned j = 0; j < BYTES / 4; j++) begin
        logic [31:0] m;
        m = 32'(be[4*j +: 4]);
        m = (m * 32'h0020_4081) & 32'h0101_0101;             // bit i to byte i
        m = (m << 8) - m;
        merge[32*j +: 32] = (mem[waddr][32*j +: 32] & ~m) | (wdata[32*j +: 32] & m);
      end
    endfunction
    always_ff @(posedge clk) begin
      if (we) begin
        if (&be) mem[waddr] <= wdata;
        else mem[waddr] <= merge();
      end
      if (re) q <= mem[raddr];
    end
`endif
  end
`endif
endmodule
