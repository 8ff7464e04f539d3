// SPDX-License-Identifier: Apache-2.0
// Parity of a memory: no word of a row that was right is told as wrong, each that differs from its parity is. The row
// is chosen by the solver; its start is right, as after the start-up pass. One top for bytes, one for whole rows.
module parity_properties #(
  parameter int unsigned UNITS = 2, UNIT = 32
) (
  input logic                  clk, re, bad,
  input logic [2:0]            raddr, waddr,
  input logic [UNITS*UNIT-1:0] q,
  input logic [UNITS-1:0]      q_par,
  input logic [UNITS*UNIT-1:0] mem [5],
  input logic [UNITS-1:0]      par [5]
);
  function automatic logic right(input logic [UNITS*UNIT-1:0] bits, input logic [UNITS-1:0] parity);
    right = 1'b1;
    for (int unsigned u = 0; u < UNITS; u++)
      if ((^bits[UNIT*u +: UNIT]) ^ parity[u] ^ u[0] ^ 1'b1) right = 1'b0;   // odd, even, odd, ...
  endfunction

  logic       started = 1'b0, was_re, was_read;
  logic [2:0] row, row_was;

  always_ff @(posedge clk) begin
    started <= 1'b1;
    row_was <= row;  was_re <= started && re;  was_read <= started && re && raddr == row;
    assume (row < 3'd5 && raddr < 3'd5 && waddr < 3'd5);
    if (!started) assume (right(mem[row], par[row]));
    if (started) begin
      assume (row == row_was);
      a_kept: assert (right(mem[row], par[row]));
      a_quiet: assert (!was_read || !bad);
      a_seen: assert (!was_re || bad == !right(q, q_par));
      c_zeros: cover (was_re && bad && q == '0 && q_par == '0);   // a row that is stuck
      c_ones: cover (was_re && bad && q == '1 && q_par == '1);
    end
  end
endmodule

module parity_bytes (
  input logic clk, re, we,
  input logic [2:0] raddr, waddr,
  input logic [3:0] be,
  input logic [31:0] wdata
);
  logic [31:0] q;
  logic bad;
  presil_ram_1r1w #(.ROWS(5), .BYTES(4), .PARITY(1'b1), .T(logic [31:0])) u_ram (.*);
  parity_properties #(.UNITS(4), .UNIT(8)) u_properties (.*, .mem(u_ram.mem), .q_par(u_ram.g_parity.q_par),
    .par(u_ram.g_parity.par));
endmodule

module parity_rows (
  input logic clk, re, we,
  input logic [2:0] raddr, waddr,
  input logic [63:0] wdata
);
`ifdef FORWARDED
  localparam bit FORWARD = 1'b1;
`else
  localparam bit FORWARD = 1'b0;
`endif
  typedef logic [31:0] row_t [2];
  row_t q_row, wdata_row;
  logic bad;
  assign wdata_row = '{wdata[63:32], wdata[31:0]};
  presil_ram_1r1w #(.ROWS(5), .FORWARD(FORWARD), .PARITY(1'b1), .T(row_t)) u_ram (.clk, .re, .raddr, .q(q_row), .we,
    .waddr, .be(1'b1), .wdata(wdata_row), .bad);
  logic [63:0] mem [5];
  for (genvar i = 0; i < 5; i++) begin : g_row
    assign mem[i] = {u_ram.mem[i][0], u_ram.mem[i][1]};   // {>>{}}: the first element is highest
  end
  parity_properties u_properties (.*, .q({q_row[0], q_row[1]}), .q_par(u_ram.g_parity.q_par),
    .par(u_ram.g_parity.par));
endmodule
