// SPDX-License-Identifier: Apache-2.0
// Bursts of AXI, for who follows their beats within 4 KiB.
package presil_port_beat_pkg;
    typedef struct packed {
        logic [11:0] addr;  // of the beat
        logic [ 7:0] len;
        logic [ 2:0] size;
        logic [ 1:0] burst;
    } beat_t;

    function automatic logic [11:0] next(beat_t b);
        logic [11:0] after = ((b.addr >> b.size) + 12'd1) << b.size;
        logic [11:0] mask = ((12'(b.len) + 12'd1) << b.size) - 12'd1;
        if (b.burst == 2'd0) return b.addr;
        return b.burst == 2'd2 ? (b.addr & ~mask) | (after & mask) : after;
    endfunction
endpackage
