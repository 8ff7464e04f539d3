// SPDX-License-Identifier: Apache-2.0
// What software says of the AXI4 master (BUS_ATTRIBUTES, BUS_TIMEOUT): attributes of its requests,
// and how long the bus may be silent. Registers answer one cycle after the request, with 0 where
// the address is presil_windows'. What is written acts while no launch runs: so all requests of a
// launch have the same attributes, and none changes while it waits.
// Time-out: one counter cuts a launch into periods of `timeout` cycles; a channel on which the chip
// has waited through all of a period is overdue. Reset: synchronous. Errors: none of its own;
// presil_axi_read and _write name the burst.
module presil_bus (
  input  logic        clk,
  input  logic        rst,
  input  logic        req,             /// register request, of the whole block BUS
  input  logic        req_write,       /// it writes
  input  logic [5:0]  req_addr,        /// byte address in the block
  input  logic [31:0] req_data,        /// data of a write
  input  logic [31:0] req_mask,        /// bits that are written
  output logic [31:0] rdata,           /// one cycle after req; 0 where the address is another's
  input  logic        busy,            /// a launch runs: the attributes below stay
  output logic [2:0]  prot,            /// ARPROT and AWPROT
  output logic [3:0]  qos,             /// ARQOS and AWQOS
  output logic [3:0]  arcache,         /// ARCACHE
  output logic [3:0]  awcache,         /// AWCACHE
  input  logic [4:0]  asks,            /// waits for the bus in this cycle on B, W, AW, R, AR
  input  logic [4:0]  served,          /// the bus answers, on the same; AR is bit 0
  output logic        read_overdue,    /// pulses: silence on R or AR
  output logic        write_overdue    /// and on B, W or AW
);
  // data, non-secure, unprivileged; normal, non-cacheable, bufferable
  localparam logic [15:0] ATTRIBUTES_RESET = {4'b0011, 4'b0011, 4'd0, 1'b0, 3'b010};

  logic [15:0] attributes;             // awcache, arcache, qos, reserved, prot
  logic [31:0] timeout;
  logic [31:0] limit, elapsed;         // of the launch; cycles of the period, from 1
  logic        ended;                  // a period did
  // channels on which the chip has waited: all the time, and in the last cycle
  logic [4:0]  still, fresh, silent;
  assign silent        = ended ? fresh : still;
  assign read_overdue  = ended && still[1:0] != 2'd0;
  assign write_overdue = ended && still[4:2] != 3'd0;

  always_ff @(posedge clk) begin
    if (!busy) begin
      prot <= attributes[2:0];  qos <= attributes[7:4];  arcache <= attributes[11:8];
      awcache <= attributes[15:12];
      limit <= timeout;  elapsed <= 32'd1;  ended <= 1'b0;  still <= 5'd0;  fresh <= 5'd0;
    end else if (limit != 32'd0) begin
      elapsed <= (elapsed == limit) ? 32'd1 : elapsed + 32'd1;  ended <= elapsed == limit;
      {still, fresh} <= {silent, 5'd31} & {2{asks & ~served}};
    end
    if (req) begin
      rdata <= 32'd0;
      if (req_addr[5:2] == 4'd0) rdata <= {16'd0, attributes};
      if (req_addr[5:2] == 4'd1) rdata <= timeout;
      if (req_write && req_addr[5:2] == 4'd1)
        timeout <= (timeout & ~req_mask) | (req_data & req_mask);
      if (req_write && req_addr[5:2] == 4'd0)
        attributes <= (attributes & ~req_mask[15:0]) | (req_data[15:0] & req_mask[15:0] & 16'hfff7);
    end
    if (rst) begin
      attributes <= ATTRIBUTES_RESET;  timeout <= 32'd0;  limit <= 32'd0;
      prot <= ATTRIBUTES_RESET[2:0];  qos <= ATTRIBUTES_RESET[7:4];
      arcache <= ATTRIBUTES_RESET[11:8];  awcache <= ATTRIBUTES_RESET[15:12];
      ended <= 1'b0;
    end
  end

  logic unused;
  assign unused = &{req_addr[1:0]};

`ifndef SYNTHESIS
  a_stay: assert property (@(posedge clk) disable iff (rst)
    busy |=> $stable({prot, qos, arcache, awcache, limit}));
  c_later: cover property (@(posedge clk) disable iff (rst)
    busy && {awcache, arcache, qos, 1'b0, prot} != attributes);
  c_read_overdue: cover property (@(posedge clk) disable iff (rst) read_overdue);
  c_write_overdue: cover property (@(posedge clk) disable iff (rst) write_overdue);
  c_in_time: cover property (@(posedge clk) disable iff (rst)
    busy && limit != 32'd0 && ended && fresh != 5'd0 && still == 5'd0);
`endif
endmodule
