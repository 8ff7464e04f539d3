// SPDX-License-Identifier: Apache-2.0
// APB registers and the two register sets; which set loads, computes and stores. Sets take turns, beginning with 0. A
// set that is busy can't be written (PSLVERR), the other one can: that is how the next layer is prepared.
module sa16_regs
    import sa16_pkg::*;
(
    input  logic        clk,
    input  logic        rst,
    output logic        irq,
    input  logic [15:0] paddr,
    input  logic        psel,
    input  logic        penable,
    input  logic        pwrite,
    input  logic [31:0] pwdata,
    output logic [31:0] prdata,
    output logic        pready,
    output logic        pslverr,
    // units: a start lasts one cycle
    output logic        load_start,
    output logic        compute_start,
    output logic        store_start,
    output logic        load_half,
    output logic        compute_half,
    output logic        store_half,
    input  logic        load_busy,
    input  logic        compute_busy,
    input  logic        store_busy,
    input  logic [2:0]  moved,          // load, compute, store: each did something in this cycle
    input  logic        read_beat,
    input  logic        write_beat,
    input  logic        read_error,
    input  logic        write_error,
    output set_t        load_set,
    output set_t        compute_set,
    output set_t        store_set
);
    localparam int unsigned COUNTERS = 16;
    localparam logic [15:0] A_ID = 16'h0000, A_VERSION = 16'h0004, A_SIZES = 16'h0008, A_CONTROL = 16'h000c;
    localparam logic [15:0] A_STATUS = 16'h0010, A_ENABLE = 16'h0014, A_EVENTS = 16'h0018, A_ERROR = 16'h001c;
    localparam logic [31:0] SIZES = {8'(BLOCK_BITS), 8'(OUT_BITS), 8'(WEIGHT_BITS), 8'(IN_BITS)};

    logic [31:0] regs[2][SET_REGS];
    state_t state[2];
    logic [31:0] counter[COUNTERS];
    logic [3:0] events, enable;  // set 0 done, set 1 done, bus error, refused
    logic [1:0] error;           // of a read, of a write

    assign load_set = regs[load_half];
    assign compute_set = regs[compute_half];
    assign store_set = regs[store_half];
    assign irq = (events & enable) != 4'd0;

    // ---- bus
    logic access, in_set, which, go, in_counters;
    logic [5:0] index;
    assign access = psel && penable;
    assign which = paddr[13];
    assign in_set = (paddr[15:12] == 4'd1 || paddr[15:12] == 4'd2) && paddr[11:8] == 4'd0 && index < 6'(SET_REGS);
    assign index = paddr[7:2];
    assign in_counters = paddr[15:6] == 10'h010;
    assign pready = 1'b1;
    assign go = access && pwrite && in_set && index == 6'(R_GO);

    // What would make a unit count from zero, or run out of a buffer.
    function automatic logic transfer_ok(input int unsigned at);
        return regs[which][at+T_COUNT][15:0] != 0 && regs[which][at+T_COUNT][31:16] != 0 &&
            regs[which][at+T_RUN][15:0] != 0 && regs[which][at+T_RUN][31:16] != 0 &&
            regs[which][at+T_TAIL][4:0] != 0 && regs[which][at+T_TAIL][4:0] <= 5'd16;
    endfunction
    function automatic logic set_ok();
        return transfer_ok(R_IN) && transfer_ok(R_OUT) && regs[which][R_MODE][1:0] != 2'd3 &&
            regs[which][R_KERNEL][7:0] != 0 && regs[which][R_KERNEL][15:8] != 0 &&
            regs[which][R_OUT_SIZE][15:0] != 0 && regs[which][R_OUT_SIZE][31:16] != 0 &&
            regs[which][R_BLOCKS][15:0] != 0 && regs[which][R_BLOCKS][31:16] != 0 &&
            regs[which][R_BLOCKS][31:16] <= 16'(1 << BLOCK_BITS) && regs[which][R_TILE][15:0] != 0 &&
            (regs[which][R_MODE][1:0] != CONV || (regs[which][R_W_WORDS] != 0 &&
            regs[which][R_W_WORDS] <= (1 << WEIGHT_BITS)));
    endfunction

    always_comb begin
        prdata = 32'd0;
        pslverr = 1'b0;
        if (access && !pwrite) begin
            if (in_set) prdata = index == 6'(R_GO) ? {29'd0, state[which]} : regs[which][index];
            else if (in_counters) prdata = counter[paddr[5:2]];
            else
                case (paddr)
                    A_ID: prdata = ID;
                    A_VERSION: prdata = VERSION;
                    A_SIZES: prdata = SIZES;
                    A_CONTROL: prdata = 32'd0;
                    A_STATUS:
                    prdata = {
                        19'd0, load_half, 1'b0, store_busy, compute_busy, load_busy, 1'b0, state[1], 1'b0, state[0]
                    };
                    A_ENABLE: prdata = {28'd0, enable};
                    A_EVENTS: prdata = {28'd0, events};
                    A_ERROR: prdata = {30'd0, error};
                    default: pslverr = 1'b1;
                endcase
        end
        if (access && pwrite) begin
            if (in_set) pslverr = state[which] != IDLE;
            else pslverr = !(paddr inside {A_CONTROL, A_ENABLE, A_EVENTS, A_ERROR});
        end
        if (access && paddr[1:0] != 2'd0) pslverr = 1'b1;
    end

    // ---- turns
    logic idle, load_ends, compute_ends, store_ends;
    assign idle = state[0] == IDLE && state[1] == IDLE;
    // R_MODE[4]: the other set's output is read
    assign load_start = state[load_half] == QUEUED && (!load_set[R_MODE][4] || state[!load_half] == IDLE);
    assign compute_start = state[compute_half] == LOADED;
    assign store_start = state[store_half] == COMPUTED;
    assign load_ends = state[load_half] == LOADING && !load_busy && !load_was;
    assign compute_ends = state[compute_half] == COMPUTING && !compute_busy && !compute_was;
    assign store_ends = state[store_half] == STORING && !store_busy && !store_was;
    logic load_was, compute_was, store_was;  // started a cycle ago: busy comes

    always_ff @(posedge clk) begin
        {load_was, compute_was, store_was} <= {load_start, compute_start, store_start};
        if (load_start) state[load_half] <= LOADING;
        if (load_ends) begin
            state[load_half] <= LOADED;
            load_half <= !load_half;
        end
        if (compute_start) state[compute_half] <= COMPUTING;
        if (compute_ends) begin
            state[compute_half] <= COMPUTED;
            compute_half <= !compute_half;
        end
        if (store_start) state[store_half] <= STORING;
        if (store_ends) begin
            state[store_half] <= IDLE;
            store_half <= !store_half;
            events[{1'b0, store_half}] <= 1'b1;
        end
        if (read_error) error[0] <= 1'b1;
        if (write_error) error[1] <= 1'b1;
        if (read_error || write_error) events[2] <= 1'b1;
        if (access && pwrite && paddr[1:0] == 2'd0) begin
            if (in_set && state[which] == IDLE) begin
                if (go && set_ok()) state[which] <= QUEUED;
                else if (go) events[3] <= 1'b1;
                else regs[which][index] <= pwdata;
            end
            case (paddr)
                A_ENABLE: enable <= pwdata[3:0];
                A_EVENTS: events <= events & ~pwdata[3:0];
                A_ERROR: error <= error & ~pwdata[1:0];
                A_CONTROL: if (pwdata[0] && idle) {load_half, compute_half, store_half} <= '0;
                default: ;
            endcase
        end
        if (rst) begin
            {load_half, compute_half, store_half, load_was, compute_was, store_was} <= '0;
            {events, enable, error} <= '0;
            state[0] <= IDLE;
            state[1] <= IDLE;
        end
    end

    // ---- counters: cycles, beats, operations; of each unit cycles with work, waiting for the bus (the array: emptying
    // itself), for the unit before it, without an operation
    always_ff @(posedge clk) begin
        if (!idle) begin
            counter[0] <= counter[0] + 32'd1;
            if (read_beat) counter[1] <= counter[1] + 32'd1;
            if (write_beat) counter[2] <= counter[2] + 32'd1;
            if (store_ends) counter[3] <= counter[3] + 32'd1;
            if (state[load_half] == LOADING) counter[moved[0] ? 4 : 5] <= counter[moved[0] ? 4 : 5] + 32'd1;
            else counter[7] <= counter[7] + 32'd1;
            if (state[compute_half] == COMPUTING) counter[moved[1] ? 8 : 9] <= counter[moved[1] ? 8 : 9] + 32'd1;
            else if (state[compute_half] != IDLE) counter[10] <= counter[10] + 32'd1;
            else counter[11] <= counter[11] + 32'd1;
            if (state[store_half] == STORING) counter[moved[2] ? 12 : 13] <= counter[moved[2] ? 12 : 13] + 32'd1;
            else counter[14] <= counter[14] + 32'd1;
        end
        if (rst || (access && pwrite && paddr == A_CONTROL && pwdata[0] && idle))
            for (int unsigned i = 0; i < COUNTERS; i++) counter[i] <= 32'd0;
    end
endmodule
