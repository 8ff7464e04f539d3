// SPDX-License-Identifier: Apache-2.0
// AXI4 write side of the chip: STORE's bursts onto AW (registered), its beats onto W (passed
// through; offered with or after their address, and neither waits for the other to be taken), B.
// At most 128 bursts outstanding. Reset: synchronous, only when idle.
// Halt: no burst is accepted any more; beats that are owed are sent with zero strobes, and
// presil_store_pack holds its beat.
// Errors: SLVERR or DECERR raises err_valid one cycle later with the burst's address and the
// descriptor's index; `overdue` raises late_valid with those of the oldest burst outstanding. A
// burst outside the DMA windows is taken and never offered: it raises `refused` one cycle later
// with its own. No burst is taken between that and the halt, whose data would be those of the one
// refused.
module presil_axi_write import presil_config_pkg::*; #(
  localparam int unsigned LW = $clog2(WORD)
) (
  input  logic            clk,
  input  logic            rst,
  input  logic            halt,
  output logic            idle,               // nothing outstanding
  input  logic            burst_valid,
  output logic            burst_ready,
  input  logic [39-LW:0]  burst_beat,
  input  logic [7:0]      burst_len,
  input  logic [31:0]     burst_index,
  input  logic            beat_valid,
  output logic            beat_ready,
  input  logic [WORD-1:0] beat_strb,
  output logic            response,           // a burst was acknowledged
  // the oldest burst is sent, address and data, and not acknowledged
  output logic            unanswered,
  input  logic            overdue,            // the bus is silent: pulse
  output logic            late_valid,
  input  logic            guarded,            // DMA windows
  input  logic [31:0]     first [4],
  input  logic [31:0]     last [4],
  output logic            refused,
  output logic            err_valid,
  output logic [31:0]     err_index,
  output logic [39:0]     err_addr,
  output logic [39:0]     awaddr,
  output logic [7:0]      awlen,
  output logic            awvalid,
  input  logic            awready,
  output logic [WORD-1:0] wstrb,
  output logic            wlast,
  output logic            wvalid,
  input  logic            wready,
  input  logic            bresp,              // high bit: SLVERR or DECERR
  input  logic            bvalid
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
