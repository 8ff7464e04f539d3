// SPDX-License-Identifier: Apache-2.0
// Byte ranges of scratchpad words and beats, 32 bits at a time, for loops that become vector code
// in simulation.
package presil_word_pkg;
  // Mask of the bytes of 32-bit word j (bytes 4j to 4j+3) that lie in [lo, hi)
  function automatic logic [31:0] range_mask(input logic [31:0] j, input logic [31:0] lo,
      input logic [31:0] hi);
    logic [31:0] b, l, h;
    b = j << 2;
    l = (lo > b) ? (lo - b) : 32'd0;
    l = (l > 32'd4) ? 32'd4 : l;
    h = (hi > b) ? (hi - b) : 32'd0;
    h = (h > 32'd4) ? 32'd4 : h;
    l = l << 2;
    h = 32'd16 - (h << 2);
    // two shifts of at most 16: a shift by 32 needs a special case
    return ((32'hffff_ffff << l[4:0]) << l[4:0]) & ((32'hffff_ffff >> h[4:0]) >> h[4:0]);
  endfunction
endpackage
