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
  localparam int unsigned AW = $clog2(BANK_WORDS), BW = $clog2(BANKS);
  // clients, in order of priority
  localparam int unsigned ACT = 0, WGT = 1, ST = 2, RES = 3, READS = 4;
  localparam int unsigned EP = 0, LD = 1, WRITES = 2;

  logic [8*WORD-1:0] q [BANKS];
  logic [BANKS-1:0]  bad;

  // ---- reads. Signals of a generate block, as a simulator keeps an array of them in memory
  for (genvar r = 0; r < READS; r++) begin : g_read
    logic              valid, ready, outside, v1, rvalid;
    logic [32-LW:0]    addr;
    logic [31:0]       index, bank;
    logic [AW-1:0]     row;
    logic [BW-1:0]     b1;
    logic [BANKS-1:0]  asks, earlier, re;              // a bit a bank
    logic [8*WORD-1:0] rdata;
    if (r == ACT) begin : g_act
      assign valid = act_valid;
      assign addr  = (33-LW)'(act_addr);
      assign index = act_index;
    end else if (r == WGT) begin : g_wgt
      assign valid = wgt_valid;
      assign addr  = (33-LW)'(wgt_addr);
      assign index = wgt_index;
    end else if (r == ST) begin : g_st
      assign valid = st_valid;
      assign addr  = (33-LW)'(st_addr);
      assign index = 32'd0;                            // it is known to STORE alone
    end else begin : g_res
      assign valid = res_valid;
      assign addr  = res_addr;
      assign index = res_index;
    end
    assign bank    = 32'(addr[15:0]) % BANKS;
    assign row     = AW'(32'(addr[15:0]) / BANKS);
    assign outside = r != ST && 32'(addr) >= WORDS;    // STORE looks itself
    assign asks    = valid ? BANKS'(1) << bank : '0;   // known, if nobody asks
    // banks that those before it ask for
    if (r == 0) begin : g_first
      assign earlier = '0;
    end else begin : g_next
      assign earlier = g_read[r-1].earlier | g_read[r-1].asks;
    end
    assign ready = (earlier & (BANKS'(1) << bank)) == '0;
    assign re    = (ready && !outside) ? asks : '0;
    always_ff @(posedge clk) begin
      v1 <= valid && ready;
      b1 <= BW'(bank);
      rvalid <= v1;
      if (v1) rdata <= q[b1];
      if (rst) begin
        v1 <= 1'b0;  rvalid <= 1'b0;
      end
    end
  end
  assign act_ready  = g_read[ACT].ready;
  assign wgt_ready  = g_read[WGT].ready;
  assign st_ready   = g_read[ST].ready;
  assign res_ready  = g_read[RES].ready;
  assign act_rvalid = g_read[ACT].rvalid;
  assign wgt_rvalid = g_read[WGT].rvalid;
  assign st_rvalid  = g_read[ST].rvalid;
  assign res_rvalid = g_read[RES].rvalid;
  assign act_rdata  = g_read[ACT].rdata;
  assign wgt_rdata  = g_read[WGT].rdata;
  assign st_rdata   = g_read[ST].rdata;
  assign res_rdata  = g_read[RES].rdata;

  // ---- writes
  for (genvar w = 0; w < WRITES; w++) begin : g_write
    logic             valid, ready, outside;
    logic [32-LW:0]   addr;
    logic [31:0]      bank;
    logic [AW-1:0]    row;
    logic [BANKS-1:0] asks, earlier, we;
    if (w == EP) begin : g_ep
      assign valid = ep_valid;
      assign addr  = ep_addr;
    end else begin : g_ld
      assign valid = ld_valid;
      assign addr  = (33-LW)'(ld_addr);
    end
    assign bank    = 32'(addr[15:0]) % BANKS;
    assign row     = AW'(32'(addr[15:0]) / BANKS);
    assign outside = w != LD && 32'(addr) >= WORDS;    // LOAD looks itself
    assign asks    = valid ? BANKS'(1) << bank : '0;   // known, if nobody asks
    if (w == 0) begin : g_first
      assign earlier = '0;
    end else begin : g_next
      assign earlier = g_write[w-1].earlier | g_write[w-1].asks;
    end
    assign ready = (earlier & (BANKS'(1) << bank)) == '0;
    assign we    = (ready && !outside) ? asks : '0;
  end
  assign ep_ready = g_write[EP].ready;
  assign ld_ready = g_write[LD].ready;

  // ---- banks
  for (genvar b = 0; b < BANKS; b++) begin : g_bank
    for (genvar r = 0; r < READS; r++) begin : g_pick   // row of the first of r to RES that reads
      logic          re;
      logic [AW-1:0] row;
      if (r == READS - 1) begin : g_last
        assign re  = g_read[r].re[b];
        assign row = g_read[r].row;
      end else begin : g_or
        assign re  = g_read[r].re[b] || g_pick[r+1].re;
        assign row = g_read[r].re[b] ? g_read[r].row : g_pick[r+1].row;
      end
    end
    presil_bank u_bank (.clk, .rst, .re(g_pick[0].re), .row(g_pick[0].row), .q(q[b]), .bad(bad[b]),
        .we_ep(g_write[EP].we[b]), .we_ld(g_write[LD].we[b]), .row_ep(g_write[EP].row),
        .row_ld(g_write[LD].row), .full_ep(ep_full), .full_ld(ld_full), .data_ep(ep_data),
        .data_ld(ld_data), .mask_ep(ep_mask), .mask_ld(ld_mask));
  end

  // ---- requests outside
  logic out_act, out_wgt, out_res, out_ep;
  assign out_act = act_valid && g_read[ACT].outside;
  assign out_wgt = wgt_valid && g_read[WGT].outside;
  assign out_res = res_valid && g_read[RES].outside;
  assign out_ep  = ep_valid && g_write[EP].outside;
  always_ff @(posedge clk) begin
    range_valid <= out_act || out_wgt || out_res || out_ep;
    if (out_act || out_wgt || out_res || out_ep) begin
      range_index <= out_act ? act_index : out_wgt ? wgt_index : out_ep ? ep_index : res_index;
      range_addr  <= (out_act ? 32'(act_addr) : out_wgt ? 32'(wgt_addr) : out_ep ? 32'(ep_addr)
          : 32'(res_addr)) * WORD;
    end
    if (rst) range_valid <= 1'b0;
  end

  // ---- parity
  if (PARITY) begin : g_parity
    for (genvar r = 0; r < READS; r++) begin : g_word
      logic        wrong, first;                       // first: of r to RES
      logic [15:0] a1, addr;
      logic [31:0] i1, index;
      always_ff @(posedge clk) begin
        a1 <= g_read[r].addr[15:0];
        i1 <= g_read[r].index;
      end
      // of a word outside no bank says anything
      assign wrong = g_read[r].v1 && bad[g_read[r].b1];
      if (r == READS - 1) begin : g_last
        assign {first, addr, index} = {wrong, a1, i1};
      end else begin : g_or
        assign first = wrong || g_word[r+1].first;
        assign addr  = wrong ? a1 : g_word[r+1].addr;
        assign index = wrong ? i1 : g_word[r+1].index;
      end
    end
    assign spad_bad       = g_word[0].first;
    assign spad_bad_store = g_word[ST].wrong && !g_word[ACT].wrong && !g_word[WGT].wrong;
    assign spad_bad_index = g_word[0].index;
    assign spad_bad_addr  = 32'(g_word[0].addr) * WORD;
  end else begin : g_plain
    logic unused;
    assign unused         = &{1'b0, bad, g_read[ACT].index, g_read[WGT].index, g_read[ST].index,
        g_read[RES].index};
    assign spad_bad       = 1'b0;
    assign spad_bad_store = 1'b0;
    assign spad_bad_index = 32'd0;
    assign spad_bad_addr  = 32'd0;
  end

  // a bit a bank
  logic [BANKS-1:0] re_act, re_wgt, re_st, re_res, we_ep, we_ld;
  assign re_act = g_read[ACT].re;
  assign re_wgt = g_read[WGT].re;
  assign re_st  = g_read[ST].re;
  assign re_res = g_read[RES].re;
  assign we_ep  = g_write[EP].we;
  assign we_ld  = g_write[LD].we;

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
  c_bad_activation: cover property (@(posedge clk) disable iff (rst) out_act);
  c_bad_weight: cover property (@(posedge clk) disable iff (rst) out_wgt);
  c_bad_residual: cover property (@(posedge clk) disable iff (rst) out_res);
  c_bad_output: cover property (@(posedge clk) disable iff (rst) out_ep);
`endif
endmodule
