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

  // The piece. p_now: there is one; p_go: and it is issued. Its bytes `vlo` to `vhi` of the word
  // come from the row, `base` is the source byte of byte `wlo`, counted from the row's first beat.
  logic        p_now, p_go, p_half, p_more, p_out, p_word_end, p_chunk_end, p_row_end;
  logic [31:0] p_len, p_off, p_dlen, p_wlo, p_whi, p_base, p_freed;
  logic [LW:0] p_vlo, p_vhi;

  // ---- descriptors that wait for the data side ----------------------------------------------
  typedef struct packed {
    logic        tr;                           // transposed
    logic [1:0]  size;                         // log2 of the destination element
    logic [3:0]  term;                         // CONV_*
    logic [15:0] n0, chunk, word;              // n0: chunks of a row after the first
    logic [31:0] step0, sw, ss0, row_bytes, pad, index;
  } walk_t;
  walk_t       asked, next, d;                 // d: the one being walked
  logic        d_have, d_conv, next_conv, none, out;
  logic [31:0] d_chunk, d_word;
  always_comb begin
    asked = '0;
    if (start) begin
      asked.tr    = start_desc.transpose;
      asked.size  = (start_desc.conv != CONV_NONE) ? 2'd1 : start_desc.esize_log2;
      asked.term  = start_desc.conv;
      asked.n0    = own_chunks ? 16'd0 : start_desc.n0 - 16'd1;
      asked.chunk = start_desc.chunk_bytes;
      asked.word  = !start_desc.transpose ? start_desc.word_bytes
          : (start_desc.conv != CONV_NONE) ? 16'(2 * WORD) : 16'(WORD);
      asked.step0 = start_desc.step0;  asked.sw = start_desc.sw;  asked.ss0 = start_desc.ss0;
      asked.row_bytes = start_desc.row_bytes;  asked.pad = start_desc.pad;
      asked.index = start_index;
    end
  end
  presil_fifo #(.T(walk_t), .DEPTH(4)) u_descriptors (.clk, .rst, .put(start), .in(asked), .full,
      .take(out), .oldest(next), .empty(none));
  assign d_conv    = d.term != CONV_NONE;
  assign next_conv = next.term != CONV_NONE;
  assign d_chunk   = 32'(d.chunk);
  assign d_word    = 32'(d.word);
  // The next descriptor: not before words that take the longer way (conversion, transposition) have
  // left the pipeline.
  assign out = !d_have && !none
      && (!(d_conv || d.tr) || (pipe_empty && !tr_busy && !group_valid)
          || {d_conv, d.tr} == {next_conv, next.tr});

  // ---- rows ---------------------------------------------------------------------------------
  typedef struct packed {
    logic [49:0] rel, pos;
    logic        last1, last;
    logic [31:0] s, beats;
  } row_t;
  row_t        row_in, row_next;
  logic        no_row, pop;
  always_comb begin
    row_in = '0;
    if (row_valid) row_in = {row_rel, row_pos, row_last1, row_last, row_s, row_beats};
  end
  presil_fifo #(.T(row_t), .DEPTH(256)) u_rows (.clk, .rst, .put(row_valid), .in(row_in),
      .full(rows_full), .take(pop), .oldest(row_next), .empty(no_row));
  // the row being walked
  logic        w_have, w_half, w_last1, w_last;
  logic [49:0] w_rel, w_pos, w_cpos;          // position of the word, of the chunk
  logic [31:0] w_s, w_cs, w_left, w_beats;
  logic [15:0] w_n0;
  logic [6:0]  w_k;
  logic        w_set;
  assign pop = d_have && !no_row && (!w_have || (p_row_end && !w_last));

  // ---- window: running counts of beats ------------------------------------------------------
  // before this row, received, not needed by pieces to come
  logic [31:0] slot0, got, freed;
  // freed, when the last piece has been read from the window
  logic [31:0] released;
  assign rx_slot  = got[3:0];
  assign rx_ready = halt || (got - released) < 32'd16 || (got - released) >= 32'h8000_0000;
  always_ff @(posedge clk) begin
    if (!stall) released <= freed;
    if (p_row_end) begin
      freed <= slot0 + w_beats;  slot0 <= slot0 + w_beats;
    end else if (p_now && w_beats != 32'd0) freed <= p_freed;
    if (rx) got <= got + 32'd1;
    if (rst) begin
      slot0 <= 32'd0;  got <= 32'd0;  freed <= 32'd0;  released <= 32'd0;
    end
  end

  // ---- the piece ----------------------------------------------------------------------------
  assign p_now = w_have && !stall;
  always_comb begin
    logic [31:0] vlo, vhi, need;
    logic [49:0] end_, from, keep;
    logic        needs, ready;
    p_go = 1'b0;  p_half = 1'b0;  p_more = 1'b0;  p_out = 1'b0;
    p_len = 32'd0;  p_off = 32'd0;  p_dlen = 32'd0;  p_wlo = 32'd0;  p_whi = 32'd0;  p_vlo = '0;
    p_vhi = '0;  p_base = 32'd0;  p_freed = 32'd0;
    vlo = 32'd0;  vhi = 32'd0;  need = 32'd0;  from = 50'd0;  end_ = 50'd0;  keep = 50'd0;
    needs = 1'b0;  ready = 1'b0;
    if (p_now) begin
      p_len  = (w_left < d_word) ? w_left : d_word;
      p_off  = d.tr ? 32'd0 : w_s & (WORD - 1);
      p_dlen = d_conv ? p_len >> 1 : p_len;
      p_half = w_half || (d_conv && p_off >= HALF);
      p_wlo  = p_half ? HALF : 32'd0;
      p_whi  = (d_conv && !p_half) ? HALF : WORD;
      p_more = d_conv && !p_half && p_off + p_dlen > HALF;
      from = w_pos[49] ? 50'd0 - w_pos : 50'd0;
      end_ = 50'(d.row_bytes) - w_pos;
      vlo  = (w_pos[49] && from >= 50'(p_len)) ? p_len : from[31:0];
      vhi  = end_[49] ? 32'd0 : (end_ >= 50'(p_len)) ? p_len : end_[31:0];
      if (d_conv) begin
        vlo = vlo >> 1;  vhi = vhi >> 1;
      end
      vlo = p_off + vlo;
      vhi = p_off + vhi;
      if (vlo < p_wlo) vlo = p_wlo;
      if (vhi > p_whi) vhi = p_whi;
      needs = w_beats != 32'd0 && vlo < vhi;
      if (!needs) begin
        vlo = 32'd0;  vhi = 32'd0;
      end
      p_vlo = (LW+1)'(vlo);
      p_vhi = (LW+1)'(vhi);
      p_base = 32'(w_rel + w_pos) - (d_conv ? p_off << 1 : p_off)
          + ((d_conv && p_half) ? WORD : 32'd0);
      need  = p_base + (d_conv ? (vhi - p_wlo) << 1 : vhi) - 32'd1;
      need  = slot0 + (need >> LW) + 32'd1;
      ready = !needs || (got - need) < 32'h8000_0000;
      if (d.tr && w_k == 7'd0 && !p_half && !(w_last1 ? tr_open : tr_open_early)) ready = 1'b0;
      p_out = !d.tr && (w_s >> LW) >= WORDS;
      p_go  = ready && !halt;
      // what no later piece needs is free
      keep = w_pos;
      if (w_n0 != 16'd0 && d.step0 < w_pos[31:0] - w_cpos[31:0]) keep = w_cpos + 50'(d.step0);
      keep = keep[49] ? 50'd0 : keep;
      keep = w_rel + keep;
      p_freed = slot0 + ((keep >> LW) < 50'(w_beats) ? 32'(keep >> LW) : w_beats);
    end
  end
  assign p_word_end  = p_go && !p_more;
  assign p_chunk_end = p_word_end && (p_len == w_left || d.tr);
  assign p_row_end   = p_chunk_end && w_n0 == 16'd0;

  always_ff @(posedge clk) begin
    logic [31:0] pad;
    logic [LW:0] last;
    err_valid <= 1'b0;
    if (!stall) begin
      working <= p_go;  piece_valid <= 1'b0;
    end
    waiting <= p_now && !p_go;
    if (p_go) begin
      pad = d.pad;
      if (d.tr && d.size == 2'd0) pad = {4{d.pad[{w_k[1:0], 3'd0} +: 8]}};
      if (d.tr && d.size == 2'd1) pad = {2{d.pad[{w_k[0], 4'd0} +: 16]}};
      piece_valid <= !p_out;
      piece_done  <= p_row_end && w_last && !d.tr;
      piece_full  <= p_off == 32'd0 && !p_half;
      piece_conv  <= d_conv;  piece_term <= d.term;  piece_half <= p_half;
      piece_tr    <= d.tr;  piece_set <= w_set;  piece_k <= LW'(w_k);
      piece_group <= p_row_end && w_last1;
      piece_slot  <= slot0[3:0] + p_base[LW+3:LW];
      piece_shift <= p_base[LW-1:0];
      piece_vlo   <= p_vlo;  piece_vhi <= p_vhi;
      last = (LW+1)'((p_off == 32'd0 || p_off + p_dlen > p_whi) ? p_whi : p_off + p_dlen);
      piece_mlo   <= (LW+1)'((p_off > p_wlo) ? p_off : p_wlo);  piece_mhi <= last;
      piece_addr  <= 16'(w_s >> LW);
      piece_pad   <= pad;
      err_valid   <= p_out;
      err_index   <= d.index;
      err_addr    <= {w_s[31:LW], {LW{1'b0}}};
    end
    if (!stall) group_valid <= p_row_end && d.tr && w_last1;
    if (p_row_end && d.tr && w_last1) begin
      group_last <= w_last;
      group_s <= w_cs;  group_sw <= d.sw;  group_pad <= d.pad;  group_index <= d.index;
      group_cols <= (LW+1)'((d_conv ? d_chunk >> 1 : d_chunk) > WORD ? WORD >> d.size
                            : (d_conv ? d_chunk >> 1 : d_chunk) >> d.size);
      group_bytes <= (LW+1)'((32'(w_k) + 32'd1) << d.size);  group_size <= d.size;
    end
    if (rst) begin
      piece_valid <= 1'b0;  group_valid <= 1'b0;
    end
  end

  // ---- next word, chunk, row, descriptor ----------------------------------------------------
  always_ff @(posedge clk) begin
    if (p_go) w_half <= p_more;
    if (p_word_end && !p_chunk_end) begin
      w_pos <= w_pos + 50'(p_len);  w_left <= w_left - p_len;  w_s <= w_s + d.sw;
    end else if (p_chunk_end && !p_row_end) begin
      w_n0 <= w_n0 - 16'd1;
      w_pos <= w_cpos + 50'(d.step0);  w_s <= w_cs + d.ss0;  w_left <= d_chunk;
      w_cpos <= w_cpos + 50'(d.step0);  w_cs <= w_cs + d.ss0;
    end else if (p_row_end) begin
      if (d.tr && w_last1) w_set <= !w_set;
      w_k <= w_last1 ? 7'd0 : w_k + 7'd1;
      if (w_last) d_have <= 1'b0;
      if (!pop) w_have <= 1'b0;
    end
    if (pop) begin
      w_have  <= 1'b1;
      w_rel   <= row_next.rel;  w_pos <= row_next.pos;  w_cpos <= row_next.pos;
      w_s     <= row_next.s;  w_cs <= row_next.s;
      w_beats <= row_next.beats;  w_last1 <= row_next.last1;  w_last <= row_next.last;
      w_left  <= d_chunk;  w_n0 <= d.n0;  w_half <= 1'b0;
    end
    if (out) begin
      d <= next;  d_have <= 1'b1;  w_k <= 7'd0;
    end
    if (rst) begin
      d_have <= 1'b0;  w_have <= 1'b0;  w_half <= 1'b0;  w_set <= 1'b0;
      d.term <= CONV_NONE;  d.tr <= 1'b0;
    end
  end

`ifndef SYNTHESIS
  a_window: assert property (@(posedge clk) disable iff (rst) !(rx && !rx_ready));
  c_window_full: cover property (@(posedge clk) disable iff (rst) !rx_ready);
  c_rows_full: cover property (@(posedge clk) disable iff (rst) rows_full);
  c_before_row: cover property (@(posedge clk) disable iff (rst) w_have && w_pos[49]);
  c_behind_row: cover property (@(posedge clk) disable iff (rst)
    w_have && !w_pos[49] && w_pos >= 50'(d.row_bytes));
  c_unaligned: cover property (@(posedge clk) disable iff (rst) piece_valid && piece_shift != '0);
  c_two_words: cover property (@(posedge clk) disable iff (rst)
    piece_valid && piece_half && !piece_tr);
  c_chunks: cover property (@(posedge clk) disable iff (rst) w_have && w_n0 != 16'd0);
  c_group_waits: cover property (@(posedge clk) disable iff (rst)
    w_have && d.tr && w_k == 7'd0 && !w_half && !tr_open_early);
  c_change: cover property (@(posedge clk) disable iff (rst)
    !d_have && !none && (d_conv || d.tr) && !pipe_empty);
`endif
endmodule
