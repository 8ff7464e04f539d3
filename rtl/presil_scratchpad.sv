// SPDX-License-Identifier: Apache-2.0
// Scratchpad: BANKS banks of BANK_WORDS words, word a in bank a mod BANKS; four read and two write
// clients (docs/rtl.md).
// Fixed priority: act, wgt, st, res; ep, ld. Grant in the same cycle, data two cycles after the
// grant, one access a bank and port a cycle. A read sees the writes that were granted two cycles
// before it.
// Reset: the valid bits only. Errors: an address outside the memory is granted, does nothing and
// raises range_valid in the cycle after each that it is asked for. PARITY: a word that is not as it
// was written raises spad_bad in the cycle after the grant; of several the first in order is named.
module presil_scratchpad import presil_config_pkg::*; #(
  localparam int unsigned LW = $clog2(WORD)
) (
  input  logic              clk,
  input  logic              rst,
  /// read requests: activations, weights, STORE, the epilogue's (parameters, residual)
  input  logic              act_valid, wgt_valid, st_valid, res_valid,
  /// word address; st_addr is inside the memory
  input  logic [15:0]       act_addr, wgt_addr, st_addr,
  /// as far as byte addresses reach: outside is outside, however far
  input  logic [32-LW:0]    res_addr, ep_addr,  /// word address
  /// grant, in the cycle of the request; act_ready is 1
  output logic              act_ready, wgt_ready, st_ready, res_ready,
  /// two cycles after the grant
  output logic              act_rvalid, wgt_rvalid, st_rvalid, res_rvalid,
  /// with rvalid; unknown of an address outside
  output logic [8*WORD-1:0] act_rdata, wgt_rdata, st_rdata, res_rdata,
  input  logic              ep_valid, ld_valid,  /// write requests: epilogue, LOAD
  input  logic [15:0]       ld_addr,            /// word address; inside the memory
  input  logic [8*WORD-1:0] ep_data, ld_data,   /// word, byte 0 in the lowest bits
  input  logic [WORD-1:0]   ep_mask, ld_mask,   /// bytes to write
  input  logic              ep_full, ld_full,   /// all bytes; the mask is not looked at
  /// grant, in the cycle of the request; ep_ready is 1
  output logic              ep_ready, ld_ready,
  /// ring count of the request's descriptor, for the errors below
  input  logic [31:0]       act_index, wgt_index, res_index, ep_index,
  output logic              range_valid,        /// a request was outside in the last cycle
  output logic [31:0]       range_index,        /// its descriptor's ring count
  output logic [31:0]       range_addr,         /// byte address; of the first of act, wgt, ep, res
  /// a cycle after the grant: the word has wrong parity; 0 without PARITY
  output logic              spad_bad,
  output logic              spad_bad_store,     /// st asked for it, and no index is known; else:
  output logic [31:0]       spad_bad_index,     /// ring count of the reader's descriptor
  output logic [31:0]       spad_bad_addr       /// byte address of the word
);
  localparam logic [31:0] WORDS = BANKS * BANK_WORDS;

  logic [31:0] bank_act, bank_wgt, bank_st, bank_res, bank_ep, bank_ld;
  localparam int unsigned AW = $clog2(BANK_WORDS);
  logic [AW-1:0] row_act, row_wgt, row_st, row_res, row_ep, row_ld;
  assign bank_act = 32'(act_addr) % BANKS;
  assign bank_wgt = 32'(wgt_addr) % BANKS;
  assign bank_st  = 32'(st_addr) % BANKS;
  assign bank_res = 32'(res_addr[15:0]) % BANKS;
  assign bank_ep  = 32'(ep_addr[15:0]) % BANKS;
  assign bank_ld  = 32'(ld_addr) % BANKS;
  assign row_act = AW'(32'(act_addr) / BANKS);
  assign row_wgt = AW'(32'(wgt_addr) / BANKS);
  assign row_st  = AW'(32'(st_addr) / BANKS);
  assign row_res = AW'(32'(res_addr[15:0]) / BANKS);
  assign row_ep  = AW'(32'(ep_addr[15:0]) / BANKS);
  assign row_ld  = AW'(32'(ld_addr) / BANKS);

  assign act_ready = 1'b1;
  assign wgt_ready = !(act_valid && bank_act == bank_wgt);
  assign st_ready  = !((act_valid && bank_act == bank_st) || (wgt_valid && bank_wgt == bank_st));
  assign res_ready = !((act_valid && bank_act == bank_res) || (wgt_valid && bank_wgt == bank_res)
    || (st_valid && bank_st == bank_res));
  assign ep_ready  = 1'b1;
  assign ld_ready  = !(ep_valid && bank_ep == bank_ld);

  // one bit a bank
  logic [BANKS-1:0] re_act, re_wgt, re_st, re_res, re, we_ep, we_ld;
  logic bad_act, bad_wgt, bad_res, bad_ep;
  assign bad_act = 32'(act_addr) >= WORDS;
  assign bad_wgt = 32'(wgt_addr) >= WORDS;
  assign bad_res = 32'(res_addr) >= WORDS;
  assign bad_ep  = 32'(ep_addr) >= WORDS;
  assign re_act = BANKS'(act_valid && !bad_act) << bank_act;
  assign re_wgt = BANKS'(wgt_valid && wgt_ready && !bad_wgt) << bank_wgt;
  assign re_st  = BANKS'(st_valid && st_ready) << bank_st;
  assign re_res = BANKS'(res_valid && res_ready && !bad_res) << bank_res;
  assign re     = re_act | re_wgt | re_st | re_res;
  assign we_ep  = BANKS'(ep_valid && !bad_ep) << bank_ep;
  assign we_ld  = BANKS'(ld_valid && ld_ready) << bank_ld;

  logic [8*WORD-1:0] q [BANKS];
  logic [BANKS-1:0]  bad;
  for (genvar b = 0; b < BANKS; b++) begin : g_bank
    presil_bank u_bank (.clk, .rst, .re(re[b]),
        .row(re_act[b] ? row_act : re_wgt[b] ? row_wgt : re_st[b] ? row_st : row_res), .q(q[b]),
        .bad(bad[b]), .we_ep(we_ep[b]), .we_ld(we_ld[b]), .row_ep, .row_ld, .full_ep(ep_full),
        .full_ld(ld_full), .data_ep(ep_data), .data_ld(ld_data), .mask_ep(ep_mask),
        .mask_ld(ld_mask));
  end

  localparam int unsigned BW = $clog2(BANKS);
  logic act_v1, wgt_v1, st_v1, res_v1;
  logic [BW-1:0] act_b1, wgt_b1, st_b1, res_b1;
  always_ff @(posedge clk) begin
    act_v1 <= act_valid;
    wgt_v1 <= wgt_valid && wgt_ready;
    st_v1  <= st_valid && st_ready;
    res_v1 <= res_valid && res_ready;
    act_b1 <= BW'(bank_act);  wgt_b1 <= BW'(bank_wgt);  st_b1 <= BW'(bank_st);
    res_b1 <= BW'(bank_res);
    act_rvalid <= act_v1;  wgt_rvalid <= wgt_v1;  st_rvalid <= st_v1;  res_rvalid <= res_v1;
    if (act_v1) act_rdata <= q[act_b1];
    if (wgt_v1) wgt_rdata <= q[wgt_b1];
    if (st_v1)  st_rdata  <= q[st_b1];
    if (res_v1) res_rdata <= q[res_b1];
    range_valid <= (act_valid && bad_act) || (wgt_valid && bad_wgt) || (res_valid && bad_res)
        || (ep_valid && bad_ep);
    if ((act_valid && bad_act) || (wgt_valid && bad_wgt) || (res_valid && bad_res)
        || (ep_valid && bad_ep)) begin
      range_index <= (act_valid && bad_act) ? act_index : (wgt_valid && bad_wgt) ? wgt_index
                   : (ep_valid && bad_ep) ? ep_index : res_index;
      range_addr  <= ((act_valid && bad_act) ? 32'(act_addr) : (wgt_valid && bad_wgt)
          ? 32'(wgt_addr)
                    : (ep_valid && bad_ep) ? 32'(ep_addr) : 32'(res_addr)) * WORD;
    end
    if (rst) begin
      act_v1 <= 1'b0;  wgt_v1 <= 1'b0;  st_v1 <= 1'b0;  res_v1 <= 1'b0;
      act_rvalid <= 1'b0;  wgt_rvalid <= 1'b0;  st_rvalid <= 1'b0;  res_rvalid <= 1'b0;
      range_valid <= 1'b0;
    end
  end

  // ---- parity
  if (PARITY) begin : g_parity
    logic [15:0] act_a1, wgt_a1, st_a1, res_a1, bad_a;
    logic [31:0] act_i1, wgt_i1, res_i1;
    logic        act_bad, wgt_bad, st_bad, res_bad;
    always_ff @(posedge clk) begin
      act_a1 <= act_addr;  wgt_a1 <= wgt_addr;  st_a1 <= st_addr;  res_a1 <= res_addr[15:0];
      act_i1 <= act_index;  wgt_i1 <= wgt_index;  res_i1 <= res_index;
    end
    // of a word outside no bank says anything
    assign act_bad        = act_v1 && bad[act_b1];
    assign wgt_bad        = wgt_v1 && bad[wgt_b1];
    assign st_bad         = st_v1 && bad[st_b1];
    assign res_bad        = res_v1 && bad[res_b1];
    assign spad_bad       = act_bad || wgt_bad || st_bad || res_bad;
    assign spad_bad_store = st_bad && !act_bad && !wgt_bad;
    assign spad_bad_index = act_bad ? act_i1 : wgt_bad ? wgt_i1 : res_i1;
    assign bad_a          = act_bad ? act_a1 : wgt_bad ? wgt_a1 : st_bad ? st_a1 : res_a1;
    assign spad_bad_addr  = 32'(bad_a) * WORD;
  end else begin : g_plain
    logic unused_bad;
    assign unused_bad     = &{1'b0, bad};
    assign spad_bad       = 1'b0;
    assign spad_bad_store = 1'b0;
    assign spad_bad_index = 32'd0;
    assign spad_bad_addr  = 32'd0;
  end

`ifndef SYNTHESIS
  // one write a bank and cycle
  a_write: assert property (@(posedge clk) disable iff (rst) (we_ep & we_ld) == '0);
  a_read: assert property (@(posedge clk) disable iff (rst)
    ((re_act & re_wgt) | ((re_act | re_wgt) & re_st) | ((re_act | re_wgt | re_st) & re_res)) == '0);
  // they look themselves
  a_store: assert property (@(posedge clk) disable iff (rst) !(st_valid && 32'(st_addr) >= WORDS));
  a_load: assert property (@(posedge clk) disable iff (rst) !(ld_valid && 32'(ld_addr) >= WORDS));
  c_weights_wait: cover property (@(posedge clk) disable iff (rst) wgt_valid && !wgt_ready);
  c_store_waits: cover property (@(posedge clk) disable iff (rst) st_valid && !st_ready);
  c_residual_waits: cover property (@(posedge clk) disable iff (rst) res_valid && !res_ready);
  c_load_waits: cover property (@(posedge clk) disable iff (rst) ld_valid && !ld_ready);
  c_four_reads: cover property (@(posedge clk) disable iff (rst)
    act_valid && wgt_valid && wgt_ready && st_valid && st_ready && res_valid && res_ready);
  c_two_writes: cover property (@(posedge clk) disable iff (rst) ep_valid && ld_valid && ld_ready);
  c_read_write: cover property (@(posedge clk) disable iff (rst)
    ((we_ep | we_ld) & (re_act | re_wgt | re_st | re_res)) != '0);
  c_part_epilogue: cover property (@(posedge clk) disable iff (rst) ep_valid && !ep_full);
  c_part_load: cover property (@(posedge clk) disable iff (rst) ld_valid && !ld_full);
  c_bad_activation: cover property (@(posedge clk) disable iff (rst) act_valid && bad_act);
  c_bad_weight: cover property (@(posedge clk) disable iff (rst) wgt_valid && bad_wgt);
  c_bad_residual: cover property (@(posedge clk) disable iff (rst) res_valid && bad_res);
  c_bad_output: cover property (@(posedge clk) disable iff (rst) ep_valid && bad_ep);
`endif
endmodule
