// SPDX-License-Identifier: Apache-2.0
// Epilogue engine: accumulators to scratchpad through bias, scale, residual, clamp and conversion
// (docs/isa.md section 5).
// Throughput: one row a cycle, or one word of its output or residual a cycle where a row takes more
// than one.
// Latency: parameters (2 * words) + 10 cycles to the first word; the parameters of the next
// descriptor are read while the rows of this one are issued.
// Reset: synchronous, active high; payload is not reset. Errors: none of its own; res_index and
// epi_index name the descriptor of the request on the port, for the scratchpad's range check.
module presil_epilogue import presil_config_pkg::*, presil_desc_pkg::*,
    presil_engine_pkg::*; #(
  localparam int unsigned LOG_WORD = $clog2(WORD)
) (
  input  logic              clk,
  input  logic              rst,
  input  command_t          command,        /// the next descriptor
  output status_t           status,         /// of those that were taken
  input  logic              halt,           /// request nothing more; what is on its way completes
  output logic              acc_re,         /// accumulator read port: acc_q one cycle later
  output logic              acc_half,       /// half that is read, with acc_re
  output logic [$clog2(ACC_ROWS)-1:0] acc_row,  /// row of the half, with acc_re
  input  logic [31:0]       acc_q [CELLS],  /// sums, int32 or fp32 (field acc_fp32)
  input  logic [1:0]        acc_taken,      /// the read port of half h is taken in the next cycle
  output logic              res_valid,      /// scratchpad read port: parameters and residual
  output logic [32-LOG_WORD:0] res_addr,  /// word address; wide, so that none wraps into the memory
  output logic [31:0]       res_index,      /// ring count of the request's descriptor
  input  logic              res_ready,      /// grant, in the cycle of the request
  input  logic              res_rvalid,     /// two cycles after the grant
  input  logic [8*WORD-1:0] res_rdata,      /// parameters or residual, with res_rvalid
  output logic              epi_valid,      /// scratchpad write port: a word of an output row
  output logic [32-LOG_WORD:0] epi_addr,  /// word address; wide, so that none wraps into the memory
  output logic [31:0]       epi_index,      /// ring count of the word's descriptor
  output logic [8*WORD-1:0] epi_data,       /// a row that shares its word stands in every slot
  output logic [WORD-1:0]   epi_mask,       /// bytes to write
  output logic              epi_full,       /// all of them; the mask need not be looked at
  input  logic              epi_ready       /// has to be 1: no word can wait
);
  // ---- engine port
  epilogue_t start_desc;
  logic start_ready, done, active, idle;
  logic [3:0] cause;
  assign start_desc = command.desc;
  assign status = '{ready: start_ready, done: done, active: active, idle: idle, cause: cause};

  localparam int unsigned ROW_BITS = $clog2(ACC_ROWS);
  localparam int unsigned RES_WORDS = (4 * CELLS + WORD - 1) / WORD;
  localparam int unsigned RES_BITS = (RES_WORDS > 1) ? $clog2(RES_WORDS) : 1;
  // words that a row of 1-, 2- and 4-byte elements takes
  localparam logic [7:0] WORDS1 = 8'((CELLS + WORD - 1) / WORD);
  localparam logic [7:0] WORDS2 = 8'((2 * CELLS + WORD - 1) / WORD);
  localparam logic [7:0] WORDS4 = 8'((4 * CELLS + WORD - 1) / WORD);
  // bytes of a row at the beginning of a word
  localparam logic [WORD-1:0] MASK1 = ~({WORD{1'b1}} << CELLS);
  localparam logic [WORD-1:0] MASK2 = ~({WORD{1'b1}} << 2 * CELLS);
  localparam logic [WORD-1:0] MASK4 = ~({WORD{1'b1}} << 4 * CELLS);
  // a row shares its word with others
  localparam logic IN_SLOT1 = CELLS <= WORD / 2;
  localparam logic IN_SLOT2 = 2 * CELLS <= WORD / 2;
  localparam logic IN_SLOT4 = 4 * CELLS <= WORD / 2;

  function automatic logic [7:0] words_of(input logic [3:0] kind);      // DTYPE_*
    return (kind == DTYPE_INT8) ? WORDS1 : two_bytes(kind) ? WORDS2 : WORDS4;
  endfunction

  function automatic logic in_slot_of(input logic [3:0] kind);
    return (kind == DTYPE_INT8) ? IN_SLOT1 : two_bytes(kind) ? IN_SLOT2 : IN_SLOT4;
  endfunction

  // word address of a byte address plus k words; a bit more than it needs, so that a row never
  // wraps into the memory
  function automatic logic [32-LOG_WORD:0] word_addr(input logic [31:0] byte_addr,
      input logic [7:0] k);
    return (33-LOG_WORD)'(byte_addr >> LOG_WORD) + (33-LOG_WORD)'(k);
  endfunction

  // ---- two descriptor slots, taken in turn, free again when done
  // fresh: no row issued yet; par_left: parameters not all granted
  logic [1:0] held, fresh, par_left;
  logic in_slot, take;
  logic [3:0]  f_otype [2], f_rtype [2];
  logic        f_half [2], f_res [2];
  logic [15:0] f_rows [2], f_param [2];
  logic [ROW_BITS-1:0] f_acc [2];
  logic [31:0] f_out [2], f_out_pitch [2], f_resb [2], f_res_pitch [2], f_index [2];
  logic d_par;
  assign d_par = start_desc.bias_en || start_desc.scale_en;
  assign start_ready = !held[in_slot] && !halt;
  assign take = command.valid && start_ready;

  // ---- parameter reads, ahead of the rows
  logic par_slot, par_req, par_grant, par_end;
  logic [7:0] par_no;                      // word: biases, then scales
  assign par_slot = par_left[in_slot] ? in_slot : !in_slot;             // the older one first
  assign par_req = par_left[par_slot] && !halt;
  assign par_grant = par_req && res_ready;
  assign par_end = par_grant && par_no == 8'(2 * WORDS4 - 8'd1);

  // ---- row sequencer
  logic seq_valid, seq_slot, seq_next, seq_load, seq_first, res_shares, want, need_res, step,
      row_end, desc_end;
  logic [15:0] rows_left;
  logic [ROW_BITS-1:0] acc_no;
  logic [31:0] res_at;
  logic [7:0] step_no, steps, res_words, gap;

  // parameters first: they are few, and the next descriptor waits for them; they are used two
  // cycles after the row is issued
  assign need_res = f_res[seq_slot] && step_no < res_words;
  assign row_end = step_no + 8'd1 == steps;
  assign want = seq_valid && !halt && gap == 8'd0 && !(row_end && acc_taken[f_half[seq_slot]]);
  assign step = want && (!need_res || (!par_req && res_ready));
  assign desc_end = step && row_end && rows_left == 16'd1;
  assign seq_load = (!seq_valid || desc_end) && fresh[seq_next] && !par_left[seq_next];

  assign res_valid = par_req || (want && need_res);
  assign res_addr = par_req ? (33-LOG_WORD)'(f_param[par_slot] + {8'd0, par_no})
      : word_addr(res_at, step_no);
  assign res_index = par_req ? f_index[par_slot] : f_index[seq_slot];

  // no register is read behind an assignment to it: a simulator would keep a shadow copy; so it
  // would of step_no, were it not assigned beside p1_word
  always_ff @(posedge clk) begin
    logic [7:0] n_out, n_res;
    if (gap != 8'd0) gap <= gap - 8'd1;
    if (step && row_end) begin
      if (rows_left == 16'd1) begin
        // its last row still has words to put out
        gap <= words_of(f_otype[seq_slot]) - 8'd1;
        seq_valid <= 1'b0;
      end
      rows_left <= rows_left - 16'd1;
      acc_no <= acc_no + 1'b1;
      res_at <= res_at + f_res_pitch[seq_slot];
      seq_first <= 1'b0;
    end
    if (seq_load) begin
      n_out = words_of(f_otype[seq_next]);
      n_res = words_of(f_rtype[seq_next]);
      seq_valid <= 1'b1;
      seq_slot <= seq_next;
      seq_first <= 1'b1;
      rows_left <= f_rows[seq_next];
      acc_no <= f_acc[seq_next];
      res_at <= f_resb[seq_next];
      res_words <= n_res;
      res_shares <= in_slot_of(f_rtype[seq_next]);
      steps <= (f_res[seq_next] && n_res > n_out) ? n_res : n_out;
      seq_next <= !seq_next;
    end
    if (rst) begin
      seq_valid <= 1'b0; seq_next <= 1'b0; gap <= 8'd0;
    end
  end

  // what each grant reads, beside its data two cycles later
  logic p1_par, p2_par, p1_res, p2_res, p1_scale, p2_scale, p1_slot, p2_slot;
  logic [7:0] p1_word, p2_word;
  always_ff @(posedge clk) begin
    p2_par <= p1_par;
    p2_res <= p1_res;
    p2_scale <= p1_scale; p2_word <= p1_word; p2_slot <= p1_slot;
    p1_par <= par_grant;
    p1_res <= step && need_res;
    if (par_grant) begin
      p1_scale <= par_no >= WORDS4;
      p1_word <= (par_no >= WORDS4) ? (par_no - WORDS4) : par_no;
      p1_slot <= par_slot;
      par_no <= par_end ? 8'd0 : (par_no + 8'd1);
    end else if (step) begin
      p1_word <= step_no;
    end
    if (step) step_no <= row_end ? 8'd0 : (step_no + 8'd1);
    if (seq_load) step_no <= 8'd0;
    if (rst) begin
      par_no <= 8'd0; p1_par <= 1'b0; p2_par <= 1'b0; p1_res <= 1'b0; p2_res <= 1'b0;
    end
  end

  // rows: issue, accumulator read, arithmetic
  logic r1_valid, r2_valid, r1_slot, r2_slot, r1_first, r2_first, r1_last, r2_last;
  logic [7:0] r1_quad, r2_quad;
  logic [LOG_WORD-1:0] res_off;
  assign res_off = res_at[LOG_WORD-1:0];
  always_ff @(posedge clk) begin
    if (r1_valid) begin
      r2_slot <= r1_slot; r2_first <= r1_first; r2_last <= r1_last; r2_quad <= r1_quad;
    end
    r2_valid <= r1_valid;
    r1_valid <= step && row_end;
    if (step && row_end) begin
      r1_slot <= seq_slot; r1_first <= seq_first; r1_last <= rows_left == 16'd1;
      r1_quad <= res_shares ? 8'(res_off >> 2) : 8'd0;
      acc_row <= acc_no;
      acc_half <= f_half[seq_slot];
    end
    if (rst) begin
      r1_valid <= 1'b0; r2_valid <= 1'b0;
    end
  end
  assign acc_re = r1_valid;

  // of the arithmetic's output: what is written now, and what will be in the next cycle
  logic out_slot, out_last, next_valid, next_slot, next_first, next_head, next_last, pipe_busy;
  logic [7:0] next_word;

  // ---- the slots, taken and free again
  always_ff @(posedge clk) begin
    if (seq_load) fresh[seq_next] <= 1'b0;
    if (par_end) par_left[par_slot] <= 1'b0;
    if (done) held[out_slot] <= 1'b0;
    if (take) begin
      f_otype[in_slot] <= start_desc.out_type;
      f_rtype[in_slot] <= start_desc.res_type;
      f_half[in_slot] <= start_desc.half;
      f_res[in_slot] <= start_desc.res_en && start_desc.out_type != DTYPE_RAW32;
      f_rows[in_slot] <= start_desc.rows;
      f_acc[in_slot] <= start_desc.acc_base[ROW_BITS-1:0];
      f_param[in_slot] <= start_desc.param_base;
      f_out[in_slot] <= start_desc.out_base;
      f_out_pitch[in_slot] <= start_desc.out_pitch;
      f_resb[in_slot] <= start_desc.res_base;
      f_res_pitch[in_slot] <= start_desc.res_pitch;
      f_index[in_slot] <= command.index;
      held[in_slot] <= 1'b1;
      fresh[in_slot] <= 1'b1;
      par_left[in_slot] <= d_par;
      in_slot <= !in_slot;
    end
    if (rst) begin
      held <= 2'b00; fresh <= 2'b00; par_left <= 2'b00; in_slot <= 1'b0;
    end
  end

  // ---- arithmetic

  presil_epilogue_pipe u_pipe (.clk, .rst, .cfg_valid(take), .cfg_slot(in_slot), .desc(start_desc),
      .par_valid(p2_par && res_rvalid), .par_slot(p2_slot), .par_scale(p2_scale),
      .par_word(p2_word), .res_valid(p2_res && res_rvalid), .res_word(p2_word[RES_BITS-1:0]),
      .rdata(res_rdata), .row_valid(r2_valid), .row_slot(r2_slot), .row_first(r2_first),
      .row_last(r2_last), .row_quad(r2_quad), .acc_q, .next_valid, .next_slot, .next_first,
      .next_head, .next_last, .next_word, .out_valid(epi_valid), .out_data(epi_data),
      .busy(pipe_busy));

  // ---- output address, of the next cycle's word
  logic [31:0] out_at;
  always_ff @(posedge clk) begin
    logic [31:0] at;
    logic shares;
    if (next_valid) begin
      at = next_first ? f_out[next_slot] : next_head ? (out_at + f_out_pitch[next_slot]) : out_at;
      shares = in_slot_of(f_otype[next_slot]);
      out_at <= at;
      epi_addr <= word_addr(at, next_word);
      epi_index <= f_index[next_slot];
      epi_full <= !shares;
      if (shares)
        epi_mask <= ((f_otype[next_slot] == DTYPE_INT8) ? MASK1 : two_bytes(f_otype[next_slot])
            ? MASK2 : MASK4)
                    << at[LOG_WORD-1:0];
      else
        epi_mask <= '1;
      out_slot <= next_slot;
      out_last <= next_last;
    end
  end

  // ---- state
  logic flowing;
  assign flowing = p1_par || p2_par || p1_res || p2_res || r1_valid || r2_valid || pipe_busy;
  assign done = epi_valid && out_last;
  assign active = held != 2'b00;
  assign idle = !flowing && (held == 2'b00 || halt);

  always_comb begin
    if (step || par_grant) cause = CAUSE_BUSY;
    else if ((res_valid && !res_ready) || (epi_valid && !epi_ready)) cause = CAUSE_SCRATCHPAD;
    else if (flowing && !seq_valid) cause = CAUSE_DRAIN;
    else cause = CAUSE_BUSY;
  end

`ifndef SYNTHESIS
  a_write: assert property (@(posedge clk) disable iff (rst) !(epi_valid && !epi_ready));
  a_read: assert property (@(posedge clk) disable iff (rst) !((p2_par || p2_res) && !res_rvalid));
  c_full: cover property (@(posedge clk) disable iff (rst) held == 2'b11);
  c_parameters: cover property (@(posedge clk) disable iff (rst) par_grant);
  c_parameters_ahead: cover property (@(posedge clk) disable iff (rst) par_grant && seq_valid);
  c_residual_waits: cover property (@(posedge clk) disable iff (rst) want && need_res && !step);
  c_half_taken: cover property (@(posedge clk) disable iff (rst)
    seq_valid && row_end && acc_taken[f_half[seq_slot]]);
  c_gap: cover property (@(posedge clk) disable iff (rst) seq_valid && gap != 8'd0);
  c_int8: cover property (@(posedge clk) disable iff (rst)
    next_valid && next_first && f_otype[next_slot] == DTYPE_INT8);
  c_bf16: cover property (@(posedge clk) disable iff (rst)
    next_valid && next_first && f_otype[next_slot] == DTYPE_BF16);
  c_fp16: cover property (@(posedge clk) disable iff (rst)
    next_valid && next_first && f_otype[next_slot] == DTYPE_FP16);
  c_fp32: cover property (@(posedge clk) disable iff (rst)
    next_valid && next_first && f_otype[next_slot] == DTYPE_FP32);
  c_raw: cover property (@(posedge clk) disable iff (rst)
    next_valid && next_first && f_otype[next_slot] == DTYPE_RAW32);
  c_residual_int8: cover property (@(posedge clk) disable iff (rst)
    step && need_res && f_rtype[seq_slot] == DTYPE_INT8);
  c_residual_bf16: cover property (@(posedge clk) disable iff (rst)
    step && need_res && f_rtype[seq_slot] == DTYPE_BF16);
  c_residual_fp16: cover property (@(posedge clk) disable iff (rst)
    step && need_res && f_rtype[seq_slot] == DTYPE_FP16);
  c_residual_fp32: cover property (@(posedge clk) disable iff (rst)
    step && need_res && f_rtype[seq_slot] == DTYPE_FP32);
  c_words: cover property (@(posedge clk) disable iff (rst) next_valid && next_word != 8'd0);
  c_half0: cover property (@(posedge clk) disable iff (rst) acc_re && !acc_half);
  c_half1: cover property (@(posedge clk) disable iff (rst) acc_re && acc_half);
  c_one_row: cover property (@(posedge clk) disable iff (rst) acc_re && r1_first && r1_last);
  c_halted: cover property (@(posedge clk) disable iff (rst) halt && seq_valid);
`endif
endmodule
