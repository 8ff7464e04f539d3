// SPDX-License-Identifier: Apache-2.0
// Fetches stay within 4 KiB, the ring and the buffer; descriptors go to one engine that has room; an error stops all,
// and the first stays.
module presil_command_properties import presil_config_pkg::*; import presil_desc_pkg::*; #(
  localparam int unsigned LW = $clog2(WORD)
) (
  input logic              clk, rst, doorbell, queue_reset, busy, error, irq_done, irq_error, fetch_valid, fetch_ready,
  input logic              fetch_rvalid, halt, clear, engine_rst, launch, decoded, all_empty, all_idle,
  input logic [39:12]      ring_base,
  input logic [4:0]        ring_log2,
  input logic [31:0]       ring_tail, ring_head, asked, got, asked_beats, got_beats, error_index,
  input logic [3:0]        error_code, push, room, fail_code,
  input logic [39-LW:0]    fetch_beat,
  input logic [7:0]        fetch_len,
  input logic [1:0]        state,
  input logic              fetch_refused, fetch_overdue, fetch_rerror, fetch_out,
  input logic [3:0]        own_code,
  input logic [31:0]       own_index,
  input logic [39:0]       own_addr,
  input logic              record, apart, recording, record_done
);
  localparam logic [31:0] BEATS = 128 / WORD;
  localparam logic [31:0] PAGE = 4096 / WORD;
  logic         started = 1'b0;
  logic         stalled, was_halt, was_fetch;
  logic [39:12] base_was;
  logic [4:0]   log2_was;
  logic [39-LW:0] was_beat;
  logic [7:0]   was_len;
  logic [3:0]   was_room, was_code;
  logic         was_clear;
  logic         was_record, was_apart, was_done, was_recording, was_busy;
  logic         fetches, was_refused;        // refused: alone, where nothing was wrong before
  logic [31:0]  asked_for, was_asked_for;    // descriptors, taken or refused
  logic [39:0]  was_at;
  logic [31:0]  out, tail_was, was_index;    // out: beats asked for and not come
  logic [39:0]  at, top;
  assign fetches = fetch_valid && fetch_ready;
  assign at  = {fetch_beat, {LW{1'b0}}};
  assign top = {ring_base, 12'd0} + (40'd128 << ring_log2);

  always_ff @(posedge clk) begin
    started <= 1'b1;
    stalled <= fetch_valid && !fetch_ready && !rst;  was_beat <= fetch_beat;  was_len <= fetch_len;
    was_fetch <= fetch_valid && fetch_ready && !rst;
    was_room <= room;  was_halt <= halt && !rst && !clear && !engine_rst;  was_code <= error_code;
    was_index <= error_index;
    was_record <= record && !rst;  was_apart <= apart && !rst;  was_busy <= (busy || doorbell) && !rst;
    was_recording <= recording && !rst;  was_done <= record_done && !rst;
    tail_was <= ring_tail;  was_clear <= clear;  base_was <= ring_base;  log2_was <= ring_log2;
    if (rst || clear) begin
      out <= 32'd0;  asked_for <= 32'd0;
    end else begin
      out <= out + ((fetches && !fetch_refused) ? 32'(fetch_len) + 32'd1 : 32'd0) - 32'(fetch_rvalid);
      asked_for <= asked_for + (fetches ? (32'(fetch_len) + 32'd1) / BEATS : 32'd0);
    end
    was_refused <= fetch_refused && !rst && !clear && !halt && own_code == ERROR_NONE && !fetch_overdue
                   && !(fetch_rvalid && fetch_rerror);
    was_at <= at;  was_asked_for <= asked_for;
    assume (started || rst);
    assume (!fetch_refused || fetches);        // presil_axi_read
    // software leaves the ring alone while it runs; the memory answers what it was asked
    assume (ring_log2 <= 5'd16);
    if (started) assume (ring_base == base_was && ring_log2 == log2_was);
    // presil_regs: the tail changes by a write, which is the doorbell, or is cleared
    assume (!started || doorbell || ring_tail == (was_clear ? 32'd0 : tail_was));
    assume (!fetch_rvalid || out != 32'd0);
    // presil_record: switched while nothing runs, not in the cycle of another register's write; answers once
    if (was_busy && started) assume (record == was_record && apart == was_apart);
    assume (!apart || record);
    assume (!record_done || recording);
    if (started && !rst) begin
      a_stable: assert (!stalled || (fetch_valid && fetch_beat == was_beat && fetch_len == was_len));
      a_gap: assert (!(was_fetch && fetch_valid));
      a_page: assert (!fetch_valid || (32'(fetch_beat) & (PAGE - 32'd1)) + 32'(fetch_len) < PAGE);
      a_ring: assert (!fetch_valid || (at >= {ring_base, 12'd0} || top < at)
                      && (at + 40'(fetch_len) * WORD < top || top < {ring_base, 12'd0}));
      a_whole: assert (!fetch_valid || ((32'(fetch_len) + 32'd1) % BEATS == 32'd0 && 32'(fetch_len) < 32'd8 * BEATS));
      a_buffer: assert (asked - ring_head <= 32'd16 && got - ring_head <= asked - ring_head);
      a_one: assert ((push & (push - 4'd1)) == 4'd0);
      a_room: assert ((push & ~was_room) == 4'd0);
      a_halted: assert (!was_halt || push == 4'd0);
      a_waits: assert (asked_beats - got_beats == out + (fetch_valid ? 32'(fetch_len) + 32'd1 : 32'd0)
                       && fetch_out == (asked_beats != got_beats));
      a_refused: assert (!was_refused || (own_code == ERROR_WINDOW && own_addr == was_at
                                          && own_index == was_asked_for));
      a_recorded: assert (!(irq_done && was_record) || (was_recording && was_done));
      a_recording: assert (!was_recording || recording || was_done);
      a_over: assert (!irq_done || (!irq_error && !error));
      a_first_error: assert (!(was_halt && was_code != ERROR_NONE)
                             || (error_code == was_code && error_index == was_index));
      c_wrap: cover (fetch_valid && fetch_len == 8'(BEATS - 32'd1) && ring_log2 == 5'd0 && asked == 32'd2);
      c_handed: cover (push == 4'd2 && ring_head == 32'd0);
      c_eight: cover (fetch_valid && 32'(fetch_len) == 32'd8 * BEATS - 32'd1);
      c_refused: cover (irq_error && error_code == ERROR_WINDOW && error_index == 32'd8 && got_beats != 32'd0);
      c_recorded: cover (irq_done && was_record && launch);
      c_error: cover (irq_error && error_code == ERROR_FETCH_BUS);
    end
  end
endmodule
bind presil_command presil_command_properties u_properties (.*);
