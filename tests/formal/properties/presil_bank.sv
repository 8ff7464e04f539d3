// SPDX-License-Identifier: Apache-2.0
// A memory: one byte of one row that the solver chooses, against what was written last.
module presil_bank_properties import presil_config_pkg::*; #(
  localparam int unsigned AW = $clog2(BANK_WORDS)
) (
  input logic              clk, re_act, re_wgt, re_st, re_res, we_ep, we_ld, full_ep, full_ld,
  input logic [AW-1:0]     row_act, row_wgt, row_st, row_res, row_ep, row_ld,
  input logic [8*WORD-1:0] q, data_ep, data_ld,
  input logic [WORD-1:0]   mask_ep, mask_ld,
  input logic [8*WORD-1:0] mem [BANK_WORDS]
);
  logic          started = 1'b0;
  logic [AW-1:0] row, row_was, from, to;
  logic [$clog2(WORD)-1:0] b, b_was;
  logic          re, we, was_read, was_idle;
  logic [7:0]    shadow, expected, was_q;
  logic [8*WORD-1:0] data;
  assign re   = re_act || re_wgt || re_st || re_res;
  assign from = re_act ? row_act : re_wgt ? row_wgt : re_st ? row_st : row_res;
  assign to   = we_ep ? row_ep : row_ld;
  assign we   = (we_ep && (full_ep || mask_ep[b])) || (we_ld && (full_ld || mask_ld[b]));
  assign data = we_ep ? data_ep : data_ld;

  always_ff @(posedge clk) begin
    started <= 1'b1;
    row_was <= row;  b_was <= b;
    was_read <= started && re && from == row;  was_idle <= !re;
    expected <= shadow;  was_q <= q[8*b +: 8];
    shadow <= !started ? mem[row][8*b +: 8] : (we && to == row) ? data[8*b +: 8] : shadow;
    // presil_scratchpad
    assume (32'(re_act) + 32'(re_wgt) + 32'(re_st) + 32'(re_res) <= 32'd1 && !(we_ep && we_ld));
    if (!started) assume (!we_ep && !we_ld);
    if (started) begin
      assume (row == row_was && b == b_was);
      a_memory: assert (mem[row][8*b +: 8] == shadow);
      a_read: assert (!was_read || q[8*b +: 8] == expected);
      a_holds: assert (!was_idle || q[8*b +: 8] == was_q);
      c_old_value: cover (was_read && shadow != expected && re_res);
      c_masked: cover (we_ld && to == row && !we && mask_ld != '0);
    end
  end
endmodule
bind presil_bank presil_bank_properties u_properties (.*);
