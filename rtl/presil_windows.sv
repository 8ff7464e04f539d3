// SPDX-License-Identifier: Apache-2.0
// DMA windows, the registers: where in memory the AXI4 master may read and write (WINDOW0_FIRST to
// WINDOW3_LAST, WINDOW_LOCK; docs/isa.md section 1). presil_window judges a burst.
// Registers answer one cycle after the request, with 0 where the address is presil_bus's. What is
// written acts while no launch runs: so all bursts of a launch are judged alike. Once locked, only
// a reset of the chip changes anything.
// Reset: synchronous, no window. Errors: none.
module presil_windows (
  input  logic        clk,
  input  logic        rst,
  input  logic        req,             /// register request, of the whole block BUS
  input  logic        req_write,       /// it writes; nothing happens once locked
  input  logic [5:0]  req_addr,        /// byte address in the block
  input  logic [31:0] req_data,        /// data of a write
  input  logic [31:0] req_mask,        /// bits that are written
  output logic [31:0] rdata,           /// one cycle after req; 0 where the address is another's
  input  logic        busy,            /// a launch runs: the outputs below stay
  output logic        guarded,         /// a window is enabled
  output logic [31:0] first [4],       /// first pages in 27:0: bits 39:12 of addresses
  output logic [31:0] last [4]         /// last pages, too; 28 enable, 29 read, 30 write
);
  localparam logic [31:0] FIRST_BITS = 32'h0fff_ffff, LAST_BITS = 32'h7fff_ffff;

  logic [31:0] own_first [4], own_last [4];
  logic        locked, changed;        // changed: what is written does not act yet
  logic [1:0]  n;
  assign n = req_addr[4:3];

  always_ff @(posedge clk) begin
    if (changed && !busy) begin
      first <= own_first;  last <= own_last;  changed <= 1'b0;
      guarded <= own_last[0][28] || own_last[1][28] || own_last[2][28] || own_last[3][28];
    end
    if (req) begin
      rdata <= 32'd0;
      if (req_addr[5]) rdata <= req_addr[2] ? own_last[n] : own_first[n];
      if (req_addr[5:2] == 4'd2) rdata <= {31'd0, locked};
      if (req_write && !locked) begin
        changed <= 1'b1;
        if (req_addr[5] && !req_addr[2])
          own_first[n] <= ((own_first[n] & ~req_mask) | (req_data & req_mask)) & FIRST_BITS;
        if (req_addr[5] && req_addr[2])
          own_last[n] <= ((own_last[n] & ~req_mask) | (req_data & req_mask)) & LAST_BITS;
        if (req_addr[5:2] == 4'd2) locked <= req_data[0] && req_mask[0];
      end
    end
    if (rst) begin
      own_first <= '{default: 32'd0};  own_last <= '{default: 32'd0};  first <= '{default: 32'd0};
      last <= '{default: 32'd0};  locked <= 1'b0;  changed <= 1'b0;  guarded <= 1'b0;
    end
  end

  logic unused;
  assign unused = &{req_addr[1:0]};

`ifndef SYNTHESIS
  a_stay: assert property (@(posedge clk) disable iff (rst) busy |=> $stable(guarded));
  a_locked: assert property (@(posedge clk) disable iff (rst) locked |=> locked);
  c_later: cover property (@(posedge clk) disable iff (rst) busy && changed);
  c_off_again: cover property (@(posedge clk) disable iff (rst) $fell(guarded));
  c_locked_write: cover property (@(posedge clk) disable iff (rst)
    req && req_write && locked && req_addr[5]);
  c_locked_lock: cover property (@(posedge clk) disable iff (rst)
    req && req_write && locked && req_addr[5:2] == 4'd2 && !req_data[0]);
`endif
endmodule
