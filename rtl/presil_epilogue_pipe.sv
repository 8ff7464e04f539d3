// SPDX-License-Identifier: Apache-2.0
// Arithmetic of the epilogue (docs/isa.md section 5): CELLS values a cycle through bias, fp32,
// scale, residual, clamp, conversion.
// Two descriptors may be inside: `slot` selects the fields and parameters of each.
// Latency: 7 cycles from the accumulator row to the first word of the output. Throughput: one row a
// cycle, or one output word a cycle.
// Reset: the valid bits; payload is not reset. Errors: none.
module presil_epilogue_pipe import presil_config_pkg::*, presil_desc_pkg::*, presil_fp_pkg::*; #(
  // words of a row of 4-byte elements
  localparam int unsigned RES_WORDS = (4 * CELLS + WORD - 1) / WORD,
  localparam int unsigned RES_BITS = (RES_WORDS > 1) ? $clog2(RES_WORDS) : 1
) (
  input  logic              clk,
  input  logic              rst,
  input  logic              cfg_valid,      /// take the arithmetic fields of a descriptor
  input  logic              cfg_slot,       /// slot they go to, 0 or 1
  input  epilogue_t         desc,           /// with cfg_valid
  input  logic              par_valid,      /// rdata is a parameter word
  input  logic              par_slot,       /// of the descriptor in this slot
  input  logic              par_scale,      /// of the scales, else of the biases
  input  logic [7:0]        par_word,       /// which of them: WORD/4 cells each
  input  logic              res_valid,      /// rdata is a residual word
  input  logic [RES_BITS-1:0] res_word,     /// which of its row
  input  logic [8*WORD-1:0] rdata,          /// scratchpad word
  /// acc_q is a row; its residual words have arrived, the last one in this cycle
  input  logic              row_valid,      /// rows come no faster than their output words go out
  input  logic              row_slot,       /// slot of its descriptor
  input  logic              row_first,      /// first row of the descriptor
  input  logic              row_last,       /// last row of the descriptor
  /// residual: where the row begins in its word, in units of 4 bytes
  input  logic [7:0]        row_quad,       /// 0 where a row does not share its word
  input  logic [31:0]       acc_q [CELLS],  /// sums, int32 or fp32 (field acc_fp32)
  output logic              next_valid,     /// out_valid of the next cycle, and what that word is:
  output logic              next_slot,      /// slot of its descriptor
  output logic              next_first,     /// first word of the descriptor
  output logic              next_head,      /// first word of its row
  output logic              next_last,      /// last word of the descriptor
  output logic [7:0]        next_word,      /// which of its row, from 0
  output logic              out_valid,      /// word of an output row; it cannot wait
  output logic [8*WORD-1:0] out_data,       /// a row that shares its word stands in every slot
  output logic              busy            /// a row is in the stages, or has words to put out
);
  logic unused;
  assign unused = &desc;                 // the fields of others, too
  localparam int unsigned QUADS = WORD / 4;
  localparam int unsigned WORDS1 = (CELLS + WORD - 1) / WORD;
  localparam int unsigned WORDS2 = (2 * CELLS + WORD - 1) / WORD;
  // a row of at most half a word is repeated so that it stands in every slot; its size as a power
  // of two, in units of 4 bytes
  localparam int unsigned SLOT1 = (CELLS > WORD / 2) ? QUADS : (1 << $clog2(CELLS)) / 4;
  localparam int unsigned SLOT2 = (2 * CELLS > WORD / 2) ? QUADS : (2 << $clog2(CELLS)) / 4;
  localparam int unsigned SLOT4 = (4 * CELLS > WORD / 2) ? QUADS : (4 << $clog2(CELLS)) / 4;

  typedef logic [31:0] cells_t [CELLS];
  typedef logic [31:0] quads_t [QUADS];

  // ---- fields of two descriptors
  logic c_fp32 [2], c_bias [2], c_scale [2], c_res [2], c_clamp [2];
  logic [3:0] c_rtype [2], c_otype [2];
  logic [31:0] c_rzp [2], c_rscale [2], c_lo [2], c_hi [2], c_keylo [2], c_keyhi [2], c_ozp [2],
      c_ilo [2], c_ihi [2];

  // order-preserving map of fp32 to unsigned; both zeros give the same
  function automatic logic [31:0] fp_key(input logic [31:0] f);
    logic [31:0] k;
    k = (f >= FP_SIGN) ? ~f : (f | FP_SIGN);
    return ((f & FP_INF) == 32'd0) ? FP_SIGN : k;
  endfunction

  function automatic logic is_nan(input logic [31:0] f);
    return (f & ~FP_SIGN) > FP_INF;
  endfunction

  logic [31:0] d_lo, d_hi;
  assign d_lo = desc.clamp_lo;
  assign d_hi = desc.clamp_hi;

  always_ff @(posedge clk) if (cfg_valid) begin
    c_fp32[cfg_slot] <= desc.acc_fp32;
    c_bias[cfg_slot] <= desc.bias_en;
    c_scale[cfg_slot] <= desc.scale_en;
    c_res[cfg_slot] <= desc.res_en;
    c_clamp[cfg_slot] <= desc.clamp_en;
    c_rtype[cfg_slot] <= desc.res_type;
    c_otype[cfg_slot] <= desc.out_type;
    c_rzp[cfg_slot] <= desc.res_zp;
    c_rscale[cfg_slot] <= desc.res_scale;
    c_lo[cfg_slot] <= d_lo;
    c_hi[cfg_slot] <= d_hi;
    // no value compares below or above a NaN
    c_keylo[cfg_slot] <= is_nan(d_lo) ? 32'd0 : fp_key(d_lo);
    c_keyhi[cfg_slot] <= is_nan(d_hi) ? 32'hffff_ffff : fp_key(d_hi);
    // offset binary: the compares are unsigned
    c_ozp[cfg_slot] <= desc.out_zp ^ FP_SIGN;
    c_ilo[cfg_slot] <= desc.int_lo ^ FP_SIGN;
    c_ihi[cfg_slot] <= desc.int_hi ^ FP_SIGN;
  end

  // ---- parameters and residual words
  cells_t bias [2], scale [2];
  logic [8*WORD-1:0] rbuf [RES_WORDS];

  function automatic cells_t new_bias();
    for (int unsigned c = 0; c < CELLS; c++)
      new_bias[c] = (c / QUADS == 32'(par_word)) ? rdata[32*(c % QUADS) +: 32] : bias[par_slot][c];
  endfunction

  function automatic cells_t new_scale();
    for (int unsigned c = 0; c < CELLS; c++)
      new_scale[c] = (c / QUADS == 32'(par_word)) ? rdata[32*(c % QUADS) +: 32]
          : scale[par_slot][c];
  endfunction

  always_ff @(posedge clk) begin
    if (par_valid) begin
      if (par_scale) scale[par_slot] <= new_scale();
      else bias[par_slot] <= new_bias();
    end
    if (res_valid) rbuf[res_word] <= rdata;
  end

  // ---- stages
  logic v2, v3, v4, v5, v6, v7;
  logic sl2, sl3, sl4, sl5, sl6, sl7;       // slot, first row, last row of each stage
  logic fi2, fi3, fi4, fi5, fi6, fi7;
  logic la2, la3, la4, la5, la6, la7;
  logic [7:0] quad2;
  cells_t s1, s2, s3, s4, s5, s6, r2, r3;
  quads_t o7;

  function automatic cells_t bias_int();
    for (int unsigned c = 0; c < CELLS; c++) bias_int[c] = acc_q[c] + bias[row_slot][c];
  endfunction

  function automatic cells_t bias_fp();
    for (int unsigned c = 0; c < CELLS; c++) bias_fp[c] = fp_add(acc_q[c], bias[row_slot][c]);
  endfunction

  function automatic cells_t to_fp();
    for (int unsigned c = 0; c < CELLS; c++) to_fp[c] = i2f(s1[c]);
  endfunction

  function automatic cells_t res_bytes();
    for (int unsigned j = 0; j < CELLS / 4; j++) begin
      logic [31:0] h;
      h = rbuf[0][32*(32'(quad2) + j) +: 32];
      res_bytes[4*j]     = (((h & 32'hff) ^ 32'h80) - 32'h80) - c_rzp[sl2];
      res_bytes[4*j + 1] = ((((h >> 8) & 32'hff) ^ 32'h80) - 32'h80) - c_rzp[sl2];
      res_bytes[4*j + 2] = ((((h >> 16) & 32'hff) ^ 32'h80) - 32'h80) - c_rzp[sl2];
      res_bytes[4*j + 3] = (((h >> 24) ^ 32'h80) - 32'h80) - c_rzp[sl2];
    end
  endfunction

  function automatic cells_t res_halves();
    for (int unsigned c = 0; c < CELLS; c++) begin
      logic [31:0] h;
      h = rbuf[RES_BITS'((c >> 1) / QUADS)][32*(32'(quad2) + ((c >> 1) % QUADS)) +: 32];
      res_halves[c] = ((c & 32'd1) != 32'd0) ? (h & 32'hffff_0000) : (h << 16);
    end
  endfunction

  function automatic cells_t res_fp16();
    res_fp16 = res_halves();
    for (int unsigned c = 0; c < CELLS; c++) res_fp16[c] = h2f(res_fp16[c]);
  endfunction

  function automatic cells_t res_words();
    for (int unsigned c = 0; c < CELLS; c++)
      res_words[c] = rbuf[RES_BITS'(c / QUADS)][32*(32'(quad2) + (c % QUADS)) +: 32];
  endfunction

  function automatic cells_t scaled();
    for (int unsigned c = 0; c < CELLS; c++) scaled[c] = fp_mul(s2[c], scale[sl3][c]);
  endfunction

  function automatic cells_t res_fp();
    for (int unsigned c = 0; c < CELLS; c++) res_fp[c] = i2f(r2[c]);
  endfunction

  function automatic cells_t res_scaled();
    cells_t f;
    f = res_fp();
    for (int unsigned c = 0; c < CELLS; c++) res_scaled[c] = fp_mul(f[c], c_rscale[sl3]);
  endfunction

  function automatic cells_t summed();
    for (int unsigned c = 0; c < CELLS; c++) summed[c] = fp_add(s3[c], r3[c]);
  endfunction

  function automatic cells_t clamped();
    for (int unsigned c = 0; c < CELLS; c++) begin
      logic [31:0] k, r;
      k = fp_key(s4[c]);
      r = (k > c_keyhi[sl5]) ? c_hi[sl5] : s4[c];
      r = (k < c_keylo[sl5]) ? c_lo[sl5] : r;
      clamped[c] = ((s4[c] & ~FP_SIGN) > FP_INF) ? s4[c] : r;
    end
  endfunction

  function automatic cells_t to_int8();
    for (int unsigned c = 0; c < CELLS; c++) begin
      logic [31:0] i, r;
      i = f2i(s5[c]) + c_ozp[sl6];
      r = (i > c_ihi[sl6]) ? c_ihi[sl6] : i;
      // also where the bounds are the wrong way round
      r = (i < c_ilo[sl6]) ? c_ilo[sl6] : r;
      to_int8[c] = r & 32'hff;
    end
  endfunction

  function automatic cells_t to_bf16();
    for (int unsigned c = 0; c < CELLS; c++) to_bf16[c] = f2b(s5[c]);
  endfunction

  function automatic cells_t to_fp16();
    for (int unsigned c = 0; c < CELLS; c++) to_fp16[c] = f2h(s5[c]);
  endfunction

  // the last stage first: no register is read behind an assignment to it
  always_ff @(posedge clk) begin
    v7 <= v6;
    if (v6) begin
      sl7 <= sl6; fi7 <= fi6; la7 <= la6;
      if (c_otype[sl6] == DTYPE_INT8) s6 <= to_int8();
      else if (c_otype[sl6] == DTYPE_BF16) s6 <= to_bf16();
      else if (c_otype[sl6] == DTYPE_FP16) s6 <= to_fp16();
      else s6 <= s5;
    end
    v6 <= v5;
    if (v5) begin
      sl6 <= sl5; fi6 <= fi5; la6 <= la5;
      if (c_clamp[sl5] && c_otype[sl5] != DTYPE_RAW32) s5 <= clamped();
      else s5 <= s4;
    end
    v5 <= v4;
    if (v4) begin
      sl5 <= sl4; fi5 <= fi4; la5 <= la4;
      if (c_res[sl4] && c_otype[sl4] != DTYPE_RAW32) s4 <= summed();
      else s4 <= s3;
    end
    v4 <= v3;
    if (v3) begin
      sl4 <= sl3; fi4 <= fi3; la4 <= la3;
      if (c_scale[sl3] && c_otype[sl3] != DTYPE_RAW32) s3 <= scaled();
      else s3 <= s2;
      if (c_res[sl3]) begin
        if (c_rtype[sl3] == DTYPE_INT8) r3 <= res_scaled();
        else r3 <= r2;
      end
    end
    v3 <= v2;
    if (v2) begin
      sl3 <= sl2; fi3 <= fi2; la3 <= la2;
      if (c_fp32[sl2] || c_otype[sl2] == DTYPE_RAW32) s2 <= s1;
      else s2 <= to_fp();
      if (c_res[sl2]) begin
        if (c_rtype[sl2] == DTYPE_INT8) r2 <= res_bytes();
        else if (c_rtype[sl2] == DTYPE_BF16) r2 <= res_halves();
        else if (c_rtype[sl2] == DTYPE_FP16) r2 <= res_fp16();
        else r2 <= res_words();
      end
    end
    v2 <= row_valid;
    if (row_valid) begin
      sl2 <= row_slot; fi2 <= row_first; la2 <= row_last;
      quad2 <= row_quad;
      if (!c_bias[row_slot]) s1 <= acc_q;
      else if (c_fp32[row_slot]) s1 <= bias_fp();
      else s1 <= bias_int();
    end
    if (rst) begin
      v2 <= 1'b0; v3 <= 1'b0; v4 <= 1'b0; v5 <= 1'b0; v6 <= 1'b0; v7 <= 1'b0;
    end
  end

  // ---- output words
  logic [7:0] word7;
  logic slot7, last7, more7;               // more7: further words of the row whose first one is out
  logic [31:0] wsel;
  assign wsel = v7 ? 32'd0 : 32'(word7);

  function automatic quads_t pack1();
    for (int unsigned q = 0; q < QUADS; q++) begin
      logic [31:0] c;
      c = 4 * (q % SLOT1) + wsel * WORD;
      pack1[q] = (c < CELLS) ? (s6[c] | (s6[c + 1] << 8) | (s6[c + 2] << 16) | (s6[c + 3] << 24))
          : 32'd0;
    end
  endfunction

  function automatic quads_t pack2();
    for (int unsigned q = 0; q < QUADS; q++) begin
      logic [31:0] c;
      c = 2 * (q % SLOT2) + wsel * (WORD / 2);
      pack2[q] = (c < CELLS) ? (s6[c] | (s6[c + 1] << 16)) : 32'd0;
    end
  endfunction

  function automatic quads_t pack4();
    for (int unsigned q = 0; q < QUADS; q++) begin
      logic [31:0] c;
      c = (q % SLOT4) + wsel * QUADS;
      pack4[q] = (c < CELLS) ? s6[c] : 32'd0;
    end
  endfunction

  logic [3:0] next_type;
  logic [7:0] next_words;
  assign next_valid = v7 || more7;
  assign next_slot = v7 ? sl7 : slot7;
  assign next_head = v7;
  assign next_first = v7 && fi7;
  assign next_word = wsel[7:0];
  assign next_type = c_otype[next_slot];
  assign next_words = (next_type == DTYPE_INT8) ? 8'(WORDS1) : two_bytes(next_type)
      ? 8'(WORDS2) : 8'(RES_WORDS);
  assign next_last = (v7 ? la7 : last7) && wsel[7:0] + 8'd1 == next_words;

  always_ff @(posedge clk) begin
    out_valid <= next_valid;
    if (next_valid) begin
      if (next_type == DTYPE_INT8) o7 <= pack1();
      else if (two_bytes(next_type)) o7 <= pack2();
      else o7 <= pack4();
      more7 <= wsel[7:0] + 8'd1 != next_words;
      word7 <= wsel[7:0] + 8'd1;
      if (v7) begin
        slot7 <= sl7;
        last7 <= la7;
      end
    end
    if (rst) begin
      out_valid <= 1'b0;
      more7 <= 1'b0;
    end
  end

  for (genvar g = 0; g < QUADS; g++) begin : g_out
    assign out_data[32*g +: 32] = o7[g];
  end

  assign busy = v2 || v3 || v4 || v5 || v6 || v7 || more7 || out_valid;

`ifndef SYNTHESIS
  a_pace: assert property (@(posedge clk) disable iff (rst) !(v7 && more7));
  // of the first cell
  logic [31:0] i6, k5;
  assign i6 = f2i(s5[0]) + c_ozp[sl6];
  assign k5 = fp_key(s4[0]);
  c_saturates_high: cover property (@(posedge clk) disable iff (rst)
    v6 && c_otype[sl6] == DTYPE_INT8 && i6 > c_ihi[sl6]);
  c_saturates_low: cover property (@(posedge clk) disable iff (rst)
    v6 && c_otype[sl6] == DTYPE_INT8 && i6 < c_ilo[sl6]);
  c_clamped_high: cover property (@(posedge clk) disable iff (rst)
    v5 && c_otype[sl5] != DTYPE_RAW32 && c_clamp[sl5] && k5 > c_keyhi[sl5]);
  c_clamped_low: cover property (@(posedge clk) disable iff (rst)
    v5 && c_otype[sl5] != DTYPE_RAW32 && c_clamp[sl5] && k5 < c_keylo[sl5]);
  c_nan: cover property (@(posedge clk) disable iff (rst) v6 && is_nan(s5[0]));
  c_infinite: cover property (@(posedge clk) disable iff (rst)
    v6 && (s5[0] & ~FP_SIGN) == FP_INF && c_otype[sl6] != DTYPE_RAW32);
  c_bias_int: cover property (@(posedge clk) disable iff (rst) v2 && c_bias[sl2] && !c_fp32[sl2]);
  c_bias_fp: cover property (@(posedge clk) disable iff (rst) v2 && c_bias[sl2] && c_fp32[sl2]);
  c_scaled: cover property (@(posedge clk) disable iff (rst) v3 && c_scale[sl3]);
  c_two_descriptors: cover property (@(posedge clk) disable iff (rst) v2 && v3 && sl2 != sl3);
`endif
endmodule
