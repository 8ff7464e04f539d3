// SPDX-License-Identifier: Apache-2.0
// AXI4 write side of the chip: STORE's bursts onto AW (registered), its beats onto W (passed
// through; offered with or after their address, and neither waits for the other to be taken), B.
// At most 128 bursts outstanding. Reset: synchronous, only when idle.
// Halt: no burst is accepted; beats that are owed are sent with zero strobes, and presil_store_pack
// holds its beat. It ends for the completion record, when nothing is owed.
// Errors: SLVERR or DECERR raises err_valid one cycle later with the burst's address and the
// descriptor's index; `overdue` raises late_valid with those of the oldest burst outstanding. A
// burst outside the DMA windows is taken and never offered: it raises `refused` one cycle later
// with its own. No burst is taken between that and the halt, whose data would be those of the one
// refused.
module presil_axi_write import presil_config_pkg::*; #(
  localparam int unsigned LW = $clog2(WORD)  /// log2 of WORD, the bytes of a beat
) (
  input  logic            clk,
  input  logic            rst,
  /// accept no more bursts; zero the strobes of beats owed
  input  logic            halt,
  output logic            idle,               /// nothing outstanding
  input  logic            burst_valid,        /// STORE asks for a burst
  output logic            burst_ready,        /// taken in this cycle, a refused one too
  input  logic [39-LW:0]  burst_beat,         /// first beat: DRAM byte address / WORD
  input  logic [7:0]      burst_len,          /// beats of the burst - 1
  input  logic [31:0]     burst_index,        /// ring count of the burst's descriptor
  input  logic            beat_valid,         /// STORE's next beat; its data go straight to WDATA
  output logic            beat_ready,         /// taken in this cycle; 0 while beats owed are zeroed
  input  logic [WORD-1:0] beat_strb,          /// bytes of the beat to write
  output logic            response,           /// pulse: a burst was acknowledged
  /// the oldest burst is sent, address and data, and not acknowledged
  output logic            unanswered,
  input  logic            overdue,            /// the bus is silent (AW, W or B): pulse
  output logic            late_valid,         /// pulse: overdue; err_* name the oldest burst
  input  logic            guarded,            /// DMA windows: one is enabled
  input  logic [31:0]     first [4],          /// bits 27:0: window n's first page of 4 KiB
  input  logic [31:0]     last [4],           /// 27:0: last page; 28: enabled, 30: writes allowed
  output logic            refused,            /// pulse: a burst is outside; err_* name it
  output logic            err_valid,          /// pulse: SLVERR or DECERR for a burst
  output logic [31:0]     err_index,          /// ring count, of err_valid, late_valid, refused
  output logic [39:0]     err_addr,           /// byte address of the burst's first beat
  output logic [39:0]     awaddr,             /// byte address, WORD-aligned
  output logic [7:0]      awlen,              /// beats - 1; the burst stays within 4 KiB
  output logic            awvalid,            /// from a register; stays until awready
  input  logic            awready,            /// from the memory
  output logic [WORD-1:0] wstrb,              /// bytes to write; 0 for beats owed after halt
  output logic            wlast,              /// last beat of its burst
  output logic            wvalid,             /// not before the burst's address is offered
  input  logic            wready,             /// from the memory
  input  logic            bresp,              /// high bit: SLVERR or DECERR
  input  logic            bvalid              /// a burst's response, in order: always taken
);
  localparam int unsigned DEPTH = 128;
  // outstanding bursts: data sent up to `data`, acknowledged up to `tail`
  logic [39-LW:0] q_beat [DEPTH];
  logic [7:0]     q_len [DEPTH];
  logic [31:0]    q_index [DEPTH];
  logic [7:0]     head, data, tail;           // one bit more than the index
  logic [7:0]     issued;                     // bursts whose address has been accepted
  logic [7:0]     beat;
  logic           drain, push, owed, outside, refuse;
  logic [27:0]    page;                       // of the burst that is judged

  assign burst_ready = (!awvalid || awready) && !halt && !refused && (head - tail) != 8'd128;
  assign push        = burst_valid && burst_ready && !outside;
  assign refuse      = burst_valid && burst_ready && outside;
  assign page        = burst_beat[39-LW:12-LW];
  presil_window #(.PERMIT(30)) u_window (.guarded, .first, .last, .valid(burst_valid), .page,
      .outside);
  assign owed        = data != head;
  assign wvalid      = owed && (beat_valid || drain);
  assign beat_ready  = owed && wready && !drain;
  assign wstrb       = drain ? '0 : beat_strb;
  assign wlast       = beat == q_len[data[6:0]];
  assign response    = bvalid;
  assign idle        = head == tail && !awvalid;
  assign unanswered  = data != tail && issued != tail;

  always_ff @(posedge clk) begin
    // strobes must not change while a beat waits
    if (halt && !(wvalid && !wready)) drain <= 1'b1;
    else if (!halt) drain <= 1'b0;
    if (awvalid && awready) begin
      awvalid <= 1'b0;  issued <= issued + 8'd1;
    end
    if (push) begin
      awvalid <= 1'b1;  awaddr <= {burst_beat, {LW{1'b0}}};  awlen <= burst_len;
      q_beat[head[6:0]] <= burst_beat;  q_len[head[6:0]] <= burst_len;
      q_index[head[6:0]] <= burst_index;
      head <= head + 8'd1;
    end
    if (wvalid && wready) begin
      beat <= wlast ? 8'd0 : beat + 8'd1;
      if (wlast) data <= data + 8'd1;
    end
    err_valid  <= bvalid && bresp;
    late_valid <= overdue;
    refused    <= refuse;
    if (overdue || (bresp && bvalid)) begin
      err_index <= q_index[tail[6:0]];
      err_addr  <= {q_beat[tail[6:0]], {LW{1'b0}}};
    end else if (refuse) begin
      err_index <= burst_index;  err_addr <= {burst_beat, {LW{1'b0}}};
    end
    if (bvalid) tail <= tail + 8'd1;
    if (rst) begin
      awvalid <= 1'b0;  head <= 8'd0;  data <= 8'd0;  tail <= 8'd0;  issued <= 8'd0;  beat <= 8'd0;
      drain <= 1'b0;
      err_valid <= 1'b0;  late_valid <= 1'b0;  refused <= 1'b0;
    end
  end

`ifndef SYNTHESIS
  // AXI: what is offered stays; no burst crosses 4 KiB; no response without a burst whose address
  // and data were sent
  a_stay: assert property (@(posedge clk) disable iff (rst)
    awvalid && !awready |=> awvalid && $stable(awaddr) && $stable(awlen));
  a_stay_data: assert property (@(posedge clk) disable iff (rst)
    wvalid && !wready |=> wvalid && $stable(wstrb) && $stable(wlast));
  a_page: assert property (@(posedge clk) disable iff (rst)
    awvalid |-> 32'(awaddr[11:0]) + (32'(awlen) + 32'd1) * WORD <= 32'd4096);
  a_refused: assert property (@(posedge clk) disable iff (rst) refuse |=> !awvalid && !burst_ready);
  a_under: assert property (@(posedge clk) disable iff (rst)
    !(bvalid && (tail == data || tail == issued)));
  a_over: assert property (@(posedge clk) disable iff (rst) 8'(head - tail) <= 8'd128);
  c_late: cover property (@(posedge clk) disable iff (rst) late_valid);
  c_full: cover property (@(posedge clk) disable iff (rst) 8'(head - tail) == 8'd128);
  c_wrap: cover property (@(posedge clk) disable iff (rst) push && head == 8'd255);
  c_request_waits: cover property (@(posedge clk) disable iff (rst) awvalid && !awready);
  c_data_waits: cover property (@(posedge clk) disable iff (rst) wvalid && !wready);
  c_data_late: cover property (@(posedge clk) disable iff (rst) owed && !wvalid);
  c_data_early: cover property (@(posedge clk) disable iff (rst) beat_valid && !owed);
  c_part: cover property (@(posedge clk) disable iff (rst) wvalid && wstrb != '1);
  c_back_to_back: cover property (@(posedge clk) disable iff (rst)
    wvalid && wready && wlast && 8'(data + 8'd1) != head);
  c_data_first: cover property (@(posedge clk) disable iff (rst) wvalid && data == issued);
  c_drained: cover property (@(posedge clk) disable iff (rst) drain && wvalid);
  c_error: cover property (@(posedge clk) disable iff (rst) bvalid && bresp);
  c_refused: cover property (@(posedge clk) disable iff (rst) refused);
  c_refused_among_others: cover property (@(posedge clk) disable iff (rst)
    refused && 8'(head - tail) > 8'd1 && owed);
  c_permitted: cover property (@(posedge clk) disable iff (rst) guarded && push);
  c_halt_waits: cover property (@(posedge clk) disable iff (rst)
    halt && wvalid && !wready && !drain);
`endif
endmodule
