// SPDX-License-Identifier: Apache-2.0
// Matrix engine: address generator, weight loader, dot-product array, two accumulator memories
// (docs/isa.md section 4).
// Throughput: one activation row a cycle; no bubble between blocks or descriptors that have at
// least CELLS rows. With fewer rows:
// CELLS cycles a block. Latency from the start of a descriptor to its done: CELLS + rows + 9
// cycles.
// Reset: synchronous, active high; memories and payload are not reset. Errors: none of its own;
// act_index and wgt_index name the descriptor of the request on the port, for the scratchpad's
// range check. PARITY: acc_bad and line_bad are of the row that has come in this cycle.
module presil_matrix import presil_config_pkg::*, presil_desc_pkg::*, presil_dot_pkg::*,
    presil_engine_pkg::*; (
  input  logic              clk,
  input  logic              rst,
  input  command_t          command,        /// the next descriptor
  output status_t           status,         /// of those that were taken
  input  logic              halt,           /// request nothing more; what is on its way completes
  output logic              act_valid,      /// scratchpad read port: activations
  output logic [15:0]       act_addr,       /// word address
  output logic [31:0]       act_index,      /// ring count of the request's descriptor
  input  logic              act_ready,      /// grant, in the cycle of the request
  input  logic              act_rvalid,     /// two cycles after the grant
  input  logic [8*WORD-1:0] act_rdata,      /// word; the first LANES bytes count
  output logic              wgt_valid,      /// scratchpad read port: weights
  output logic [15:0]       wgt_addr,       /// word address
  output logic [31:0]       wgt_index,      /// ring count of the request's descriptor
  input  logic              wgt_ready,      /// grant, in the cycle of the request
  input  logic              wgt_rvalid,     /// two cycles after the grant
  input  logic [8*WORD-1:0] wgt_rdata,      /// word; the first LANES bytes count
  /// accumulator read port of the epilogue: acc_q one cycle later
  input  logic              acc_re,         /// read; never of a half told as taken for this cycle
  input  logic              acc_half,       /// half that is read, with acc_re
  input  logic [$clog2(ACC_ROWS)-1:0] acc_row,  /// row of the half, with acc_re
  output logic [31:0]       acc_q [CELLS],  /// sums, int32 or fp32 as their descriptor left them
  /// the read port of half h belongs to this engine in the next cycle: no acc_re then
  output logic [1:0]        acc_taken,      /// bit h for half h
  output logic              acc_bad,        /// a row of wrong parity; 0 without PARITY
  output logic              acc_bad_epilogue,  /// who read it: 1 the epilogue, 0 this engine
  output logic [31:0]       acc_bad_row,    /// half * ACC_ROWS + row
  output logic              line_bad,       /// a word above of wrong parity; 0 without PARITY
  output logic [31:0]       line_bad_at     /// (rows above - 1) * 64 + position
);
  // ---- engine port
  matrix_t start_desc;
  logic start_ready, done, active, idle;
  logic [3:0] cause;
  assign start_desc = command.desc;
  assign status = '{ready: start_ready, done: done, active: active, idle: idle, cause: cause};

  localparam int unsigned ROW_BITS = $clog2(ACC_ROWS);

  // ---- descriptors: one running, one behind it
  logic agen_ready, wgt_in_ready, take;
  logic [2:0] held;                   // descriptors taken and not done
  assign start_ready = agen_ready && wgt_in_ready && !halt;
  assign take = command.valid && start_ready;

  logic row_valid, row_take, row_pad, row_end, row_last, row_first, row_half, row_float, row_fp16,
      row_skip, can, ready_set, row_set;
  logic [ROW_BITS-1:0] row_acc;
  logic [7:0] row_pad_byte;

  logic row_depthwise, row_emit;
  logic [5:0] row_x;
  logic [2:0] row_kx, row_ky;
  logic [7:0] row_extra;

  presil_agen u_agen (.clk, .rst, .in_valid(take), .in_ready(agen_ready), .desc(start_desc),
      .index(command.index), .row_valid, .row_take, .row_addr(act_addr), .row_pad, .row_pad_byte,
      .row_acc, .row_end, .row_last, .row_first, .row_half, .row_float, .row_fp16, .row_skip,
      .row_depthwise, .row_emit, .row_extra, .row_x, .row_kx, .row_ky, .row_index(act_index));

  logic arr_wgt_set, arr_wgt_float, arr_wgt_fp16, arr_wgt_skip, arr_wgt_absent, arr_wgt_first,
      arr_wgt_depthwise, arr_wgt_valid, wgt_busy;
  logic [CELL_BITS-1:0] arr_wgt_cell;

  presil_weights u_weights (.clk, .rst, .halt, .in_valid(take), .in_ready(wgt_in_ready),
      .desc(start_desc), .index(command.index), .block_done(row_take && row_end),
      .block_ready(ready_set), .row_set, .rd_valid(wgt_valid), .rd_addr(wgt_addr),
      .rd_index(wgt_index), .rd_ready(wgt_ready), .arr_valid(arr_wgt_valid), .arr_set(arr_wgt_set),
      .arr_cell(arr_wgt_cell), .arr_first(arr_wgt_first), .arr_depthwise(arr_wgt_depthwise),
      .arr_float(arr_wgt_float), .arr_fp16(arr_wgt_fp16), .arr_skip(arr_wgt_skip),
      .arr_absent(arr_wgt_absent), .busy(wgt_busy));

  // ---- rows: two cycles from grant to data, read or not
  assign can = row_valid && ready_set && !halt;
  assign act_valid = can && !row_pad;
  assign row_take = can && (row_pad || act_ready);

  typedef struct packed {
    logic pad, set, first, last, half, floats, fp16, skip, depthwise, emit;
    logic [2:0] kx, ky;
    logic [7:0] extra;
    logic [5:0] x;
    logic [7:0] pad_byte;
    logic [ROW_BITS-1:0] acc;
  } row_t;
  row_t p1, p2;
  logic p1_valid, p2_valid;

  always_ff @(posedge clk) begin
    p1_valid <= row_take;
    p2_valid <= p1_valid;
    if (row_take)
      p1 <= '{pad: row_pad, set: row_set, first: row_first, last: row_last, half: row_half,
          floats: row_float, fp16: row_fp16, skip: row_skip, depthwise: row_depthwise,
          emit: row_emit, kx: row_kx, ky: row_ky, extra: row_extra, x: row_x,
          pad_byte: row_pad_byte, acc: row_acc};
    if (p1_valid) p2 <= p1;
    if (rst) begin
      p1_valid <= 1'b0;
      p2_valid <= 1'b0;
    end
  end

  // ---- depthwise: an element for each cell, and the rows above
  localparam int unsigned QUADS = LANES / 4;
  typedef logic [31:0] quads_t [QUADS];

  // [n - 1] is 2^16 / n, rounded up: c times it, without its low 16 bits, is c / n up to 256
  typedef logic [$clog2(CELLS)-1:0] cell_t;
  typedef logic [$clog2(QUADS)-1:0] quad_t;
  typedef logic [CELLS-1:0][16:0] reciprocals_t;
  function automatic reciprocals_t reciprocals();
    for (int unsigned e = 0; e < CELLS; e++) reciprocals[e] = 17'((65536 + e) / (e + 1));
  endfunction
  localparam reciprocals_t RECIPROCAL = reciprocals();

  function automatic quads_t spread16(input quads_t w, input cell_t extra);
    logic [31:0] r, at;
    r = 32'(RECIPROCAL[extra]);
    spread16 = w;
    for (int unsigned c = 0; c < CELLS && 2 * c < LANES; c++) begin
      at = (c * r) >> 16;
      spread16[c/2][16*(c%2) +: 16] = 16'(w[quad_t'(at >> 1)] >> {at[0], 4'b0});
    end
  endfunction

  function automatic quads_t spread8(input quads_t w, input cell_t extra);
    logic [31:0] r, at;
    r = 32'(RECIPROCAL[extra]);
    spread8 = w;
    for (int unsigned c = 0; c < CELLS && c < LANES; c++) begin
      at = (c * r) >> 16;
      spread8[c/4][8*(c%4) +: 8] = 8'(w[quad_t'(at >> 2)] >> {at[1:0], 3'b0});
    end
  endfunction

  logic row_there;
  quads_t here;
  logic [31:0] above1 [LANES/4];
  logic [31:0] above2 [LANES/4];
  logic [31:0] above3 [LANES/4];
  logic [31:0] above4 [LANES/4];
  logic [WINDOW-2:0] bad_line;
  assign row_there = p2_valid && (p2.pad || act_rvalid);
  always_comb begin
    for (int unsigned i = 0; i < QUADS; i++)
      here[i] = p2.pad ? (p2.floats ? 32'd0 : {4{p2.pad_byte}}) : act_rdata[32*i +: 32];
    if (p2.extra != 8'd0) begin
      if (p2.floats) here = spread16(here, cell_t'(p2.extra));
      else here = spread8(here, cell_t'(p2.extra));
    end
  end
  presil_lines u_lines (.clk, .ask(p1_valid && p1.depthwise), .ask_rows(p1.ky), .ask_x(p1.x),
      .valid(row_there && p2.depthwise), .rows(p2.ky), .x(p2.x), .word(here), .above1, .above2,
      .above3, .above4, .bad(bad_line));

  // ---- array and accumulators
  logic next_re, next_half, m_re, m_half, m_we, m_whalf, m_wlast, array_busy;
  logic [ROW_BITS-1:0] m_raddr, m_waddr;
  typedef logic [31:0] cells_t [CELLS];
  cells_t m_q, m_wdata, q0, q1;

  presil_array u_array (.clk, .rst, .wgt_valid(arr_wgt_valid && wgt_rvalid), .wgt_set(arr_wgt_set),
      .wgt_cell(arr_wgt_cell), .wgt_float(arr_wgt_float), .wgt_fp16(arr_wgt_fp16),
      .wgt_skip(arr_wgt_skip), .wgt_absent(arr_wgt_absent), .wgt_first(arr_wgt_first),
      .wgt_depthwise(arr_wgt_depthwise),
      .wgt_data(wgt_rdata[8*LANES-1:0]), .row_valid(row_there), .row_pad(p2.pad),
      .row_depthwise(p2.depthwise), .row_emit(p2.emit), .row_kx(p2.kx), .row_ky(p2.ky), .here,
      .above1, .above2, .above3, .above4, .row_pad_byte(p2.pad_byte), .row_float(p2.floats),
      .row_fp16(p2.fp16), .row_skip(p2.skip), .row_set(p2.set), .row_first(p2.first),
      .row_last(p2.last), .row_half(p2.half), .row_acc(p2.acc), .row_data(act_rdata[8*LANES-1:0]),
      .acc_next_re(next_re), .acc_next_half(next_half), .acc_re(m_re), .acc_half(m_half),
      .acc_raddr(m_raddr), .acc_q(m_q), .acc_we(m_we), .acc_whalf(m_whalf), .acc_waddr(m_waddr),
      .acc_wdata(m_wdata), .acc_wlast(m_wlast), .busy(array_busy));

  logic m_re0, m_re1, m_half_q, e_half_q;
  assign m_re0 = m_re && !m_half;
  assign m_re1 = m_re && m_half;
  assign acc_taken = {next_re && next_half, next_re && !next_half};
  logic bad_half0, bad_half1;
  presil_ram_1r1w #(.ROWS(ACC_ROWS), .PARITY(PARITY), .T(cells_t)) u_half0 (
    .clk, .re(m_re0 || (acc_re && !acc_half)), .raddr(m_re0 ? m_raddr : acc_row), .q(q0),
    .we(m_we && !m_whalf), .waddr(m_waddr), .be(1'b1), .wdata(m_wdata), .bad(bad_half0));
  presil_ram_1r1w #(.ROWS(ACC_ROWS), .PARITY(PARITY), .T(cells_t)) u_half1 (
    .clk, .re(m_re1 || (acc_re && acc_half)), .raddr(m_re1 ? m_raddr : acc_row), .q(q1),
    .we(m_we && m_whalf), .waddr(m_waddr), .be(1'b1), .wdata(m_wdata), .bad(bad_half1));
  assign m_q = m_half_q ? q1 : q0;
  assign acc_q = e_half_q ? q1 : q0;

  // ---- parity
  if (PARITY) begin : g_parity
    logic                read0, read1;                       // by the epilogue
    logic [ROW_BITS-1:0] row0, row1;
    always_ff @(posedge clk) begin
      read0 <= !m_re0;  row0 <= m_re0 ? m_raddr : acc_row;
      read1 <= !m_re1;  row1 <= m_re1 ? m_raddr : acc_row;
    end
    assign acc_bad          = bad_half0 || bad_half1;
    assign acc_bad_epilogue = bad_half0 ? read0 : read1;
    assign acc_bad_row      = bad_half0 ? 32'(row0) : ACC_ROWS + 32'(row1);
    logic [31:0] line;                                       // the lowest that is bad
    always_comb begin
      line = 32'd0;
      for (int unsigned i = WINDOW - 1; i > 0; i--)
        if (bad_line[i-1]) line = i - 1;
    end
    assign line_bad         = |bad_line;
    assign line_bad_at      = 64 * line + 32'(p2.x);
  end else begin : g_plain
    logic unused_bad;
    assign unused_bad       = &{1'b0, bad_half0, bad_half1, bad_line};
    assign acc_bad          = 1'b0;
    assign acc_bad_epilogue = 1'b0;
    assign acc_bad_row      = 32'd0;
    assign line_bad         = 1'b0;
    assign line_bad_at      = 32'd0;
  end

  if (LANES < WORD) begin : g_unused       // the array reads the first LANES bytes of a word
    logic unused_bytes;
    assign unused_bytes = &{1'b0, act_rdata[8*WORD-1:8*LANES], wgt_rdata[8*WORD-1:8*LANES]};
  end

  // ---- state
  logic flowing;
  assign flowing = p1_valid || p2_valid || array_busy;
  assign done = m_we && m_wlast;
  assign active = held != 3'd0;
  assign idle = !flowing && !wgt_busy && (held == 3'd0 || halt);

  always_comb begin
    if (row_take) cause = CAUSE_BUSY;
    else if (act_valid) cause = CAUSE_SCRATCHPAD;
    else if (row_valid || !flowing) cause = CAUSE_WEIGHTS;
    else cause = CAUSE_DRAIN;
  end

  always_ff @(posedge clk) begin
    m_half_q <= m_half;
    e_half_q <= acc_half;
    held <= held + {2'b0, take} - {2'b0, done};
    if (rst) held <= 3'd0;
  end

`ifndef SYNTHESIS
  a_act: assert property (@(posedge clk) disable iff (rst) !(p2_valid && !p2.pad && !act_rvalid));
  a_wgt: assert property (@(posedge clk) disable iff (rst) !(arr_wgt_valid && !wgt_rvalid));
  a_port: assert property (@(posedge clk) disable iff (rst)
    !(acc_re && m_re && acc_half == m_half));
  c_two: cover property (@(posedge clk) disable iff (rst) held >= 3'd2);
  c_padded: cover property (@(posedge clk) disable iff (rst) row_take && row_pad);
  c_int8: cover property (@(posedge clk) disable iff (rst) row_take && !row_float);
  c_bf16: cover property (@(posedge clk) disable iff (rst) row_take && row_float && !row_fp16);
  c_fp16: cover property (@(posedge clk) disable iff (rst) row_take && row_fp16);
  c_skip: cover property (@(posedge clk) disable iff (rst) row_take && row_skip);
  c_half0: cover property (@(posedge clk) disable iff (rst) row_take && !row_half);
  c_half1: cover property (@(posedge clk) disable iff (rst) row_take && row_half);
  // reads of different halves
  c_epilogue_beside: cover property (@(posedge clk) disable iff (rst) acc_re && m_re);
  c_epilogue_same: cover property (@(posedge clk) disable iff (rst)
    acc_re && m_we && acc_half == m_whalf);
  // one behind the other, without a bubble
  c_depthwise_beside: cover property (@(posedge clk) disable iff (rst)
    p1_valid && p2_valid && p1.depthwise != p2.depthwise);
  c_one_element: cover property (@(posedge clk) disable iff (rst)
    row_there && p2.depthwise && 32'(p2.extra) == CELLS - 1);
  c_uneven: cover property (@(posedge clk) disable iff (rst)
    row_there && p2.depthwise && p2.extra == 8'd2);
  c_halted: cover property (@(posedge clk) disable iff (rst) halt && row_valid);
`endif
endmodule
