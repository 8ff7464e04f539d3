# SPDX-License-Identifier: Apache-2.0
"""MATRIX with `depthwise` at the corners of its window: RTL, twin and oracle leave the same bytes, between other
MATRIXes and on top of their sums."""

import random

import pytest
from oracle import layout
from oracle.layout import encode
from oracle.machine import Machine

from bench.rtl import Rtl
from bench.twin import Twin

IN, OUT, HALF, DRAM = 0x20000, 0x40000, 0x8000, 0x80000
ACT, WGT, ROWS = 0, 400, 700  # words of the scratchpad
ONCE = dict(n0=1, n1=1, n2=1, n3=1)
ONE = dict.fromkeys(("nx", "ny", "sx", "sy", "kx", "ky", "dx", "dy", "ncb", "idx", "idy", "lim_x", "lim_y"), 1)
ONE |= dict(depthwise=1, act_base=ACT, wgt_base=WGT, x_stride=1, y_stride=13, wgt_x_stride=1, wgt_y_stride=3)
KERNELS = ("generic", "avx2", "avx512")
DTYPES = [layout.enum("DTYPE", name) for name in ("INT8", "BF16", "FP16")]
BF16, FP16 = DTYPES[1:]
# Codes of like size; zeros, absent, subnormal, infinite, NaN, the least and the largest.
SOME = {BF16: range(0x3E00, 0x4100), FP16: range(0x3400, 0x4800)}
RARE = {
    BF16: (0, 0x8000, 1, 0x8001, 0x7F80, 0xFF80, 0x7FC1, 0x0080, 0x7F7F),
    FP16: (0, 0x8000, 1, 0x83FF, 0x7C00, 0xFC00, 0x7C01, 0x7E01, 0x0400, 0x7BFF),
}

# Fields of the window; the rest as ONE.
CORNERS = {
    "one position": {},
    "one position of padding": dict(lim_x=0),
    "a kernel and no more": dict(kx=3, ky=3, lim_x=3, lim_y=3),
    "a row of 64": dict(nx=62, kx=3, ky=3, lim_x=64, lim_y=3),
    "a row of 64, no kernel": dict(nx=64, lim_x=64),
    "a row of 64, stride 2": dict(nx=31, sx=2, kx=3, ky=2, sy=2, oy=-1, lim_x=64, lim_y=9),
    "a row of 63, every other of no use": dict(nx=32, sx=2, lim_x=63),
    "a kernel of 5x5 and no more": dict(kx=5, ky=5, lim_x=5, lim_y=5),
    "a row of 64, 5x5": dict(nx=60, kx=5, ky=5, ny=1, lim_x=64, lim_y=5),
    "5x5": dict(nx=6, ny=5, kx=5, ky=5, ox=-2, oy=-2, lim_x=6, lim_y=6),
    "5x5, stride 2": dict(nx=4, ny=3, sx=2, sy=2, kx=5, ky=5, ox=-2, oy=-2, lim_x=9, lim_y=8),
    "one column, 5x5": dict(ny=12, kx=5, ky=5, ox=-2, oy=-2, lim_x=5, lim_y=12),
    "4x5": dict(nx=7, ny=3, kx=4, ky=5, ox=-1, oy=-4, lim_x=9, lim_y=6),
    "5x2": dict(nx=7, ny=3, kx=5, ky=2, ox=-4, oy=-1, lim_x=9, lim_y=6),
    "1x4": dict(nx=7, ny=3, ky=4, oy=-1, lim_x=9, lim_y=6),
    "4x1": dict(nx=7, ny=3, kx=4, ox=-1, lim_x=9, lim_y=6),
    "3x1": dict(nx=9, ny=3, kx=3, ox=-1, lim_x=9, lim_y=3),
    "1x3": dict(nx=9, ny=3, ky=3, oy=-1, lim_x=9, lim_y=3),
    "2x2": dict(nx=5, ny=5, kx=2, ky=2, ox=-1, oy=-1, lim_x=4, lim_y=4),
    "2x3, strides 2 and 1": dict(nx=4, ny=6, sx=2, kx=2, ky=3, ox=-1, oy=-2, lim_x=9, lim_y=6),
    "one column": dict(ny=20, kx=3, ky=3, ox=-1, oy=-1, lim_x=3, lim_y=20),
    "one column, stride 2": dict(ny=9, sy=2, sx=2, kx=3, ky=3, oy=-1, lim_x=3, lim_y=20),
    "one row": dict(nx=20, kx=3, ky=3, oy=-1, lim_x=22, lim_y=1),
    "padding all around": dict(nx=6, ny=6, kx=3, ky=3, ox=-1, oy=-1, lim_x=6, lim_y=6),
    "a border of three": dict(nx=7, ny=7, kx=3, ky=3, ox=-3, oy=-3, lim_x=3, lim_y=3),
    "stride 2": dict(nx=5, ny=5, sx=2, sy=2, kx=3, ky=3, ox=-1, oy=-1, lim_x=10, lim_y=10),
    "stride 2, 1x1": dict(nx=5, ny=5, sx=2, sy=2, lim_x=10, lim_y=10),
    "dilation 5": dict(nx=4, ny=4, sx=5, dx=5, sy=5, dy=5, kx=3, ky=3, ox=-5, oy=-5, lim_x=30, lim_y=22),
    "dilation 5, stride 10": dict(nx=4, sx=10, dx=5, kx=3, ky=3, lim_x=50, lim_y=3),
    "rows upwards": dict(nx=4, ny=4, kx=3, ky=3, lim_x=6, lim_y=6, y_stride=0x10000 - 13, act_base=70),
    "every position one word": dict(nx=4, ny=4, kx=3, ky=3, lim_x=6, lim_y=6, x_stride=0, y_stride=0),
    "every other weight": dict(nx=4, ny=4, kx=3, ky=3, lim_x=6, lim_y=6, wgt_x_stride=2, wgt_y_stride=5),
    "weights upwards": dict(
        nx=4, ny=4, kx=3, ky=3, lim_x=6, lim_y=6, wgt_base=WGT + 8, wgt_x_stride=0xFFFF, wgt_y_stride=0xFFFD
    ),
    "one weight": dict(nx=4, ny=4, kx=3, ky=3, lim_x=6, lim_y=6, wgt_x_stride=0, wgt_y_stride=0),
    "an element for two cells": dict(nx=5, ny=3, kx=3, ky=3, ox=-1, lim_x=9, lim_y=5, extra_cells=1),
    "for four, 5x5": dict(nx=4, ny=3, kx=5, ky=5, ox=-2, oy=-2, lim_x=6, lim_y=6, extra_cells=3),
    "for eight, stride 2": dict(nx=4, ny=3, sx=2, sy=2, kx=3, ky=2, ox=-1, lim_x=9, lim_y=6, extra_cells=7),
    "for three": dict(nx=5, ny=3, kx=3, ky=3, ox=-1, lim_x=9, lim_y=5, extra_cells=2),
    "for seven, 4x2": dict(nx=5, ny=3, kx=4, ky=2, oy=-1, lim_x=7, lim_y=5, extra_cells=6),
    "nothing but padding": dict(nx=5, ny=3, kx=3, ky=3, ox=-300, lim_x=9, lim_y=9),
}


def words(address, count, to, c, **fields):
    size = count * c.word_bytes
    lengths = dict(chunk_bytes=size, row_bytes=size, word_bytes=c.word_bytes, sw=c.word_bytes)
    return encode("LOAD", **ONCE, addr=address, sp_base=to * c.word_bytes, **lengths, **fields)


def dump(c, half, rows, to, wait):
    """Accumulator rows from 0 on as they are, through the scratchpad to DRAM."""
    pitch, out = -(-4 * c.cells // c.word_bytes) * c.word_bytes, ROWS * c.word_bytes
    row = dict(chunk_bytes=4 * c.cells, word_bytes=c.word_bytes, sw=c.word_bytes, ss1=pitch, ds1=4 * c.cells)
    return [
        encode("EPILOGUE", half=half, rows=rows, out_type=3, out_base=out, out_pitch=pitch, wait=wait, signal=1),
        encode("STORE", **ONCE | dict(n1=rows), addr=to, sp_base=out, wait=1 << 8, signal=1, **row),
    ]


def program(c, dtype, fields):
    """The corner, another window into the other half, the corner on top of itself, and a block of the plain mode over
    both halves between and behind them."""
    corner = ONE | dict(dtype=dtype, pad=0x85) | fields
    rows = corner["nx"] * corner["ny"]
    other = ONE | dict(dtype=dtype, half=1, nx=rows, lim_x=5, kx=1 + (rows < 63), pad=3, wgt_base=WGT + 11)
    plain = ONE | dict(dtype=dtype, depthwise=0, nx=rows, lim_x=40, first=0, wgt_base=WGT + 20)
    small = corner | dict(nx=1, ny=1, wgt_base=WGT + 13, first=0)
    matrices = [
        corner | dict(first=1, wait=1),
        other | dict(first=1),
        plain | dict(half=1),
        plain,
        corner | dict(first=0, wgt_base=corner["wgt_base"] + 9),
        small,
        corner | dict(first=0, skip_special=1, absent=1),
        plain | dict(signal=3),
    ]
    loads = [words(IN, WGT, ACT, c), words(IN + WGT * c.word_bytes, 40 + c.cells, WGT, c, signal=1)]
    waits = 1 << 4, 1 << 5 | 1 << 12  # the second for the first one's STORE too
    dumps = [d for half in (0, 1) for d in dump(c, half, rows, OUT + half * HALF, waits[half])]
    return [*loads, *(encode("MATRIX", **m) for m in matrices), *dumps], rows


def image(seed, dtype):
    """Bytes; as floats a few are rare ones, the others near each other."""
    r = random.Random(seed)
    if dtype not in SOME:
        return bytearray(r.randbytes(DRAM))
    some, rare = SOME[dtype], RARE[dtype]
    pick = lambda: r.choice(rare) if r.random() < 0.02 else r.choice(some) | r.getrandbits(1) << 15
    return bytearray(b"".join(pick().to_bytes(2, "little") for _ in range(DRAM // 2)))


def results(dram, c, rows):
    return [bytes(dram[at : at + 4 * c.cells * rows]) for at in (OUT, OUT + HALF)]


def by_oracle(config, descriptors, dram):
    machine = Machine(config, bytearray(dram))
    outcome = machine.launch(descriptors)
    assert outcome.error is None and outcome.hang is None and not outcome.undefined, outcome
    return machine.memory.dram


@pytest.mark.parametrize("dtype", DTYPES, ids=["int8", "bf16", "fp16"])
@pytest.mark.parametrize("config", ["tiny", "odd"])
def test_twin_equals_oracle(config, dtype):
    c, twins = layout.config(config), [t for t in (Twin(config, k) for k in KERNELS) if t.has_simd]
    assert twins
    for name, fields in CORNERS.items():
        descriptors, rows = program(c, dtype, fields)
        dram = image(name, dtype)
        want = results(by_oracle(config, descriptors, dram), c, rows)
        for twin in twins:
            mine = bytearray(dram)
            error = twin.launch(descriptors, mine)
            assert not error.code and not error.deadlock, (name, error.text)
            assert results(mine, c, rows) == want, name


@pytest.mark.parametrize("model", ["ideal", "latency=20,response=3,stall=0.5"])
@pytest.mark.parametrize("dtype", DTYPES, ids=["int8", "bf16", "fp16"])
@pytest.mark.parametrize("config", ["tiny", "odd", "base", "wide"])
def test_rtl_equals_twin(config, dtype, model):
    c, rtl = layout.config(config), Rtl(config, "fast" if config in ("base", "wide") else None, model)
    with Twin(config) as twin:
        for name, fields in CORNERS.items():
            descriptors, rows = program(c, dtype, fields)
            dram = image(name, dtype)
            rtl.put(IN, bytes(dram[IN:]))
            outcome, error = rtl.launch(descriptors), twin.launch(descriptors, dram)
            assert (outcome.hung, outcome.code, error.code) == (False, 0, 0), (name, outcome)
            got = [rtl.get(OUT + at, 4 * c.cells * rows) for at in (0, HALF)]
            assert list(map(bytes, got)) == results(dram, c, rows), name
