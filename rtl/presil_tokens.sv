// SPDX-License-Identifier: Apache-2.0
// The 20 token counters (docs/isa.md section 1) and who may take which: an engine gets its tokens
// if all are there and no engine before it takes one of the same in this cycle. A signal can be
// taken in the next cycle. Reset and `clear`: all zero.
// Errors: overflow, in the cycle of the signal.
module presil_tokens (
  input  logic        clk,
  input  logic        rst,
  input  logic        clear,           /// all counters to zero: first cycle of a launch
  input  logic [19:0] want [4],        /// tokens that the engine's oldest descriptor waits for
  input  logic [3:0]  asks,            /// it waits; LOAD, MATRIX, EPILOGUE, STORE from bit 0
  output logic [3:0]  grant,           /// its tokens are taken in this cycle
  output logic [19:0] have,            /// bit n: counter n > 0
  /// signals of descriptors that complete in this cycle: bit n for counter n; VECTOR gives none
  input  logic [15:0] give,
  output logic [3:0]  overflow,        /// by engine: its signal passes 255, in this cycle
  output logic [31:0] counts [5]       /// four counters of an engine each, the first in bits 7:0
);
  typedef logic [7:0] counts_t [20];
  counts_t count;
  logic [19:0] t0, t1, t2, t3, take, signal;
  logic [15:0] full;

  assign t0 = (asks[0] && (want[0] & ~have) == 20'd0) ? want[0] : 20'd0;
  assign t1 = (asks[1] && (want[1] & ~(have & ~t0)) == 20'd0) ? want[1] : 20'd0;
  assign t2 = (asks[2] && (want[2] & ~(have & ~t0 & ~t1)) == 20'd0) ? want[2] : 20'd0;
  assign t3 = (asks[3] && (want[3] & ~(have & ~t0 & ~t1 & ~t2)) == 20'd0) ? want[3] : 20'd0;
  assign grant[0] = asks[0] && (want[0] & ~have) == 20'd0;
  assign grant[1] = asks[1] && (want[1] & ~(have & ~t0)) == 20'd0;
  assign grant[2] = asks[2] && (want[2] & ~(have & ~t0 & ~t1)) == 20'd0;
  assign grant[3] = asks[3] && (want[3] & ~(have & ~t0 & ~t1 & ~t2)) == 20'd0;
  assign take   = t0 | t1 | t2 | t3;
  assign signal = {4'd0, give};
  assign overflow = {|(signal[15:12] & ~take[15:12] & full[15:12]),
      |(signal[11:8] & ~take[11:8] & full[11:8]),
                     |(signal[7:4] & ~take[7:4] & full[7:4]),
                     |(signal[3:0] & ~take[3:0] & full[3:0])};

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
      full  <= 16'(above(8'd254));
    end
    if (rst || clear) begin
      count <= '{default: 8'd0};  have <= 20'd0;  full <= 16'd0;
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
  c_limit: cover property (@(posedge clk) disable iff (rst) full != 16'd0);
  c_full_taken: cover property (@(posedge clk) disable iff (rst)
    (give & take[15:0] & full) != 16'd0);
  c_give_take: cover property (@(posedge clk) disable iff (rst) (signal & take) != 20'd0);
  c_two_grants: cover property (@(posedge clk) disable iff (rst) (grant & (grant - 4'd1)) != 4'd0);
  c_taken_by_earlier: cover property (@(posedge clk) disable iff (rst)
    (asks & ~grant & {(want[3] & ~have) == 20'd0, (want[2] & ~have) == 20'd0,
        (want[1] & ~have) == 20'd0, 1'b0})
    != 4'd0);
  c_overflow: cover property (@(posedge clk) disable iff (rst) overflow != 4'd0);
`endif
endmodule
