// SPDX-License-Identifier: Apache-2.0
// LOAD engine (docs/isa.md section 2): DRAM rows to scratchpad words, with padding, conversion and
// transposition.
// Address side (presil_rows, presil_bursts) runs up to 256 rows and five descriptors ahead of the
// data side; between them a queue of rows.
// Data side: presil_load_walk cuts rows into pieces (at most a scratchpad word each, half a word of
// a conversion), one a cycle; pipeline align, (split), merge with padding. A chunk that overlaps
// the next and doesn't fit in the window of 16 beats is read for itself.
// Reset: synchronous, only when idle. Errors: SPAD_RANGE here, READ_BUS in presil_axi_read.
module presil_load import presil_config_pkg::*, presil_desc_pkg::*,
    presil_engine_pkg::*; #(
  localparam int unsigned LW = $clog2(WORD),  /// log2 of WORD, the bytes of beat and word
  localparam int unsigned NW = WORD / 4  /// 32-bit words of a beat
) (
  input  logic              clk,
  input  logic              rst,
  input  command_t          command,            /// the next descriptor
  /// ready: at most 8 are not done; done: its last word is granted; idle: presil_axi_read knows the
  /// bus
  output status_t           status,
  input  logic              halt,               /// take and ask for nothing; drop what comes
  output logic              err_valid,          /// pulse: SPAD_RANGE
  output logic [31:0]       err_index,          /// ring count of its descriptor
  output logic [31:0]       err_addr,           /// scratchpad byte address of the word
  output logic              burst_valid,        /// a burst to read; withdrawn at halt
  input  logic              burst_ready,        /// taken in this cycle
  output logic [39-LW:0]    burst_beat,         /// first beat: DRAM byte address / WORD
  output logic [7:0]        burst_len,          /// beats of the burst - 1
  output logic [31:0]       burst_index,        /// ring count of its descriptor
  input  logic              rvalid,             /// a beat, in order of the bursts
  output logic              rready,             /// the window has room, or halt
  input  logic [8*WORD-1:0] rdata,              /// the beat, with rvalid
  output logic              ld_valid,           /// a word to write; stays, but the next may pass it
  output logic [15:0]       ld_addr,            /// its word address, with ld_valid
  output logic [8*WORD-1:0] ld_data,            /// the word, padding included
  output logic [WORD-1:0]   ld_mask,            /// bytes to write, where not ld_full
  output logic              ld_full,            /// all bytes: ld_mask means nothing
  input  logic              ld_ready            /// granted in this cycle
);
  // ---- engine port
  load_t start_desc;
  logic start_ready, done, active, idle;
  logic [3:0] cause;
  assign start_desc = command.desc;
  assign status = '{ready: start_ready, done: done, active: active, idle: idle, cause: cause};

  // ---- descriptor ---------------------------------------------------------------------------
  logic        own_chunks;                      // chunks are read one by one
  logic [15:0] d_chunk, d_n0;
  logic [31:0] d_step0;
  logic [49:0] d_span;
  assign d_chunk    = start_desc.chunk_bytes;
  assign d_n0       = start_desc.n0;
  assign d_step0    = start_desc.step0;
  assign own_chunks = d_n0 != 16'd1 && d_step0 < 32'(d_chunk) && 32'(d_chunk) > 14 * WORD;

  logic start;
  logic       full;                             // of descriptors between address and data side
  logic [3:0] held;                             // descriptors not done
  logic rows_ready;
  assign start_ready = rows_ready && !full && !held[3] && !halt;
  assign start       = command.valid && start_ready;
  always_comb begin
    d_span = 50'(d_chunk);
    if (start && !own_chunks) d_span = 50'(d_chunk) + 50'(d_n0 - 16'd1) * 50'(d_step0);
  end

  // ---- address side -------------------------------------------------------------------------
  logic           row_valid, row_ready, row_last1, row_last, run_ready;
  logic [39-LW:0] row_beat;
  logic [31:0]    row_beats, row_s, row_index;
  logic [49:0]    row_rel, row_pos;
  presil_rows u_rows (.clk, .rst, .start_valid(start), .start_ready(rows_ready),
      .index(command.index), .addr(start_desc.addr[39:0]), .ds1(start_desc.ds1[39:0]),
      .ds2(start_desc.ds2[39:0]), .ds3(start_desc.ds3[39:0]), .sp(start_desc.sp_base),
      .ss0(start_desc.ss0), .ss1(start_desc.transpose ? 32'd0 : start_desc.ss1),
      .ss2(start_desc.ss2), .ss3(start_desc.ss3), .n0(own_chunks ? d_n0 : 16'd1),
      .n1(start_desc.n1), .n2(start_desc.n2), .n3(start_desc.n3), .pos0(50'(start_desc.pos0)),
      .step0(d_step0), .span(d_span), .row_bytes(start_desc.row_bytes),
      .row_limit(start_desc.row_limit), .rp0(start_desc.rp0), .rp1(start_desc.rp1),
      .rp2(start_desc.rp2), .rp3(start_desc.rp3), .row_valid, .row_ready, .row_beat, .row_beats,
      .row_rel, .row_pos, .row_index, .row_s, .row_last1, .row_last);

  logic        rows_full;
  logic [31:0] bursts_index;
  logic        bursts_valid;
  assign row_ready   = !rows_full && (row_beats == 32'd0 || run_ready);
  assign burst_valid = bursts_valid && !halt;
  assign burst_index = bursts_index;
  presil_bursts u_bursts (.clk, .rst, .run_valid(row_valid && row_ready && row_beats != 32'd0),
      .run_ready, .run_beat(row_beat), .run_beats(row_beats), .burst_valid(bursts_valid),
      .burst_ready(burst_ready && !halt), .burst_beat, .burst_len);
  always_ff @(posedge clk) if (row_valid && row_ready && row_beats != 32'd0)
    bursts_index <= row_index;

  // ---- data side ----------------------------------------------------------------------------
  logic stall, tr_busy;
  logic piece_valid, piece_done, piece_full, piece_conv, piece_half, piece_tr, piece_set,
      piece_group;
  logic [3:0]  piece_term;
  logic [3:0]  piece_slot;
  logic [LW-1:0] piece_shift, piece_k;
  logic [LW:0] piece_vlo, piece_vhi, piece_mlo, piece_mhi;
  logic [15:0] piece_addr;
  logic [31:0] piece_pad;
  logic        rx;
  logic [3:0]  rx_slot;
  logic        waiting, working, pipe_empty;
  logic        tr_open, tr_open_early;
  logic        group_valid, group_last;
  logic [31:0] group_s, group_sw, group_pad, group_index;
  logic [LW:0] group_cols, group_bytes;
  logic [1:0]  group_size;
  logic        walk_err;
  logic [31:0] walk_err_index, walk_err_addr;

  assign rx = rvalid && rready && !halt;
  presil_load_walk u_walk (.clk, .rst, .start, .start_desc, .start_index(command.index),
      .own_chunks, .full,
      .row_valid(row_valid && row_ready), .row_beats, .row_rel, .row_pos, .row_s, .row_last1,
      .row_last, .rows_full, .halt, .rx, .rx_slot, .rx_ready(rready), .stall, .pipe_empty, .tr_open,
      .tr_open_early, .tr_busy, .waiting, .working, .piece_valid, .piece_done, .piece_full,
      .piece_conv, .piece_term, .piece_half, .piece_tr, .piece_set, .piece_group, .piece_slot,
      .piece_shift, .piece_k, .piece_vlo, .piece_vhi, .piece_mlo, .piece_mhi, .piece_addr,
      .piece_pad, .group_valid, .group_last, .group_s, .group_sw, .group_pad, .group_index,
      .group_cols, .group_bytes, .group_size, .err_valid(walk_err), .err_index(walk_err_index),
      .err_addr(walk_err_addr));

  logic [31:0] x [NW];
  logic [31:0] t [NW];
  presil_align u_align (.clk, .we(rx), .wslot(rx_slot), .wdata(rdata), .en(piece_valid && !stall),
      .slot(piece_slot), .shift(piece_shift), .x);

  // what travels with the data: b behind align, c behind split
  typedef struct packed {
    logic done, full, conv, half, tr, set, group;
    logic [LW-1:0] k;
    logic [LW:0] vlo, vhi, mlo, mhi;
    logic [15:0] addr;
    logic [31:0] pad;
  } piece_t;
  piece_t b, c;
  logic b_valid, c_valid;
  logic [3:0] b_term;
  presil_split u_split (.clk, .en(b_valid && b.conv && !stall), .term(2'(b_term - CONV_TERM0)), .x,
      .t);

  function automatic logic [8*WORD-1:0] merge(input logic conv, input logic [LW:0] vlo,
      input logic [LW:0] vhi,
    input logic [31:0] pad);
    logic [31:0] w [NW];
    if (conv) begin
      for (int unsigned i = 0; i < NW / 2; i++) w[i] = t[2*i] | (t[2*i+1] << 16);
      for (int unsigned i = 0; i < NW / 2; i++) w[i + NW / 2] = w[i];
    end else begin
      for (int unsigned i = 0; i < NW; i++) w[i] = x[i];
    end
    if (vlo != '0 || 32'(vhi) != WORD) begin
      for (int unsigned i = 0; i < NW; i++) begin
        logic [31:0] m;
        m = presil_word_pkg::range_mask(i, 32'(vlo), 32'(vhi));
        w[i] = (w[i] & m) | (pad & ~m);
      end
    end
    for (int unsigned i = 0; i < NW; i++) merge[32*i +: 32] = w[i];
  endfunction
  function automatic logic [WORD-1:0] bytes(input logic [LW:0] lo, input logic [LW:0] hi);
    return ({WORD{1'b1}} << lo) & ~({WORD{1'b1}} << hi);
  endfunction

  logic o_done;

  assign pipe_empty = !piece_valid && !b_valid && !c_valid;

  // ---- transposition ------------------------------------------------------------------------
  logic        row_lo, row_hi, row_set, row_group, col_go, col_valid, col_done;
  logic [LW-1:0] row_k;
  logic [8*WORD-1:0] row, col;
  logic [15:0] col_addr;
  logic        tr_err;
  logic [31:0] tr_err_index, tr_err_addr;
  logic        seq_set;
  logic [LW-1:0] seq_j;
  logic [1:0]  seq_size;
  logic [LW:0] seq_bytes;
  logic [31:0] seq_pad;
  presil_load_columns u_columns (.clk, .rst, .group_valid, .group_last, .group_s, .group_sw,
      .group_pad, .group_index, .group_cols, .group_bytes, .group_size,
      .rows_in((row_lo || row_hi) && row_group), .rows_set(row_set), .open(tr_open),
      .open_early(tr_open_early), .busy(tr_busy), .hold(stall), .col_go, .col_set(seq_set),
      .col_j(seq_j), .col_size(seq_size), .col_bytes(seq_bytes), .col_pad(seq_pad), .col_valid,
      .col_addr, .col_done, .err_valid(tr_err), .err_index(tr_err_index), .err_addr(tr_err_addr));
  presil_transpose u_transpose (.clk, .row_lo, .row_hi, .row_set, .row_k, .row, .col_en(col_go),
      .col_set(seq_set), .col_j(seq_j), .col_size(seq_size), .col_bytes(seq_bytes), .pad(seq_pad),
      .col);

  // A word whose bank the epilogue is writing may be passed by the next one (other address, not the
  // last of its descriptor): otherwise an epilogue that writes a word in two cycles would hold
  // LOAD, which comes through the banks behind it, to the same pace.
  logic        parked, blocked, in_plain, in_done, p_full, p_done;
  logic [15:0] in_addr, p_addr;
  logic [8*WORD-1:0] p_data;
  logic [WORD-1:0] p_mask;
  assign blocked  = ld_valid && !ld_ready;
  assign in_plain = col_valid || (c_valid ? !c.tr : b_valid && !b.conv && !b.tr);
  assign in_addr  = col_valid ? col_addr : c_valid ? c.addr : b.addr;
  assign in_done  = col_valid ? col_done : c_valid ? c.done : b.done;
  assign stall    = parked || (blocked && !(in_plain && !in_done && in_addr != ld_addr));

  // ---- pipeline -----------------------------------------------------------------------------
  always_ff @(posedge clk) begin
    row_lo <= 1'b0;
    row_hi <= 1'b0;
    if (parked) begin
      // one of the two is tried after the other
      if (!ld_ready) begin
        p_data <= ld_data;  p_addr <= ld_addr;  p_full <= ld_full;  p_done <= o_done;
        p_mask <= ld_mask;
      end
      ld_data <= p_data;  ld_addr <= p_addr;  ld_full <= p_full;  o_done <= p_done;
      ld_mask <= p_mask;
      if (ld_ready) parked <= 1'b0;
    end else if (!stall) begin
      piece_t m;
      logic   take;
      if (blocked) begin
        p_data <= ld_data;  p_addr <= ld_addr;  p_full <= ld_full;  p_done <= o_done;
        p_mask <= ld_mask;
        parked <= 1'b1;
      end
      b_valid <= piece_valid;
      if (piece_valid) begin
        b_term <= piece_term;
        b <= '{done: piece_done, full: piece_full, conv: piece_conv, half: piece_half, tr: piece_tr,
            set: piece_set,
               group: piece_group, k: piece_k, vlo: piece_vlo, vhi: piece_vhi, mlo: piece_mlo,
               mhi: piece_mhi,
               addr: piece_addr, pad: piece_pad};
      end
      c_valid <= b_valid && b.conv;
      if (b_valid && b.conv) c <= b;
      m    = c_valid ? c : b;
      take = c_valid || (b_valid && !b.conv);
      ld_valid <= (take && !m.tr) || col_valid;
      if (take && m.tr) begin
        row <= merge(m.conv, m.vlo, m.vhi, m.pad);
        row_lo <= !m.conv || !m.half;  row_hi <= !m.conv || m.half;
        row_set <= m.set;  row_k <= m.k;  row_group <= m.group;
      end else if (take) begin
        ld_data <= merge(m.conv, m.vlo, m.vhi, m.pad);
        ld_addr <= m.addr;  ld_full <= m.full;  o_done <= m.done;
        if (!m.full) ld_mask <= bytes(m.mlo, m.mhi);
      end
      if (col_valid) begin
        ld_data <= col;
        ld_addr <= col_addr;  ld_full <= 1'b1;  o_done <= col_done;
      end
    end
    if (rst) begin
      b_valid <= 1'b0;  c_valid <= 1'b0;  ld_valid <= 1'b0;  parked <= 1'b0;
    end
  end

  assign done   = ld_valid && ld_ready && o_done;
  assign active = held != 4'd0;
  assign idle   = held == 4'd0 || halt;
  always_ff @(posedge clk) begin
    if (start != done) held <= start ? held + 4'd1 : held - 4'd1;
    if (active) begin
      if (stall) cause <= CAUSE_SCRATCHPAD;
      else if (working) cause <= CAUSE_BUSY;
      else if (waiting) cause <= (burst_valid && !burst_ready) ? CAUSE_BUS_REQUEST : CAUSE_BUS_DATA;
      else if (ld_valid || !pipe_empty || tr_busy) cause <= CAUSE_DRAIN;
      else cause <= CAUSE_BUSY;
    end else begin
      // of the first cycle of the next descriptor: never what the last one left
      cause <= CAUSE_BUSY;
    end
    err_valid <= walk_err || tr_err;
    if (walk_err || tr_err) begin
      err_index <= tr_err ? tr_err_index : walk_err_index;
      err_addr  <= tr_err ? tr_err_addr : walk_err_addr;
    end
    if (rst) begin
      held <= 4'd0;  err_valid <= 1'b0;
    end
  end

`ifndef SYNTHESIS
  a_over: assert property (@(posedge clk) disable iff (rst) !(start && held[3]));
  a_alone: assert property (@(posedge clk) disable iff (rst) !(b_valid && !b.conv && c_valid));
  c_full: cover property (@(posedge clk) disable iff (rst) held[3]);
  c_waiting_full: cover property (@(posedge clk) disable iff (rst) full);
  // a word goes past one whose bank is written
  c_passed: cover property (@(posedge clk) disable iff (rst) blocked && !stall);
  // and neither gets there
  c_passed_back: cover property (@(posedge clk) disable iff (rst) parked && !ld_ready);
  c_blocked: cover property (@(posedge clk) disable iff (rst) blocked && stall && !parked);
  c_own_chunks: cover property (@(posedge clk) disable iff (rst) start && own_chunks);
  c_transpose: cover property (@(posedge clk) disable iff (rst) start && start_desc.transpose);
  c_plain: cover property (@(posedge clk) disable iff (rst) b_valid && !b.conv && !b.tr);
  c_term0: cover property (@(posedge clk) disable iff (rst)
    b_valid && b.conv && b_term == CONV_TERM0);
  c_term1: cover property (@(posedge clk) disable iff (rst)
    b_valid && b.conv && b_term == CONV_TERM1);
  c_term2: cover property (@(posedge clk) disable iff (rst)
    b_valid && b.conv && b_term == CONV_TERM2);
  c_conv_transpose: cover property (@(posedge clk) disable iff (rst) b_valid && b.conv && b.tr);
  c_upper_half: cover property (@(posedge clk) disable iff (rst) b_valid && b.conv && b.half);
  c_odd_ends: cover property (@(posedge clk) disable iff (rst)
    b_valid && !b.full && b.mlo != '0 && 32'(b.mhi) != WORD);
  c_padding: cover property (@(posedge clk) disable iff (rst) b_valid && b.vlo != '0);
  c_all_padding: cover property (@(posedge clk) disable iff (rst)
    row_valid && row_ready && row_beats == 32'd0);
  c_range: cover property (@(posedge clk) disable iff (rst) err_valid);
  c_halted: cover property (@(posedge clk) disable iff (rst)
    halt && active && burst_valid == 1'b0 && bursts_valid);
`endif
endmodule
