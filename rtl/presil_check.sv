// SPDX-License-Identifier: Apache-2.0
// What decode refuses of a descriptor (docs/isa.md section 1): OPCODE before VERSION before FIELD.
// What this chip does not have, and what no field names, is refused: a program of a later chip ends
// in FIELD.
// Combinational; looks only with `en`, so that a simulator pays once a descriptor. No state, no
// errors of its own.
module presil_check import presil_config_pkg::*, presil_desc_pkg::*; (
  input  logic        en,              /// look at desc in this cycle
  input  desc_t       desc,            /// any bits, as fetched
  output logic [3:0]  code             /// ERROR_NONE, _OPCODE, _VERSION or _FIELD; without en NONE
);
  // what it says, as each engine reads it
  load_t     load;
  store_t    store;
  matrix_t   matrix;
  epilogue_t epilogue;
  assign load     = desc;
  assign store    = desc;
  assign matrix   = desc;
  assign epilogue = desc;
  logic unused;
  assign unused = &{load, store, matrix, epilogue};

  function automatic logic [31:0] if_more(input logic [15:0] count, input logic [31:0] stride);
    return (count > 16'd1) ? stride : 32'd0;    // a stride that is never added may be anything
  endfunction

  // LOAD and STORE have their counts and strides in the same places
  function automatic logic bad_counts();
    return load.n0 == 16'd0 || load.n1 == 16'd0 || load.n2 == 16'd0 || load.n3 == 16'd0
        || load.chunk_bytes == 16'd0 || load.word_bytes == 16'd0;
  endfunction

  function automatic logic bad_transpose(input logic conv);
    logic [31:0] chunk, n1, unaligned, spare;
    logic [1:0]  source, element;               // log2 of their bytes
    chunk   = 32'(load.chunk_bytes);
    n1      = 32'(load.n1);
    source  = conv ? 2'd2 : load.esize_log2;
    element = conv ? 2'd1 : source;
    spare   = (32'd1 << source) - 32'd1;
    unaligned = load.sp_base | ((chunk > spare + 32'd1) ? load.sw : 32'd0)
              | if_more(load.n2, load.ss2) | if_more(load.n3, load.ss3);
    return source == 2'd3 || load.n0 != 16'd1 || n1 > (LANES >> element)
        || chunk > (conv ? 2 * WORD : WORD) || (chunk & spare) != 32'd0
        || (unaligned & (WORD - 1)) != 32'd0;
  endfunction

  // A converted word begins at a whole element, wherever it goes.
  function automatic logic odd_address(input logic [31:0] word);
    return load.sp_base[0] || (32'(load.chunk_bytes) > word && load.sw[0])
        || (load.n0 > 16'd1 && load.ss0[0]) || (load.n1 > 16'd1 && load.ss1[0])
        || (load.n2 > 16'd1 && load.ss2[0]) || (load.n3 > 16'd1 && load.ss3[0]);
  endfunction

  function automatic logic bad_load();
    logic        conv;
    logic [31:0] word;
    logic [1:0]  odd;                           // what is not a multiple of four bytes
    conv  = load.conv != CONV_NONE;
    word  = 32'(load.word_bytes);
    odd   = load.row_bytes[1:0] | load.pos0[1:0] | load.step0[1:0] | word[1:0]
        | load.chunk_bytes[1:0];
    return bad_counts() || load.conv > CONV_TERM2 || word > (conv ? 2 * WORD : WORD)
        || load.step0[31]
        || (conv && (odd != 2'd0 || (!load.transpose && odd_address(word))))
        || (load.transpose && bad_transpose(conv));
  endfunction

  // Every piece lies in an aligned block of the largest power of two that divides all strides: so
  // no piece can cross the end of a word.
  function automatic logic bad_store();
    logic [31:0] chunk, word, strides, block, piece;
    chunk   = 32'(store.chunk_bytes);
    word    = 32'(store.word_bytes);
    strides = WORD | ((chunk > word) ? store.sw : 32'd0)
            | if_more(store.n0, store.ss0) | if_more(store.n1, store.ss1)
            | if_more(store.n2, store.ss2) | if_more(store.n3, store.ss3);
    block   = strides & (32'd0 - strides);
    piece   = (chunk < word) ? chunk : word;
    return bad_counts() || store.conv != CONV_NONE || word > WORD
        || (store.sp_base & (block - 32'd1)) + piece > block;
  endfunction

  // The results' step is one or two positions of the window, whose rows the line buffer holds.
  function automatic logic bad_axis(input logic [15:0] s, input logic [15:0] d,
      input logic [7:0] k);
    return k > 8'(presil_dot_pkg::WINDOW) || (s != d && 17'(s) != {d, 1'b0});
  endfunction

  function automatic logic bad_depthwise(input logic [31:0] nx);
    return 32'(matrix.extra_cells) >= CELLS
        || matrix.ncb != 16'd1 || matrix.idx != 8'd1 || matrix.idy != 8'd1
        || bad_axis(matrix.sx, matrix.dx, matrix.kx) || bad_axis(matrix.sy, matrix.dy, matrix.ky)
        || ((nx - 32'd1) << (matrix.sx != matrix.dx)) + 32'(matrix.kx) > 32'd64;
  endfunction

  function automatic logic bad_matrix();
    logic [31:0] nx, ny;
    nx = 32'(matrix.nx);
    ny = 32'(matrix.ny);
    return (matrix.dtype > DTYPE_BF16 && matrix.dtype != DTYPE_FP16) || nx == 32'd0 || ny == 32'd0
        || matrix.sx == 16'd0 || matrix.sy == 16'd0 || matrix.kx == 8'd0 || matrix.ky == 8'd0
        || matrix.ncb == 16'd0 || matrix.idx == 8'd0 || matrix.idy == 8'd0
        || 33'(nx * ny) + 33'(matrix.acc_base) > 33'(ACC_ROWS)
        || (matrix.depthwise ? bad_depthwise(nx) : matrix.extra_cells != 8'd0);
  endfunction

  // Rows of CELLS elements are aligned to a word, or to a slot of it that is a power of two.
  function automatic logic [31:0] unit(input int unsigned bytes);
    return (2 * bytes > WORD) ? WORD : 32'd1 << $clog2(bytes);
  endfunction
  localparam logic [31:0] UNIT1 = unit(CELLS), UNIT2 = unit(2 * CELLS), UNIT4 = unit(4 * CELLS);

  function automatic logic [31:0] unaligned(input logic [3:0] kind, input logic [31:0] bytes);
    return bytes & (((kind == DTYPE_INT8) ? UNIT1 : two_bytes(kind) ? UNIT2 : UNIT4) - 32'd1);
  endfunction
  function automatic logic subnormal(input logic [30:0] magnitude);
    return magnitude[30:23] == 8'd0 && magnitude[22:0] != 23'd0;
  endfunction

  function automatic logic bad_epilogue();
    logic [31:0] out, res;                      // what has to be aligned
    out = epilogue.out_base | if_more(epilogue.rows, epilogue.out_pitch);
    res = epilogue.res_base | if_more(epilogue.rows, epilogue.res_pitch);
    return (epilogue.out_type > DTYPE_RAW32 && epilogue.out_type != DTYPE_FP16)
        || epilogue.rows == 16'd0
        || 32'(epilogue.rows) + 32'(epilogue.acc_base) > ACC_ROWS
        || unaligned(epilogue.out_type, out) != 32'd0
        || (epilogue.res_en
            && ((epilogue.res_type > DTYPE_FP32 && epilogue.res_type != DTYPE_FP16)
                || unaligned(epilogue.res_type, res) != 32'd0))
        || (epilogue.clamp_en
            && (subnormal(epilogue.clamp_lo[30:0]) || subnormal(epilogue.clamp_hi[30:0])));
  endfunction

  function automatic logic bad();
    case (desc.opcode)
      OP_LOAD:     return (load & LOAD_RESERVED) != '0 || bad_load();
      OP_STORE:    return (store & STORE_RESERVED) != '0 || bad_store();
      OP_MATRIX:   return (matrix & MATRIX_RESERVED) != '0 || bad_matrix();
      OP_EPILOGUE: return (epilogue & EPILOGUE_RESERVED) != '0 || bad_epilogue();
      // NOP
      default:     return (desc & COMMON_RESERVED) != '0 || desc.waits != '0 || desc.signals != '0;
    endcase
  endfunction

  always_comb begin
    code = ERROR_NONE;
    if (en) begin
      if (desc.opcode >= OP_VECTOR) code = ERROR_OPCODE;
      else if (desc.isa != ISA_VERSION) code = ERROR_VERSION;
      else if (bad()) code = ERROR_FIELD;
    end
  end
endmodule
