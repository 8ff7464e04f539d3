// SPDX-License-Identifier: Apache-2.0
// A memory: one cell of one row that the solver chooses, against what was written last.
module presil_accumulator_properties import presil_config_pkg::*; (
  input logic                        clk, re, we,
  input logic [$clog2(ACC_ROWS)-1:0] raddr, waddr,
  input logic [31:0]                 q [CELLS],
  input logic [31:0]                 wdata [CELLS]
);
  logic        started = 1'b0;
  logic        known, was_known, was_read, was_idle;
  logic [$clog2(ACC_ROWS)-1:0] row, row_was;
  logic [$clog2(CELLS)-1:0] n, n_was;
  logic [31:0] shadow, expected, was_q;

  always_ff @(posedge clk) begin
    started <= 1'b1;
    row_was <= row;  n_was <= n;
    was_read <= re && raddr == row;  was_idle <= !re;
    expected <= shadow;  was_known <= known && started;  was_q <= q[n];
    known <= started && (known || (we && waddr == row));
    if (we && waddr == row) shadow <= wdata[n];
    if (started) begin
      assume (row == row_was && n == n_was);
      a_read: assert (!(was_read && was_known) || q[n] == expected);
      a_holds: assert (!was_idle || q[n] == was_q);
      c_old_value: cover (was_read && was_known && shadow != expected);
    end
  end
endmodule
bind presil_accumulator presil_accumulator_properties u_properties (.*);
