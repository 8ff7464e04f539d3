// SPDX-License-Identifier: Apache-2.0
// Rows against docs/isa.md sections 2 and 3, one or two of each loop: the descriptor in work is kept, its rows are
// counted by four plain loops. `a_state`, what the walker's registers hold, is what induction stands on.
module presil_rows_properties import presil_config_pkg::*; #(
  localparam int unsigned LW = $clog2(WORD)
) (
  input logic           clk, rst, start_valid, start_ready, row_valid, row_ready, row_last1, row_last, run,
  input logic [31:0]    index, sp, ss0, ss1, ss2, ss3, step0, row_bytes, row_beats, row_index, row_s,
  input logic [39:0]    addr, ds1, ds2, ds3, a, a2, a3, c_ds1, c_ds2, c_ds3,
  input logic [15:0]    n0, n1, n2, n3, row_limit, rp0, i0, i1, i2, i3, c_n0, c_n1, c_n2, c_limit,
  input logic [49:0]    pos0, span, row_rel, row_pos, pos, c_pos0, c_span, c_step0,
  input logic [7:0]     rp1, rp2, rp3,
  input logic [39-LW:0] row_beat,
  input logic [31:0]    s, s1, s2, s3, r, r2, r3, c_ss0, c_ss1, c_ss2, c_ss3, c_rp1, c_rp2, c_rp3, c_row_bytes, c_index
);
  typedef struct packed {
    logic [31:0] index, sp, ss0, ss1, ss2, ss3, step0, row_bytes;
    logic [39:0] addr, ds1, ds2, ds3;
    logic [15:0] n0, n1, n2, n3, row_limit, rp0;
    logic [49:0] pos0, span;
    logic [7:0]  rp1, rp2, rp3;
  } desc_t;
  typedef struct packed {
    logic           empty, last1, last;
    logic [39-LW:0] beat, beats;
    logic [49:0]    rel, pos;
    logic [31:0]    s, index;
  } row_t;
  desc_t       d;
  row_t        f, e;                         // by the formula: the next row, and the one that is out
  logic        started = 1'b0;
  logic        stalled, more, free;
  logic        k0, k1, k2, k3;               // the loops
  logic        end0, end1, end2, end3;
  logic [49:0] at, from, to;
  logic [39:0] row, row2, row3, first, last;
  logic [31:0] line, line1, line2, line3, place, place2, place3;
  row_t        was, is;
  assign is = '{empty: row_beats == 32'd0, last1: row_last1, last: row_last, beat: row_beat,
                beats: {{(8-LW){1'b0}}, row_beats}, rel: row_rel, pos: row_pos, s: row_s, index: row_index};
  assign free = !row_valid || row_ready;

  function automatic logic [31:0] wide32(input logic [7:0] v);
    return {{24{v[7]}}, v};
  endfunction

  assign end0 = {15'd0, k0} + 16'd1 == d.n0;
  assign end1 = {15'd0, k1} + 16'd1 == d.n1;
  assign end2 = {15'd0, k2} + 16'd1 == d.n2;
  assign end3 = {15'd0, k3} + 16'd1 == d.n3;
  always_comb begin
    // A = addr + i1*ds1 + i2*ds2 + i3*ds3, S = sp + ..., R = rp0 + ..., P = pos0 + i0*step0
    row3   = d.addr + (k3 ? d.ds3 : 40'd0);
    row2   = row3 + (k2 ? d.ds2 : 40'd0);
    row    = row2 + (k1 ? d.ds1 : 40'd0);
    line3  = d.sp + (k3 ? d.ss3 : 32'd0);
    line2  = line3 + (k2 ? d.ss2 : 32'd0);
    line1  = line2 + (k1 ? d.ss1 : 32'd0);
    line   = line1 + (k0 ? d.ss0 : 32'd0);
    place3 = {{16{d.rp0[15]}}, d.rp0} + (k3 ? wide32(d.rp3) : 32'd0);
    place2 = place3 + (k2 ? wide32(d.rp2) : 32'd0);
    place  = place2 + (k1 ? wide32(d.rp1) : 32'd0);
    at     = d.pos0 + (k0 ? {18'd0, d.step0} : 50'd0);
    // the bytes from max(0, P) to before min(row_bytes, P + span)
    from   = at[49] ? 50'd0 : at;
    to     = at + d.span;
    to     = to[49] ? 50'd0 : (to < {18'd0, d.row_bytes}) ? to : {18'd0, d.row_bytes};
    first  = row + from[39:0];
    last   = row + to[39:0] - 40'd1;
    f.empty = from >= to || (d.row_limit != 16'd0 && (place[31] || place >= {16'd0, d.row_limit}));
    f.beat  = first[39:LW];
    f.beats = last[39:LW] - first[39:LW] + (40-LW)'(1);
    f.rel   = 50'(first[LW-1:0]) - from;
    f.pos   = at;
    f.s     = line;
    f.index = d.index;
    f.last1 = end1;
    f.last  = end0 && end1 && end2 && end3;
  end

  always_ff @(posedge clk) begin
    started <= 1'b1;
    was <= is;  stalled <= row_valid && !row_ready && !rst;
    more <= row_valid && row_ready && !row_last && !rst;
    if (start_valid && start_ready) begin
      d <= '{index: index, ds1: ds1, ds2: ds2, ds3: ds3, sp: sp, ss0: ss0, ss1: ss1, ss2: ss2, ss3: ss3, step0: step0,
             row_bytes: row_bytes, addr: addr, n0: n0, n1: n1, n2: n2, n3: n3, row_limit: row_limit, rp0: rp0,
             pos0: pos0, span: span, rp1: rp1, rp2: rp2, rp3: rp3};
      k0 <= 1'b0;  k1 <= 1'b0;  k2 <= 1'b0;  k3 <= 1'b0;
    end else if (run && free) begin
      k0 <= !end0;
      if (end0) k1 <= !end1;
      if (end0 && end1) k2 <= !end2;
      if (end0 && end1 && end2) k3 <= !end3;
    end
    if (run && free) e <= f;
    assume (started || rst);
    assume (n0 inside {16'd1, 16'd2} && n1 inside {16'd1, 16'd2} && n2 inside {16'd1, 16'd2}
            && n3 inside {16'd1, 16'd2});
    // presil_load, presil_store: a span of 48 bits, positions of 32 bits and a sign
    assume (span != 50'd0 && span[49:48] == 2'd0 && pos0[49:31] == {19{pos0[31]}} && !step0[31]);
    if (started && !rst) begin
      a_state: assert (!run
        || (a == row && a2 == row2 && a3 == row3 && s == line && s1 == line1 && s2 == line2 && s3 == line3
            && r == place && r2 == place2 && r3 == place3 && pos == at && d.n0 inside {16'd1, 16'd2}
            && d.n1 inside {16'd1, 16'd2} && d.n2 inside {16'd1, 16'd2} && d.n3 inside {16'd1, 16'd2}
            && i0 == d.n0 - 16'd1 - {15'd0, k0} && i1 == d.n1 - 16'd1 - {15'd0, k1}
            && i2 == d.n2 - 16'd1 - {15'd0, k2} && i3 == d.n3 - 16'd1 - {15'd0, k3} && i0 < 16'd2 && i1 < 16'd2
            && i2 < 16'd2 && i3 < 16'd2 && c_ds1 == d.ds1 && c_ds2 == d.ds2 && c_ds3 == d.ds3
            && c_ss0 == d.ss0 && c_ss1 == d.ss1 && c_ss2 == d.ss2 && c_ss3 == d.ss3 && c_rp1 == wide32(d.rp1)
            && c_rp2 == wide32(d.rp2) && c_rp3 == wide32(d.rp3) && c_n0 == d.n0 - 16'd1 && c_n1 == d.n1 - 16'd1
            && c_n2 == d.n2 - 16'd1 && c_limit == d.row_limit && c_row_bytes == d.row_bytes && c_pos0 == d.pos0
            && c_span == d.span && c_step0 == {18'd0, d.step0} && c_index == d.index && d.span != 50'd0
            && d.span[49:48] == 2'd0 && d.pos0[49:31] == {19{d.pos0[31]}} && !d.step0[31]));
      a_read: assert (!row_valid || is.empty == e.empty);
      a_beat: assert (!row_valid || e.empty || (is.beat == e.beat && is.rel == e.rel));
      a_beats: assert (!row_valid || e.empty || is.beats == e.beats);
      a_place: assert (!row_valid || (is.pos == e.pos && is.s == e.s));
      a_index: assert (!row_valid || is.index == e.index);
      a_last1: assert (!row_valid || is.last1 == e.last1);
      a_last: assert (!row_valid || is.last == e.last);
      a_stable: assert (!stalled || (row_valid && is == was));
      a_no_bubble: assert (!more || row_valid);
      a_going: assert (!row_valid || e.last || run);
      c_second: cover (row_valid && !e.empty && k3 && k1 && row_beats == 32'd3);
      c_padding: cover (row_valid && e.empty && e.pos[49]);
      c_outside: cover (row_valid && e.empty && place[31] && k2 && !e.pos[49] && d.row_bytes[8]);
    end
  end
endmodule
bind presil_rows presil_rows_properties u_properties (.*);
