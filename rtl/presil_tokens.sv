// SPDX-License-Identifier: Apache-2.0
// The 20 token counters (docs/isa.md section 1) and who may take which: an engine gets its tokens
// if all are there and no engine before it takes one of the same in this cycle. A signal can be
// taken in the next cycle. Reset and `clear`: all zero.
// Errors: overflow, in the cycle of the signal.
module presil_tokens import presil_desc_pkg::*; (
  input  logic        clk,
  input  logic        rst,
  input  logic        clear,           /// all counters to zero: first cycle of a launch
  input  logic [19:0] want [ENGINES],  /// tokens that the engine's oldest descriptor waits for
  input  logic [ENGINES-1:0] asks,     /// it waits
  output logic [ENGINES-1:0] grant,    /// its tokens are taken in this cycle
  output logic [19:0] have,            /// bit n: counter n > 0
  /// signals of descriptors that complete in this cycle: bit n for counter n; VECTOR gives none
  input  logic [4*ENGINES-1:0] give,
  output logic [ENGINES-1:0] overflow,  /// by engine: its signal passes 255, in this cycle
  output logic [31:0] counts [5]       /// four counters of an engine each, the first in bits 7:0
);
  typedef logic [7:0] counts_t [20];
  counts_t count;
  logic [19:0] take, signal;
  logic [4*ENGINES-1:0] full;

  // Single signals, not an array and a loop: a simulator looks at them once, and in order.
  for (genvar e = 0; e < ENGINES; e++) begin : g_engine
    logic [19:0] earlier, taken;                   // earlier: by engines before it
    if (e == 0) begin : g_first
      assign earlier = 20'd0;
    end else begin : g_later
      assign earlier = g_engine[e-1].earlier | g_engine[e-1].taken;
    end
    assign grant[e] = asks[e] && (want[e] & ~(have & ~earlier)) == 20'd0;
    assign taken    = grant[e] ? want[e] : 20'd0;
    assign overflow[e] = |(signal[4*e +: 4] & ~take[4*e +: 4] & full[4*e +: 4]);
  end
  assign take   = g_engine[ENGINES-1].earlier | g_engine[ENGINES-1].taken;
  assign signal = 20'(give);

  function automatic counts_t next();
    for (int unsigned i = 0; i < 20; i++) next[i] = count[i] + 8'(signal[i]) - 8'(take[i]);
  endfunction
  function automatic logic [19:0] above(input logic [7:0] limit);
    for (int unsigned i = 0; i < 20; i++)
      above[i] = (count[i] + 8'(signal[i]) - 8'(take[i])) > limit;
  endfunction

  always_ff @(posedge clk) begin
    if ((take | signal) != 20'd0) begin
      count <= next();
      have  <= above(8'd0);
      full  <= (4*ENGINES)'(above(8'd254));
    end
    if (rst || clear) begin
      count <= '{default: 8'd0};  have <= 20'd0;  full <= '0;
    end
  end

  for (genvar e = 0; e < 5; e++) begin : g_counts
    assign counts[e] = {count[4*e+3], count[4*e+2], count[4*e+1], count[4*e]};
  end

`ifndef SYNTHESIS
  // nothing is taken that is not there, and `have` says what there is
  a_take: assert property (@(posedge clk) disable iff (rst) (take & ~have) == 20'd0);
  for (genvar i = 0; i < 20; i++) begin : g_have
    a_have: assert property (@(posedge clk) disable iff (rst) have[i] == (count[i] != 8'd0));
  end
  c_limit: cover property (@(posedge clk) disable iff (rst) full != '0);
  c_full_taken: cover property (@(posedge clk) disable iff (rst)
    (give & take[4*ENGINES-1:0] & full) != '0);
  c_give_take: cover property (@(posedge clk) disable iff (rst) (signal & take) != 20'd0);
  c_two_grants: cover property (@(posedge clk) disable iff (rst)
    (grant & (grant - ENGINES'(1))) != '0);
  logic [ENGINES-1:0] could;                     // were it alone
  for (genvar e = 0; e < ENGINES; e++) begin : g_could
    assign could[e] = asks[e] && (want[e] & ~have) == 20'd0;
  end
  c_taken_by_earlier: cover property (@(posedge clk) disable iff (rst) (could & ~grant) != '0);
  c_overflow: cover property (@(posedge clk) disable iff (rst) overflow != '0);
`endif
endmodule
