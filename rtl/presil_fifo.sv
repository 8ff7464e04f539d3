// SPDX-License-Identifier: Apache-2.0
// Queue: what is put comes out in order, a cycle later at the earliest. One entry in and one out a
// cycle, also while full. Its memory is read without a clock, the oldest entry.
// Reset: empty; entries are not reset. Errors: none; it loses nothing if `put` heeds `full`.
module presil_fifo #(
  parameter type T = logic,              /// what an entry is
  parameter int unsigned DEPTH = 4       /// entries; a power of two, 2 at least
) (
  input  logic clk,
  input  logic rst,
  input  logic put,                      /// `in` joins; not while full
  input  T     in,                       /// valid with put
  output logic full,                     /// DEPTH entries
  input  logic take,                     /// `oldest` goes; not while empty
  output T     oldest,                   /// valid while not empty
  output logic empty                     /// no entry
);
  localparam int unsigned LD = $clog2(DEPTH);
  T                entries [DEPTH];
  logic [LD-1:0]   head, tail;
  logic [LD:0]     held;

  assign full   = held[LD];
  assign empty  = held == '0;
  assign oldest = entries[tail];

  always_ff @(posedge clk) begin
    if (put) begin
      entries[head] <= in;  head <= head + LD'(1);
    end
    if (take) tail <= tail + LD'(1);
    if (put != take) held <= put ? held + (LD+1)'(1) : held - (LD+1)'(1);
    if (rst) begin
      head <= '0;  tail <= '0;  held <= '0;
    end
  end

`ifndef SYNTHESIS
  a_over: assert property (@(posedge clk) disable iff (rst) !(put && full));
  a_under: assert property (@(posedge clk) disable iff (rst) !(take && empty));
  c_full: cover property (@(posedge clk) disable iff (rst) full);
  c_wrap: cover property (@(posedge clk) disable iff (rst) put && head == '1);
`endif
endmodule
