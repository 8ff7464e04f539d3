// SPDX-License-Identifier: Apache-2.0
// One interrupt of a chip, as its port map has it: a level as it is, a pulse kept until it is cleared. What shows that
// the map is wrong ends the simulation with a text: a level at the end of the reset, one that falls though no register
// was accessed since it rose (or SOON cycles before), a pulse that stays for 1000 cycles behind its clearing.
// Latency: a level none, a pulse one cycle. Reset: synchronous.
module presil_port_interrupt #(
    parameter string       NAME  = "irq",
    parameter bit          PULSE = 1'b0,
    parameter int unsigned SOON  = 16
) (
    input  logic clk,
    input  logic rst,
    input  logic pin,     // active high
    input  logic access,  // an access of registers is going on
    input  logic clear,   // of a pulse
    output logic raised
);
    logic pin_q, rst_q, kept, alone;
    logic [15:0] quiet;  // cycles without an access
    logic [ 9:0] stuck;  // cycles that a pulse is high though it was cleared
    assign raised = PULSE ? kept : pin;

    always_ff @(posedge clk) begin
        {pin_q, rst_q} <= {pin, rst};
        quiet <= access ? 16'd0 : quiet + 16'(quiet != '1);
        kept  <= PULSE && !rst && ((kept && !clear) || (pin && !pin_q));
        stuck <= PULSE && !rst && pin && pin_q && !kept ? stuck + 10'd1 : 10'd0;
        if (access || rst) alone <= 1'b0;
        else if (pin && !pin_q) alone <= quiet >= 16'(SOON);
        if (!PULSE && rst_q && !rst && pin)
            $fatal(1, "interrupts.%s: active when the reset ends: other polarity?", NAME);
        if (!PULSE && !rst && !rst_q && pin_q && !pin && alone && !access)
            $fatal(1, "interrupts.%s: a level that fell by itself: kind = \"pulse\"?", NAME);
        if (stuck == 10'd1000)
            $fatal(1, "interrupts.%s: a pulse that stays: kind = \"level\"?", NAME);
    end
endmodule
