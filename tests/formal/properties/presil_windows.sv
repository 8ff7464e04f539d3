// SPDX-License-Identifier: Apache-2.0
// The registers of the DMA windows: what is written is read, acts while no launch runs, and once locked stays.
module presil_windows_properties (
  input logic        clk, rst, req, req_write, busy, guarded, locked, changed,
  input logic [5:0]  req_addr,
  input logic [31:0] req_data, req_mask, rdata,
  input logic [31:0] first [4], last [4], own_first [4], own_last [4]
);
  logic        started = 1'b0;
  logic [5:0]  at_was, at;                           // of one register, which the solver chooses
  logic [31:0] value, bits, was_value, was_acts, acts, held, due;
  logic        was_busy, was_req, is_lock, was_locked;
  assign is_lock = at[5:2] == 4'd2;
  assign bits = is_lock ? 32'd1 : !at[5] ? 32'd0 : at[2] ? 32'h7fff_ffff : 32'h0fff_ffff;
  assign held = is_lock ? 32'(locked) : !at[5] ? 32'd0 : at[2] ? own_last[at[4:3]] : own_first[at[4:3]];
  assign acts = at[2] ? last[at[4:3]] : first[at[4:3]];

  always_ff @(posedge clk) begin
    started <= 1'b1;
    was_busy <= busy && !rst;  was_req <= req && req_addr[5:2] == at[5:2] && !rst;  was_value <= value;
    was_acts <= acts;  was_locked <= locked && !rst;
    if (rst) begin
      value <= 32'd0;  due <= 32'd0;
    end else begin
      if (req && req_write && req_addr[5:2] == at[5:2] && !locked)
        value <= ((value & ~req_mask) | (req_data & req_mask)) & bits;
      // acts one cycle after it is there, while no launch runs
      if (!busy) due <= value;
    end
    assume (started || rst);
    assume (at[1:0] == 2'd0);
    at_was <= at;
    if (started) assume (at == at_was);
    if (started && !rst) begin
      a_read: assert (!was_req || rdata == was_value);
      a_acts: assert (!at[5] || (acts == due && (changed || due == value)));
      a_stays: assert (!at[5] || !was_busy || acts == was_acts);
      a_holds: assert (held == value);
      a_locked: assert (!was_locked || (locked && value == was_value));
      a_guarded: assert (guarded == (last[0][28] || last[1][28] || last[2][28] || last[3][28]));
      c_waits: cover (busy && at[5] && value != due && due != 32'd0);
      c_locked: cover (locked && req && req_write && at[5] && value == 32'h1234_5678 && acts == value);
    end
  end
endmodule
bind presil_windows presil_windows_properties u_properties (.*);
