// SPDX-License-Identifier: Apache-2.0
// Errors of LOAD's data name the burst that they belong to: one burst that the solver chooses is followed.
module presil_axi_read_order import presil_config_pkg::*; #(
  localparam int unsigned LW = $clog2(WORD)
) (
  input logic           clk, rst, push, err_valid, rid, rresp, rlast, rvalid, rready,
  input logic [39-LW:0] load_beat,
  input logic [31:0]    load_index, err_index,
  input logic [39:0]    err_addr
);
  logic           started = 1'b0;
  logic           pick, follow, loads, takes, ends, was_error;
  logic [8:0]     out, ahead;                // bursts out; of those, before the chosen one
  logic [39-LW:0] beat;
  logic [31:0]    index;
  logic [39:0]    was_addr;
  assign loads = push;                       // proof axi-read: those that are offered
  assign takes = rvalid && rready && !rid;
  assign ends  = takes && rlast;

  always_ff @(posedge clk) begin
    started   <= 1'b1;
    was_error <= 1'b0;
    if (rst) begin
      out <= 9'd0;  follow <= 1'b0;
    end else begin
      out <= out + 9'(loads) - 9'(ends);
      if (!follow && pick && loads) begin
        follow <= 1'b1;  ahead <= out - 9'(ends);  beat <= load_beat;  index <= load_index;
      end else if (follow && ahead != 9'd0) begin
        ahead <= ahead - 9'(ends);
      end else if (follow && takes) begin
        beat <= beat + (40-LW)'(1);
        was_error <= rresp;  was_addr <= {beat, {LW{1'b0}}};
        if (rlast) follow <= 1'b0;
      end
    end
    assume (started || rst);
    assume (!(rvalid && !rid) || out != 9'd0);
    if (started && !rst) begin
      a_index: assert (!was_error || (err_valid && err_index == index));
      a_address: assert (!was_error || err_addr == was_addr);
      c_second: cover (was_error && beat != '0 && follow && out == 9'd2);
    end
  end
endmodule
bind presil_axi_read presil_axi_read_order u_properties (.*);
