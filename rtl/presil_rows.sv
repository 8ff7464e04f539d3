// SPDX-License-Identifier: Apache-2.0
// Row walker of LOAD and STORE: the loops i3, i2, i1 (and i0, where every chunk is read for itself)
// of a descriptor, docs/isa.md sections 2 and 3.
// Gives for each row (or chunk) its scratchpad address, its position and the beats of DRAM to move.
// Latency 2 from start; one row a cycle. Reset: synchronous, only control. Errors: none.
module presil_rows import presil_config_pkg::*; #(
  localparam int unsigned LW = $clog2(WORD)  /// log2 of WORD, the bytes of a beat
) (
  input  logic           clk,
  input  logic           rst,
  input  logic           start_valid,          /// a descriptor: index to rp3
  output logic           start_ready,          /// no descriptor is being walked
  input  logic [31:0]    index,                /// of the descriptor: travels with its rows
  input  logic [39:0]    addr,                 /// DRAM byte address of the first row's position 0
  input  logic [39:0]    ds1, ds2, ds3,        /// what i1, i2, i3 add to it, mod 2^40
  /// scratchpad byte address of the first word, and what i0, i1, i2, i3 add to it
  input  logic [31:0]    sp, ss0, ss1, ss2, ss3,
  input  logic [15:0]    n0, n1, n2, n3,       /// iterations; n0: 1 if a row is moved as a whole
  input  logic [49:0]    pos0,                 /// position of the first byte; signed
  input  logic [31:0]    step0,                /// positions from chunk to chunk, if n0 > 1
  input  logic [49:0]    span,                 /// bytes from there, of a row (or chunk)
  input  logic [31:0]    row_bytes,            /// positions that exist: 0 to row_bytes-1
  input  logic [15:0]    row_limit,            /// rows that exist: 0 to row_limit-1; 0: all
  input  logic [15:0]    rp0,                  /// row position of the first row (row_limit); signed
  input  logic [7:0]     rp1, rp2, rp3,        /// what i1, i2, i3 add to it; signed
  output logic           row_valid,            /// a row (or chunk); stays until row_ready
  input  logic           row_ready,            /// taken in this cycle
  output logic [39-LW:0] row_beat,             /// first beat address; valid if row_beats != 0
  output logic [31:0]    row_beats,            /// beats to move; 0: nothing to read, all padding
  /// position 0 counted from the first byte of the first beat; signed; valid if row_beats != 0
  output logic [49:0]    row_rel,
  output logic [49:0]    row_pos,              /// position of its first byte; signed
  output logic [31:0]    row_index,            /// ring count of its descriptor
  output logic [31:0]    row_s,                /// scratchpad byte address of its first word
  output logic           row_last1,            /// last row of the loop i1
  output logic           row_last              /// last row of the descriptor
);
  logic        run;
  logic [39:0] a, a2, a3;
  logic [31:0] s1, s2, s3, s, r, r2, r3;
  logic [49:0] pos;
  logic [15:0] i0, i1, i2, i3;                 // iterations left after this one

  // what the descriptor fixes
  logic [39:0] c_ds1, c_ds2, c_ds3;
  logic [31:0] c_ss0, c_ss1, c_ss2, c_ss3, c_rp1, c_rp2, c_rp3, c_row_bytes;
  logic [15:0] c_n0, c_n1, c_n2, c_limit;
  logic [31:0] c_index;
  logic [49:0] c_pos0, c_span, c_step0;

  assign start_ready = !run;

  function automatic logic [31:0] sext8(input logic [7:0] v);
    return {{24{v[7]}}, v};
  endfunction

  function automatic logic outside();
    // a negative row position is a large one
    return c_limit != 16'd0 && r >= {16'd0, c_limit};
  endfunction

  // where the row ends, of what exists of it
  function automatic logic [49:0] row_end();
    logic [49:0] to;
    to = pos + c_span;
    if (to[49]) to = 50'd0;
    if (to > {18'd0, c_row_bytes}) to = {18'd0, c_row_bytes};
    return to;
  endfunction

  // no register is read behind an assignment to it, not even in another branch: Verilator would
  // keep a shadow copy
  always_ff @(posedge clk) begin
    logic free, begins;
    free   = !row_valid || row_ready;
    begins = start_valid && !run;
    if (free) row_valid <= run;
    if (run && free) begin
      logic [49:0] from, to;
      logic [39:0] first, last;
      logic        out;
      from  = pos[49] ? 50'd0 : pos;
      to    = row_end();
      out   = outside() || to <= from;
      first = a + from[39:0];
      last  = a + to[39:0] - 40'd1;
      row_beat  <= first[39:LW];
      row_beats <= out ? 32'd0 : 32'((last >> LW) - (first >> LW)) + 32'd1;
      row_rel   <= {{(50-LW){1'b0}}, first[LW-1:0]} - from;
      row_pos   <= pos;
      row_index <= c_index;
      row_s     <= s;
      row_last1 <= i1 == 16'd0;
      row_last  <= i0 == 16'd0 && i1 == 16'd0 && i2 == 16'd0 && i3 == 16'd0;
      if (i0 != 16'd0) begin
        i0 <= i0 - 16'd1;  pos <= pos + c_step0;  s <= s + c_ss0;
      end else begin
        i0 <= c_n0;  pos <= c_pos0;
        if (i1 != 16'd0) begin
          i1 <= i1 - 16'd1;  a <= a + c_ds1;  s <= s1 + c_ss1;  s1 <= s1 + c_ss1;  r <= r + c_rp1;
        end else begin
          i1 <= c_n1;
          if (i2 != 16'd0) begin
            i2 <= i2 - 16'd1;  a <= a2 + c_ds2;  a2 <= a2 + c_ds2;  r <= r2 + c_rp2;
            r2 <= r2 + c_rp2;
            s <= s2 + c_ss2;  s1 <= s2 + c_ss2;  s2 <= s2 + c_ss2;
          end else begin
            i2 <= c_n2;  i3 <= i3 - 16'd1;
            a <= a3 + c_ds3;  a2 <= a3 + c_ds3;  a3 <= a3 + c_ds3;  r <= r3 + c_rp3;
            r2 <= r3 + c_rp3;  r3 <= r3 + c_rp3;
            s <= s3 + c_ss3;  s1 <= s3 + c_ss3;  s2 <= s3 + c_ss3;  s3 <= s3 + c_ss3;
            if (i3 == 16'd0) run <= 1'b0;
          end
        end
      end
    end else if (begins) begin
      run <= 1'b1;  pos <= pos0;  c_index <= index;
      a <= addr;  a2 <= addr;  a3 <= addr;
      s <= sp;  s1 <= sp;  s2 <= sp;  s3 <= sp;
      r <= {{16{rp0[15]}}, rp0};  r2 <= {{16{rp0[15]}}, rp0};  r3 <= {{16{rp0[15]}}, rp0};
      i0 <= n0 - 16'd1;  i1 <= n1 - 16'd1;  i2 <= n2 - 16'd1;  i3 <= n3 - 16'd1;
      c_ds1 <= ds1;  c_ds2 <= ds2;  c_ds3 <= ds3;
      c_ss0 <= ss0;  c_ss1 <= ss1;  c_ss2 <= ss2;  c_ss3 <= ss3;
      c_rp1 <= sext8(rp1);  c_rp2 <= sext8(rp2);  c_rp3 <= sext8(rp3);
      c_n0 <= n0 - 16'd1;  c_n1 <= n1 - 16'd1;  c_n2 <= n2 - 16'd1;
      c_limit <= row_limit;  c_row_bytes <= row_bytes;
      c_pos0 <= pos0;  c_span <= span;  c_step0 <= {18'd0, step0};
    end
    if (rst) begin
      run <= 1'b0;  row_valid <= 1'b0;
    end
  end

`ifndef SYNTHESIS
  c_waits: cover property (@(posedge clk) disable iff (rst) row_valid && !row_ready);
  c_chunks: cover property (@(posedge clk) disable iff (rst) run && i0 != 16'd0);
  c_third: cover property (@(posedge clk) disable iff (rst) run && i3 != 16'd0);
  c_before: cover property (@(posedge clk) disable iff (rst) run && pos[49]);
  c_outside: cover property (@(posedge clk) disable iff (rst)
    run && (|c_limit) && r >= 32'(c_limit) && !r[31]);
  c_above: cover property (@(posedge clk) disable iff (rst) run && (|c_limit) && r[31]);
  c_one: cover property (@(posedge clk) disable iff (rst)
    row_valid && row_last && row_last1 && row_beats == 32'd1);
`endif
endmodule
