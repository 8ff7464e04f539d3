# SPDX-License-Identifier: Apache-2.0
"""oracle.machine: MATRIX with `depthwise` against sums written out by hand, and against the operator's order."""

import itertools
import struct

import pytest

from oracle import layout, numerics as n, operators
from oracle.layout import encode
from oracle.machine import Machine
from oracle.support import float16, rng

ACT, WGT, OUT = 0x1000, 0x8000, 0xA000  # in DRAM
WEIGHTS = 400  # word of the scratchpad
BF16, FP16 = (layout.enum("DTYPE", name) for name in ("BF16", "FP16"))
ONCE = dict(n0=1, n1=1, n2=1, n3=1)
ONE = dict.fromkeys(("nx", "ny", "sx", "sy", "kx", "ky", "dx", "dy", "ncb", "idx", "idy", "first", "depthwise"), 1)
ONE |= dict(wgt_x_stride=1)


def words(c, address, count, **fields):
    size = count * c.word_bytes
    lengths = dict(chunk_bytes=size, row_bytes=size, word_bytes=c.word_bytes, sw=c.word_bytes)
    return encode("LOAD", **ONCE, addr=address, **lengths, **fields)


def machine(chip, activations, weights):
    """Words of elements (codes) in DRAM: activations from ACT, weights from WGT. The rest is 0x7F."""
    m = Machine(chip, bytearray(b"\x7f" * 0x10000))
    for address, rows in ((ACT, activations), (WGT, weights)):
        for i, (kind, row) in enumerate(rows):
            data = struct.pack(f"<{len(row)}{kind}", *row)
            at = address + i * m.config.word_bytes
            m.memory.dram[at : at + len(data)] = data
    return m


def launch(m, activations, positions, rows, *matrices):
    """Patterns of `rows` accumulator rows, cell by cell; None: the launch's error."""
    c = m.config
    pitch = -(-4 * c.cells // c.word_bytes) * c.word_bytes
    program = [words(c, ACT, activations), words(c, WGT, positions, sp_base=WEIGHTS * c.word_bytes, signal=1)]
    for i, fields in enumerate(matrices):
        gate = dict(wait=0 if i else 1, signal=int(i == len(matrices) - 1))
        program.append(encode("MATRIX", **ONE | dict(wgt_base=WEIGHTS) | fields, **gate))
    out = 500 * c.word_bytes
    program += [
        encode("EPILOGUE", rows=rows, out_type=3, out_base=out, out_pitch=pitch, wait=1 << 4, signal=1),
        encode(
            "STORE",
            **ONCE | dict(n1=rows),
            addr=OUT,
            chunk_bytes=4 * c.cells,
            word_bytes=c.word_bytes,
            sw=c.word_bytes,
            ds1=4 * c.cells,
            sp_base=out,
            ss1=pitch,
            wait=1 << 8,
        ),
    ]
    result = m.launch(program)
    assert result.error is None, result.error
    assert all(m.memory.dram_defined[OUT : OUT + 4 * c.cells * rows])
    flat = struct.unpack(f"<{rows * c.cells}I", m.memory.dram[OUT : OUT + 4 * c.cells * rows])
    return [list(flat[r * c.cells : (r + 1) * c.cells]) for r in range(rows)]


@pytest.mark.parametrize("chip", ["tiny", "odd"])
def test_a_cell_has_its_own_channel(chip):
    """int8: a 1x2 kernel over three pixels, padded by one on the left."""
    cells = layout.config(chip).cells
    pixels = [[10 * x + c for c in range(cells)] for x in (1, 2, 3)]
    kernel = [[1] * cells, [c + 1 for c in range(cells)]]
    m = machine(chip, [("b", p) for p in pixels], [("b", w) for w in kernel])
    got = launch(m, 3, 2, 3, dict(nx=3, kx=2, ox=-1, lim_x=3, lim_y=1, x_stride=1, pad=0xFE))
    line = [[-2] * cells, *pixels]
    assert got == [[line[x][c] + (c + 1) * line[x + 1][c] for c in range(cells)] for x in range(3)]


@pytest.mark.parametrize("form, dtype, unit", [(n.BF16, BF16, 0x3F80), (n.FP16, FP16, 0x3C00)], ids=["bf16", "fp16"])
def test_cells_beyond_the_word_add_zero(form, dtype, unit):
    """odd has 20 cells, and 12 elements of two bytes: the other eight add +0, which makes zero of a subnormal sum."""
    m = machine("odd", [("H", [unit] * 12)], [("H", [0x4000 + c for c in range(12)])])
    one = dict(dtype=dtype, lim_x=1, lim_y=1)
    got = launch(m, 1, 1, 1, one, one | dict(first=0))
    assert got == [[n.add(w, w) for w in (form.widen(0x4000 + c) for c in range(12))] + [0] * 8]
    m = machine("odd", [("b", [1] * 20)], [("b", [3] * 20)])
    ints = one | dict(dtype=0)
    assert launch(m, 1, 1, 1, ints, one | dict(first=0))[0][12:] == [n.add(3, 0)] * 8 == [0] * 8


@pytest.mark.parametrize("chip, want", [("tiny", 0x3F800004), ("wide", 0x3F800000)])
@pytest.mark.parametrize("dtype, one, small, other", [(BF16, 0x3F80, 0x3300, 0x3F80), (FP16, 0x3C00, 0x0200, 0x1400)])
def test_a_kernel_is_one_block_with_the_guard_bits_of_the_lanes(chip, want, dtype, one, small, other):
    """Eight products of 2^-25 beside 1, by hand: numerics.md 4.4 rounds each half up to 2^-24 with G = 11 of eight
    lanes, and down to nothing with G = 10 of 64. fp16 has 2^-25 as a product of two."""
    cells = layout.config(chip).cells
    pixels = [("H", [one if i == 4 else small] * cells) for i in range(9)]
    m = machine(chip, pixels, [("H", [one if i == 4 else other] * cells) for i in range(9)])
    got = launch(m, 9, 9, 1, dict(dtype=dtype, kx=3, ky=3, lim_x=3, lim_y=3, x_stride=1, y_stride=3, wgt_y_stride=3))
    assert got == [[want] * cells]


@pytest.mark.parametrize("absent", [0, 1])
@pytest.mark.parametrize("skip", [0, 1])
@pytest.mark.parametrize(
    "dtype, unit, infinite, code",
    [(BF16, 0x3F80, 0x7F80, 0x0001), (FP16, 0x3C00, 0x7C00, 0x7C01)],
    ids=["bf16", "fp16"],
)
def test_specials_stay_in_their_cell(dtype, unit, infinite, code, skip, absent):
    """Positions: (infinity, w), (1, 1); w by cell: 1, 0, absent, -1, infinity, NaN."""
    weights = [unit, 0, code, unit | 0x8000, infinite, 0x7FC1, unit, unit]
    pixels = [[infinite] * 6 + [unit, 0xFFFF], [unit] * 8]
    m = machine("tiny", [("H", p) for p in pixels], [("H", weights), ("H", [unit] * 8)])
    got = launch(m, 2, 2, 1, dict(dtype=dtype, kx=2, lim_x=2, lim_y=1, x_stride=1, skip_special=skip, absent=absent))
    one, two, inf = 0x3F800000, 0x40000000, n.INF32
    third = one if absent else n.NAN32
    full = [inf, n.NAN32, third, inf | 1 << 31, inf, n.NAN32, two, n.NAN32]
    assert got == [[one] * 6 + [two, one]] if skip else got == [full]


@pytest.mark.parametrize("depthwise, want", [(1, 0x3F800000), (0, 0x41000000)])
@pytest.mark.parametrize("dtype, one", [(BF16, 0x3F80), (FP16, 0x3C00)], ids=["bf16", "fp16"])
def test_floats_are_padded_with_zeros(dtype, one, depthwise, want):
    """Whatever `pad` is: an element between two of padding."""
    m = machine("tiny", [("H", [one] * 8)], [("H", [one] * 8)] * 8)
    row = dict(depthwise=depthwise, dtype=dtype, nx=3, ox=-1, lim_x=1, lim_y=1, pad=0x35)
    assert launch(m, 1, 8, 3, row) == [[0] * 8, [want] * 8, [0] * 8]


@pytest.mark.parametrize("stride", [1, 2, 3])
@pytest.mark.parametrize("dtype", ["bf16", "fp16"])
def test_pieces_of_a_kernel_are_the_operators_order(dtype, stride):
    """On tiny: 7x6 over eight channels as descriptors of at most 5x5; oracle.operators has the same bits."""
    r, (ky, kx), size = rng("pieces"), (7, 6), 11
    pick = lambda: float16(r, dtype.upper(), 10)
    x = [[[[pick() for _ in range(size)] for _ in range(size)] for _ in range(8)]]
    w = [[[[pick() for _ in range(kx)] for _ in range(ky)]] for _ in range(8)]
    want = operators.conv2d(x, w, dtype=dtype, lanes=16, cells=8, groups=8, stride=(stride, stride), padding=(2, 1))
    ny, nx = (size + 4 - ky) // stride + 1, (size + 2 - kx) // stride + 1
    ny_done = min(ny, 64 // nx)  # accumulator rows
    pixels = [("H", [x[0][c][i][j] for c in range(8)]) for i in range(size) for j in range(size)]
    kernel = [("H", [w[c][0][y][v] for c in range(8)]) for y in range(ky) for v in range(kx)]
    cut = {  # (first, count) of rows, of columns
        1: [((0, 4), (4, 3)), ((0, 3), (3, 3))],
        2: [((0, 4), (1, 3)), ((0, 3), (1, 3))],
        3: [((0, 3), (1, 2), (2, 2)), ((0, 2), (1, 2), (2, 2))],
    }[stride]
    sums = []
    for (y0, rows), (x0, columns) in itertools.product(*cut):
        geometry = dict(ox=x0 - 1, oy=y0 - 2, lim_x=size, lim_y=size, x_stride=1, y_stride=size)
        walk = dict(nx=nx, ny=ny_done, sx=stride, sy=stride, dx=stride, dy=stride, kx=columns, ky=rows)
        at = dict(wgt_base=WEIGHTS + y0 * kx + x0, wgt_x_stride=stride, wgt_y_stride=stride * kx)
        sums.append(dict(dtype=layout.enum("DTYPE", dtype.upper()), first=int(not sums)) | geometry | walk | at)
    got = launch(machine("tiny", pixels, kernel), size * size, ky * kx, nx * ny_done, *sums)
    planes = [[want[c * ny * nx + p] for c in range(8)] for p in range(nx * ny_done)]
    assert got == planes


def test_undefined_elements_stay_in_their_cell():
    """Byte 2 of the only activation word was not written: cell 2 is undefined unless its weight is zero."""
    for weight, defined in ((0, True), (1, False)):
        m = machine("tiny", [("b", range(16))], [("b", [1, 1, weight] + [1] * 13)])
        program = [
            encode("LOAD", **ONCE, addr=ACT + at, chunk_bytes=size, row_bytes=size, word_bytes=size, sp_base=to)
            for at, size, to in ((1, 1, 1), (3, 13, 3), (0, 1, 17))
        ]
        program += [
            words(m.config, WGT, 1, sp_base=WEIGHTS * 16, signal=1),
            encode("MATRIX", **ONE, lim_x=1, lim_y=1, wgt_base=WEIGHTS, wait=1, signal=1),
            encode("EPILOGUE", rows=1, out_type=3, out_base=0x400, wait=1 << 4, signal=1),
            encode("STORE", **ONCE, addr=OUT, chunk_bytes=32, word_bytes=16, sw=16, sp_base=0x400, wait=1 << 8),
        ]
        assert m.launch(program).error is None
        flags = [bool(m.memory.dram_defined[OUT + 4 * c]) for c in range(8)]
        assert flags == [False, True, defined] + [True] * 5


def first_error(**fields):
    return Machine("tiny", bytearray(64)).launch([encode("MATRIX", **ONE | fields)]).error


def test_the_first_address_outside():
    """Weights in ascending address, then the window row by row, with positions that no output uses."""
    end, rows = 4096, dict(nx=2, ny=2, kx=2, ky=3, lim_x=64, lim_y=64, x_stride=1, y_stride=7)
    rows |= dict(wgt_y_stride=2)
    assert first_error(**rows, wgt_base=end - 6) is None
    assert first_error(**rows, wgt_base=end - 5, act_base=end + 9) == ("SPAD_RANGE", 0, 16 * end)
    assert first_error(**rows, act_base=end + 9) == ("SPAD_RANGE", 0, 16 * (end + 9))
    down = rows | dict(act_base=end - 2, y_stride=0x10000 - 4)
    assert first_error(**down) == ("SPAD_RANGE", 0, 16 * end)
    assert first_error(**down, ox=-1) is None
    wide = dict(nx=2, sx=2, act_base=end - 1, x_stride=1, lim_y=1)
    assert first_error(**wide, lim_x=2) == ("SPAD_RANGE", 0, 16 * end)
    assert first_error(**wide, lim_x=1) is None
    assert first_error(**wide | dict(x_stride=0xFFFF), lim_x=3) is None
