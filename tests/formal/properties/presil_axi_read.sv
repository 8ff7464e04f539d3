// SPDX-License-Identifier: Apache-2.0
// AXI4 rules of the read address channel, who gets it, how many bursts are out, where data go, and that nothing
// outside the DMA windows is asked for.
module presil_axi_read_properties import presil_config_pkg::*; #(
  localparam int unsigned LW = $clog2(WORD)
) (
  input logic           clk, rst, halt, load_idle, load_valid, load_ready, load_rvalid, load_rready, fetch_valid,
  input logic           fetch_ready, fetch_rvalid, err_valid, arvalid, arready, rid, rresp, rlast, rvalid, rready,
  input logic [39-LW:0] load_beat, fetch_beat,
  input logic [7:0]     load_len, fetch_len, arlen, head, tail,
  input logic [3:0]     arid,
  input logic [39:0]    araddr,
  input logic [8:0]     count,
  input logic           outside, load_refused, fetch_refused, overdue,
  input logic [27:0]    page,
  input logic [31:0]    load_index, err_index,
  input logic [39:0]    err_addr
);
  localparam logic [31:0] PAGE = 4096 / WORD;
  localparam logic [3:0]  SLOW = 4'd3;       // cycles that the memory may leave an address waiting
  logic        started = 1'b0;
  logic        stalled, load_taken, fetch_taken, loads, fetches, was_load, was_fetch, ends, was_error;
  logic [39:0] was_araddr, was_address;
  logic [7:0]  was_arlen, was_len;
  logic [3:0]  was_arid, slow;
  logic [8:0]  out;                          // LOAD bursts taken and not answered
  logic [1:0]  passed;                       // fetches that LOAD has let by while it waits
  logic [4:0]  waited;
  logic        was_refused, was_alone;       // a burst of LOAD was refused; and nothing else went wrong
  logic [31:0] was_index;
  assign load_taken  = load_valid && load_ready;
  assign fetch_taken = fetch_valid && fetch_ready;
  assign loads   = load_taken && !outside;
  assign fetches = fetch_taken && !outside;
  assign ends    = rvalid && rready && !rid && rlast;

  function automatic logic in_page(input logic [39-LW:0] beat, input logic [7:0] len);
    return (32'(beat) & (PAGE - 32'd1)) + 32'(len) < PAGE;
  endfunction

  always_ff @(posedge clk) begin
    started <= 1'b1;
    stalled <= arvalid && !arready && !rst;
    was_araddr <= araddr;  was_arlen <= arlen;  was_arid <= arid;
    was_load <= loads && !rst;  was_fetch <= fetches && !rst;
    was_address <= {fetches ? fetch_beat : load_beat, {LW{1'b0}}};
    was_len <= fetches ? fetch_len : load_len;
    was_error <= rvalid && rready && !rid && rresp && !rst;
    was_refused <= load_taken && !loads && !rst;  was_index <= load_index;
    was_alone <= !(rvalid && rready && !rid && rresp) && !overdue;
    slow <= (arvalid && !arready) ? slow + 4'd1 : 4'd0;
    if (rst) begin
      out <= 9'd0;  passed <= 2'd0;  waited <= 5'd0;  slow <= 4'd0;
    end else begin
      out <= out + 9'(loads) - 9'(ends);
      passed <= (!load_valid || load_taken || halt) ? 2'd0 : passed + 2'(fetch_taken);
      waited <= (!load_valid || load_taken || halt || out == 9'd256) ? 5'd0 : waited + 5'd1;
    end
    assume (started || rst);
    // what others have proved: presil_bursts, presil_command; a memory that answers what it was asked
    assume (!load_valid || in_page(load_beat, load_len));
    assume (!fetch_valid || in_page(fetch_beat, fetch_len));
    assume (!(rvalid && !rid) || out != 9'd0);
    // for a_fair: the fetcher has room for two bursts, the memory takes an address within SLOW + 1 cycles
    assume (!(fetch_valid && passed == 2'd2));
    assume (!(arvalid && !arready && slow == SLOW));
    if (started && !rst) begin
      a_stable: assert (!stalled || (arvalid && araddr == was_araddr && arlen == was_arlen && arid == was_arid));
      a_sent: assert (!(was_load || was_fetch) || (arvalid && araddr == was_address && arlen == was_len
                                                   && arid == {3'd0, was_fetch}));
      a_nothing_else: assert (!arvalid || stalled || was_load || was_fetch);
      a_one: assert (!(load_taken && fetch_taken));
      // outside: of its page (proof window)
      a_judged: assert ((!load_taken || page == load_beat[39-LW:12-LW])
                        && (!fetch_taken || page == fetch_beat[39-LW:12-LW]));
      a_refused: assert (load_refused == was_refused && fetch_refused == (fetch_taken && !fetches));
      a_refused_where: assert (!(was_refused && was_alone) || (err_addr == was_address && err_index == was_index));
      a_page: assert (!arvalid || in_page(araddr[39:LW], arlen));
      a_aligned: assert (!arvalid || araddr[LW-1:0] == '0);
      a_count: assert (count == out && 8'(head - tail) == out[7:0]);
      a_limit: assert (out <= 9'd256);
      a_idle: assert (load_idle == (out == 9'd0));
      a_halt: assert (!(halt && loads));
      a_route: assert (load_rvalid == (rvalid && !rid) && fetch_rvalid == (rvalid && rready && rid));
      a_error: assert (err_valid == was_error);
      a_at_once: assert (!(load_valid && !load_ready && !halt && out != 9'd256 && !fetch_valid
                           && (!arvalid || arready)));
      // one address that waits already, two fetches
      a_fair: assert (waited <= 5'd11 && waited <= {1'b0, passed, 2'd0} + 5'(slow) && passed <= 2'd2 && slow <= SLOW);
      c_overtaken: cover (waited >= 5'd8 && loads);
      c_back_to_back: cover (was_load && loads && arvalid && arready);
      c_many: cover (out == 9'd4 && ends);
      c_refused: cover (load_refused && rvalid && out == 9'd2);
      c_refused_fetch: cover (fetch_refused && load_valid);
      c_error: cover (err_valid && out > 9'd1);
    end
  end
endmodule
bind presil_axi_read presil_axi_read_properties u_properties (.*);
