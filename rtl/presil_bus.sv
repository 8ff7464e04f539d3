// SPDX-License-Identifier: Apache-2.0
// What software says of the AXI4 master (BUS_ATTRIBUTES): attributes of its requests.
// Registers answer one cycle after the request. What is written acts while no launch runs: so all requests of a launch
// have the same attributes, and none changes while it waits. Reset: synchronous. Errors: none.
module presil_bus (
  input  logic        clk,
  input  logic        rst,
  input  logic        req,
  input  logic        req_write,
  input  logic [15:0] req_data,
  input  logic [15:0] req_mask,        // bits that are written
  output logic [31:0] rdata,
  input  logic        busy,            // a launch runs
  output logic [2:0]  prot,
  output logic [3:0]  qos,
  output logic [3:0]  arcache,
  output logic [3:0]  awcache
);
  // data, non-secure, unprivileged; normal, non-cacheable, bufferable
  localparam logic [15:0] ATTRIBUTES_RESET = {4'b0011, 4'b0011, 4'd0, 1'b0, 3'b010};

  logic [15:0] attributes;             // awcache, arcache, qos, reserved, prot

  always_ff @(posedge clk) begin
    if (!busy) begin
      prot <= attributes[2:0];  qos <= attributes[7:4];  arcache <= attributes[11:8];  awcache <= attributes[15:12];
    end
    if (req) begin
      rdata <= {16'd0, attributes};
      if (req_write)
        attributes <= (attributes & ~req_mask) | (req_data & req_mask & 16'hfff7);
    end
    if (rst) begin
      attributes <= ATTRIBUTES_RESET;
      prot <= ATTRIBUTES_RESET[2:0];  qos <= ATTRIBUTES_RESET[7:4];
      arcache <= ATTRIBUTES_RESET[11:8];  awcache <= ATTRIBUTES_RESET[15:12];
    end
  end

`ifndef SYNTHESIS
  a_stay: assert property (@(posedge clk) disable iff (rst)
    busy |=> $stable({prot, qos, arcache, awcache}));
  c_later: cover property (@(posedge clk) disable iff (rst)
    busy && {awcache, arcache, qos, 1'b0, prot} != attributes);
`endif
endmodule
