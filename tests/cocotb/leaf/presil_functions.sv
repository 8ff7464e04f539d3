// SPDX-License-Identifier: Apache-2.0
// The functions of presil_fp_pkg and presil_dot_pkg on N sets of operands, their results one cycle later.
module presil_functions import presil_fp_pkg::*, presil_dot_pkg::*; #(
  localparam int unsigned N = 16
) (
  input  logic               clk,
  input  logic [N-1:0][31:0] a, b, c, d, e,
  output logic [N-1:0][31:0] of_i2f, of_i2f_scaled, of_fp_mul, of_fp_add, of_f2i, of_f2b, of_f2h, of_h2f,
  output logic [N-1:0][31:0] of_sext8, of_significand, of_exponent, of_larger, of_aligned, of_product8, of_term,
  output logic [N-1:0][31:0] of_specials_of, of_special_lane, of_special_value
);
  always_ff @(posedge clk)
    for (int unsigned i = 0; i < N; i++) begin
      of_i2f[i] <= i2f(a[i]);
      of_i2f_scaled[i] <= i2f_scaled(a[i], b[i]);
      of_fp_mul[i] <= fp_mul(a[i], b[i]);
      of_fp_add[i] <= fp_add(a[i], b[i]);
      of_f2i[i] <= f2i(a[i]);
      of_f2b[i] <= f2b(a[i]);
      of_f2h[i] <= f2h(a[i]);
      of_h2f[i] <= h2f(a[i]);
      of_sext8[i] <= sext8(a[i]);
      of_significand[i] <= significand(a[i], b[i]);
      of_exponent[i] <= exponent(a[i], b[i]);
      of_larger[i] <= larger(a[i], b[i]);
      of_aligned[i] <= aligned(a[i], b[i]);
      of_product8[i] <= product8(a[i][15:0], b[i][15:0]);
      of_term[i] <= term(a[i], b[i], c[i], d[i]);
      of_specials_of[i] <= specials_of(a[i], b[i], c[i]);
      of_special_lane[i] <= special_lane(a[i], b[i], c[i], d[i], e[i]);
      of_special_value[i] <= special_value(a[i][2:0]);
    end
endmodule
