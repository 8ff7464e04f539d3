// SPDX-License-Identifier: Apache-2.0
// Address generator of the matrix engine: channel block, kernel row, kernel column, output row,
// output column (docs/isa.md section 4).
// Throughput: one activation row a cycle, without a bubble between descriptors. Latency: 2 cycles
// from descriptor to first row, and 16 more where input dilation needs divisions (hidden while an
// earlier descriptor runs).
// Positions are kept as quotient and remainder by the input dilation, so that no step divides.
// A depthwise descriptor walks its window once, as if that were the output: row_emit tells where a
// result ends.
// Reset: the valid bits. Errors: none (fields are checked at decode).
module presil_agen import presil_config_pkg::*, presil_desc_pkg::*; (
  input  logic        clk,
  input  logic        rst,
  input  logic        in_valid,       /// MATRIX descriptor
  output logic        in_ready,       /// room for the one behind the running one
  input  matrix_t     desc,           /// its fields, with in_valid
  input  logic [31:0] index,          /// its ring count
  output logic        row_valid,      /// a row waits to be read; stays, with row_*, until row_take
  input  logic        row_take,       /// the row is granted in this cycle
  output logic [15:0] row_addr,       /// scratchpad word of an inside row
  output logic        row_pad,        /// outside: not read, every lane is padding
  output logic [7:0]  row_pad_byte,   /// padding of int8; floats are padded with zeros
  output logic [$clog2(ACC_ROWS)-1:0] row_acc,  /// accumulator row of its sums, in row_half
  output logic        row_end,        /// last row of its weight block
  output logic        row_last,       /// last row of its descriptor
  output logic        row_first,      /// the old accumulator counts as +0
  output logic        row_half,       /// accumulator half, 0 or 1
  output logic        row_float,      /// elements are bf16 or fp16, else int8
  output logic        row_fp16,       /// fp16, with row_float
  output logic        row_skip,       /// field skip_special: infinities and NaNs count as zeros
  output logic        row_depthwise,  /// the row is a position of a depthwise window
  output logic        row_emit,       /// a sum is complete with this row; always, but in a window
  output logic [7:0]  row_extra,      /// depthwise: cells beside one that an element belongs to
  output logic [5:0]  row_x,          /// depthwise: position in the window's row
  output logic [2:0]  row_kx,         /// and columns of the kernel, 1 to WINDOW
  output logic [2:0]  row_ky,         /// and its rows, 1 to WINDOW
  output logic [31:0] row_index       /// ring count of its descriptor
);
  logic unused;
  assign unused = &desc;                 // the fields of others, too
  // ---- set-up: fields of the next descriptor, offsets divided by idx, idy
  localparam int unsigned NDIV = 6;   // ox, sx, dx, oy, sy, dy
  logic set_valid, set_load, set_ready;
  logic [4:0]  div_left;
  logic [15:0] quo [NDIV];
  logic [8:0]  rem [NDIV];
  logic neg_x, neg_y;
  logic [15:0] s_nx, s_ny, s_ncb, s_lim_x, s_lim_y, s_x_stride, s_y_stride, s_cb_stride, s_act_base;
  logic [$clog2(ACC_ROWS)-1:0] s_acc_base, acc_base, acc;
  logic [7:0]  s_kx, s_ky, s_idx, s_idy, s_pad;
  logic s_float, s_fp16, s_first, s_half, s_skip, s_depthwise, s_two_x, s_two_y;
  logic [2:0]  s_wx, s_wy;
  logic [7:0]  s_extra;
  logic [31:0] s_index;

  // depthwise: steps of one position, and results on each or every other of them
  logic d_two_x, d_two_y;
  assign d_two_x = desc.sx != desc.dx;
  assign d_two_y = desc.sy != desc.dy;

  function automatic logic [15:0] walked(input logic [15:0] n, input logic two,
      input logic [7:0] k);
    return ((n - 16'd1) << two) + {8'd0, k};
  endfunction
  assign in_ready = !set_valid;
  assign set_ready = set_valid && div_left == 5'd0;

  always_ff @(posedge clk) begin
    if (set_load) set_valid <= 1'b0;
    if (set_valid && div_left != 5'd0) begin
      // one quotient bit of each, most significant first
      for (int unsigned k = 0; k < NDIV; k++) begin
        logic [8:0] r, d;
        r = {rem[k][7:0], quo[k][15]};
        d = {1'b0, (k < 3) ? s_idx : s_idy};
        quo[k] <= {quo[k][14:0], r >= d};
        rem[k] <= (r >= d) ? (r - d) : r;
      end
      div_left <= div_left - 5'd1;
    end
    if (in_valid && in_ready) begin
      set_valid <= 1'b1;
      neg_x <= desc.ox[15];
      neg_y <= desc.oy[15];
      quo[0] <= desc.ox[15] ? (16'd0 - desc.ox) : desc.ox;
      quo[1] <= desc.depthwise ? desc.dx : desc.sx;
      quo[2] <= desc.dx;
      quo[3] <= desc.oy[15] ? (16'd0 - desc.oy) : desc.oy;
      quo[4] <= desc.depthwise ? desc.dy : desc.sy;
      quo[5] <= desc.dy;
      for (int unsigned k = 0; k < NDIV; k++) rem[k] <= 9'd0;
      div_left <= (desc.idx == 8'd1 && desc.idy == 8'd1) ? 5'd0 : 5'd16;
      s_nx <= desc.depthwise ? walked(desc.nx, d_two_x, desc.kx) : desc.nx;
      s_ny <= desc.depthwise ? walked(desc.ny, d_two_y, desc.ky) : desc.ny;
      s_kx <= desc.depthwise ? 8'd1 : desc.kx;
      s_ky <= desc.depthwise ? 8'd1 : desc.ky;
      s_depthwise <= desc.depthwise;
      s_two_x <= d_two_x;
      s_two_y <= d_two_y;
      s_extra <= desc.extra_cells;
      s_wx <= desc.kx[2:0];
      s_wy <= desc.ky[2:0];
      s_ncb <= desc.ncb;
      s_lim_x <= desc.lim_x;
      s_lim_y <= desc.lim_y;
      s_x_stride <= desc.x_stride;
      s_y_stride <= desc.y_stride;
      s_cb_stride <= desc.cb_stride;
      s_acc_base <= desc.acc_base[$clog2(ACC_ROWS)-1:0];
      s_act_base <= desc.act_base;
      s_idx <= desc.idx;
      s_idy <= desc.idy;
      s_pad <= desc.pad;
      s_float <= desc.dtype != DTYPE_INT8;
      s_fp16 <= desc.dtype == DTYPE_FP16;
      s_first <= desc.first;
      s_half <= desc.half;
      s_skip <= desc.skip_special;
      s_index <= index;
    end
    if (rst) set_valid <= 1'b0;
  end

  // ---- running descriptor
  logic run_valid, adv, end_x, end_y, end_kx, end_ky, end_cb, blk_end, desc_end, emit;
  logic [15:0] nx, ny, ncb, lim_x, lim_y, x_stride, y_stride, cb_stride;
  logic [7:0]  kxn, kyn, idx, idy, pad;
  logic floats, fp16, first, half, skip, depthwise, two_x, two_y;
  logic [2:0]  wx, wy;
  logic [7:0]  extra;
  logic [31:0] id;
  logic [15:0] x, y, cb, cb_addr;
  logic [7:0]  kx, ky;
  // quotients: stride, dilation, origin
  logic [31:0] step_xq, kern_xq, step_yq, kern_yq, org_xq, org_yq;
  logic [8:0]  step_xr, kern_xr, step_yr, kern_yr, org_xr, org_yr;      // remainders
  // position, and position of the block's first column and row
  logic [31:0] xq, yq, kxq, kyq;
  logic [8:0]  xr, yr, kxr, kyr;

  function automatic logic [31:0] origin_quo(input logic [15:0] q, input logic [8:0] r,
      input logic neg);
    return neg ? (32'd0 - {16'd0, q} - ((r != 9'd0) ? 32'd1 : 32'd0)) : {16'd0, q};
  endfunction

  function automatic logic [8:0] origin_rem(input logic [8:0] r, input logic [7:0] d,
      input logic neg);
    return (neg && r != 9'd0) ? ({1'b0, d} - r) : r;
  endfunction

  assign end_x = x + 16'd1 == nx;
  assign end_y = y + 16'd1 == ny;
  assign end_kx = kx + 8'd1 == kxn;
  assign end_ky = ky + 8'd1 == kyn;
  assign end_cb = cb + 16'd1 == ncb;
  assign blk_end = end_x && end_y;

  // position i of the window's row or column: a result ends there
  function automatic logic ends(input logic [15:0] i, input logic [2:0] k, input logic two);
    return i + 16'd1 >= {13'd0, k} && !(two && i[0] == k[0]);
  endfunction
  assign emit = !depthwise || (ends(x, wx, two_x) && ends(y, wy, two_y));
  assign desc_end = blk_end && end_kx && end_ky && end_cb;
  assign adv = run_valid && (!row_valid || row_take);
  assign set_load = set_ready && (!run_valid || (adv && desc_end));

  // ---- the walk: output columns and rows, kernel columns and rows, channel blocks
  // A step of a position, as quotient and remainder by the dilation d.
  function automatic logic [40:0] stepped(input logic [31:0] q, input logic [8:0] r,
      input logic [31:0] step_q, input logic [8:0] step_r, input logic [7:0] d);
    logic [8:0] sum;
    logic carry;
    sum = r + step_r;
    carry = sum >= {1'b0, d};
    return {q + step_q + {31'd0, carry}, carry ? (sum - {1'b0, d}) : sum};
  endfunction

  // The process's parts, a screen each. No register is read behind an assignment to it in the text,
  // here and elsewhere: a simulator would keep a shadow copy of it, as it would for parts that are
  // processes.
  function automatic void put_row();
    row_addr <= cb_addr + xq[15:0] * x_stride + yq[15:0] * y_stride;
    row_pad <= !(xq < {16'd0, lim_x} && yq < {16'd0, lim_y} && xr == 9'd0 && yr == 9'd0);
    row_pad_byte <= pad;
    row_acc <= acc;
    row_end <= blk_end;
    row_last <= desc_end;
    row_first <= first && cb == 16'd0 && ky == 8'd0 && kx == 8'd0;
    row_half <= half;
    row_float <= floats;
    row_fp16 <= fp16;
    row_skip <= skip;
    row_depthwise <= depthwise;
    row_emit <= emit;
    row_extra <= extra;
    row_x <= x[5:0];
    row_kx <= wx;
    row_ky <= wy;
    row_index <= id;
  endfunction

  function automatic void step();
    logic [31:0] q;
    logic [8:0] r;
    acc <= blk_end ? acc_base : (acc + {{($bits(acc)-1){1'b0}}, emit});
    if (!end_x) begin
      x <= x + 16'd1;
      {xq, xr} <= stepped(xq, xr, step_xq, step_xr, idx);
    end else begin
      x <= 16'd0;
      xq <= kxq; xr <= kxr;
      if (!end_y) begin
        y <= y + 16'd1;
        {yq, yr} <= stepped(yq, yr, step_yq, step_yr, idy);
      end else begin
        y <= 16'd0;
        yq <= kyq; yr <= kyr;
        if (!end_kx) begin
          kx <= kx + 8'd1;
          {q, r} = stepped(kxq, kxr, kern_xq, kern_xr, idx);
          xq <= q; kxq <= q; xr <= r; kxr <= r;
        end else begin
          kx <= 8'd0;
          kxq <= org_xq; kxr <= org_xr; xq <= org_xq; xr <= org_xr;
          if (!end_ky) begin
            ky <= ky + 8'd1;
            {q, r} = stepped(kyq, kyr, kern_yq, kern_yr, idy);
            yq <= q; kyq <= q; yr <= r; kyr <= r;
          end else begin
            ky <= 8'd0;
            kyq <= org_yq; kyr <= org_yr; yq <= org_yq; yr <= org_yr;
            cb <= cb + 16'd1;
            cb_addr <= cb_addr + cb_stride;
          end
        end
      end
    end
  endfunction

  function automatic void start();
    logic [31:0] q;
    logic [8:0] r;
    nx <= s_nx; ny <= s_ny; kxn <= s_kx; kyn <= s_ky; ncb <= s_ncb; lim_x <= s_lim_x;
    lim_y <= s_lim_y;
    x_stride <= s_x_stride; y_stride <= s_y_stride; cb_stride <= s_cb_stride;
    acc_base <= s_acc_base;
    idx <= s_idx; idy <= s_idy; pad <= s_pad; floats <= s_float; fp16 <= s_fp16;
    first <= s_first; half <= s_half; skip <= s_skip;
    depthwise <= s_depthwise; two_x <= s_two_x; two_y <= s_two_y; wx <= s_wx; wy <= s_wy;
    extra <= s_extra;
    id <= s_index;
    step_xq <= {16'd0, quo[1]}; step_xr <= rem[1]; kern_xq <= {16'd0, quo[2]}; kern_xr <= rem[2];
    step_yq <= {16'd0, quo[4]}; step_yr <= rem[4]; kern_yq <= {16'd0, quo[5]}; kern_yr <= rem[5];
    q = origin_quo(quo[0], rem[0], neg_x);
    r = origin_rem(rem[0], s_idx, neg_x);
    org_xq <= q; xq <= q; kxq <= q; org_xr <= r; xr <= r; kxr <= r;
    q = origin_quo(quo[3], rem[3], neg_y);
    r = origin_rem(rem[3], s_idy, neg_y);
    org_yq <= q; yq <= q; kyq <= q; org_yr <= r; yr <= r; kyr <= r;
    x <= 16'd0; y <= 16'd0; kx <= 8'd0; ky <= 8'd0; cb <= 16'd0;
    cb_addr <= s_act_base; acc <= s_acc_base;
  endfunction

  always_ff @(posedge clk) begin
    if (adv) begin
      row_valid <= 1'b1;
      put_row();
      if (desc_end) run_valid <= 1'b0;
      step();
    end else if (row_take) begin
      row_valid <= 1'b0;
    end
    if (set_load) begin
      run_valid <= 1'b1;
      start();
    end
    if (rst) begin
      run_valid <= 1'b0;
      row_valid <= 1'b0;
    end
  end

`ifndef SYNTHESIS
  c_dilated: cover property (@(posedge clk) disable iff (rst) set_valid && div_left != 5'd0);
  c_no_bubble: cover property (@(posedge clk) disable iff (rst) set_load && adv);
  c_before: cover property (@(posedge clk) disable iff (rst) set_load && (neg_x || neg_y));
  c_kernel_column: cover property (@(posedge clk) disable iff (rst) adv && blk_end && !end_kx);
  c_kernel_row: cover property (@(posedge clk) disable iff (rst)
    adv && blk_end && end_kx && !end_ky);
  c_channels: cover property (@(posedge clk) disable iff (rst)
    adv && blk_end && end_kx && end_ky && !end_cb);
  c_hole: cover property (@(posedge clk) disable iff (rst) adv && (xr != 9'd0 || yr != 9'd0));
  c_one_row: cover property (@(posedge clk) disable iff (rst)
    adv && desc_end && cb == 16'd0 && kx == 8'd0 && ky == 8'd0 && x == 16'd0 && y == 16'd0);
  c_waits: cover property (@(posedge clk) disable iff (rst) row_valid && !row_take);
  a_last_emits: assert property (@(posedge clk) disable iff (rst)
    row_valid && row_last |-> row_emit);
  a_line: assert property (@(posedge clk) disable iff (rst)
    run_valid && depthwise |-> nx <= 16'd64);
  c_window: cover property (@(posedge clk) disable iff (rst)
    row_valid && row_depthwise && !row_emit);
  c_every_other: cover property (@(posedge clk) disable iff (rst)
    adv && depthwise && (two_x != two_y) && emit);
  c_wide: cover property (@(posedge clk) disable iff (rst) adv && depthwise && x == 16'd63);
`endif
endmodule
