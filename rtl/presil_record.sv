// SPDX-License-Identifier: Apache-2.0
// Completion records (docs/isa.md section 1): when a launch is over, its status and all counters go
// to memory, 1 KiB apart, before the interrupt. Registers RECORD_PAGE and RECORD_RING; what is
// written to them acts while no launch runs.
// One burst of 768 bytes. A word of 64 bits a cycle, then the beat goes through STORE's register,
// which is free: so 99 + 2 * 768 / WORD cycles and the bus; nothing is counted meanwhile.
// Reset: synchronous, off; `clean` returns to the first record. Errors: none of its own; those of
// its burst are presil_axi_write's.
module presil_record import presil_config_pkg::*; #(
  localparam int unsigned LW = $clog2(WORD)  /// log2 of WORD, the bytes of a beat
) (
  input  logic              clk,
  input  logic              rst,
  input  logic              clean,           /// queue reset: the next record is the first
  input  logic              req,             /// register request, of the whole block BUS
  input  logic              req_write,       /// it writes
  input  logic [5:0]        req_addr,        /// byte address in the block
  input  logic [31:0]       req_data,        /// data of a write
  input  logic [31:0]       req_mask,        /// bits that are written
  output logic [31:0]       rdata,           /// one cycle after req; 0 for others' addresses
  input  logic              busy,            /// a launch runs: `enabled` stays
  output logic              enabled,         /// launches have records
  output logic              apart,           /// and each doorbell is a launch; as `enabled`
  input  logic              recording,       /// write one; falls behind `done`
  output logic              done,            /// pulse: answered or refused, with its error if any
  // what it says
  input  logic [31:0]       ring_head,       /// as the register
  input  logic [3:0]        error_code,      /// ERROR_*; 0: the launch is done
  input  logic [31:0]       error_index,     /// as the register
  input  logic [39:0]       error_addr,      /// as the register
  output logic [6:0]        counter,         /// number of the counter that is looked at
  input  logic [63:0]       count,           /// its value, in the same cycle
  // presil_axi_write
  output logic              burst_valid,     /// the record's burst; stays until taken
  input  logic              burst_ready,     /// taken in this cycle, a refused one too
  output logic [39-LW:0]    burst_beat,      /// first beat: DRAM byte address / WORD
  output logic [7:0]        burst_len,       /// beats - 1
  output logic              put,             /// pulse: STORE's beat register takes `beat`
  output logic [8*WORD-1:0] beat,            /// a beat, all bytes of it
  output logic              beat_valid,      /// it is there; stays until taken
  input  logic              beat_ready,      /// taken in this cycle
  input  logic              response,        /// pulse: the burst was acknowledged
  input  logic              bad,             /// with an error
  input  logic              refused          /// pulse: no DMA window permits it
);
  localparam int unsigned BYTES = 768, LANES64 = WORD / 8, FW = $clog2(LANES64);
  localparam logic [6:0]  WORDS = 7'(BYTES / 8), HEAD = 7'd4, COUNTERS = 7'd90;
  localparam logic [7:0]  FORMAT = 8'd1;

  // of the records that there is room for: where, and log2 of how many; as written, and as it acts
  logic [27:0] own_page, page;
  logic [3:0]  own_log2, log2;
  logic [15:0] number;                       // records written, free-running
  logic        changed;                      // what is written does not act yet
  logic        wanted, own_apart, was, filling;         // was: recording, in the last cycle
  logic [6:0]  word;                         // the next
  logic [39:0] at;

  assign at      = {page, 12'd0} + {14'd0, number & ~(16'hffff << log2), 10'd0};
  assign counter = word - HEAD;

  function automatic logic [63:0] content();
    case (word)
      7'd0:    return {error_index, 9'd0, COUNTERS, FORMAT, 4'd0, error_code};
      7'd1:    return {24'd0, error_addr};
      7'd2:    return {32'd0, ring_head};
      7'd3:    return 64'd0;
      WORDS - 7'd1: return {48'd0, number + 16'd1};
      default: return (word < HEAD + COUNTERS) ? count : 64'd0;
    endcase
  endfunction

  // Everything that is looked at is looked at first, as in presil_command; without a record nothing
  // is looked at, for the simulator's sake.
  always_ff @(posedge clk) begin
    if (req) begin
      rdata <= 32'd0;
      if (req_addr[5:2] == 4'd3) rdata <= {3'd0, wanted, own_page};
      if (req_addr[5:2] == 4'd7) rdata <= {number, 11'd0, own_apart, own_log2};
    end
    if (recording || was) begin
      logic begins, fills, last, taken, ends, asked, whole;
      logic [63:0] next;
      begins = recording && !was;
      fills  = recording && filling;
      last   = 32'(word[FW-1:0]) == LANES64 - 1;
      whole  = word == WORDS;
      taken  = beat_valid && beat_ready;
      asked  = burst_valid && burst_ready;
      ends   = recording && (response || refused);
      next   = content();
      was  <= recording;
      done <= ends;
      put  <= fills && last;
      if (begins) begin
        burst_valid <= 1'b1;  burst_beat <= (40-LW)'(at >> LW);
        burst_len <= 8'(BYTES / WORD - 1);
        filling <= 1'b1;  word <= 7'd0;
      end
      if (asked) burst_valid <= 1'b0;
      if (fills) begin
        beat <= {next, beat[8*WORD-1:64]};  word <= word + 7'd1;
        if (last) filling <= 1'b0;
      end
      if (taken) begin
        beat_valid <= 1'b0;  filling <= !whole;
      end else if (put) beat_valid <= 1'b1;
      if (ends && refused) begin
        filling <= 1'b0;  put <= 1'b0;  beat_valid <= 1'b0;
      end
      if (ends && response && !bad) number <= number + 16'd1;
    end
    if (changed && !busy) begin
      enabled <= wanted;  apart <= wanted && own_apart;  page <= own_page;  log2 <= own_log2;
      changed <= 1'b0;
    end
    if (req && req_write) begin
      if (req_addr[5:2] == 4'd3)
        {wanted, own_page} <= ({wanted, own_page} & ~req_mask[28:0])
            | (req_data[28:0] & req_mask[28:0]);
      if (req_addr[5:2] == 4'd7)
        {own_apart, own_log2} <= ({own_apart, own_log2} & ~req_mask[4:0])
            | (req_data[4:0] & req_mask[4:0]);
      changed <= 1'b1;
    end
    if (rst || clean) number <= 16'd0;
    if (rst) begin
      own_page <= 28'd0;  own_log2 <= 4'd0;  wanted <= 1'b0;  enabled <= 1'b0;  was <= 1'b0;
      own_apart <= 1'b0;  apart <= 1'b0;  changed <= 1'b0;
      filling <= 1'b0;  put <= 1'b0;  burst_valid <= 1'b0;  beat_valid <= 1'b0;  done <= 1'b0;
    end
  end

  logic unused;
  assign unused = &{req_addr[1:0], req_mask[31:29], req_data[31:29]};

`ifndef SYNTHESIS
  a_quiet: assert property (@(posedge clk) disable iff (rst)
    !recording |-> !burst_valid && !beat_valid && !filling && !put);
  a_stay: assert property (@(posedge clk) disable iff (rst) busy |=> $stable({enabled, apart}));
  c_written: cover property (@(posedge clk) disable iff (rst) done && error_code == 4'd0);
  c_of_an_error: cover property (@(posedge clk) disable iff (rst) done && error_code != 4'd0);
  c_refused: cover property (@(posedge clk) disable iff (rst) recording && refused);
  c_beat_waits: cover property (@(posedge clk) disable iff (rst) beat_valid && !beat_ready);
  c_second: cover property (@(posedge clk) disable iff (rst) recording && at[11:10] != 2'd0);
  c_around: cover property (@(posedge clk) disable iff (rst)
    recording && number != 16'd0 && at[11:10] == 2'd0);
`endif
endmodule
