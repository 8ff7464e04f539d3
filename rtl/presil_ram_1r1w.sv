// SPDX-License-Identifier: Apache-2.0
// Memory of the chip: ROWS rows of type T, one read and one write port, both synchronous: that of
// scratchpad, accumulators and line buffer. The queues are arrays of their modules.
// Read: q has the row in the cycle after `re` and keeps it until the next read. Write: at the edge;
// with BYTES != 0 (T is packed then and has so many bytes) of the bytes that `be` enables,
// otherwise of the whole row (be is 1).
// Collision, both ports at one row: q has the row as it was before; with FORWARD (whole rows only)
// as it is written.
// Reset: none, what was never written is unknown. Errors: none; rows from ROWS on are not asked
// for.
// Parity (PARITY = 1): a bit for each unit, a byte with BYTES != 0, else 32 bits of the row;
// written with the row, read with it. In the first cycle of q `bad` says that a bit of the row or
// of its parity is not as it was written: any odd number of bits of a unit. Units 0, 2, ... have
// odd parity, the others even: of a row that is stuck at zeros (at ones) with its parity, an even
// (odd) unit is wrong. What was never written needs right parity all the same (docs/synthesis.md).
// Without PARITY `bad` is 0.
// A vendor's memory: define PRESIL_RAM_MACRO as the name of a module with the same ports but `bad`,
// the row as bits [WIDTH-1:0], and the parameters ROWS, WIDTH, BYTES and FORWARD; it takes the
// array's place. The parity is in a second one: an enable is for WIDTH / BYTES bits, one there.
module presil_ram_1r1w #(
  parameter  int unsigned ROWS    = 2,        /// rows, 2 or more
  parameter  int unsigned BYTES   = 0,        /// 0: whole rows are written; else bytes, so many
  parameter  bit          FORWARD = 1'b0,     /// 1: a read sees its cycle's write; BYTES = 0 only
  parameter  type         T       = logic [7:0],  /// a row; packed where BYTES is not 0
  parameter  bit          PARITY  = 1'b0,     /// 1: parity is kept and compared
  localparam int unsigned AW      = $clog2(ROWS),
  localparam int unsigned ENABLES = BYTES == 0 ? 1 : BYTES
) (
  input  logic               clk,
  input  logic               re,              /// read: q has the row in the next cycle
  input  logic [AW-1:0]      raddr,           /// row to read, below ROWS, with re
  output T                   q,               /// stays until the next read
  input  logic               we,              /// write, at the edge
  input  logic [AW-1:0]      waddr,           /// row to write, below ROWS, with we
  input  logic [ENABLES-1:0] be,              /// bytes to write; 1, always, where BYTES is 0
  input  T                   wdata,           /// row to write, with we
  output logic               bad              /// wrong parity, in the first cycle of q, if PARITY
);
  localparam int unsigned WIDTH = $bits(T);
`ifdef PRESIL_RAM_MACRO
  logic [WIDTH-1:0] q_bits, wdata_bits;
  assign wdata_bits = {>>{wdata}};
  assign q = {>>{q_bits}};
  `PRESIL_RAM_MACRO #(.ROWS(ROWS), .WIDTH(WIDTH), .BYTES(BYTES), .FORWARD(FORWARD)) u_macro (.clk,
      .re, .raddr,
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

  if (PARITY) begin : g_parity
    localparam int unsigned WORDS = (WIDTH + 31) / 32, UNITS = BYTES == 0 ? WORDS : BYTES;

    function automatic logic [UNITS-1:0] check(input logic [WIDTH-1:0] bits);
      logic [32*WORDS-1:0] row;
      row = (32*WORDS)'(bits);
      check = '0;
      for (int unsigned j = 0; j < WORDS; j++) begin
        logic [31:0] x;
        logic        odd;
        x = row[32*j +: 32];
        odd = 1'b0;
        if (BYTES == 0) begin
          odd = ^x ^ !j[0];
          check = check | (UNITS'(odd) << j);
        end else begin                                       // bits 0, 8, 16, 24: of a byte each
          x = x ^ (x >> 4);
          x = x ^ (x >> 2);
          x = x ^ (x >> 1);
          check = check | (UNITS'({x[24], x[16], x[8], x[0]} ^ 4'b0101) << (4*j));
        end
      end
    endfunction

    logic [WIDTH-1:0] q_row, w_row;
    logic [UNITS-1:0] q_par, w_par;
    logic             fresh;                                 // q came in this cycle
    assign q_row = {>>{q}};
    assign w_row = {>>{wdata}};
    always_ff @(posedge clk) fresh <= re;
    always_comb begin
      bad = 1'b0;  w_par = '0;
      if (fresh) bad = q_par != check(q_row);
      if (we) w_par = check(w_row);
    end
`ifdef PRESIL_RAM_MACRO
    `PRESIL_RAM_MACRO #(.ROWS(ROWS), .WIDTH(UNITS), .BYTES(BYTES), .FORWARD(FORWARD)) u_macro (.clk,
    .re, .raddr,
      .q(q_par), .we, .waddr, .be, .wdata(w_par));
`else
    logic [UNITS-1:0] par [ROWS];
`ifdef SYNTHESIS
    always_ff @(posedge clk) begin
      for (int unsigned u = 0; u < UNITS; u++)
        if (we && be[BYTES == 0 ? 0 : u]) par[waddr][u] <= w_par[u];
      if (re) q_par <= (we && FORWARD && waddr == raddr) ? w_par : par[raddr];
    end
`else
    logic [UNITS-1:0] keep;
    assign keep = BYTES == 0 ? '0 : ~UNITS'(be);
    always_ff @(posedge clk) begin
      if (we) par[waddr] <= (par[waddr] & keep) | (w_par & ~keep);
      if (re) q_par <= (we && FORWARD && waddr == raddr) ? w_par : par[raddr];
    end
`endif
`ifndef SYNTHESIS
    // the start-up pass that docs/synthesis.md asks of silicon
    function automatic logic [UNITS-1:0] check_of(input T row);
      logic [WIDTH-1:0] bits;
      bits = {>>{row}};
      return check(bits);
    endfunction
    initial for (int unsigned r = 0; r < ROWS; r++) par[r] = check_of(mem[r]);
`endif
`endif
  end else begin : g_plain
    assign bad = 1'b0;
  end
endmodule
