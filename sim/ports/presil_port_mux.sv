// SPDX-License-Identifier: Apache-2.0
// Memory ports of a chip, of one width, on one bus: requests in turn, port 0 first after a pause; write data in the
// order of their addresses; what comes back goes where the high bits of its ID say. Latency: none.
// Up to 32 bursts of writes whose data are to come. Reset: synchronous.
module presil_port_mux #(
    parameter int unsigned PORTS = 2,
    parameter int unsigned WORD  = 64,  // bytes
    parameter int unsigned ID    = 4,   // of a port
    parameter int unsigned ADDR  = 40,
    parameter int unsigned PORT  = $clog2(PORTS)
) (
    input  logic                         clk,
    input  logic                         rst,
    // requests: {id, address, length, size, burst}
    input  logic [PORTS-1:0][ID+ADDR+12:0] ar,
    input  logic [PORTS-1:0]             arvalid,
    output logic [PORTS-1:0]             arready,
    output logic [ID+ADDR+12:0]          up_ar,
    output logic [PORT-1:0]              up_ar_port,
    output logic                         up_arvalid,
    input  logic                         up_arready,
    input  logic [PORTS-1:0][ID+ADDR+12:0] aw,
    input  logic [PORTS-1:0]             awvalid,
    output logic [PORTS-1:0]             awready,
    output logic [ID+ADDR+12:0]          up_aw,
    output logic [PORT-1:0]              up_aw_port,
    output logic                         up_awvalid,
    input  logic                         up_awready,
    input  logic [PORTS-1:0][8*WORD-1:0] wdata,
    input  logic [PORTS-1:0][WORD-1:0]   wstrb,
    input  logic [PORTS-1:0]             wlast,
    input  logic [PORTS-1:0]             wvalid,
    output logic [PORTS-1:0]             wready,
    output logic [8*WORD-1:0]            up_wdata,
    output logic [WORD-1:0]              up_wstrb,
    output logic                         up_wlast,
    output logic                         up_wvalid,
    input  logic                         up_wready,
    input  logic [PORT-1:0]              r_port,
    input  logic                         up_rvalid,
    output logic [PORTS-1:0]             rvalid,
    input  logic [PORTS-1:0]             rready,
    output logic                         up_rready,
    input  logic [PORT-1:0]              b_port,
    input  logic                         up_bvalid,
    output logic [PORTS-1:0]             bvalid,
    input  logic [PORTS-1:0]             bready,
    output logic                         up_bready
);
    // Whose turn it is: what was offered stays offered, else the first behind the last one.
    function automatic logic [PORT-1:0] turn(logic [PORTS-1:0] valid, logic [PORT-1:0] last, logic kept);
        logic [PORT-1:0] at = last;
        if (kept) return last;
        for (int i = 0; i < PORTS; i++) begin
            at = at == PORT'(PORTS - 1) ? '0 : at + 1'b1;
            if (valid[at]) return at;
        end
        return last;
    endfunction

    logic [PORT-1:0] ar_last, aw_last, w_port, order[32];
    logic ar_kept, aw_kept, w_some, w_full;
    logic [5:0] w_first, w_end;

    assign up_ar_port = turn(arvalid, ar_last, ar_kept);
    assign up_ar      = ar[up_ar_port];
    assign up_arvalid = arvalid[up_ar_port];
    assign up_aw_port = turn(awvalid, aw_last, aw_kept);
    assign up_aw      = aw[up_aw_port];
    assign up_awvalid = awvalid[up_aw_port] && !w_full;
    assign w_full     = w_end - w_first == 6'd32;
    assign w_some     = w_end != w_first;
    assign w_port     = order[w_first[4:0]];
    assign up_wdata   = wdata[w_port];
    assign up_wstrb   = wstrb[w_port];
    assign up_wlast   = wlast[w_port];
    assign up_wvalid  = w_some && wvalid[w_port];
    assign up_rready  = rready[r_port];
    assign up_bready  = bready[b_port];
    always_comb begin
        {arready, awready, wready, rvalid, bvalid} = '0;
        arready[up_ar_port] = up_arready;
        awready[up_aw_port] = up_awready && !w_full;
        wready[w_port] = up_wready && w_some;
        rvalid[r_port] = up_rvalid;
        bvalid[b_port] = up_bvalid;
    end

    always_ff @(posedge clk) begin
        ar_last <= up_arvalid ? up_ar_port : PORT'(PORTS - 1);
        ar_kept <= up_arvalid && !up_arready;
        aw_last <= up_awvalid ? up_aw_port : PORT'(PORTS - 1);
        aw_kept <= up_awvalid && !up_awready;
        if (up_awvalid && up_awready) begin
            order[w_end[4:0]] <= up_aw_port;
            w_end <= w_end + 6'd1;
        end
        if (up_wvalid && up_wready && up_wlast) w_first <= w_first + 6'd1;
        if (rst) begin
            {ar_kept, aw_kept, w_first, w_end} <= '0;
            {ar_last, aw_last} <= {2{PORT'(PORTS - 1)}};
        end
    end
endmodule
