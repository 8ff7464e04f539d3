// SPDX-License-Identifier: Apache-2.0
// Token counters (docs/isa.md section 1): one token `n` that the solver chooses, against a count of what was given and
// taken.
module presil_tokens_properties (
  input logic clk, rst, clear,
  input logic [19:0] want [4], have,
  input logic [3:0]  asks, grant, overflow,
  input logic [15:0] give, full,
  input logic [31:0] counts [5]
);
  logic       started = 1'b0;
  logic [4:0] n, n_was;              // chosen, and stays
  logic [7:0] count;
  logic [8:0] model;                 // given less taken; 256 stays: there was an overflow
  logic [3:0] takes, may;
  logic       given;
  logic [31:0] of_engine;
  logic [2:0] taken;
  logic [19:0] left;

  assign of_engine = counts[n[4:2]];
  assign count = of_engine[8*n[1:0] +: 8];
  assign given = n < 5'd16 && give[n[3:0]];
  always_comb begin
    left = have;
    for (int unsigned e = 0; e < 4; e++) begin
      takes[e] = grant[e] && want[e][n];
      may[e]   = asks[e] && (want[e] & ~left) == 20'd0;
      if (may[e]) left = left & ~want[e];
    end
  end
  assign taken = 3'(takes[0]) + 3'(takes[1]) + 3'(takes[2]) + 3'(takes[3]);

  always_ff @(posedge clk) begin
    started <= 1'b1;
    n_was <= n;
    model <= (rst || clear) ? 9'd0 : model[8] ? model : model + 9'(given) - 9'(taken);
    assume (started || rst);
    assume (n < 5'd20);
    if (started) assume (n == n_was);
    if (started && !rst) begin
      a_conserved: assert (model[8] || model[7:0] == count);
      a_have: assert (have[n] == (count != 8'd0));
      a_full: assert (n >= 5'd16 || full[n[3:0]] == (count == 8'd255));
      a_once: assert (taken <= 3'd1);
      a_not_below_zero: assert (taken == 3'd0 || count != 8'd0);
      a_overflow: assert (!(given && taken == 3'd0 && count == 8'd255) || overflow[n[3:2]]);
      a_in_time: assert (n >= 5'd16 || give[4*n[3:2] +: 4] != 4'd1 << n[1:0]
                         || overflow[n[3:2]] == (taken == 3'd0 && count == 8'd255));
      a_order: assert (grant == may);
      c_all: cover (grant == 4'hf && want[0] != '0 && want[1] != '0 && want[2] != '0 && want[3] != '0);
      c_later_waits: cover (asks[3] && asks[0] && grant[0] && !grant[3] && (want[3] & ~have) == '0);
      c_pass_on: cover (given && taken == 3'd1 && count == 8'd1);
      c_two: cover (count == 8'd2);
    end
  end
endmodule
bind presil_tokens presil_tokens_properties u_properties (.*);
