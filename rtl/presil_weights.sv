// SPDX-License-Identifier: Apache-2.0
// Weight loader of the matrix engine: reads the blocks of a descriptor, CELLS words each, into
// alternating weight sets, up to two blocks ahead of the one whose rows have all been granted; it
// runs on into the next descriptor.
// Because rows and weights both take two cycles from grant to operand, grants alone order them: a
// row may be granted once all words of its block have been, and a set may be requested again once
// the last row of its old block has been granted.
// A depthwise block has a word for each of the kernel's positions instead; it goes to the lane that
// its activation has in the window: WINDOW a row, counted from the kernel's last position.
// Throughput: one word a cycle, without a bubble between blocks or descriptors. Reset: synchronous.
// Errors: none.
module presil_weights import presil_config_pkg::*, presil_desc_pkg::*, presil_dot_pkg::*; (
  input  logic        clk,
  input  logic        rst,
  input  logic        halt,           /// request nothing more
  input  logic        in_valid,       /// MATRIX descriptor
  output logic        in_ready,       /// also in the cycle of the last grant of the one before
  input  matrix_t     desc,           /// its fields, with in_valid
  input  logic [31:0] index,          /// its ring count
  input  logic        block_done,     /// the last row of a block is granted in this cycle
  output logic        block_ready,    /// the oldest unfinished block's weights are all granted
  output logic        row_set,        /// and lie in this set, 0 or 1
  output logic        rd_valid,       /// scratchpad read port
  output logic [15:0] rd_addr,        /// word address
  output logic [31:0] rd_index,       /// ring count of the request's descriptor
  input  logic        rd_ready,       /// grant, in the cycle of the request
  output logic        arr_valid,      /// two cycles after the grant, beside the data: where it goes
  output logic        arr_set,        /// set that takes the word, 0 or 1
  output logic [CELL_BITS-1:0] arr_cell,  /// cell of the word; depthwise: the lane
  output logic        arr_first,      /// first word of its block
  output logic        arr_depthwise,  /// a lane's weights for all cells, else all lanes of a cell
  output logic        arr_float,      /// elements are bf16 or fp16, else int8
  output logic        arr_fp16,       /// fp16, with arr_float
  output logic        arr_skip,       /// field skip_special: infinities and NaNs count as zeros
  output logic        arr_absent,     /// field absent: its code contributes nothing
  output logic        busy            /// words are granted and have not all come
);
  logic unused;
  assign unused = &desc;                 // the fields of others, too
  localparam logic [CELL_BITS-1:0] LAST_CELL = CELL_BITS'(CELLS - 1);

  logic valid, floats, fp16, skip, absent, depthwise, last_col, last_row, last_cb, grant, block_end,
      desc_end, load_set;
  logic [15:0] addr, row_addr, cb_left;   // row_addr: of the kernel row's first column
  logic [15:0] x_stride, y_stride;        // depthwise
  logic [7:0] kx_left, ky_left, kxn, kyn;
  logic [CELL_BITS-1:0] cell_no;
  // blocks begun, and completely granted, beyond those finished: 0 to 2
  logic [1:0] begun, full;
  logic [31:0] id;

  assign last_col = kx_left == 8'd1;
  assign last_row = ky_left == 8'd1;
  assign last_cb = cb_left == 16'd1;
  assign rd_valid = valid && !halt && (cell_no != '0 || begun != 2'd2);
  assign rd_addr = addr;
  assign rd_index = id;
  assign grant = rd_valid && rd_ready;
  assign block_end = grant && (depthwise ? (last_col && last_row) : (cell_no == LAST_CELL));
  assign desc_end = block_end && last_col && last_row && last_cb;
  assign in_ready = !valid || desc_end;
  assign block_ready = full != 2'd0;

  logic p_valid, p_set, p_float, p_fp16, p_skip, p_absent, p_first, p_depthwise;
  logic [CELL_BITS-1:0] p_cell, lane;
  assign lane = CELL_BITS'(kx_left - 8'd1)
      + CELL_BITS'(WINDOW) * CELL_BITS'(ky_left - 8'd1);
  assign busy = p_valid || arr_valid;

  always_ff @(posedge clk) begin
    arr_valid <= p_valid;
    if (p_valid) begin
      arr_set <= p_set; arr_cell <= p_cell; arr_float <= p_float; arr_fp16 <= p_fp16;
      arr_skip <= p_skip; arr_absent <= p_absent;
      arr_first <= p_first; arr_depthwise <= p_depthwise;
    end
    if (grant) begin
      addr <= !depthwise ? addr + 16'd1 : last_col ? row_addr + y_stride : addr + x_stride;
      if (last_col) row_addr <= row_addr + y_stride;
      if (block_end || depthwise) begin
        kx_left <= last_col ? kxn : (kx_left - 8'd1);
        if (last_col) ky_left <= last_row ? kyn : (ky_left - 8'd1);
        if (last_col && last_row) cb_left <= cb_left - 16'd1;
      end
      if (desc_end) valid <= 1'b0;
    end
    if (grant) begin
      p_set <= load_set; p_cell <= depthwise ? lane : cell_no; p_float <= floats; p_fp16 <= fp16;
      p_skip <= skip; p_absent <= absent;
      p_first <= cell_no == '0; p_depthwise <= depthwise;
    end
    begun <= begun + {1'b0, grant && cell_no == '0} - {1'b0, block_done};
    full <= full + {1'b0, block_end} - {1'b0, block_done};
    if (grant) cell_no <= block_end ? '0 : (cell_no + 1'b1);
    if (block_end) load_set <= !load_set;
    if (block_done) row_set <= !row_set;
    p_valid <= grant;
    if (in_valid && in_ready) begin
      valid <= 1'b1;
      addr <= desc.wgt_base;
      kxn <= desc.kx;
      kyn <= desc.ky;
      kx_left <= desc.kx;
      ky_left <= desc.ky;
      cb_left <= desc.ncb;
      floats <= desc.dtype != DTYPE_INT8;
      fp16 <= desc.dtype == DTYPE_FP16;
      skip <= desc.skip_special;
      absent <= desc.absent;
      depthwise <= desc.depthwise;
      row_addr <= desc.wgt_base;
      x_stride <= desc.wgt_x_stride;
      y_stride <= desc.wgt_y_stride;
      id <= index;
    end
    if (rst) begin
      valid <= 1'b0; cell_no <= '0; begun <= 2'd0; full <= 2'd0; load_set <= 1'b0; row_set <= 1'b0;
      p_valid <= 1'b0; arr_valid <= 1'b0;
    end
  end

`ifndef SYNTHESIS
  a_ahead: assert property (@(posedge clk) disable iff (rst) full <= begun && begun <= 2'd2);
  a_done: assert property (@(posedge clk) disable iff (rst) !(block_done && !block_ready));
  c_two_ahead: cover property (@(posedge clk) disable iff (rst) full == 2'd2);
  c_waits: cover property (@(posedge clk) disable iff (rst) rd_valid && !rd_ready);
  c_held_back: cover property (@(posedge clk) disable iff (rst)
    valid && cell_no == '0 && begun == 2'd2);
  c_runs_on: cover property (@(posedge clk) disable iff (rst) in_valid && in_ready && valid);
  c_set0: cover property (@(posedge clk) disable iff (rst) arr_valid && !arr_set);
  c_set1: cover property (@(posedge clk) disable iff (rst) arr_valid && arr_set);
  c_absent: cover property (@(posedge clk) disable iff (rst) arr_valid && arr_absent);
  c_kernel: cover property (@(posedge clk) disable iff (rst)
    grant && depthwise && !last_col && !last_row);
  c_rows_wait: cover property (@(posedge clk) disable iff (rst) valid && !block_ready);
`endif
endmodule
