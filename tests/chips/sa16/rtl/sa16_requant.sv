// SPDX-License-Identifier: Apache-2.0
// From sums to int8: q = ((sum + bias) * multiplier) >> shift in 1/65536 of an output step, + (residual - its zero
// point) * its multiplier, rounded to the nearest step (ties to even), + zero point, clamped. One word a cycle, six
// stages. Parameters and residual are asked for with the sums and come a cycle later.
module sa16_requant
    import sa16_pkg::*;
(
    input  logic          clk,
    input  logic          rst,
    input  set_t          set,
    input  logic          valid,
    input  lanes_t        sums,
    input  logic [12:0]   at,
    input  logic [1151:0] params,
    input  logic [127:0]  residual,
    output logic          out_valid,
    output logic [12:0]   out_at,
    output logic [127:0]  out
);
    typedef logic [63:0] wide_t[16];

    logic [4:0] valids;
    logic [12:0] ats[5];
    lanes_t sums0, biased, multiplier, shift1, shift2;
    wide_t product, scaled, residual1, residual2;
    bytes_t codes;
    logic with_residual, uniform;
    logic [7:0] zero_point, low, high;
    assign with_residual = set[R_MODE][3];
    assign uniform = set[R_MODE][5];
    assign {high, low, zero_point} = set[R_QUANT][23:0];

    function automatic lanes_t add_bias();
        for (int unsigned i = 0; i < 16; i++) add_bias[i] = sums0[i] + (uniform ? 32'd0 : params[32*i+:32]);
    endfunction
    function automatic lanes_t multipliers();
        for (int unsigned i = 0; i < 16; i++)
            multipliers[i] = uniform ? set[R_MULTIPLIER] : params[512+32*i+:32];
    endfunction
    function automatic lanes_t shifts();
        for (int unsigned i = 0; i < 16; i++)
            shifts[i] = {26'd0, uniform ? set[R_SHIFT][5:0] : params[1024+8*i+:6]};
    endfunction
    function automatic logic [63:0] sext32(input logic [31:0] v);
        return {{32{v[31]}}, v};
    endfunction
    function automatic wide_t scale_residual();
        for (int unsigned i = 0; i < 16; i++) begin
            scale_residual[i] = !with_residual ? 64'd0 :
                sext32(sext8(residual[8*i+:8]) - sext8(set[R_RES_ZERO][7:0])) * sext32(set[R_RES_MULT]);
        end
    endfunction
    function automatic wide_t multiply();
        for (int unsigned i = 0; i < 16; i++) multiply[i] = sext32(biased[i]) * sext32(multiplier[i]);
    endfunction
    function automatic wide_t shift_right();
        for (int unsigned i = 0; i < 16; i++) begin
            shift_right[i] = ((product[i] ^ (64'd1 << 63)) >> shift2[i][5:0]) - ((64'd1 << 63) >> shift2[i][5:0]) +
                residual2[i];
        end
    endfunction
    function automatic bytes_t finish();
        for (int unsigned i = 0; i < 16; i++) begin
            logic [63:0] v;
            v = scaled[i] + 64'h7fff + {63'd0, scaled[i][16]};
            v = {{16{v[63]}}, v[63:16]} + sext32(sext8(zero_point));
            if ((v ^ (64'd1 << 63)) < (sext32(sext8(low)) ^ (64'd1 << 63))) v = sext32(sext8(low));
            if ((v ^ (64'd1 << 63)) > (sext32(sext8(high)) ^ (64'd1 << 63))) v = sext32(sext8(high));
            finish[i] = v[7:0];
        end
    endfunction

    always_ff @(posedge clk) begin
        valids <= {valids[3:0], valid};
        ats[0] <= at;
        for (int unsigned i = 1; i < 5; i++) ats[i] <= ats[i-1];
        if (valid) sums0 <= sums;
        if (valids[0]) begin
            biased <= add_bias();
            multiplier <= multipliers();
            shift1 <= shifts();
            residual1 <= scale_residual();
        end
        if (valids[1]) begin
            product <= multiply();
            shift2 <= shift1;
            residual2 <= residual1;
        end
        if (valids[2]) scaled <= shift_right();
        if (valids[3]) codes <= finish();
        if (rst) valids <= '0;
    end
    assign out_valid = valids[4];
    assign out_at = ats[4];
    always_comb for (int unsigned i = 0; i < 16; i++) out[8*i+:8] = codes[i];
endmodule
