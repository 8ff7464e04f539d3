// SPDX-License-Identifier: Apache-2.0
// The inside of the chips that test port maps (docs/ports.md): registers and a copy engine, without a bus of its own.
//
// Registers (32 bits; byte offsets; others read 0 and ignore writes, those at 0xe000 and above answer an error):
//   0x0000 ID   0x504f5254      0x0004 WORD  bytes of a beat      0x0008 SRC   0x000c DST   0x0010 BEATS: 1 to 16
//   0x0014 BURSTS               0x0018 CONTROL  1 start           0x001c STATUS  0 busy, 1 done (write 2: clear)
//   0x0020 PROGRESS bursts done 0xdff0 SCRATCH  with byte strobes, reset to 0x12345678
// It reads a burst into a buffer and writes it: SRC to DST, then the next BEATS * WORD bytes. done is a level,
// progress a pulse for each burst. Latency: start to ARVALID one cycle. Reset: synchronous, all but the buffer.
module presil_ports_core #(
    parameter int unsigned WORD = 16  // bytes of a beat
) (
    input  logic              clk,
    input  logic              rst,
    input  logic              access,  // a register access ends with this edge
    input  logic              write,
    input  logic [15:0]       addr,
    input  logic [31:0]       wdata,
    input  logic [ 3:0]       strb,
    output logic [31:0]       rdata,  // of addr, in the same cycle
    output logic              error,
    output logic              done,
    output logic              progress,
    output logic [31:0]       araddr,
    output logic [ 3:0]       arlen,
    output logic              arvalid,
    input  logic              arready,
    input  logic [8*WORD-1:0] rbeat,
    input  logic              rvalid,
    output logic [31:0]       awaddr,
    output logic [ 3:0]       awlen,
    output logic              awvalid,
    input  logic              awready,
    output logic [8*WORD-1:0] wbeat,
    output logic              wlast,
    output logic              wvalid,
    input  logic              wready,
    input  logic              bvalid
);
    typedef enum logic [2:0] {IDLE, AR, R, AW, W, B} state_t;
    state_t state;
    logic [8*WORD-1:0] buffer[16];
    logic [31:0] src, dst, bursts, count, scratch;
    logic [ 4:0] beats;
    logic [ 3:0] at;

    assign error = addr >= 16'he000;
    always_comb begin
        case (addr)
            16'h0000: rdata = 32'h504f5254;
            16'h0004: rdata = WORD;
            16'h0008: rdata = src;
            16'h000c: rdata = dst;
            16'h0010: rdata = 32'(beats);
            16'h0014: rdata = bursts;
            16'h001c: rdata = {30'd0, done, state != IDLE};
            16'h0020: rdata = count;
            16'hdff0: rdata = scratch;
            default:  rdata = 32'd0;
        endcase
    end

    assign {araddr, awaddr} = {src, dst};
    assign {arlen, awlen} = {2{4'(beats - 5'd1)}};
    assign {arvalid, awvalid, wvalid} = {state == AR, state == AW, state == W};
    assign wbeat = buffer[at];
    assign wlast = at == arlen;

    always_ff @(posedge clk) begin
        progress <= 1'b0;
        if (access && write) begin
            case (addr)
                16'h0008: src <= wdata;
                16'h000c: dst <= wdata;
                16'h0010: beats <= wdata[4:0];
                16'h0014: bursts <= wdata;
                16'h0018: if (wdata[0]) {state, count} <= {AR, 32'd0};
                16'h001c: if (wdata[1]) done <= 1'b0;
                16'hdff0: for (int i = 0; i < 4; i++) if (strb[i]) scratch[8*i+:8] <= wdata[8*i+:8];
                default: ;
            endcase
        end
        case (state)
            AR: if (arready) state <= R;
            R: if (rvalid) begin
                buffer[at] <= rbeat;
                at <= at == arlen ? 4'd0 : at + 4'd1;
                if (at == arlen) state <= AW;
            end
            AW: if (awready) state <= W;
            W: if (wready) begin
                at <= wlast ? 4'd0 : at + 4'd1;
                if (wlast) state <= B;
            end
            B: if (bvalid) begin
                src <= src + 32'(beats) * WORD;
                dst <= dst + 32'(beats) * WORD;
                count <= count + 1;
                progress <= 1'b1;
                state <= count + 1 == bursts ? IDLE : AR;
                done <= count + 1 == bursts;
            end
            default: ;
        endcase
        if (rst) begin
            {state, done, progress, at, beats} <= '0;
            {src, dst, bursts, count, scratch} <= {128'd0, 32'h12345678};
        end
    end
endmodule
