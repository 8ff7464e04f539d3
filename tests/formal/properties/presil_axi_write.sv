// SPDX-License-Identifier: Apache-2.0
// AXI4 rules of the write channels, how many bursts are out, what a halt leaves to be sent, and that nothing is written
// outside the DMA windows.
module presil_axi_write_properties import presil_config_pkg::*; #(
  localparam int unsigned LW = $clog2(WORD)
) (
  input logic            clk, rst, halt, idle, burst_valid, burst_ready, beat_valid, beat_ready, response, err_valid,
  input logic [39-LW:0]  burst_beat,
  input logic [7:0]      burst_len, awlen, head, data, tail, issued,
  input logic [WORD-1:0] beat_strb, wstrb,
  input logic [39:0]     awaddr,
  input logic            awvalid, awready, wlast, wvalid, wready, bresp, bvalid, drain, outside,
  input logic            refused, overdue,
  input logic [27:0]     page,
  input logic [31:0]     burst_index, err_index,
  input logic [39:0]     err_addr
);
  localparam logic [31:0] PAGE = 4096 / WORD;
  logic            started = 1'b0;
  logic            aw_stalled, w_stalled, b_stalled, was_push, was_wlast, was_error, was_halt, push, taken;
  logic [39:0]     was_awaddr, was_address;
  logic [7:0]      was_awlen, was_len;
  logic [WORD-1:0] was_wstrb, was_strb;
  logic [7:0]      out, owed, sent;          // bursts taken; with data owed; with none
  logic            was_refused, was_alone;   // a burst was; and nothing else went wrong
  logic            was_told, behind;         // the command processor knows of one; one was refused since the reset
  logic [31:0]     was_first [4], was_last [4], was_index;
  assign taken = burst_valid && burst_ready;
  assign push  = taken && !outside;

  function automatic logic in_page(input logic [39-LW:0] beat, input logic [7:0] len);
    return (32'(beat) & (PAGE - 32'd1)) + 32'(len) < PAGE;
  endfunction

  always_ff @(posedge clk) begin
    started <= 1'b1;
    aw_stalled <= awvalid && !awready && !rst;
    w_stalled <= wvalid && !wready && !rst;
    b_stalled <= beat_valid && !beat_ready && !rst;
    was_awaddr <= awaddr;  was_awlen <= awlen;  was_wstrb <= wstrb;  was_wlast <= wlast;  was_strb <= beat_strb;
    was_push <= push && !rst;
    was_address <= {burst_beat, {LW{1'b0}}};  was_len <= burst_len;
    was_error <= bvalid && bresp && !rst;
    was_halt <= halt && !rst;
    was_refused <= taken && !push && !rst;  was_told <= refused && !rst;  was_index <= burst_index;
    was_alone <= !(bvalid && bresp) && !overdue;
    behind <= !rst && (behind || (taken && !push));
    if (rst) begin
      out <= 8'd0;  owed <= 8'd0;  sent <= 8'd0;
    end else begin
      out  <= out + 8'(push) - 8'(bvalid);
      owed <= owed + 8'(push) - 8'(wvalid && wready && wlast);
      sent <= sent + 8'(wvalid && wready && wlast) - 8'(bvalid);
    end
    assume (started || rst);
    assume (!was_told || halt || rst);         // presil_command
    // presil_bursts, presil_store_pack; a memory that acknowledges what it got; halt stays until the reset
    assume (!burst_valid || in_page(burst_beat, burst_len));
    assume (!b_stalled || (beat_valid && beat_strb == was_strb));
    assume (!bvalid || (sent != 8'd0 && out != 8'(awvalid)));
    assume (!was_halt || halt || rst);
    if (started && !rst) begin
      a_aw_stable: assert (!aw_stalled || (awvalid && awaddr == was_awaddr && awlen == was_awlen));
      a_aw_sent: assert (!was_push || (awvalid && awaddr == was_address && awlen == was_len));
      a_aw_nothing_else: assert (!awvalid || aw_stalled || was_push);
      a_page: assert (!awvalid || in_page(awaddr[39:LW], awlen));
      a_aligned: assert (!awvalid || awaddr[LW-1:0] == '0);
      a_w_stable: assert (!w_stalled || (wvalid && wstrb == was_wstrb && wlast == was_wlast));
      a_w_with_aw: assert (!wvalid || owed != 8'd0);
      a_w_waits_for_none: assert (!(beat_valid && owed != 8'd0) || wvalid);
      a_w_or_beat: assert (!(beat_valid && beat_ready) || (wvalid && wready && wstrb == beat_strb));
      a_counts: assert (8'(head - tail) == out && 8'(head - data) == owed && 8'(data - tail) == sent
                        && 8'(head - issued) == 8'(awvalid));
      a_order: assert (9'(sent) + 9'(owed) == 9'(out));
      a_limit: assert (out <= 8'd128);
      a_idle: assert (idle == (out == 8'd0));
      a_halt: assert (!(halt && push));
      a_judged: assert (!taken || page == burst_beat[39-LW:12-LW]);   // outside: of its page (proof window)
      a_refused: assert (refused == was_refused);
      a_refused_where: assert (!(was_refused && was_alone) || (err_addr == was_address && err_index == was_index));
      // its data would go where those of the next one belong
      a_none_behind: assert (!(behind && push));
      a_halt_follows: assert (!behind || refused || halt);
      a_drain: assert (!drain || (halt && (!wvalid || wstrb == '0)));
      a_drains: assert (!(drain && owed != 8'd0) || wvalid);
      a_error: assert (err_valid == was_error && response == bvalid);
      c_data_first: cover (awvalid && !awready && sent == out);
      c_refused: cover (behind && drain && wvalid && owed == 8'd2);
      c_drain: cover (drain && wvalid && wready && wlast && owed == 8'd2);
      c_many: cover (out == 8'd4 && bvalid);
      c_back_to_back: cover (was_push && push);
    end
  end
endmodule
bind presil_axi_write presil_axi_write_properties u_properties (.*);
