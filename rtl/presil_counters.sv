// SPDX-License-Identifier: Apache-2.0
// Counters of docs/isa.md section 6: while a launch runs every cycle is charged to one cause of
// each engine. Live values, and the copy that the last snapshot made, which is what the registers
// show (n: rtl/presil.rdl COUNTERS).
// One array and one dynamic increment an engine: a loop over all counters would cost simulation
// time in every cycle.
// Registers: read latency 1. Running counts (`live`, for records): combinational. Reset:
// synchronous; registers read zero until the first snapshot. Errors: none.
module presil_counters import presil_config_pkg::*; import presil_desc_pkg::*; #(
  localparam int unsigned LW = $clog2(WORD)
) (
  input  logic        clk,
  input  logic        rst,
  input  logic        busy,            /// a launch runs, no record: each cycle counts
  input  logic        launch,          /// its first cycle
  input  logic [3:0]  cause [ENGINES],  /// CAUSE_* of each engine
  input  logic        descriptor,      /// one is handed over by decode, NOPs too
  input  logic        read_beat,       /// a beat of LOAD is taken
  input  logic        fetch_beat,      /// a beat of a descriptor is taken
  input  logic        write_beat,      /// a beat of STORE is taken by the bus
  input  logic [LW:0] write_bytes,     /// strobed bytes of the beat, 0 to WORD
  input  logic        snapshot,        /// pulse: copy what is counted
  input  logic        clear,           /// pulse: zero it, behind a snapshot, before the cycle's own
  input  logic        req,             /// register request; the copy answers
  input  logic [7:0]  req_word,        /// 32-bit word: counter, high half
  output logic [31:0] rdata,           /// one cycle after req
  input  logic        live,            /// look at a running count
  input  logic [6:0]  live_n,          /// its number
  output logic [63:0] live_count       /// in the same cycle; without live 0
);
  typedef logic [63:0] causes_t [16];
  // Running counts and what the last snapshot saw of them. A count is zero while its bit in k_ (of
  // the snapshot: y_) is not set: clearing the arrays themselves would make Verilator copy them in
  // every cycle.
  causes_t c_load, c_matrix, c_epilogue, c_store, s_load, s_matrix, s_epilogue, s_store;
  logic [15:0] k_load, k_matrix, k_epilogue, k_store, y_load, y_matrix, y_epilogue, y_store;
  logic [63:0] cycles, z_cycles, read_beats, write_beats, bytes, descriptors, launches, fetch_beats,
      start, first, last;
  logic        seen;                   // MATRIX was busy in this launch
  logic        taken;                  // there was a snapshot
  causes_t     s_other;                // counters 80 to 95

  function automatic logic [63:0] pick(input logic [6:0] n);
    case (n[6:4])
      3'd0: return y_load[n[3:0]] ? s_load[n[3:0]] : 64'd0;
      3'd1: return y_matrix[n[3:0]] ? s_matrix[n[3:0]] : 64'd0;
      3'd2: return y_epilogue[n[3:0]] ? s_epilogue[n[3:0]] : 64'd0;
      3'd3: return y_store[n[3:0]] ? s_store[n[3:0]] : 64'd0;
      // VECTOR never has a descriptor
      3'd4: return (taken && n[3:0] == CAUSE_COMMAND) ? s_other[0] : 64'd0;
      3'd5: return (taken && n[3:0] < 4'd10) ? s_other[n[3:0]] : 64'd0;
      default: return 64'd0;
    endcase
  endfunction

  function automatic logic [63:0] running(input logic [6:0] n);
    case (n)
      7'd80:   return cycles - z_cycles;
      7'd81:   return read_beats;
      7'd82:   return write_beats;
      7'd83:   return read_beats * WORD;
      7'd84:   return bytes;
      7'd85:   return descriptors;
      7'd86:   return launches;
      7'd87:   return fetch_beats;
      7'd88:   return first - start;
      7'd89:   return last - start;
      default: ;
    endcase
    case (n[6:4])
      3'd0:    return k_load[n[3:0]] ? c_load[n[3:0]] : 64'd0;
      3'd1:    return k_matrix[n[3:0]] ? c_matrix[n[3:0]] : 64'd0;
      3'd2:    return k_epilogue[n[3:0]] ? c_epilogue[n[3:0]] : 64'd0;
      3'd3:    return k_store[n[3:0]] ? c_store[n[3:0]] : 64'd0;
      default: return (n == 7'd64 + 7'(CAUSE_COMMAND)) ? cycles - z_cycles : 64'd0;
    endcase
  endfunction
  always_comb begin                    // not as an expression: simulators would look in every cycle
    live_count = 64'd0;
    if (live) live_count = running(live_n);
  end

  function automatic logic [63:0] counted(input logic [63:0] count, input logic known);
    return (known && !clear) ? count + 64'd1 : 64'd1;
  endfunction
  function automatic logic [15:0] marked(input logic [15:0] known, input logic [3:0] n);
    return (clear ? 16'd0 : known) | (busy ? 16'd1 << n : 16'd0);
  endfunction

  // what reads the counters comes before what changes them: no shadow copies
  always_ff @(posedge clk) begin
    if (req) rdata <= req_word[0] ? 32'(pick(req_word[7:1]) >> 32) : 32'(pick(req_word[7:1]));
    if (snapshot) begin
      s_load <= c_load;  s_matrix <= c_matrix;  s_epilogue <= c_epilogue;  s_store <= c_store;
      y_load <= k_load;  y_matrix <= k_matrix;  y_epilogue <= k_epilogue;  y_store <= k_store;
      taken <= 1'b1;
      s_other[0] <= cycles - z_cycles;  s_other[1] <= read_beats;  s_other[2] <= write_beats;
      s_other[3] <= read_beats << LW;  s_other[4] <= bytes;
      s_other[5] <= descriptors;  s_other[6] <= launches;  s_other[7] <= fetch_beats;
      s_other[8] <= first - start;
      s_other[9] <= last - start;
    end
    if (clear) z_cycles <= cycles;
    if (launch) begin
      start <= cycles;  first <= cycles;  last <= cycles;  seen <= 1'b0;
      launches <= launches + 64'd1;
    end else if (busy && cause[MATRIX] == CAUSE_BUSY) begin
      if (!seen) first <= cycles;
      last <= cycles;  seen <= 1'b1;
    end
    if (busy) begin
      c_load[cause[LOAD]]         <= counted(c_load[cause[LOAD]], k_load[cause[LOAD]]);
      c_matrix[cause[MATRIX]]     <= counted(c_matrix[cause[MATRIX]], k_matrix[cause[MATRIX]]);
      c_epilogue[cause[EPILOGUE]] <= counted(c_epilogue[cause[EPILOGUE]],
                                             k_epilogue[cause[EPILOGUE]]);
      c_store[cause[STORE]]       <= counted(c_store[cause[STORE]], k_store[cause[STORE]]);
      cycles <= cycles + 64'd1;
    end
    if (busy || clear) begin
      k_load     <= marked(k_load, cause[LOAD]);
      k_matrix   <= marked(k_matrix, cause[MATRIX]);
      k_epilogue <= marked(k_epilogue, cause[EPILOGUE]);
      k_store    <= marked(k_store, cause[STORE]);
    end
    if (descriptor) descriptors <= descriptors + 64'd1;
    if (read_beat) read_beats <= read_beats + 64'd1;
    if (fetch_beat) fetch_beats <= fetch_beats + 64'd1;
    if (write_beat) begin
      write_beats <= write_beats + 64'd1;  bytes <= bytes + 64'(write_bytes);
    end
    if (clear) begin
      descriptors <= 64'(descriptor);  launches <= 64'(launch);
      read_beats <= 64'(read_beat);  fetch_beats <= 64'(fetch_beat);
      write_beats <= 64'(write_beat);  bytes <= write_beat ? 64'(write_bytes) : 64'd0;
    end
    if (rst) begin
      descriptors <= 64'd0;  launches <= 64'd0;  read_beats <= 64'd0;  fetch_beats <= 64'd0;
      write_beats <= 64'd0;  bytes <= 64'd0;
      cycles <= 64'd0;  z_cycles <= 64'd0;  start <= 64'd0;  first <= 64'd0;  last <= 64'd0;
      seen <= 1'b0;  taken <= 1'b0;
      k_load <= 16'd0;  k_matrix <= 16'd0;  k_epilogue <= 16'd0;  k_store <= 16'd0;
      y_load <= 16'd0;  y_matrix <= 16'd0;  y_epilogue <= 16'd0;  y_store <= 16'd0;
    end
  end

`ifndef SYNTHESIS
  // every cycle of a launch is charged to one cause of each engine
  logic [3:0] charged;
  always_comb begin
    logic [63:0] load, matrix, epilogue, store;
    load = 64'd0;  matrix = 64'd0;  epilogue = 64'd0;  store = 64'd0;
    if (snapshot) begin
      for (int unsigned i = 0; i < 16; i++) begin
        load     += k_load[i] ? c_load[i] : 64'd0;
        matrix   += k_matrix[i] ? c_matrix[i] : 64'd0;
        epilogue += k_epilogue[i] ? c_epilogue[i] : 64'd0;
        store    += k_store[i] ? c_store[i] : 64'd0;
      end
    end
    charged = {store == cycles - z_cycles, epilogue == cycles - z_cycles,
        matrix == cycles - z_cycles,
               load == cycles - z_cycles};
  end
  a_load: assert property (@(posedge clk) disable iff (rst) snapshot |-> charged[0]);
  a_matrix: assert property (@(posedge clk) disable iff (rst) snapshot |-> charged[1]);
  a_epilogue: assert property (@(posedge clk) disable iff (rst) snapshot |-> charged[2]);
  a_store: assert property (@(posedge clk) disable iff (rst) snapshot |-> charged[3]);
  c_snapshot_busy: cover property (@(posedge clk) disable iff (rst) snapshot && busy);
  c_snapshot_idle: cover property (@(posedge clk) disable iff (rst) snapshot && !busy);
  c_clear_busy: cover property (@(posedge clk) disable iff (rst) clear && busy);
  c_clear_idle: cover property (@(posedge clk) disable iff (rst) clear && !busy);
  c_never_busy: cover property (@(posedge clk) disable iff (rst) snapshot && !seen);
`endif
endmodule
