// SPDX-License-Identifier: Apache-2.0
// Read-only registers behind the register block: identification, status, error, wait states. Looked
// up only on request, latency 1.
// Also the interrupt flags: set by pulses, cleared by IRQ_CLEAR or queue reset. Reset: synchronous.
// Errors: none.
module presil_status import presil_config_pkg::*, presil_desc_pkg::*; (
  input  logic        clk,
  input  logic        rst,
  input  logic        req,                 /// register request; a write changes nothing
  input  logic [11:0] req_addr,            /// byte address of the register
  output logic [31:0] rdata,               /// one cycle after req; 0 where there is none
  input  logic        busy,                /// a launch runs, or is drained
  input  logic        error,               /// stopped; everything is drained where not busy
  input  logic [3:0]  error_code,          /// ERROR_* of the first error
  input  logic [31:0] error_index,         /// ring count of its descriptor
  input  logic [39:0] error_addr,          /// where, docs/isa.md section 1; 0 if nothing is said
  input  logic        set_done, set_error,  /// pulses: a launch is over, or stopped by an error
  /// pulses of IRQ_CLEAR; a set in the same cycle wins
  input  logic        clear_done, clear_error,
  output logic        irq_done, irq_error,  /// flags of IRQ_STATUS, before IRQ_ENABLE
  input  logic [ENGINES-1:0] active,       /// engine holds a descriptor; bit 0 LOAD, 3 STORE
  input  logic [3:0]  cause [ENGINES],     /// CAUSE_* of each engine
  input  logic [31:0] counts [5],          /// token counters, four of 8 bits an engine, VECTOR last
  input  logic [19:0] want [ENGINES],  /// tokens the engine's oldest queued descriptor waits for
  input  logic [31:0] want_index [ENGINES]  /// its ring count; 0, as want, if there is none
);
  localparam logic [15:0] VERSION_MAJOR = 16'(ISA_VERSION), VERSION_MINOR = 16'd0;

  function automatic logic [31:0] look(input logic [11:0] a);
    case (a)
      12'h000: return 32'h5052_534c;
      12'h004: return {VERSION_MAJOR, VERSION_MINOR};
      12'h008: return {16'(CELLS), 16'(LANES)};
      12'h00c: return {16'(BANKS), 16'(WORD)};
      12'h010: return BANK_WORDS;
      12'h014: return ACC_ROWS;
      12'h018: return CONFIG_HASH;
      12'h01c: return {25'd0, 2'b11, PARITY, 4'd11};
      12'h038: return {20'd0, active[3], active[2], active[1], active[0], 6'd0, error, busy};
      12'h03c: return {28'd0, error_code};
      12'h040: return error_index;
      12'h044: return error_addr[31:0];
      12'h048: return {24'd0, error_addr[39:32]};
      12'h04c: return {30'd0, irq_error, irq_done};
      12'h058: return {12'd0, CAUSE_COMMAND, cause[3], cause[2], cause[1], cause[0]};
      12'h060: return counts[0];
      12'h064: return counts[1];
      12'h068: return counts[2];
      12'h06c: return counts[3];
      12'h070: return counts[4];
      12'h074: return {12'd0, want[0]};
      12'h078: return {12'd0, want[1]};
      12'h07c: return {12'd0, want[2]};
      12'h080: return {12'd0, want[3]};
      12'h088: return want_index[0];
      12'h08c: return want_index[1];
      12'h090: return want_index[2];
      12'h094: return want_index[3];
      default: return 32'd0;
    endcase
  endfunction

  always_ff @(posedge clk) begin
    if (req) rdata <= look(req_addr);
    if (set_done) irq_done <= 1'b1;
    else if (clear_done) irq_done <= 1'b0;
    if (set_error) irq_error <= 1'b1;
    else if (clear_error) irq_error <= 1'b0;
    if (rst) begin
      irq_done <= 1'b0;  irq_error <= 1'b0;
    end
  end

`ifndef SYNTHESIS
  c_done: cover property (@(posedge clk) disable iff (rst) irq_done);
  c_error: cover property (@(posedge clk) disable iff (rst) irq_error);
  c_set_and_clear: cover property (@(posedge clk) disable iff (rst)
    (set_done && clear_done) || (set_error && clear_error));
`endif
endmodule
