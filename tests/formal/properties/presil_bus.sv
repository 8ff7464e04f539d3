// SPDX-License-Identifier: Apache-2.0
// The time-out: a channel is overdue when the chip has waited on it for more than the limit, and is told before it has
// waited for twice as long. What software writes acts while no launch runs.
module presil_bus_properties (
  input logic        clk, rst, busy, read_overdue, write_overdue,
  input logic [4:0]  asks, served,
  input logic [31:0] timeout, limit,
  input logic [2:0]  prot,
  input logic [3:0]  qos, arcache, awcache
);
  logic        started = 1'b0;
  logic        was_busy;
  logic [46:0] was, now;
  logic [4:0]  waits;
  logic [5:0]  run [5];                      // cycles in a row that the chip has waited on a channel
  logic [4:0]  told;
  assign waits = asks & ~served;
  assign now = {limit, prot, qos, arcache, awcache};

  always_ff @(posedge clk) begin
    started <= 1'b1;
    was <= now;  was_busy <= busy && !rst;
    for (int unsigned c = 0; c < 5; c++) begin
      run[c] <= (rst || !busy || !waits[c]) ? 6'd0 : run[c] + 6'd1;
      told[c] <= !rst && busy && waits[c] && (told[c] || (c < 2 ? read_overdue : write_overdue));
    end
    assume (started || rst);
    assume (timeout <= 32'd3);               // so that the depth shows several periods
    if (started && !rst) begin
      a_read_early: assert (!read_overdue || 32'(run[0]) > limit || 32'(run[1]) > limit);
      a_write_early: assert (!write_overdue || 32'(run[2]) > limit || 32'(run[3]) > limit || 32'(run[4]) > limit);
      a_read_late: assert (limit == 32'd0 || ((32'(run[0]) < 2 * limit || told[0] || read_overdue)
                                              && (32'(run[1]) < 2 * limit || told[1] || read_overdue)));
      a_write_late: assert (limit == 32'd0 || ((32'(run[2]) < 2 * limit || told[2] || write_overdue)
                                               && (32'(run[3]) < 2 * limit || told[3] || write_overdue)
                                               && (32'(run[4]) < 2 * limit || told[4] || write_overdue)));
      a_stay: assert (!was_busy || now == was);
      c_read: cover (read_overdue && limit == 32'd3);
      c_write: cover (write_overdue && !read_overdue && limit == 32'd2);
      c_other: cover (busy && limit != timeout && prot != 3'd2);
    end
  end
endmodule
bind presil_bus presil_bus_properties u_properties (.*);
