// SPDX-License-Identifier: Apache-2.0
// What decode refuses of a descriptor (docs/isa.md section 1): OPCODE before VERSION before FIELD.
// Combinational; looks only with `en`, so that a simulator pays once a descriptor. No state, no errors of its own.
module presil_check import presil_config_pkg::*; import presil_desc_pkg::*; (
  input  logic        en,
  input  logic [31:0] desc [32],
  output logic [3:0]  code             // ERROR_*
);
  logic [3:0] opcode;
  assign opcode = desc[0][3:0];

  function automatic logic [31:0] if_more(input logic [15:0] count, input logic [31:0] stride);
    return (count > 16'd1) ? stride : 32'd0;    // a stride that is never added may be anything
  endfunction

  // LOAD and STORE have their counts and strides in the same places
  function automatic logic bad_counts();
    return desc[LOAD_N0_WORD][LOAD_N0_LSB +: 16] == 16'd0 || desc[LOAD_N1_WORD][LOAD_N1_LSB +: 16] == 16'd0
        || desc[LOAD_N2_WORD][LOAD_N2_LSB +: 16] == 16'd0 || desc[LOAD_N3_WORD][LOAD_N3_LSB +: 16] == 16'd0
        || desc[LOAD_CHUNK_BYTES_WORD][LOAD_CHUNK_BYTES_LSB +: 16] == 16'd0
        || desc[LOAD_WORD_BYTES_WORD][LOAD_WORD_BYTES_LSB +: 16] == 16'd0;
  endfunction

  function automatic logic bad_transpose(input logic conv);
    logic [31:0] chunk, n1, unaligned, spare;
    logic [1:0]  source, element;               // log2 of their bytes
    chunk   = 32'(desc[LOAD_CHUNK_BYTES_WORD][LOAD_CHUNK_BYTES_LSB +: 16]);
    n1      = 32'(desc[LOAD_N1_WORD][LOAD_N1_LSB +: 16]);
    source  = conv ? 2'd2 : desc[LOAD_ESIZE_LOG2_WORD][LOAD_ESIZE_LOG2_LSB +: 2];
    element = conv ? 2'd1 : source;
    spare   = (32'd1 << source) - 32'd1;
    unaligned = desc[LOAD_SP_BASE_WORD] | ((chunk > spare + 32'd1) ? desc[LOAD_SW_WORD] : 32'd0)
              | if_more(desc[LOAD_N2_WORD][LOAD_N2_LSB +: 16], desc[LOAD_SS2_WORD])
              | if_more(desc[LOAD_N3_WORD][LOAD_N3_LSB +: 16], desc[LOAD_SS3_WORD]);
    return source == 2'd3 || desc[LOAD_N0_WORD][LOAD_N0_LSB +: 16] != 16'd1 || n1 > (LANES >> element)
        || chunk > (conv ? 2 * WORD : WORD) || (chunk & spare) != 32'd0 || (unaligned & (WORD - 1)) != 32'd0;
  endfunction

  // A converted word begins at a whole element, wherever it goes.
  function automatic logic odd_address(input logic [31:0] word);
    return desc[LOAD_SP_BASE_WORD][0]
        || (32'(desc[LOAD_CHUNK_BYTES_WORD][LOAD_CHUNK_BYTES_LSB +: 16]) > word && desc[LOAD_SW_WORD][0])
        || (desc[LOAD_N0_WORD][LOAD_N0_LSB +: 16] > 16'd1 && desc[LOAD_SS0_WORD][0])
        || (desc[LOAD_N1_WORD][LOAD_N1_LSB +: 16] > 16'd1 && desc[LOAD_SS1_WORD][0])
        || (desc[LOAD_N2_WORD][LOAD_N2_LSB +: 16] > 16'd1 && desc[LOAD_SS2_WORD][0])
        || (desc[LOAD_N3_WORD][LOAD_N3_LSB +: 16] > 16'd1 && desc[LOAD_SS3_WORD][0]);
  endfunction

  function automatic logic bad_load();
    logic        conv, transpose;
    logic [31:0] word;
    logic [1:0]  odd;                           // what is not a multiple of four bytes
    transpose = desc[LOAD_TRANSPOSE_WORD][LOAD_TRANSPOSE_LSB];
    conv  = desc[LOAD_CONV_WORD][LOAD_CONV_LSB +: 2] != CONV_NONE;
    word  = 32'(desc[LOAD_WORD_BYTES_WORD][LOAD_WORD_BYTES_LSB +: 16]);
    odd   = desc[LOAD_ROW_BYTES_WORD][1:0] | desc[LOAD_POS0_WORD][1:0] | desc[LOAD_STEP0_WORD][1:0] | word[1:0]
          | desc[LOAD_CHUNK_BYTES_WORD][LOAD_CHUNK_BYTES_LSB +: 2];
    return bad_counts() || word > (conv ? 2 * WORD : WORD) || desc[LOAD_STEP0_WORD][31]
        || (conv && (odd != 2'd0 || (!transpose && odd_address(word))))
        || (transpose && bad_transpose(conv));
  endfunction

  // Every piece lies in an aligned block of the largest power of two that divides all strides: so no piece can cross
  // the end of a word.
  function automatic logic bad_store();
    logic [31:0] chunk, word, strides, block, piece;
    chunk   = 32'(desc[STORE_CHUNK_BYTES_WORD][STORE_CHUNK_BYTES_LSB +: 16]);
    word    = 32'(desc[STORE_WORD_BYTES_WORD][STORE_WORD_BYTES_LSB +: 16]);
    strides = WORD | ((chunk > word) ? desc[STORE_SW_WORD] : 32'd0)
            | if_more(desc[STORE_N0_WORD][STORE_N0_LSB +: 16], desc[STORE_SS0_WORD])
            | if_more(desc[STORE_N1_WORD][STORE_N1_LSB +: 16], desc[STORE_SS1_WORD])
            | if_more(desc[STORE_N2_WORD][STORE_N2_LSB +: 16], desc[STORE_SS2_WORD])
            | if_more(desc[STORE_N3_WORD][STORE_N3_LSB +: 16], desc[STORE_SS3_WORD]);
    block   = strides & (32'd0 - strides);
    piece   = (chunk < word) ? chunk : word;
    return bad_counts() || word > WORD || (desc[STORE_SP_BASE_WORD] & (block - 32'd1)) + piece > block;
  endfunction

  // The results' step is one or two positions of the window, whose rows the line buffer holds.
  function automatic logic bad_axis(input logic [15:0] s, input logic [15:0] d, input logic [7:0] k);
    return k > 8'd3 || (s != d && 17'(s) != {d, 1'b0});
  endfunction

  function automatic logic bad_depthwise(input logic [31:0] nx);
    logic [15:0] sx, dx;
    logic [7:0]  kx;
    sx = desc[MATRIX_SX_WORD][MATRIX_SX_LSB +: 16];
    dx = desc[MATRIX_DX_WORD][MATRIX_DX_LSB +: 16];
    kx = desc[MATRIX_KX_WORD][MATRIX_KX_LSB +: 8];
    return desc[MATRIX_NCB_WORD][MATRIX_NCB_LSB +: 16] != 16'd1 || desc[MATRIX_IDX_WORD][MATRIX_IDX_LSB +: 8] != 8'd1
        || desc[MATRIX_IDY_WORD][MATRIX_IDY_LSB +: 8] != 8'd1 || bad_axis(sx, dx, kx)
        || bad_axis(desc[MATRIX_SY_WORD][MATRIX_SY_LSB +: 16], desc[MATRIX_DY_WORD][MATRIX_DY_LSB +: 16],
                    desc[MATRIX_KY_WORD][MATRIX_KY_LSB +: 8])
        || ((nx - 32'd1) << (sx != dx)) + 32'(kx) > 32'd64;
  endfunction

  function automatic logic bad_matrix();
    logic [31:0] nx, ny;
    nx = 32'(desc[MATRIX_NX_WORD][MATRIX_NX_LSB +: 16]);
    ny = 32'(desc[MATRIX_NY_WORD][MATRIX_NY_LSB +: 16]);
    return nx == 32'd0 || ny == 32'd0 || desc[MATRIX_SX_WORD][MATRIX_SX_LSB +: 16] == 16'd0
        || desc[MATRIX_SY_WORD][MATRIX_SY_LSB +: 16] == 16'd0
        || desc[MATRIX_KX_WORD][MATRIX_KX_LSB +: 8] == 8'd0 || desc[MATRIX_KY_WORD][MATRIX_KY_LSB +: 8] == 8'd0
        || desc[MATRIX_NCB_WORD][MATRIX_NCB_LSB +: 16] == 16'd0 || desc[MATRIX_IDX_WORD][MATRIX_IDX_LSB +: 8] == 8'd0
        || desc[MATRIX_IDY_WORD][MATRIX_IDY_LSB +: 8] == 8'd0
        || 33'(nx * ny) + 33'(desc[MATRIX_ACC_BASE_WORD][MATRIX_ACC_BASE_LSB +: 16]) > 33'(ACC_ROWS)
        || (desc[MATRIX_DEPTHWISE_WORD][MATRIX_DEPTHWISE_LSB] && bad_depthwise(nx));
  endfunction

  // Rows of CELLS elements are aligned to a word, or to a slot of it that is a power of two.
  function automatic logic [31:0] unit(input int unsigned bytes);
    return (2 * bytes > WORD) ? WORD : 32'd1 << $clog2(bytes);
  endfunction
  localparam logic [31:0] UNIT1 = unit(CELLS), UNIT2 = unit(2 * CELLS), UNIT4 = unit(4 * CELLS);

  function automatic logic [31:0] unaligned(input logic [1:0] kind, input logic [31:0] bytes);  // RES_* or OUT_*
    return bytes & (((kind == OUT_INT8) ? UNIT1 : (kind == OUT_BF16) ? UNIT2 : UNIT4) - 32'd1);
  endfunction
  function automatic logic subnormal(input logic [30:0] magnitude);
    return magnitude[30:23] == 8'd0 && magnitude[22:0] != 23'd0;
  endfunction

  function automatic logic bad_epilogue();
    logic [15:0] rows;
    logic [1:0]  res;
    rows = desc[EPILOGUE_ROWS_WORD][EPILOGUE_ROWS_LSB +: 16];
    res  = desc[EPILOGUE_RES_TYPE_WORD][EPILOGUE_RES_TYPE_LSB +: 2];
    return rows == 16'd0
        || 32'(rows) + 32'(desc[EPILOGUE_ACC_BASE_WORD][EPILOGUE_ACC_BASE_LSB +: 16]) > ACC_ROWS
        || unaligned(desc[EPILOGUE_OUT_TYPE_WORD][EPILOGUE_OUT_TYPE_LSB +: 2], desc[EPILOGUE_OUT_BASE_WORD]
                     | if_more(rows, desc[EPILOGUE_OUT_PITCH_WORD])) != 32'd0
        || (desc[EPILOGUE_RES_EN_WORD][EPILOGUE_RES_EN_LSB]
            && (res > RES_FP32 || unaligned(res, desc[EPILOGUE_RES_BASE_WORD]
                                            | if_more(rows, desc[EPILOGUE_RES_PITCH_WORD])) != 32'd0))
        || (desc[EPILOGUE_CLAMP_EN_WORD][EPILOGUE_CLAMP_EN_LSB]
            && (subnormal(desc[EPILOGUE_CLAMP_LO_WORD][30:0]) || subnormal(desc[EPILOGUE_CLAMP_HI_WORD][30:0])));
  endfunction

  function automatic logic bad();
    case (opcode)
      OP_LOAD:     return bad_load();
      OP_STORE:    return bad_store();
      OP_MATRIX:   return bad_matrix();
      OP_EPILOGUE: return bad_epilogue();
      default:     return desc[COMMON_WAIT_WORD][COMMON_WAIT_LSB +: COMMON_WAIT_WIDTH] != '0     // NOP
                       || desc[COMMON_SIGNAL_WORD][COMMON_SIGNAL_LSB +: COMMON_SIGNAL_WIDTH] != '0;
    endcase
  endfunction

  always_comb begin
    code = ERROR_NONE;
    if (en) begin
      if (opcode >= OP_VECTOR) code = ERROR_OPCODE;
      else if (desc[COMMON_ISA_WORD][COMMON_ISA_LSB +: COMMON_ISA_WIDTH] != ISA_VERSION) code = ERROR_VERSION;
      else if (bad()) code = ERROR_FIELD;
    end
  end
endmodule
