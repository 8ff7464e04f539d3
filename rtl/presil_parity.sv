// SPDX-License-Identifier: Apache-2.0
// Wrong parity of scratchpad, accumulators and line buffer (docs/isa.md section 1, Parity): the
// launch's error, and the counters PARITY_SPAD, PARITY_ACC and PARITY_LINE. Only in a chip with
// PARITY.
// A wrong row is told a cycle after it came; of several in a cycle the scratchpad's first, then the
// accumulators'.
// Registers answer one cycle after the request, with 0 where the address is another's of the block.
// Reset: synchronous, of the chip; a queue reset leaves the counters. Errors: err_*, code PARITY.
module presil_parity (
  input  logic        clk,
  input  logic        rst,
  /// in the first cycle of what was read
  input  logic        spad_bad,          /// scratchpad: wrong parity of a word
  input  logic        spad_bad_store,    /// read by STORE; spad_bad_index says nothing then
  input  logic [31:0] spad_bad_index,    /// ring count of the reader's descriptor
  input  logic [31:0] spad_bad_addr,     /// byte address of the word
  input  logic        acc_bad,           /// accumulators: wrong parity of a row
  input  logic        acc_bad_epilogue,  /// read by EPILOGUE, else by MATRIX
  input  logic [31:0] acc_bad_row,       /// half * ACC_ROWS + row
  input  logic        line_bad,          /// line buffer: wrong parity of a word
  input  logic [31:0] line_bad_at,       /// (rows above - 1) * 64 + position
  input  logic [31:0] oldest_matrix,     /// ring count of MATRIX's oldest descriptor in flight
  input  logic [31:0] oldest_epilogue,   /// of EPILOGUE's
  input  logic [31:0] oldest_store,      /// of STORE's
  output logic        err_valid,         /// one cycle later: error PARITY, with the two below
  output logic [31:0] err_index,         /// ring count of the descriptor
  output logic [39:0] err_addr,          /// 39:32 which memory, 31:0 where (docs/isa.md)
  input  logic        req,               /// register request, of the whole block BUS
  input  logic        req_write,         /// a write of any value zeroes the counter
  input  logic [5:0]  req_addr,          /// byte address in the block
  output logic [31:0] rdata              /// one cycle after req; 0 where the address is another's
);
  localparam logic [7:0] IN_SPAD = 8'd0, IN_ACC = 8'd1, IN_LINE = 8'd2;   // ERROR_ADDR_HI

  logic [15:0] spad, acc, line;          // counters

  function automatic logic [15:0] counted(input logic [15:0] count, input logic bad);
    return (bad && count != 16'hffff) ? count + 16'd1 : count;
  endfunction

  always_ff @(posedge clk) begin
    err_valid <= spad_bad || acc_bad || line_bad;
    if (spad_bad) begin
      err_index <= spad_bad_store ? oldest_store : spad_bad_index;
      err_addr <= {IN_SPAD, spad_bad_addr};
    end else if (acc_bad) begin
      err_index <= acc_bad_epilogue ? oldest_epilogue : oldest_matrix;
      err_addr <= {IN_ACC, acc_bad_row};
    end else if (line_bad) begin
      err_index <= oldest_matrix;  err_addr <= {IN_LINE, line_bad_at};
    end
    if (req) begin
      rdata <= 32'd0;
      if (req_addr[5:2] == 4'd4) rdata <= {16'd0, spad};
      if (req_addr[5:2] == 4'd5) rdata <= {16'd0, acc};
      if (req_addr[5:2] == 4'd6) rdata <= {16'd0, line};
    end
    spad <= counted(spad, spad_bad);
    acc  <= counted(acc, acc_bad);
    line <= counted(line, line_bad);
    if (req && req_write && req_addr[5:2] == 4'd4) spad <= 16'd0;
    if (req && req_write && req_addr[5:2] == 4'd5) acc  <= 16'd0;
    if (req && req_write && req_addr[5:2] == 4'd6) line <= 16'd0;
    if (rst) begin
      err_valid <= 1'b0;  spad <= 16'd0;  acc <= 16'd0;  line <= 16'd0;
    end
  end

  logic unused;
  assign unused = &{req_addr[1:0]};

`ifndef SYNTHESIS
  c_scratchpad: cover property (@(posedge clk) disable iff (rst) spad_bad);
  c_store: cover property (@(posedge clk) disable iff (rst) spad_bad && spad_bad_store);
  c_accumulators: cover property (@(posedge clk) disable iff (rst) acc_bad && !acc_bad_epilogue);
  c_epilogue: cover property (@(posedge clk) disable iff (rst) acc_bad && acc_bad_epilogue);
  c_lines: cover property (@(posedge clk) disable iff (rst) line_bad);
`endif
endmodule
