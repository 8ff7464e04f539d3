// SPDX-License-Identifier: Apache-2.0
// Pooling: the maximum or the sum of 16 channels over a window, one word a cycle. Padding comes as words.
module sa16_pool
    import sa16_pkg::*;
(
    input  logic         clk,
    input  logic         rst,
    input  logic         valid,
    input  logic         average,
    input  logic         first,
    input  logic         last,
    input  logic [127:0] word,
    input  logic [5:0]   block,
    input  logic [12:0]  out_addr,
    output logic         out_valid,
    output lanes_t       out,
    output logic [12:0]  out_at,
    output logic [5:0]   out_block
);
    // In the order of unsigned numbers.
    function automatic logic [31:0] order(input logic [31:0] v);
        return v ^ 32'h80000000;
    endfunction
    function automatic lanes_t next();
        for (int unsigned i = 0; i < 16; i++) begin
            logic [31:0] v;
            v = sext8(word[8*i+:8]);
            next[i] = first ? v : average ? out[i] + v : order(v) > order(out[i]) ? v : out[i];
        end
    endfunction

    always_ff @(posedge clk) begin
        out_valid <= valid && last;
        if (valid) begin
            out <= next();
            {out_at, out_block} <= {out_addr, block};
        end
        if (rst) out_valid <= 1'b0;
    end
endmodule
