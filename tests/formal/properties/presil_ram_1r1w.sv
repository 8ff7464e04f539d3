// SPDX-License-Identifier: Apache-2.0
// A memory: one byte of one row that the solver chooses, against what was written last. One top for packed rows, one
// for unpacked ones; FORWARDED and MACRO choose among the latter.
module ram_properties #(
  parameter bit BYTES = 1'b0, FORWARD = 1'b0
) (
  input logic        clk, re, we,
  input logic [2:0]  raddr, waddr,
  input logic [3:0]  be,
  input logic [31:0] q, wdata,
  input logic [31:0] mem [5]
);
  logic       started = 1'b0;
  logic [2:0] row, row_was;
  logic [1:0] b, b_was;
  logic       writes, was_read, was_idle, collides;
  logic [7:0] shadow, expected, was_q;
  assign writes = we && waddr == row && (!BYTES || be[b]);

  always_ff @(posedge clk) begin
    started <= 1'b1;
    row_was <= row;  b_was <= b;
    was_read <= started && re && raddr == row;  was_idle <= !re;  was_q <= q[8*b +: 8];
    collides <= writes && re && raddr == row;
    expected <= (FORWARD && writes) ? wdata[8*b +: 8] : shadow;
    shadow <= !started ? mem[row][8*b +: 8] : writes ? wdata[8*b +: 8] : shadow;
    assume (row < 3'd5 && raddr < 3'd5 && waddr < 3'd5);
    if (!started) assume (!we);
    if (started) begin
      assume (row == row_was && b == b_was);
      a_memory: assert (mem[row][8*b +: 8] == shadow);
      a_read: assert (!was_read || q[8*b +: 8] == expected);
      a_holds: assert (!was_idle || q[8*b +: 8] == was_q);
      c_collision: cover (was_read && collides && expected != (FORWARD ? was_q : shadow));
      c_masked: cover (we && waddr == row && !writes == BYTES);
    end
  end
endmodule

module ram_bytes (
  input logic clk, re, we,
  input logic [2:0] raddr, waddr,
  input logic [3:0] be,
  input logic [31:0] wdata
);
  logic [31:0] q;
  presil_ram_1r1w #(.ROWS(5), .BYTES(4), .T(logic [31:0])) u_ram (.clk, .re, .raddr, .q, .we, .waddr, .be, .wdata);
  ram_properties #(.BYTES(1'b1)) u_properties (.*, .mem(u_ram.mem));
endmodule

`ifdef MACRO
module ram_macro #(
  parameter int unsigned ROWS = 2, WIDTH = 8, BYTES = 0,
  parameter bit FORWARD = 1'b0
) (
  input  logic clk, re, we,
  input  logic [$clog2(ROWS)-1:0] raddr, waddr,
  input  logic be,
  input  logic [WIDTH-1:0] wdata,
  output logic [WIDTH-1:0] q
);
  logic [WIDTH-1:0] mem [ROWS];
  always_ff @(posedge clk) begin
    if (we && be) mem[waddr] <= wdata;
    if (re) q <= mem[raddr];
  end
endmodule
`endif

module ram_rows (
  input logic clk, re, we,
  input logic [2:0] raddr, waddr,
  input logic [3:0] be,
  input logic [31:0] wdata
);
`ifdef FORWARDED
  localparam bit FORWARD = 1'b1;
`else
  localparam bit FORWARD = 1'b0;
`endif
  typedef logic [7:0] row_t [4];
  row_t q_row, wdata_row;
  logic [31:0] q;
  for (genvar i = 0; i < 4; i++) begin : g_part
    assign wdata_row[i] = wdata[8*i +: 8];
    assign q[8*i +: 8] = q_row[i];
  end
  presil_ram_1r1w #(.ROWS(5), .FORWARD(FORWARD), .T(row_t)) u_ram (.clk, .re, .raddr, .q(q_row), .we, .waddr,
    .be(1'b1), .wdata(wdata_row));
  logic [31:0] mem [5];
  for (genvar i = 0; i < 5; i++) begin : g_row
`ifdef MACRO
    for (genvar k = 0; k < 4; k++) begin : g_byte
      assign mem[i][8*k +: 8] = u_ram.u_macro.mem[i][8*(3 - k) +: 8];   // {>>{}}: the first element is highest
    end
`else
    for (genvar k = 0; k < 4; k++) begin : g_byte
      assign mem[i][8*k +: 8] = u_ram.mem[i][k];
    end
`endif
  end
  ram_properties #(.FORWARD(FORWARD)) u_properties (.*);
endmodule
