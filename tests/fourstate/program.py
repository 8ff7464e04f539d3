# SPDX-License-Identifier: Apache-2.0
"""A program for tiny that uses every engine and whose results are defined: transposing, converting and plain LOADs,
bf16 MATRIX, EPILOGUE with parameters and residual, STORE of any alignment."""

import random
import struct

from oracle.layout import encode, to_bytes
from oracle.machine import Machine
from oracle.support import bf16, fp32

IN, OUT, OUT_WORDS, BYTES = 0x4000, 0x8000, 8, 0x40000
WORD, CELLS = 16, 8


def descriptors():
    loop = dict(n0=1, n1=1, n2=1, n3=1)
    return [
        # weights: 8 rows of 8 fp32 become 8 columns of bf16 at words 0 to 7
        encode("LOAD", **{**loop, "n1": 8}, transpose=1, conv=1, addr=IN, row_bytes=32, chunk_bytes=32,
               word_bytes=32,
               ds1=32, sw=WORD),
        # activations: 4 words of bf16, the last one beyond the end of the row
        encode("LOAD", **{**loop, "n0": 4}, addr=IN + 0x203, row_bytes=56, step0=16, chunk_bytes=16, word_bytes=16,
               sp_base=8 * WORD, ss0=WORD, pad=0x3F803F80),
        # bias, scale and residual
        encode("LOAD", **loop, addr=IN + 0x400, row_bytes=256, chunk_bytes=256, word_bytes=16, sp_base=16 * WORD,
               sw=WORD, signal=1),
        encode("MATRIX", dtype=1, first=1, act_base=8, wgt_base=0, nx=4, ny=1, sx=1, sy=1, kx=1, ky=1, ncb=1, lim_x=4,
               lim_y=1, x_stride=1, idx=1, idy=1, wait=1, signal=1),
        encode("EPILOGUE", acc_fp32=1, rows=4, bias_en=1, scale_en=1, res_en=1, res_type=2, out_type=1, param_base=16,
               res_base=24 * WORD, res_pitch=2 * WORD, out_base=40 * WORD, out_pitch=WORD, wait=1 << 4, signal=1),
        encode("STORE", **{**loop, "n1": 4}, addr=OUT + 5, chunk_bytes=16, word_bytes=16, ds1=17, sp_base=40 * WORD,
               ss1=WORD, wait=1 << 8, ordered=1),
    ]  # fmt: skip


def image(seed):
    """256 KiB of DRAM: the ring at 0, and operands."""
    r, out = random.Random(seed), bytearray(BYTES)
    program = b"".join(map(to_bytes, descriptors()))
    out[: len(program)] = program
    out[IN : IN + 0x200] = struct.pack("<128I", *(fp32(r, 118, 134) for _ in range(128)))
    out[IN + 0x203 : IN + 0x203 + 64] = struct.pack("<32H", *(bf16(r, 118, 134) for _ in range(32)))
    out[IN + 0x400 : IN + 0x600] = struct.pack("<128I", *(fp32(r, 118, 134) for _ in range(128)))
    return out


def expected(dram):
    """What the oracle leaves in the OUT_WORDS words from OUT; every byte of it is defined."""
    machine = Machine("tiny", bytearray(dram))
    result = machine.launch(descriptors())
    assert (result.error, result.hang, result.undefined) == (None, None, [])
    end = OUT + OUT_WORDS * WORD
    assert all(machine.memory.dram_defined[OUT:end])
    return bytes(machine.memory.dram[OUT:end])
