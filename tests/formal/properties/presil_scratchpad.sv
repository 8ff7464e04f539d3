// SPDX-License-Identifier: Apache-2.0
// Who is granted a bank, what each bank sees, and one byte of one word from write to read.
module presil_scratchpad_properties import presil_config_pkg::*; #(
  localparam int unsigned LW = $clog2(WORD)
) (
  input logic              clk, rst, act_valid, wgt_valid, st_valid, res_valid, act_ready, wgt_ready, st_ready,
  input logic              res_ready, act_rvalid, wgt_rvalid, st_rvalid, res_rvalid, ep_valid, ld_valid, ep_ready,
  input logic              ld_ready, ep_full, ld_full, range_valid,
  input logic [15:0]       act_addr, wgt_addr, st_addr, ld_addr,
  input logic [32-LW:0]    res_addr, ep_addr,
  input logic [8*WORD-1:0] act_rdata, wgt_rdata, st_rdata, res_rdata, ep_data, ld_data,
  input logic [WORD-1:0]   ep_mask, ld_mask,
  input logic [31:0]       act_index, wgt_index, res_index, ep_index, range_index, range_addr,
  input logic [BANKS-1:0]  re_act, re_wgt, re_st, re_res, we_ep, we_ld
);
  localparam logic [31:0] WORDS = BANKS * BANK_WORDS;
  logic         started = 1'b0;
  logic [3:0]   valid, ready, rvalid, one, two;          // act, wgt, st, res
  logic [31:0]  addr [4];
  logic [7:0]   data [4];
  logic [7:0]   first [4];
  logic [7:0]   second [4];
  logic [3:0]   known1, known2, hit;
  logic [15:0]  word, word_was;
  logic [LW-1:0] b, b_was;
  logic         known, writes, full, written, out, was_out;
  logic [7:0]   shadow, now, earlier;
  logic [31:0]  was_index, was_addr;
  assign valid  = {res_valid, st_valid, wgt_valid, act_valid};
  assign ready  = {res_ready, st_ready, wgt_ready, act_ready};
  assign rvalid = {res_rvalid, st_rvalid, wgt_rvalid, act_rvalid};
  assign addr   = '{32'(act_addr), 32'(wgt_addr), 32'(st_addr), 32'(res_addr)};
  assign data   = '{act_rdata[8*b +: 8], wgt_rdata[8*b +: 8], st_rdata[8*b +: 8], res_rdata[8*b +: 8]};
  assign out    = (act_valid && 32'(act_addr) >= WORDS) || (wgt_valid && 32'(wgt_addr) >= WORDS)
               || (ep_valid && 32'(ep_addr) >= WORDS) || (res_valid && 32'(res_addr) >= WORDS);

  always_comb begin
    for (int unsigned i = 0; i < 4; i++) hit[i] = valid[i] && ready[i] && addr[i] == 32'(word);
    full = 1'b0;  now = 8'd0;
    if (ep_valid && ep_ready && 32'(ep_addr) == 32'(word)) begin
      full = ep_full || ep_mask[b];  now = ep_data[8*b +: 8];
    end else if (ld_valid && ld_ready && ld_addr == word) begin
      full = ld_full || ld_mask[b];  now = ld_data[8*b +: 8];
    end
    writes = full;
  end

  always_ff @(posedge clk) begin
    started <= 1'b1;
    word_was <= word;  b_was <= b;
    one <= rst ? 4'd0 : valid & ready;  two <= rst ? 4'd0 : one;
    known1 <= (known && started && !rst) ? hit : 4'd0;  known2 <= (started && !rst) ? known1 : 4'd0;
    for (int unsigned i = 0; i < 4; i++) first[i] <= shadow;
    second <= first;
    // a write is in the bank's register for one cycle
    written <= started && writes;  earlier <= now;
    known <= started && (known || written);
    if (written) shadow <= earlier;
    was_out <= out && !rst;
    was_index <= (act_valid && 32'(act_addr) >= WORDS) ? act_index : (wgt_valid && 32'(wgt_addr) >= WORDS) ? wgt_index
               : (ep_valid && 32'(ep_addr) >= WORDS) ? ep_index : res_index;
    was_addr <= WORD * ((act_valid && 32'(act_addr) >= WORDS) ? 32'(act_addr)
                : (wgt_valid && 32'(wgt_addr) >= WORDS) ? 32'(wgt_addr)
                : (ep_valid && 32'(ep_addr) >= WORDS) ? 32'(ep_addr) : 32'(res_addr));
    assume (started || rst);
    assume (32'(word) < WORDS);
    // presil_load, presil_store: they look themselves
    assume (32'(ld_addr) < WORDS && 32'(st_addr) < WORDS);
    if (started) assume (word == word_was && b == b_was);
    if (started && !rst) begin
`ifdef DATA
      a_act: assert (!known2[0] || data[0] == second[0]);
      a_others: assert ((!known2[1] || data[1] == second[1]) && (!known2[2] || data[2] == second[2])
                        && (!known2[3] || data[3] == second[3]));
      c_old: cover (known2[2] && second[2] != shadow);
`else
      a_reads: assert (((re_act & re_wgt) | (re_act & re_st) | (re_act & re_res) | (re_wgt & re_st) | (re_wgt & re_res)
                        | (re_st & re_res)) == '0);
      a_writes: assert ((we_ep & we_ld) == '0);
      a_first: assert (act_ready && ep_ready);
      // whoever is not granted has lost its bank to one that comes before
      a_wgt: assert (wgt_ready || (act_valid && 32'(act_addr) % BANKS == 32'(wgt_addr) % BANKS));
      a_lost: assert ((st_ready || (act_valid && 32'(act_addr) % BANKS == 32'(st_addr) % BANKS)
                       || (wgt_valid && 32'(wgt_addr) % BANKS == 32'(st_addr) % BANKS))
                      && (res_ready || (act_valid && 32'(act_addr) % BANKS == 32'(res_addr[15:0]) % BANKS)
                          || (wgt_valid && 32'(wgt_addr) % BANKS == 32'(res_addr[15:0]) % BANKS)
                          || (st_valid && 32'(st_addr) % BANKS == 32'(res_addr[15:0]) % BANKS)));
      a_order: assert (!(act_valid && wgt_valid && wgt_ready && addr[0] == addr[1])
                       && !(st_valid && st_ready && ((act_valid && addr[0] == addr[2])
                            || (wgt_valid && addr[1] == addr[2]))));
      a_ld: assert (ld_ready || ep_valid);
      a_answer: assert (rvalid == two);
      a_range: assert (range_valid == was_out && (!was_out || (range_index == was_index && range_addr == was_addr)));
      c_three: cover ((valid & ready) == 4'h7);
      c_lost: cover (res_valid && !res_ready && ld_valid && !ld_ready);
      c_outside: cover (range_valid && res_valid && !res_ready);
`endif
    end
  end
endmodule
bind presil_scratchpad presil_scratchpad_properties u_properties (.*);
