// SPDX-License-Identifier: Apache-2.0
// Cuts runs of beats into AXI bursts that respect 4 KiB (so at most 4096/WORD beats, <= 256 for
// WORD >= 16, which is required).
// Combinational from its state; one burst a cycle, also across runs. Reset: synchronous. Errors:
// none.
module presil_bursts import presil_config_pkg::*; #(
  localparam int unsigned LW = $clog2(WORD)  /// log2 of WORD, the bytes of a beat
) (
  input  logic           clk,
  input  logic           rst,
  input  logic           run_valid,            /// a run of beats
  output logic           run_ready,            /// taken in this cycle; looks at burst_ready
  input  logic [39-LW:0] run_beat,             /// its first beat: byte address / WORD
  input  logic [31:0]    run_beats,            /// > 0
  output logic           burst_valid,          /// a burst; stays until burst_ready
  input  logic           burst_ready,          /// taken in this cycle
  output logic [39-LW:0] burst_beat,           /// its first beat: byte address / WORD
  output logic [7:0]     burst_len             /// beats - 1
);
  localparam logic [31:0] PAGE = 4096 / WORD;
  logic [31:0] left, room, now;

  assign room        = PAGE - {20'd0, burst_beat[11-LW:0], {LW{1'b0}}} / WORD;
  assign now         = (left < room) ? left : room;
  assign burst_valid = left != 32'd0;
  assign burst_len   = 8'(now - 32'd1);
  assign run_ready   = left == 32'd0 || (burst_ready && left == now);

  always_ff @(posedge clk) begin
    // registers are read before they are assigned, also in branches: otherwise Verilator keeps
    // shadow copies
    if (burst_valid && burst_ready && !(left == now && run_valid)) begin
      burst_beat <= burst_beat + (40-LW)'(now);
      left       <= left - now;
    end else if (run_valid && run_ready) begin
      burst_beat <= run_beat;
      left       <= run_beats;
    end
    if (rst) left <= 32'd0;
  end

`ifndef SYNTHESIS
  c_crosses: cover property (@(posedge clk) disable iff (rst) burst_valid && left > room);
  c_to_the_end: cover property (@(posedge clk) disable iff (rst) burst_valid && left == room);
  c_single: cover property (@(posedge clk) disable iff (rst) burst_valid && now == 32'd1);
  c_longest: cover property (@(posedge clk) disable iff (rst) burst_valid && now == PAGE);
  c_back_to_back: cover property (@(posedge clk) disable iff (rst)
    run_valid && run_ready && burst_valid);
  c_waits: cover property (@(posedge clk) disable iff (rst) burst_valid && !burst_ready);
`endif
endmodule
