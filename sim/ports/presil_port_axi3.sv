// SPDX-License-Identifier: Apache-2.0
// What AXI3 may ask for and the memory can't give ends the simulation with a text: write data in another order than
// their addresses, and locked accesses. Everything else of AXI3 is AXI4's. Reset: synchronous.
module presil_port_axi3 #(
    parameter int unsigned ID = 4
) (
    input logic          clk,
    input logic          rst,
    input logic          awtaken,
    input logic [ID-1:0] awid,
    input logic [   1:0] awlock,
    input logic          artaken,
    input logic [   1:0] arlock,
    input logic          wtaken,
    input logic [ID-1:0] wid,
    input logic          wlast
);
    logic [ID-1:0] order[256];  // of the addresses whose data are to come
    logic [   7:0] first, last;
    always_ff @(posedge clk) begin
        if (!rst && wtaken && wid != order[first])
            $fatal(1, "AXI3: write data of WID %0d come before those of AWID %0d: interleaved writes aren't supported",
                   wid, order[first]);
        if (!rst && ((awtaken && awlock[1]) || (artaken && arlock[1])))
            $fatal(1, "AXI3: a locked access (AxLOCK 2): the memory has none");
        if (awtaken) begin
            order[last] <= awid;
            last <= last + 8'd1;
        end
        if (wtaken && wlast) first <= first + 8'd1;
        if (rst) {first, last} <= '0;
    end
endmodule
