// SPDX-License-Identifier: Apache-2.0
// WLAST is a burst's last beat, and an error names its burst: one burst that the solver chooses is followed.
module presil_axi_write_order import presil_config_pkg::*; #(
  localparam int unsigned LW = $clog2(WORD)
) (
  input logic           clk, rst, push, err_valid, wlast, wvalid, wready, bresp, bvalid, awvalid,
  input logic [39-LW:0] burst_beat,
  input logic [7:0]     burst_len,
  input logic [31:0]    burst_index, err_index,
  input logic [39:0]    err_addr
);
  logic           started = 1'b0;
  logic           pick, follow, sends, was_error;
  logic [7:0]     unsent, unanswered, before_w, before_b, len, beats, sent;
  logic [39-LW:0] beat;
  logic [31:0]    index;
  // push: proof axi-write, what is offered
  assign sends = wvalid && wready && wlast;

  always_ff @(posedge clk) begin
    started <= 1'b1;
    was_error <= 1'b0;
    if (rst) begin
      unsent <= 8'd0;  unanswered <= 8'd0;  follow <= 1'b0;  sent <= 8'd0;
    end else begin
      unsent <= unsent + 8'(push) - 8'(sends);
      unanswered <= unanswered + 8'(push) - 8'(bvalid);
      sent <= sent + 8'(sends) - 8'(bvalid);
      if (!follow && pick && push) begin
        follow <= 1'b1;  len <= burst_len;  beat <= burst_beat;  index <= burst_index;  beats <= 8'd0;
        before_w <= unsent - 8'(sends);  before_b <= unanswered - 8'(bvalid);
      end else if (follow) begin
        if (before_w != 8'd0 && before_w != 8'hff) before_w <= before_w - 8'(sends);
        else if (before_w == 8'd0 && wvalid && wready) begin
          beats <= beats + 8'd1;
          if (wlast) before_w <= 8'hff;      // all sent
        end
        if (before_b != 8'd0) before_b <= before_b - 8'(bvalid);
        else if (bvalid) begin
          follow <= 1'b0;  was_error <= bresp;
        end
      end
    end
    assume (started || rst);
    assume (!bvalid || (sent != 8'd0 && unanswered != 8'(awvalid)));
    if (started && !rst) begin
      a_wlast: assert (!(follow && before_w == 8'd0 && wvalid) || wlast == (beats == len));
      a_index: assert (!was_error || (err_valid && err_index == index));
      a_address: assert (!was_error || err_addr == {beat, {LW{1'b0}}});
      c_third: cover (was_error && unanswered == 8'd1 && len == 8'd1);
      c_behind: cover (follow && before_w == 8'd0 && wvalid && wlast && len == 8'd2 && unsent == 8'd2);
    end
  end
endmodule
bind presil_axi_write presil_axi_write_order u_properties (.*);
