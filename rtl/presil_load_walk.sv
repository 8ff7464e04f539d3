// SPDX-License-Identifier: Apache-2.0
// Data side of LOAD: takes rows in order, cuts their chunks into pieces of at most one scratchpad
// word (half a word of a conversion) and issues a piece as soon as the beats that it needs are in
// the window. One piece a cycle, also across rows.
// Beats of a row are numbered from its first one; `slot0` is the running count of beats before the
// row, slots are that count mod 16.
// Reset: synchronous, only control. Errors: SPAD_RANGE, one cycle after the piece that would be
// outside (it isn't issued).
module presil_load_walk import presil_config_pkg::*; import presil_desc_pkg::*; #(
  localparam int unsigned LW = $clog2(WORD)  /// log2 of WORD, the bytes of beat and word
) (
  input  logic          clk,
  input  logic          rst,
  input  logic          start,               /// pulse: a descriptor, only if not full
  input  load_t         start_desc,          /// valid with start
  input  logic [31:0]   start_index,         /// its ring count
  input  logic          own_chunks,          /// with start: each chunk comes as a row
  output logic          full,                /// four descriptors wait
  input  logic          row_valid,           /// pulse: a row, only if not rows_full
  input  logic [31:0]   row_beats,           /// beats read for it; 0: all padding
  /// byte of position 0, counted from the first byte of the row's first beat; signed
  input  logic [49:0]   row_rel,
  input  logic [49:0]   row_pos,             /// position of its first chunk's first byte; signed
  input  logic [31:0]   row_s,               /// scratchpad byte address of its first word
  input  logic          row_last1,           /// last i1: ends a group of transposed rows
  input  logic          row_last,            /// last row of the descriptor
  output logic          rows_full,           /// 256 rows wait
  input  logic          halt,                /// issue no piece, let beats come
  input  logic          rx,                  /// pulse: a beat is written into the window
  output logic [3:0]    rx_slot,             /// its slot there: count of beats mod 16
  output logic          rx_ready,            /// one of 16 slots is free, or halt
  input  logic          stall,               /// the pipeline stands: keep the piece
  input  logic          pipe_empty,          /// no piece between here and the word to write
  input  logic          tr_open,             /// the transposer has room for the next group
  input  logic          tr_open_early,       /// if that has two rows or more
  input  logic          tr_busy,             /// it holds a group
  output logic          waiting,             /// a row, but no piece: for beats or tr_open
  output logic          working,             /// a piece was issued; stays while stall
  /// valid: a piece, stays while stall; done: its descriptor's last, never with tr; full: writes
  /// the whole word; conv: converted, to half a word
  output logic          piece_valid, piece_done, piece_full, piece_conv,
  output logic [3:0]    piece_term,          /// CONV_* of the descriptor
  /// half: fills the upper half; tr: goes to the transposer, buffer `set`; group: its group's last
  output logic          piece_half, piece_tr, piece_set, piece_group,
  output logic [3:0]    piece_slot,          /// slot of the beat for its byte 0 (half: WORD/2)
  /// shift: byte of that beat; k: row in the group, 0 to LANES-1
  output logic [LW-1:0] piece_shift, piece_k,
  /// bytes of the word: vlo to vhi-1 are data, others padding; not full: mlo to mhi-1 are written
  output logic [LW:0]   piece_vlo, piece_vhi, piece_mlo, piece_mhi,
  output logic [15:0]   piece_addr,          /// scratchpad word, if not tr
  output logic [31:0]   piece_pad,           /// padding of every 32 bits of the word
  /// valid: with a group's last piece, stays while stall; last: its descriptor's last group
  output logic          group_valid, group_last,
  /// s: byte address of column 0; sw: from column to column; pad: padding; index: ring count
  output logic [31:0]   group_s, group_sw, group_pad, group_index,
  output logic [LW:0]   group_cols, group_bytes,  /// columns; bytes of a column without padding
  output logic [1:0]    group_size,          /// log2 of an element's bytes: 0, 1, 2
  output logic          err_valid,           /// pulse: SPAD_RANGE
  output logic [31:0]   err_index, err_addr  /// ring count; scratchpad byte address of the word
);
  logic unused;
  assign unused = &start_desc;                 // the fields of others, too
  localparam logic [31:0] WORDS = BANKS * BANK_WORDS;
  localparam logic [31:0] HALF = WORD / 2;

  // ---- descriptors that wait for the data side ----------------------------------------------
  logic [1:0]  dq_head, dq_tail;
  logic [2:0]  queued;
  assign full = queued[2];
  logic [31:0] dq_step0 [4], dq_sw [4], dq_ss0 [4], dq_row_bytes [4], dq_pad [4], dq_index [4];
  logic [15:0] dq_n0 [4], dq_chunk [4], dq_word [4];   // n0: chunks of a row after the first
  logic [3:0]  dq_term [4];                   // CONV_*
  logic [1:0]  dq_size [4];                   // log2 of the destination element
  logic        dq_tr [4];
  // the one being walked
  logic        d_have, d_conv, d_tr;
  logic [3:0]  d_term;
  logic [1:0]  d_size;
  logic [31:0] d_step0, d_sw, d_ss0, d_row_bytes, d_pad, d_index, d_chunk, d_word;
  logic [15:0] d_n0;

  // ---- queue of rows ------------------------------------------------------------------------
  logic [7:0]  rq_head, rq_tail;
  logic [8:0]  rows_held;
  assign rows_full = rows_held[8];
  logic [49:0] rq_rel [256], rq_pos [256];
  logic [31:0] rq_s [256], rq_beats [256];
  logic [1:0]  rq_last [256];

  // ---- the row being walked -----------------------------------------------------------------
  logic        w_have, w_half, w_last1, w_last;
  logic [49:0] w_rel, w_pos, w_cpos;          // position of the word, of the chunk
  logic [31:0] w_s, w_cs, w_left, w_beats;
  logic [15:0] w_n0;
  logic [6:0]  w_k;
  logic        w_set;
  // running counts of beats: before this row, received, not needed by pieces to come
  logic [31:0] slot0, got, freed;
  // freed, when the last piece has been read from the window
  logic [31:0] released;

  assign rx_slot  = got[3:0];
  assign rx_ready = halt || (got - released) < 32'd16 || (got - released) >= 32'h8000_0000;

  always_ff @(posedge clk) begin
    logic [31:0] len, off, dlen, wlo, whi, vlo, vhi, base, pad, need;
    logic [LW:0] last;
    logic [49:0] end_, from, keep;
    logic        half, more, pop, ready, out;
    logic        p_go, p_row_end, p_word_end, p_chunk_end, p_need;
    p_go = 1'b0;  p_row_end = 1'b0;  p_word_end = 1'b0;  p_chunk_end = 1'b0;  p_need = 1'b0;
    if (!stall) working <= 1'b0;
    err_valid <= 1'b0;
    if (!stall) piece_valid <= 1'b0;
    if (!stall) released <= freed;

    if (w_have && !stall) begin
      len  = (w_left < d_word) ? w_left : d_word;
      off  = d_tr ? 32'd0 : w_s & (WORD - 1);
      dlen = d_conv ? len >> 1 : len;
      half = w_half || (d_conv && off >= HALF);
      wlo  = half ? HALF : 32'd0;
      whi  = (d_conv && !half) ? HALF : WORD;
      more = d_conv && !half && off + dlen > HALF;
      // destination bytes that come from the row
      from = w_pos[49] ? 50'd0 - w_pos : 50'd0;
      end_ = 50'(d_row_bytes) - w_pos;
      vlo  = (w_pos[49] && from >= 50'(len)) ? len : from[31:0];
      vhi  = end_[49] ? 32'd0 : (end_ >= 50'(len)) ? len : end_[31:0];
      if (d_conv) begin
        vlo = vlo >> 1;  vhi = vhi >> 1;
      end
      vlo = off + vlo;
      vhi = off + vhi;
      if (vlo < wlo) vlo = wlo;
      if (vhi > whi) vhi = whi;
      p_need = w_beats != 32'd0 && vlo < vhi;
      if (!p_need) begin
        vlo = 32'd0;  vhi = 32'd0;
      end
      // source byte of destination byte wlo, counted from the row's first beat
      base = 32'(w_rel + w_pos) - (d_conv ? off << 1 : off) + ((d_conv && half) ? WORD : 32'd0);
      need = base + (d_conv ? (vhi - wlo) << 1 : vhi) - 32'd1;
      need = slot0 + (need >> LW) + 32'd1;
      ready = !p_need || (got - need) < 32'h8000_0000;
      if (d_tr && w_k == 7'd0 && !half && !(w_last1 ? tr_open : tr_open_early)) ready = 1'b0;
      out  = !d_tr && (w_s >> LW) >= WORDS;
      p_go = ready && !halt;
      // what no later piece needs is free
      keep = w_pos;
      if (w_n0 != 16'd0 && d_step0 < w_pos[31:0] - w_cpos[31:0]) keep = w_cpos + 50'(d_step0);
      keep = keep[49] ? 50'd0 : keep;
      keep = w_rel + keep;
      if (w_beats != 32'd0) freed <= slot0
          + ((32'(keep) >> LW) < w_beats ? 32'(keep) >> LW : w_beats);
      if (p_go) begin
        p_word_end  = !more;
        p_chunk_end = !more && (len == w_left || d_tr);
        p_row_end   = p_chunk_end && w_n0 == 16'd0;
        working <= 1'b1;
        pad = d_pad;
        if (d_tr && d_size == 2'd0) pad = {4{d_pad[{w_k[1:0], 3'd0} +: 8]}};
        if (d_tr && d_size == 2'd1) pad = {2{d_pad[{w_k[0], 4'd0} +: 16]}};
        piece_valid <= !out;
        piece_done  <= p_row_end && w_last && !d_tr;
        piece_full  <= off == 32'd0 && !half;
        piece_conv  <= d_conv;  piece_term <= d_term;  piece_half <= half;
        piece_tr    <= d_tr;  piece_set <= w_set;  piece_k <= LW'(w_k);
        piece_group <= p_row_end && w_last1;
        piece_slot  <= slot0[3:0] + base[LW+3:LW];
        piece_shift <= base[LW-1:0];
        piece_vlo   <= (LW+1)'(vlo);  piece_vhi <= (LW+1)'(vhi);
        last = (LW+1)'((off == 32'd0 || off + dlen > whi) ? whi : off + dlen);
        piece_mlo   <= (LW+1)'((off > wlo) ? off : wlo);  piece_mhi <= last;
        piece_addr  <= 16'(w_s >> LW);
        piece_pad   <= pad;
        err_valid   <= out;
        err_index   <= d_index;
        err_addr    <= {w_s[31:LW], {LW{1'b0}}};
        w_half <= more;
      end
    end
    waiting <= w_have && !stall && !p_go;

    // next word, chunk, row; no register is read behind an assignment to it, not even in another
    // branch: Verilator would keep a shadow copy
    pop = d_have && rows_held != 9'd0 && (!w_have || (p_row_end && !w_last));
    // next descriptor: not before words that take the longer way (conversion, transposition) have
    // left the pipeline
    out = !d_have && queued != 3'd0
       && (!(d_conv || d_tr) || (pipe_empty && !tr_busy && !group_valid)
           || {d_conv, d_tr} == {dq_term[dq_tail] != CONV_NONE, dq_tr[dq_tail]});
    if (!stall) group_valid <= p_row_end && d_tr && w_last1;
    if (p_word_end && !p_chunk_end) begin
      w_pos <= w_pos + 50'(len);  w_left <= w_left - len;  w_s <= w_s + d_sw;
    end else if (p_chunk_end && !p_row_end) begin
      w_n0 <= w_n0 - 16'd1;
      w_pos <= w_cpos + 50'(d_step0);  w_s <= w_cs + d_ss0;  w_left <= d_chunk;
      w_cpos <= w_cpos + 50'(d_step0);  w_cs <= w_cs + d_ss0;
    end else if (p_row_end) begin
      if (d_tr && w_last1) begin
        w_set <= !w_set;
        group_last <= w_last;
        group_s <= w_cs;  group_sw <= d_sw;  group_pad <= d_pad;  group_index <= d_index;
        group_cols <= (LW+1)'((d_conv ? d_chunk >> 1 : d_chunk) > WORD ? WORD >> d_size
                              : (d_conv ? d_chunk >> 1 : d_chunk) >> d_size);
        group_bytes <= (LW+1)'((32'(w_k) + 32'd1) << d_size);  group_size <= d_size;
      end
      freed <= slot0 + w_beats;
      slot0 <= slot0 + w_beats;
      w_k   <= w_last1 ? 7'd0 : w_k + 7'd1;
      if (w_last) d_have <= 1'b0;
      if (!pop) w_have <= 1'b0;
    end
    if (pop) begin
      w_have  <= 1'b1;
      w_rel   <= rq_rel[rq_tail];  w_pos <= rq_pos[rq_tail];  w_cpos <= rq_pos[rq_tail];
      w_s     <= rq_s[rq_tail];  w_cs <= rq_s[rq_tail];
      w_beats <= rq_beats[rq_tail];
      {w_last1, w_last} <= rq_last[rq_tail];
      w_left  <= d_chunk;  w_n0 <= d_n0;  w_half <= 1'b0;
      rq_tail <= rq_tail + 8'd1;
    end
    if (row_valid) begin
      rq_rel[rq_head] <= row_rel;  rq_pos[rq_head] <= row_pos;  rq_s[rq_head] <= row_s;
      rq_beats[rq_head] <= row_beats;
      rq_last[rq_head] <= {row_last1, row_last};
      rq_head <= rq_head + 8'd1;
    end
    if (row_valid != pop) rows_held <= row_valid ? rows_held + 9'd1 : rows_held - 9'd1;

    if (out) begin
      d_have <= 1'b1;  w_k <= 7'd0;
      d_conv <= dq_term[dq_tail] != CONV_NONE;  d_tr <= dq_tr[dq_tail];  d_term <= dq_term[dq_tail];
      d_size <= dq_size[dq_tail];
      d_step0 <= dq_step0[dq_tail];  d_sw <= dq_sw[dq_tail];  d_ss0 <= dq_ss0[dq_tail];
      d_row_bytes <= dq_row_bytes[dq_tail];
      d_pad <= dq_pad[dq_tail];  d_index <= dq_index[dq_tail];  d_n0 <= dq_n0[dq_tail];
      d_chunk <= 32'(dq_chunk[dq_tail]);
      d_word <= !dq_tr[dq_tail] ? 32'(dq_word[dq_tail]) : (dq_term[dq_tail] != CONV_NONE) ? 2 * WORD
          : WORD;
      dq_tail <= dq_tail + 2'd1;
    end
    if (start) begin
      dq_step0[dq_head] <= start_desc.step0;  dq_sw[dq_head] <= start_desc.sw;
      dq_ss0[dq_head] <= start_desc.ss0;  dq_row_bytes[dq_head] <= start_desc.row_bytes;
      dq_pad[dq_head] <= start_desc.pad;  dq_index[dq_head] <= start_index;
      dq_n0[dq_head] <= own_chunks ? 16'd0 : start_desc.n0 - 16'd1;
      dq_chunk[dq_head] <= start_desc.chunk_bytes;  dq_word[dq_head] <= start_desc.word_bytes;
      dq_term[dq_head] <= start_desc.conv;  dq_tr[dq_head] <= start_desc.transpose;
      dq_size[dq_head] <= (start_desc.conv != CONV_NONE) ? 2'd1 : start_desc.esize_log2;
      dq_head <= dq_head + 2'd1;
    end
    if (rx) got <= got + 32'd1;
    if (start != out) queued <= start ? queued + 3'd1 : queued - 3'd1;
    if (rst) begin
      queued <= 3'd0;  dq_head <= 2'd0;  dq_tail <= 2'd0;  d_have <= 1'b0;
      rows_held <= 9'd0;  rq_head <= 8'd0;  rq_tail <= 8'd0;  w_have <= 1'b0;  w_half <= 1'b0;
      slot0 <= 32'd0;  got <= 32'd0;  freed <= 32'd0;  released <= 32'd0;  piece_valid <= 1'b0;
      w_set <= 1'b0;
      d_conv <= 1'b0;  d_tr <= 1'b0;  group_valid <= 1'b0;
    end
  end

`ifndef SYNTHESIS
  a_rows_over: assert property (@(posedge clk) disable iff (rst) !(row_valid && rows_full));
  a_queue_over: assert property (@(posedge clk) disable iff (rst) !(start && full));
  a_window: assert property (@(posedge clk) disable iff (rst) !(rx && !rx_ready));
  c_window_full: cover property (@(posedge clk) disable iff (rst) !rx_ready);
  c_rows_full: cover property (@(posedge clk) disable iff (rst) rows_full);
  c_rows_wrap: cover property (@(posedge clk) disable iff (rst) row_valid && rq_head == 8'd255);
  c_queue_wrap: cover property (@(posedge clk) disable iff (rst) start && dq_head == 2'd3);
  c_before_row: cover property (@(posedge clk) disable iff (rst) w_have && w_pos[49]);
  c_behind_row: cover property (@(posedge clk) disable iff (rst)
    w_have && !w_pos[49] && w_pos >= 50'(d_row_bytes));
  c_unaligned: cover property (@(posedge clk) disable iff (rst) piece_valid && piece_shift != '0);
  c_two_words: cover property (@(posedge clk) disable iff (rst)
    piece_valid && piece_half && !piece_tr);
  c_chunks: cover property (@(posedge clk) disable iff (rst) w_have && w_n0 != 16'd0);
  c_group_waits: cover property (@(posedge clk) disable iff (rst)
    w_have && d_tr && w_k == 7'd0 && !w_half && !tr_open_early);
  c_change: cover property (@(posedge clk) disable iff (rst)
    !d_have && queued != 3'd0 && (d_conv || d_tr) && !pipe_empty);
`endif
endmodule
