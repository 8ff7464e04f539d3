// SPDX-License-Identifier: Apache-2.0
// AXI4-Lite rules of the register port: one answer a request, in time; no write is lost, a read gives what was written.
// Registers, status and the glue between them are the chip's, everything else may do what it likes.
module presil_top_axil (
  input logic        clk, rst,
  input logic [11:0] s_axil_awaddr, s_axil_araddr,
  input logic [31:0] s_axil_wdata, s_axil_rdata,
  input logic [3:0]  s_axil_wstrb,
  input logic        s_axil_awvalid, s_axil_awready, s_axil_wvalid, s_axil_wready, s_axil_bvalid, s_axil_bready,
  input logic        s_axil_arvalid, s_axil_arready, s_axil_rvalid, s_axil_rready,
  input logic [1:0]  s_axil_bresp, s_axil_rresp
);
  localparam logic [3:0] LATEST = 4'd5;       // cycles to an answer, where nobody waits
  logic        started = 1'b0;
  logic        aw, w, b, ar, r;              // transfers
  logic        b_stalled, r_stalled, aw_stalled, w_stalled, ar_stalled;
  logic [1:0]  was_bresp, was_rresp;
  logic [31:0] was_rdata, was_wdata;
  logic [11:0] was_awaddr, was_araddr;
  logic [3:0]  was_wstrb;
  logic [2:0]  aws, ws, ars;                 // taken and not answered
  logic [11:0] address;                      // chosen, a register that only software writes
  logic [11:0] address_was;
  logic [11:0] aw_q [4], ar_q [4];
  logic [1:0]  w_q [4];                      // strobe and bit k
  logic [1:0]  aw_in, aw_out, w_in, ar_in, ar_out;
  logic [4:0]  k, k_was;                     // chosen, a bit of it
  logic        value, there;                 // what it holds; the register has it
  logic        quiet;
  logic [3:0]  waited;
  assign aw = s_axil_awvalid && s_axil_awready;
  assign w  = s_axil_wvalid && s_axil_wready;
  assign b  = s_axil_bvalid && s_axil_bready;
  assign ar = s_axil_arvalid && s_axil_arready;
  assign r  = s_axil_rvalid && s_axil_rready;
  assign there = address == 12'h020 || (address == 12'h024 && k < 5'd8) || (address == 12'h028 && k < 5'd5)
              || (address == 12'h050 && k < 5'd2);

  always_ff @(posedge clk) begin
    started <= 1'b1;
    b_stalled <= s_axil_bvalid && !s_axil_bready && !rst;  was_bresp <= s_axil_bresp;
    r_stalled <= s_axil_rvalid && !s_axil_rready && !rst;  was_rresp <= s_axil_rresp;  was_rdata <= s_axil_rdata;
    aw_stalled <= s_axil_awvalid && !s_axil_awready && !rst;  was_awaddr <= s_axil_awaddr;
    w_stalled <= s_axil_wvalid && !s_axil_wready && !rst;  was_wdata <= s_axil_wdata;  was_wstrb <= s_axil_wstrb;
    ar_stalled <= s_axil_arvalid && !s_axil_arready && !rst;  was_araddr <= s_axil_araddr;
    address_was <= address;  k_was <= k;
    if (aw) aw_q[aw_in] <= s_axil_awaddr;
    if (w) w_q[w_in] <= {s_axil_wstrb[k[4:3]], s_axil_wdata[k]};
    if (ar) ar_q[ar_in] <= s_axil_araddr;
    if (rst) begin
      aws <= 3'd0;  ws <= 3'd0;  ars <= 3'd0;  waited <= 4'd0;  value <= 1'b0;  quiet <= 1'b1;
      aw_in <= 2'd0;  aw_out <= 2'd0;  w_in <= 2'd0;  ar_in <= 2'd0;  ar_out <= 2'd0;
    end else begin
      aws <= aws + 3'(aw) - 3'(b);  ws <= ws + 3'(w) - 3'(b);  ars <= ars + 3'(ar) - 3'(r);
      aw_in <= aw_in + 2'(aw);  aw_out <= aw_out + 2'(b);  w_in <= w_in + 2'(w);
      ar_in <= ar_in + 2'(ar);  ar_out <= ar_out + 2'(r);
      waited <= ((aws != 3'd0 && ws != 3'd0) || ars != 3'd0) && !s_axil_bvalid && !s_axil_rvalid ? waited + 4'd1 : 4'd0;
      if (b && aw_q[aw_out][11:2] == address[11:2] && w_q[aw_out][1]) value <= w_q[aw_out][0];
      // a read that began and ended with no write on its way
      if (aws != 3'd0 || ws != 3'd0 || aw || w) quiet <= 1'b0;
      else if (ars == 3'd0) quiet <= 1'b1;
    end
    assume (started || rst);
    assume (!aw_stalled || (s_axil_awvalid && s_axil_awaddr == was_awaddr));
    assume (!w_stalled || (s_axil_wvalid && s_axil_wdata == was_wdata && s_axil_wstrb == was_wstrb));
    assume (!ar_stalled || (s_axil_arvalid && s_axil_araddr == was_araddr));
    assume (address == 12'h020 || address == 12'h024 || address == 12'h028 || address == 12'h050);
    if (started) assume (address == address_was && k == k_was);
    if (started && !rst) begin
      a_b_stable: assert (!b_stalled || (s_axil_bvalid && s_axil_bresp == was_bresp));
      a_r_stable: assert (!r_stalled || (s_axil_rvalid && s_axil_rresp == was_rresp && s_axil_rdata == was_rdata));
      a_b_once: assert (!s_axil_bvalid || (aws != 3'd0 && ws != 3'd0));
      a_r_once: assert (!s_axil_rvalid || ars != 3'd0);
      a_few: assert (aws <= 3'd3 && ws <= 3'd3 && ars <= 3'd3);
      a_answered: assert (waited < LATEST);
      a_no_error: assert (!(s_axil_bvalid && s_axil_bresp != 2'b00) && !(s_axil_rvalid && s_axil_rresp != 2'b00));
      a_read_back: assert (!(s_axil_rvalid && quiet && ar_q[ar_out][11:2] == address[11:2])
                           || s_axil_rdata[k] == (there && value));
      a_identity: assert (!(s_axil_rvalid && ar_q[ar_out] == 12'd0) || s_axil_rdata == 32'h5052_534c);
      c_read_back: cover (s_axil_rvalid && quiet && ar_q[ar_out] == address && there && value);
      c_strobe: cover (b && aw_q[aw_out] == address && !w_q[aw_out][1] && w_q[aw_out][0] && aws == 3'd2);
      c_both: cover (s_axil_bvalid && ars != 3'd0 && aws == 3'd2);
      c_identity: cover (s_axil_rvalid && ar_q[ar_out] == 12'd0 && ars == 3'd2);
    end
  end
endmodule
bind presil_top presil_top_axil u_properties (.*);
