// SPDX-License-Identifier: Apache-2.0
// AXI4 read side of the chip: arbitrates LOAD (ID 0) and descriptor fetch (ID 1) onto AR, routes R
// by ID, counts what is outstanding.
// AR is registered (one burst a cycle); R passes through. At most 256 LOAD bursts outstanding.
// RREADY says whether LOAD has room, whoever the beat is for, so that it depends on registers
// alone: a descriptor waits with LOAD's window, which drains into the scratchpad without needing
// any other descriptor. The fetcher asks only for what it has room for. Reset: synchronous, only
// when idle.
// Errors: SLVERR or DECERR of a LOAD beat raises err_valid one cycle later with the beat's address
// and the descriptor's index; `overdue` raises late_valid with those of the beat that LOAD waits
// for, or, where it waits for none, fetch_overdue at once.
// A burst outside the DMA windows is taken and never offered: of LOAD it raises load_refused one
// cycle later with its address and the descriptor's index, of the fetcher fetch_refused at once.
module presil_axi_read import presil_config_pkg::*; #(
  localparam int unsigned LW = $clog2(WORD)  /// log2 of WORD, the bytes of a beat
) (
  input  logic           clk,
  input  logic           rst,
  input  logic           halt,               /// accept no more bursts of LOAD
  output logic           load_idle,          /// no LOAD burst outstanding
  input  logic           load_valid,         /// LOAD asks for a burst
  output logic           load_ready,         /// taken in this cycle, a refused one too
  input  logic [39-LW:0] load_beat,          /// first beat: DRAM byte address / WORD
  input  logic [7:0]     load_len,           /// beats of the burst - 1
  input  logic [31:0]    load_index,         /// ring count of the burst's descriptor
  output logic           load_rvalid,        /// the beat on R is LOAD's: RID 0
  input  logic           load_rready,        /// LOAD has room for a beat
  input  logic           fetch_valid,        /// the fetcher asks for a burst, before LOAD
  output logic           fetch_ready,        /// taken in this cycle, a refused one too
  input  logic [39-LW:0] fetch_beat,         /// first beat: DRAM byte address / WORD
  input  logic [7:0]     fetch_len,          /// beats of the burst - 1
  output logic           fetch_rvalid,       /// a beat of a descriptor is taken
  input  logic           overdue,            /// the bus is silent (AR or R): pulse
  output logic           late_valid,         /// pulse: overdue, and LOAD waits; err_* say for what
  output logic           fetch_overdue,      /// same cycle: overdue, and LOAD waits for none
  input  logic           guarded,            /// DMA windows: one is enabled
  input  logic [31:0]    first [4],          /// bits 27:0: window n's first page of 4 KiB
  input  logic [31:0]    last [4],           /// 27:0: last page; 28: enabled, 29: reads allowed
  output logic           load_refused,       /// pulse: a burst of LOAD is outside; err_* name it
  output logic           fetch_refused,      /// the fetch taken in this cycle is outside
  output logic           err_valid,          /// pulse: SLVERR or DECERR for a beat of LOAD
  output logic [31:0]    err_index,          /// ring count, of err_valid, late_valid, load_refused
  output logic [39:0]    err_addr,           /// byte address of the beat, or burst refused
  output logic [3:0]     arid,               /// 0: LOAD, 1: descriptor fetch
  output logic [39:0]    araddr,             /// byte address, WORD-aligned
  output logic [7:0]     arlen,              /// beats - 1; the burst stays within 4 KiB
  output logic           arvalid,            /// from a register; stays until arready
  input  logic           arready,            /// from the memory
  input  logic           rid,                /// low bit: 1 for a descriptor's beat
  input  logic           rresp,              /// high bit: SLVERR or DECERR
  input  logic           rlast,              /// last beat of a burst; looked at for LOAD only
  input  logic           rvalid,             /// a beat, of either ID
  output logic           rready              /// LOAD has room, whoever the beat is for
);
  localparam int unsigned DEPTH = 256;
  logic [39-LW:0] q_beat [DEPTH];            // outstanding LOAD bursts, oldest at tail
  logic [31:0]    q_index [DEPTH];
  logic [7:0]     head, tail, beat;          // beat: of the oldest burst
  logic [8:0]     count;
  logic           free, push, pop, take, outside, refuse;
  logic [27:0]    page;                      // of the burst that is judged

  assign free         = !arvalid || arready;
  assign fetch_ready  = free;
  assign load_ready   = free && !fetch_valid && !halt && !count[8];
  assign push         = load_valid && load_ready && !outside;
  assign refuse       = load_valid && load_ready && outside;
  assign fetch_refused = fetch_valid && free && outside;
  assign page = fetch_valid ? fetch_beat[39-LW:12-LW] : load_beat[39-LW:12-LW];
  presil_window #(.PERMIT(29)) u_window (.guarded, .first, .last, .valid(fetch_valid || load_valid),
      .page, .outside);
  assign load_rvalid  = rvalid && !rid;
  assign fetch_rvalid = rvalid && rid && load_rready;
  assign rready       = load_rready;
  assign take         = load_rvalid && load_rready;
  assign pop          = take && rlast;
  assign load_idle    = count == 9'd0;
  assign fetch_overdue = overdue && load_idle;

  always_ff @(posedge clk) begin
    if (arready) arvalid <= 1'b0;
    if (fetch_valid && free) begin
      arvalid <= !outside;  arid <= 4'd1;  araddr <= {fetch_beat, {LW{1'b0}}};  arlen <= fetch_len;
    end
    if (push) begin
      arvalid <= 1'b1;  arid <= 4'd0;  araddr <= {load_beat, {LW{1'b0}}};  arlen <= load_len;
      q_beat[head] <= load_beat;  q_index[head] <= load_index;
      head <= head + 8'd1;
    end
    err_valid  <= take && rresp;
    late_valid <= overdue && !load_idle;
    load_refused <= refuse;
    if ((overdue && !load_idle) || (rresp && take)) begin
      err_index <= q_index[tail];
      err_addr  <= {q_beat[tail] + (40-LW)'(beat), {LW{1'b0}}};
    end else if (refuse) begin
      err_index <= load_index;  err_addr <= {load_beat, {LW{1'b0}}};
    end
    if (take) begin
      beat <= rlast ? 8'd0 : beat + 8'd1;
      if (rlast) tail <= tail + 8'd1;
    end
    if (push != pop) count <= push ? count + 9'd1 : count - 9'd1;
    if (rst) begin
      arvalid <= 1'b0;  head <= 8'd0;  tail <= 8'd0;  beat <= 8'd0;  count <= 9'd0;
      err_valid <= 1'b0;
      late_valid <= 1'b0;  load_refused <= 1'b0;
    end
  end

`ifndef SYNTHESIS
  // AXI: what is offered stays; no burst crosses 4 KiB; no data without a burst
  a_stay: assert property (@(posedge clk) disable iff (rst)
    arvalid && !arready |=> arvalid && $stable(araddr) && $stable(arlen) && $stable(arid));
  a_page: assert property (@(posedge clk) disable iff (rst)
    arvalid |-> 32'(araddr[11:0]) + (32'(arlen) + 32'd1) * WORD <= 32'd4096);
  a_refused: assert property (@(posedge clk) disable iff (rst)
    refuse || fetch_refused |=> !arvalid);
  a_under: assert property (@(posedge clk) disable iff (rst) load_rvalid |-> count > 9'd0);
  a_over: assert property (@(posedge clk) disable iff (rst) count <= 9'd256);
  c_late: cover property (@(posedge clk) disable iff (rst) late_valid);
  c_fetch_late: cover property (@(posedge clk) disable iff (rst) fetch_overdue);
  c_full: cover property (@(posedge clk) disable iff (rst) count[8]);
  c_wrap: cover property (@(posedge clk) disable iff (rst) push && head == 8'd255);
  c_request_waits: cover property (@(posedge clk) disable iff (rst) arvalid && !arready);
  c_data_waits: cover property (@(posedge clk) disable iff (rst) rvalid && !rready);
  c_fetch_first: cover property (@(posedge clk) disable iff (rst)
    fetch_valid && load_valid && free);
  c_fetch_inside: cover property (@(posedge clk) disable iff (rst) fetch_rvalid && beat != 8'd0);
  c_fetch_waits: cover property (@(posedge clk) disable iff (rst) rvalid && rid && !rready);
  c_error_first: cover property (@(posedge clk) disable iff (rst) rresp && take && beat == 8'd0);
  c_error_later: cover property (@(posedge clk) disable iff (rst) rresp && take && beat != 8'd0);
  c_refused: cover property (@(posedge clk) disable iff (rst) load_refused);
  c_refused_fetch: cover property (@(posedge clk) disable iff (rst) fetch_refused);
  c_refused_among_others: cover property (@(posedge clk) disable iff (rst)
    load_refused && count > 9'd1);
  c_permitted: cover property (@(posedge clk) disable iff (rst) guarded && push);
  c_permitted_fetch: cover property (@(posedge clk) disable iff (rst)
    guarded && fetch_valid && free && !outside);
  c_halt_out: cover property (@(posedge clk) disable iff (rst) halt && count != 9'd0);
`endif
endmodule
