// SPDX-License-Identifier: Apache-2.0
// Bursts are the run that was asked for, in order, each as long as 4 KiB and the run allow.
module presil_bursts_properties import presil_config_pkg::*; #(
  localparam int unsigned LW = $clog2(WORD)
) (
  input logic           clk, rst, run_valid, run_ready, burst_valid, burst_ready,
  input logic [39-LW:0] run_beat, burst_beat,
  input logic [31:0]    run_beats, left,
  input logic [7:0]     burst_len
);
  localparam logic [31:0] PAGE = 4096 / WORD;
  logic           started = 1'b0;
  logic           stalled;                   // a burst waited in the last cycle
  logic [39-LW:0] expected, was_beat;
  logic [31:0]    rest, now, in_page;
  logic [7:0]     was_len;
  assign now     = 32'(burst_len) + 32'd1;
  assign in_page = 32'(burst_beat) & (PAGE - 32'd1);

  always_ff @(posedge clk) begin
    started  <= 1'b1;
    stalled  <= burst_valid && !burst_ready && !rst;
    was_beat <= burst_beat;  was_len <= burst_len;
    if (rst) rest <= 32'd0;
    else if (run_valid && run_ready) begin
      rest <= run_beats;  expected <= run_beat;
    end else if (burst_valid && burst_ready) begin
      rest <= rest - now;  expected <= expected + (40-LW)'(now);
    end
    assume (started || rst);
    assume (!run_valid || run_beats != 32'd0);
    if (started && !rst) begin
      a_valid: assert (burst_valid == (rest != 32'd0) && left == rest);
      a_follows: assert (!burst_valid || burst_beat == expected);
      a_within_run: assert (!burst_valid || now <= rest);
      a_within_page: assert (!burst_valid || in_page + now <= PAGE);
      a_longest: assert (!burst_valid || now == rest || in_page + now == PAGE);
      a_next_run: assert (run_ready == (rest == 32'd0 || (burst_ready && now == rest)));
      a_stable: assert (!stalled || (burst_valid && burst_beat == was_beat && burst_len == was_len));
      c_cut: cover (burst_valid && in_page + now == PAGE && now < rest);
      c_whole_page: cover (burst_valid && now == PAGE);
      c_back_to_back: cover (burst_valid && burst_ready && run_valid && run_ready);
      c_at_the_end: cover (burst_valid && burst_beat == '1 && now == 32'd1);
    end
  end
endmodule
bind presil_bursts presil_bursts_properties u_properties (.*);
