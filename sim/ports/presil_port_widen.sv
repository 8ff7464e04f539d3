// SPDX-License-Identifier: Apache-2.0
// A memory port of a chip on a wider bus: puts its write beats on the lanes that their address means, and takes its
// read beats from them. Requests, IDs and responses are the same on both sides.
// A beat of more bytes than the chip's bus has ends the simulation.
// Up to 16 bursts in each direction, reads 16 for each ID, of 64 IDs at once where an ID has more than 8 bits.
// Latency: none; write data wait for their address.
// Reset: synchronous.
module presil_port_widen
    import presil_port_beat_pkg::*;
#(
    parameter int unsigned IN  = 8,   // bytes of the chip's bus
    parameter int unsigned OUT = 64,  // bytes of the wider one
    parameter int unsigned ID  = 4
) (
    input  logic             clk,
    input  logic             rst,
    input  beat_t            ar,
    input  logic [ID-1:0]    arid,
    input  logic             arvalid,
    output logic             arready,
    output logic             up_arvalid,
    input  logic             up_arready,
    input  logic [ID-1:0]    rid,
    input  logic             rtaken,
    input  logic             rlast,
    input  logic [8*OUT-1:0] up_rdata,
    output logic [8*IN-1:0]  rdata,
    input  beat_t            aw,
    input  logic             awvalid,
    output logic             awready,
    output logic             up_awvalid,
    input  logic             up_awready,
    input  logic [8*IN-1:0]  wdata,
    input  logic [IN-1:0]    wstrb,
    input  logic             wlast,
    input  logic             wvalid,
    output logic             wready,
    output logic [8*OUT-1:0] up_wdata,
    output logic [OUT-1:0]   up_wstrb,
    output logic             up_wvalid,
    input  logic             up_wready
);
    localparam int unsigned LOW = $clog2(IN), HIGH = $clog2(OUT), SLOT = ID > 8 ? 6 : ID, SLOTS = 1 << SLOT;

    beat_t reads[SLOTS][16], writes[16];
    logic [4:0] read_first[SLOTS], read_last[SLOTS], write_first, write_last;
    beat_t read_now, write_now;
    logic read_full, write_full, write_some;
    logic [SLOT-1:0] ar_slot, r_slot;  // the IDs' queues
    logic ar_none;

    if (ID <= 8) begin : g_direct
        assign {ar_slot, r_slot, ar_none} = {arid, rid, 1'b0};
    end else begin : g_owned
        logic [ID-1:0] owner[SLOTS];
        always_comb begin
            {ar_slot, r_slot, ar_none} = {{2 * SLOT{1'b0}}, 1'b1};
            for (int i = 0; i < SLOTS; i++) if (read_first[i] == read_last[i]) {ar_slot, ar_none} = {SLOT'(i), 1'b0};
            for (int i = 0; i < SLOTS; i++) begin
                if (read_first[i] != read_last[i] && owner[i] == arid) {ar_slot, ar_none} = {SLOT'(i), 1'b0};
                if (read_first[i] != read_last[i] && owner[i] == rid) r_slot = SLOT'(i);
            end
        end
        always_ff @(posedge clk) if (up_arvalid && up_arready) owner[ar_slot] <= arid;
    end

    assign read_full  = ar_none || read_last[ar_slot] - read_first[ar_slot] == 5'd16;
    assign write_full = write_last - write_first == 5'd16;
    assign write_some = write_last != write_first;
    assign read_now   = reads[r_slot][read_first[r_slot][3:0]];
    assign write_now  = writes[write_first[3:0]];

    assign up_arvalid = arvalid && !read_full;
    assign arready    = up_arready && !read_full;
    assign up_awvalid = awvalid && !write_full;
    assign awready    = up_awready && !write_full;
    assign up_wvalid  = wvalid && write_some;
    assign wready     = up_wready && write_some;
    assign rdata      = up_rdata[8*IN*read_now.addr[HIGH-1:LOW]+:8*IN];
    assign up_wdata   = {OUT / IN{wdata}};
    assign up_wstrb   = OUT'(wstrb) << (IN * write_now.addr[HIGH-1:LOW]);

    always_ff @(posedge clk) begin
        if (!rst && arvalid && ar.size > LOW)  // the wider bus would take it
            $fatal(1, "a memory port of %0d bytes: AR: a beat of %0d bytes is wider than the bus", IN, 1 << ar.size);
        if (!rst && awvalid && aw.size > LOW)
            $fatal(1, "a memory port of %0d bytes: AW: a beat of %0d bytes is wider than the bus", IN, 1 << aw.size);
        if (up_arvalid && up_arready) begin
            reads[ar_slot][read_last[ar_slot][3:0]] <= ar;
            read_last[ar_slot] <= read_last[ar_slot] + 5'd1;
        end
        if (rtaken) begin
            reads[r_slot][read_first[r_slot][3:0]].addr <= next(read_now);
            if (rlast) read_first[r_slot] <= read_first[r_slot] + 5'd1;
        end
        if (up_awvalid && up_awready) begin
            writes[write_last[3:0]] <= aw;
            write_last <= write_last + 5'd1;
        end
        if (up_wvalid && up_wready) begin
            writes[write_first[3:0]].addr <= next(write_now);
            if (wlast) write_first <= write_first + 5'd1;
        end
        if (rst) begin
            for (int i = 0; i < SLOTS; i++) {read_first[i], read_last[i]} <= '0;
            {write_first, write_last} <= '0;
        end
    end
endmodule
