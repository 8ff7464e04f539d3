// SPDX-License-Identifier: Apache-2.0
// Rows against docs/isa.md section 4, one or two of each loop: the descriptor in work is kept, its rows are counted by
// five plain loops. `a_state`, what the registers hold, is what induction stands on.
// DILATED: with input dilation, and offsets of a few bits. A position is said by multiplication, quotient × dilation +
// remainder; there is one such pair, so the rows' formula may take it.
module presil_agen_properties import presil_config_pkg::*, presil_desc_pkg::*; (
  input logic        clk, rst, in_valid, in_ready, row_valid, row_take, row_pad, row_end, row_last, row_first, row_half,
  input logic        row_float, row_fp16, row_skip, set_valid, set_load, run_valid, adv, neg_x, neg_y, s_float, s_fp16,
  input logic        s_first, s_half,
  input logic        s_skip, floats, fp16, first, half, skip, row_depthwise, row_emit, s_depthwise, s_two_x, s_two_y,
  input logic        depthwise, two_x, two_y,
  input logic [2:0]  row_kx, row_ky, s_wx, s_wy, wx, wy,
  input logic [5:0]  row_x,
  input matrix_t     desc,
  input logic [31:0] index, row_index, s_index, id,
  input logic [4:0]  div_left,
  input logic [15:0] quo [6],
  input logic [8:0]  rem [6],
  input logic [15:0] row_addr, s_nx, s_ny, s_ncb, s_lim_x, s_lim_y, s_x_stride, s_y_stride, s_cb_stride, s_act_base,
  input logic [15:0] nx, ny, ncb, lim_x, lim_y, x_stride, y_stride, cb_stride, x, y, cb, cb_addr,
  input logic [7:0]  row_pad_byte, s_kx, s_ky, s_idx, s_idy, s_pad, kxn, kyn, idx, idy, pad, kx, ky,
  input logic [$clog2(ACC_ROWS)-1:0] row_acc, s_acc_base, acc_base, acc,
  input logic [31:0] step_xq, kern_xq, step_yq, kern_yq, org_xq, org_yq, xq, yq, kxq, kyq,
  input logic [8:0]  step_xr, kern_xr, step_yr, kern_yr, org_xr, org_yr, xr, yr, kxr, kyr
);
  localparam int unsigned CW = $clog2(ACC_ROWS);
  typedef struct packed {
    logic [15:0]   nx, ny, ncb, lim_x, lim_y, x_stride, y_stride, cb_stride, act_base, ox, oy, sx, sy, dx, dy;
    logic [7:0]    kx, ky, idx, idy, pad;
    logic [CW-1:0] acc_base;
    logic          floats, fp16, first, half, skip, depthwise, two_x, two_y;
    logic [2:0]    wx, wy;
    logic [31:0]   index;
  } work_t;
  typedef struct packed {
    logic          pad, last, stop, first, half, floats, fp16, skip, depthwise, emit;
    logic [2:0]    wx, wy;
    logic [5:0]    x;
    logic [15:0]   addr;
    logic [7:0]    pad_byte;
    logic [CW-1:0] acc;
    logic [31:0]   index;
  } row_t;
  work_t       given, s, d;                              // offered, in set-up, running
  row_t        f, e, is, was;                            // by the formula: the next row, and the one that is out
  logic        started = 1'b0;
  logic        k0, k1, k2, k3, k4;                       // the loops: x, y, kx, ky, cb
  logic        stalled, more, end0, end1, end2, end3, end4;
  logic [21:0] px, py, colx, coly;                       // position, and that of the block's first column and row
  assign is = '{pad: row_pad, last: row_last, stop: row_end, first: row_first, half: row_half, floats: row_float,
                fp16: row_fp16, skip: row_skip, depthwise: row_depthwise, emit: row_emit, wx: row_kx, wy: row_ky,
                x: row_x,
                addr: row_addr, pad_byte: row_pad_byte, acc: row_acc, index: row_index};
  // a window is walked like the rows of a 1x1 kernel; sx is dx or twice that
  logic window;
  assign window = desc.depthwise;
  function automatic logic [15:0] positions(input logic [15:0] n, input logic two, input logic [7:0] k);
    return (n - 16'd1) + (two ? n - 16'd1 : 16'd0) + 16'(k);
  endfunction

  assign given = '{
    nx: window ? positions(desc.nx, desc.sx != desc.dx, desc.kx) : desc.nx,
    ny: window ? positions(desc.ny, desc.sy != desc.dy, desc.ky) : desc.ny,
    ncb: desc.ncb, lim_x: desc.lim_x, lim_y: desc.lim_y, x_stride: desc.x_stride, y_stride: desc.y_stride,
    cb_stride: desc.cb_stride, act_base: desc.act_base, ox: desc.ox, oy: desc.oy,
    sx: window ? desc.dx : desc.sx, sy: window ? desc.dy : desc.sy, dx: desc.dx, dy: desc.dy,
    kx: window ? 8'd1 : desc.kx, ky: window ? 8'd1 : desc.ky,
    idx: desc.idx, idy: desc.idy, pad: desc.pad, acc_base: desc.acc_base[CW-1:0],
    floats: desc.dtype != DTYPE_INT8, fp16: desc.dtype == DTYPE_FP16, first: desc.first, half: desc.half,
    skip: desc.skip_special,
    depthwise: window, two_x: desc.sx != desc.dx, two_y: desc.sy != desc.dy,
    wx: desc.kx[2:0], wy: desc.ky[2:0],
    index: index};

  // position i of a window's row or column: a result ends with it
  function automatic logic ends(input logic i, input logic [2:0] k, input logic two);
    return 3'(i) + 3'd1 >= k && (!two || 3'(i) + 3'd1 == k);
  endfunction

  function automatic logic [21:0] wide(input logic [15:0] v);
    return {{6{v[15]}}, v};
  endfunction
  function automatic logic few(input logic [15:0] n);
    return n == 16'd1 || n == 16'd2;
  endfunction
  function automatic logic dilation(input logic [7:0] d);
    return d == 8'd1 || d == 8'd2 || d == 8'd3;
  endfunction
  function automatic logic near(input logic [15:0] origin, step, kernel);    // -16 to 15, 0 to 15
    return origin[15:4] == {12{origin[15]}} && step[15:4] == 12'd0 && kernel[15:4] == 12'd0;
  endfunction
  function automatic logic small_one(input work_t g);    // what is looked at
    return few(g.nx) && few(g.ny) && (!g.depthwise || (g.wx != 3'd0 && g.wy != 3'd0))
        && few(g.ncb) && few(16'(g.kx)) && few(16'(g.ky))
        && g.x_stride[15:3] == 13'd0 && g.y_stride[15:3] == 13'd0
`ifdef DILATED
        && dilation(g.idx) && dilation(g.idy) && near(g.ox, g.sx, g.dx) && near(g.oy, g.sy, g.dy);
`else
        && g.idx == 8'd1 && g.idy == 8'd1;
`endif
  endfunction
  function automatic logic [15:0] times(input logic [15:0] p, input logic [15:0] stride);
    return (stride[0] ? p : 16'd0) + (stride[1] ? {p[14:0], 1'b0} : 16'd0) + (stride[2] ? {p[13:0], 2'b0} : 16'd0);
  endfunction

  function automatic logic [21:0] dilated(input logic [21:0] q, input logic [7:0] d);
    return (d[0] ? q : 22'd0) + (d[1] ? {q[20:0], 1'b0} : 22'd0);
  endfunction
`ifdef DILATED
  // q, r: position p divided by d, rounded down. Positions have 19 bits, so nothing is lost above 22.
  function automatic logic quotient(input logic [31:0] q, input logic [8:0] r, input logic [21:0] p,
                                    input logic [7:0] d);
    return q[31:18] == {14{q[18]}} && r < {1'b0, d} && dilated(q[21:0], d) + {13'd0, r} == p;
  endfunction
  // The divider with `div_left` bits of the number n to come: they are on top of q, the quotient of the others below.
  function automatic logic divides(input logic [15:0] q, input logic [8:0] r, input logic [15:0] n,
                                   input logic [7:0] d);
    logic [15:0] still;
    still = ~(16'hffff << div_left);
    return q >> (5'd16 - div_left) == (n & still) && r < {1'b0, d}
        && dilated({6'd0, q & (16'hffff >> div_left)}, d) + {13'd0, r} == {6'd0, n >> div_left};
  endfunction
`else
  function automatic logic quotient(input logic [31:0] q, input logic [8:0] r, input logic [21:0] p,
                                    input logic [7:0] d);
    return d == 8'd1 && r == 9'd0 && q == {{10{p[21]}}, p};
  endfunction
  function automatic logic divides(input logic [15:0] q, input logic [8:0] r, input logic [15:0] n,
                                   input logic [7:0] d);
    return d == 8'd1 && r == 9'd0 && q == n && div_left == 5'd0;
  endfunction
`endif

  assign end0 = 16'(k0) + 16'd1 == d.nx;
  assign end1 = 16'(k1) + 16'd1 == d.ny;
  assign end2 = 8'(k2) + 8'd1 == d.kx;
  assign end3 = 8'(k3) + 8'd1 == d.ky;
  assign end4 = 16'(k4) + 16'd1 == d.ncb;
  assign colx = wide(d.ox) + (k2 ? {6'd0, d.dx} : 22'd0);
  assign coly = wide(d.oy) + (k3 ? {6'd0, d.dy} : 22'd0);
  assign px = colx + (k0 ? {6'd0, d.sx} : 22'd0);
  assign py = coly + (k1 ? {6'd0, d.sy} : 22'd0);
  always_comb begin
    f.pad   = px[21] || xr != 9'd0 || xq >= {16'd0, d.lim_x} || py[21] || yr != 9'd0 || yq >= {16'd0, d.lim_y};
    f.addr  = d.act_base + (k4 ? d.cb_stride : 16'd0) + times(xq[15:0], d.x_stride) + times(yq[15:0], d.y_stride);
    f.x     = 6'(k0);
    f.emit  = !d.depthwise || (ends(k0, d.wx, d.two_x) && ends(k1, d.wy, d.two_y));
    f.depthwise = d.depthwise;  f.wx = d.wx;  f.wy = d.wy;
    f.acc   = d.acc_base + CW'(k0) + (k1 ? CW'(d.nx) : CW'(0));
    if (d.depthwise)               // results before this position
      f.acc = d.acc_base + CW'(k0 && ends(1'b0, d.wx, d.two_x) && ends(k1, d.wy, d.two_y))
        + CW'(k1 && ends(1'b0, d.wy, d.two_y) && ends(1'b0, d.wx, d.two_x))
        + CW'(k1 && ends(1'b0, d.wy, d.two_y) && d.nx == 16'd2 && ends(1'b1, d.wx, d.two_x));
    f.stop  = end0 && end1;
    f.last  = end0 && end1 && end2 && end3 && end4;
    f.first = d.first && !k4 && !k3 && !k2;
    f.half  = d.half;  f.floats = d.floats;  f.fp16 = d.fp16;  f.skip = d.skip;  f.pad_byte = d.pad;  f.index = d.index;
  end

  function automatic logic [15:0] size(input logic [15:0] v);
    return v[15] ? 16'd0 - v : v;
  endfunction

  always_ff @(posedge clk) begin
    started <= 1'b1;
    was <= is;
    stalled <= row_valid && !row_take && !rst;
    more <= row_valid && row_take && !row_last && !rst;
    if (in_valid && in_ready) s <= given;
    if (adv) begin
      e <= f;
      k0 <= !end0;
      if (end0) k1 <= !end1;
      if (end0 && end1) k2 <= !end2;
      if (end0 && end1 && end2) k3 <= !end3;
      if (end0 && end1 && end2 && end3) k4 <= !end4;
    end
    if (set_load) begin
      d <= s;
      {k4, k3, k2, k1, k0} <= 5'd0;
    end
    assume (started || rst);
    assume (small_one(given));
    assume (!window || (desc.nx != 16'd0 && desc.ny != 16'd0));  // decode refuses them
    if (started && !rst) begin
      a_state: assert (
        (!set_valid
         || (small_one(s) && div_left <= 5'd16 && (div_left == 5'd0 || s.idx != 8'd1 || s.idy != 8'd1)
             && neg_x == s.ox[15] && neg_y == s.oy[15]
             && divides(quo[0], rem[0], size(s.ox), s.idx) && divides(quo[1], rem[1], s.sx, s.idx)
             && divides(quo[2], rem[2], s.dx, s.idx) && divides(quo[3], rem[3], size(s.oy), s.idy)
             && divides(quo[4], rem[4], s.sy, s.idy) && divides(quo[5], rem[5], s.dy, s.idy)
             && s_nx == s.nx && s_ny == s.ny && s_ncb == s.ncb && s_lim_x == s.lim_x && s_lim_y == s.lim_y
             && s_x_stride == s.x_stride && s_y_stride == s.y_stride && s_cb_stride == s.cb_stride
             && s_act_base == s.act_base && s_kx == s.kx && s_ky == s.ky && s_idx == s.idx && s_idy == s.idy
             && s_pad == s.pad && s_acc_base == s.acc_base && s_float == s.floats && s_fp16 == s.fp16
             && s_first == s.first && s_half == s.half && s_skip == s.skip && s_depthwise == s.depthwise
             && s_two_x == s.two_x
             && s_two_y == s.two_y && s_wx == s.wx && s_wy == s.wy && s_index == s.index))
        && (!run_valid
            || (small_one(d) && x == 16'(k0) && y == 16'(k1) && kx == 8'(k2) && ky == 8'(k3) && cb == 16'(k4)
                && !(k0 && d.nx == 16'd1) && !(k1 && d.ny == 16'd1) && !(k2 && d.kx == 8'd1) && !(k3 && d.ky == 8'd1)
                && !(k4 && d.ncb == 16'd1) && quotient(xq, xr, px, d.idx) && quotient(yq, yr, py, d.idy)
                && quotient(kxq, kxr, colx, d.idx) && quotient(kyq, kyr, coly, d.idy)
                && quotient(org_xq, org_xr, wide(d.ox), d.idx) && quotient(org_yq, org_yr, wide(d.oy), d.idy)
                && quotient(step_xq, step_xr, {6'd0, d.sx}, d.idx) && quotient(step_yq, step_yr, {6'd0, d.sy}, d.idy)
                && quotient(kern_xq, kern_xr, {6'd0, d.dx}, d.idx) && quotient(kern_yq, kern_yr, {6'd0, d.dy}, d.idy)
                && nx == d.nx && ny == d.ny && ncb == d.ncb && kxn == d.kx && kyn == d.ky && lim_x == d.lim_x
                && lim_y == d.lim_y && x_stride == d.x_stride && y_stride == d.y_stride && cb_stride == d.cb_stride
                && idx == d.idx && idy == d.idy && pad == d.pad
                && acc_base == d.acc_base && acc == f.acc && floats == d.floats && fp16 == d.fp16 && first == d.first
                && half == d.half && skip == d.skip && depthwise == d.depthwise && two_x == d.two_x
                && two_y == d.two_y && wx == d.wx
                && wy == d.wy && id == d.index && cb_addr == d.act_base + (k4 ? d.cb_stride : 16'd0)))
        && (!row_valid || e.last || run_valid));
      a_pad: assert (!row_valid || is.pad == e.pad);
      a_addr: assert (!row_valid || is.addr == e.addr);
      a_acc: assert (!row_valid || is.acc == e.acc);
      a_end: assert (!row_valid || is.stop == e.stop);
      a_last: assert (!row_valid || is.last == e.last);
      a_first: assert (!row_valid || is.first == e.first);
      a_as_given: assert (!row_valid || (is.half == e.half && is.floats == e.floats && is.fp16 == e.fp16
                                 && is.skip == e.skip
                                         && is.pad_byte == e.pad_byte && is.index == e.index));
      a_window: assert (!row_valid || (is.depthwise == e.depthwise && is.emit == e.emit && is.x == e.x && is.wx == e.wx
                                       && is.wy == e.wy));
      a_stable: assert (!stalled || (row_valid && is == was));
      a_no_bubble: assert (!more || row_valid);
      c_channels: cover (row_valid && !e.pad && k4 && k0);
      c_before: cover (row_valid && e.pad && px[21] && k3 && k1);
`ifdef DILATED
      c_hole: cover (row_valid && e.pad && k0 && d.idx == 8'd3 && s_idx == 8'd2 && neg_x && !f.pad && px > 22'd3);
`else
      c_next: cover (row_valid && row_last && run_valid && px == 22'd30000 && !f.pad);
`endif
    end
  end
endmodule
bind presil_agen presil_agen_properties u_properties (.*);
