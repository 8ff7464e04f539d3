# SPDX-License-Identifier: Apache-2.0
"""oracle.machine: small programs as a driver would write them against oracle.operators; each engine's rules by hand;
undefined. Errors: test_errors.py."""

import random
import struct
from fractions import Fraction
from types import SimpleNamespace

import pytest

from oracle import layout, numerics as n, operators
from oracle.engines import Operand, accumulate
from oracle.layout import encode
from oracle.machine import Machine
from oracle.support import float16, fp32, rng

CHIPS = ("tiny", "odd")
IN_A, IN_B, PARAMS, OUT = 0x1000, 0x5000, 0x9000, 0xA000
COUNTS = dict.fromkeys(("n0", "n1", "n2", "n3"), 1)
STEPS = dict.fromkeys(("nx", "ny", "sx", "sy", "kx", "ky", "ncb", "lim_x", "lim_y", "idx", "idy"), 1)
FORMAT = {"int8": "B", "bf16": "H", "fp16": "H", "fp32": "I"}
OPERANDS = {"int8": "INT8", "bf16": "BF16", "fp16": "FP16", "fp32": "BF16"}


def machine(chip, size=0x10000):
    return Machine(chip, bytearray(size))


def put(m, address, values, kind):
    data = struct.pack(f"<{len(values)}{kind}", *values)
    m.memory.dram[address : address + len(data)] = data


def get(m, address, count, kind):
    size = struct.calcsize(kind)
    assert all(m.memory.dram_defined[address : address + count * size]), "undefined output"
    return list(struct.unpack(f"<{count}{kind}", m.memory.dram[address : address + count * size]))


def elements(r, dtype, count):
    if dtype == "int8":
        return [r.choice((r.getrandbits(8), 0x80, 0x7F)) for _ in range(count)]
    if dtype == "fp32":
        return [fp32(r, 117, 137) for _ in range(count)]
    return [float16(r, OPERANDS[dtype], 10) for _ in range(count)]


def load(**fields):
    """Counts are 1 unless given, so in store and matrix."""
    return encode("LOAD", **{**COUNTS, **fields})


def store(**fields):
    return encode("STORE", **{**COUNTS, **fields})


def matrix(**fields):
    return encode("MATRIX", **{**STEPS, **fields})


# tokens: 0 LOAD -> MATRIX, 4 MATRIX -> EPILOGUE, 8 EPILOGUE -> STORE, 5 MATRIX -> LOAD (operands free)
def matmul_program(chip, dtype, m, k, columns):
    """One tile of A[m,k] @ B[k,columns], B by transposing LOADs; all passes of the dtype."""
    c = layout.config(chip)
    element = 1 if dtype == "int8" else 2
    source, lanes = struct.calcsize(FORMAT[dtype]), c.lanes // element
    blocks, word = -(-k // lanes), c.word_bytes
    weights = m * blocks  # scratchpad word of the first weight block
    out_word = weights + blocks * c.cells
    program = []
    passes = ((0, 0),) if dtype != "fp32" else operators.FP32_PASSES
    for number, (ta, tw) in enumerate(passes):
        conv = {"conv": ta + 1} if dtype == "fp32" else {}
        conv_w = {"conv": tw + 1} if dtype == "fp32" else {}
        wait = {"wait": 1 << 5} if number else {}
        program.append(
            load(
                addr=IN_A,
                row_bytes=k * source,
                step0=lanes * source,
                chunk_bytes=lanes * source,
                word_bytes=lanes * source,
                n0=blocks,
                n1=m,
                ds1=k * source,
                ss0=word,
                ss1=blocks * word,
                **conv,
                **wait,
            )
        )
        for b in range(blocks):
            rows, most = min(lanes, k - b * lanes), word // element  # columns of a LOAD
            for first in range(0, c.cells, most):
                chunk = min(most, c.cells - first) * source
                last = b == blocks - 1 and first + most >= c.cells
                program.append(
                    load(
                        transpose=1,
                        esize_log2=source.bit_length() - 1,
                        addr=IN_B + (b * lanes * columns + first) * source,
                        row_bytes=max(0, columns - first) * source,
                        chunk_bytes=chunk,
                        word_bytes=chunk,
                        n1=rows,
                        ds1=columns * source,
                        sp_base=(weights + b * c.cells + first) * word,
                        sw=word,
                        signal=int(last),
                        **conv_w,
                    )
                )
        program.append(
            matrix(
                dtype=layout.enum("DTYPE", OPERANDS[dtype]),
                first=int(number == 0),
                skip_special=int(number < len(passes) - 1),
                act_base=0,
                wgt_base=weights,
                ny=m,
                ncb=blocks,
                lim_y=m,
                x_stride=1,
                y_stride=blocks,
                cb_stride=1,
                wait=1,
                signal=3 if number == len(passes) - 1 else 2,
            )
        )
    row_words = -(-4 * c.cells // word)
    program.append(
        encode(
            "EPILOGUE",
            acc_fp32=int(element == 2),
            rows=m,
            out_type=layout.enum("DTYPE", "RAW32" if element == 1 else "FP32"),
            out_base=out_word * word,
            out_pitch=row_words * word,
            wait=1 << 4,
            signal=1,
        )
    )
    program.append(
        store(
            addr=OUT,
            chunk_bytes=columns * 4,
            word_bytes=word,
            n1=m,
            ds1=columns * 4,
            sp_base=out_word * word,
            sw=word,
            ss1=row_words * word,
            wait=1 << 8,
            ordered=1,
        )
    )
    return program


@pytest.mark.parametrize("chip", CHIPS)
@pytest.mark.parametrize("dtype", list(FORMAT))
def test_matmul_program(chip, dtype):
    r, c = rng(f"machine matmul {chip} {dtype}"), layout.config(chip)
    for m, k, columns in ((1, 1, 1), (5, 37, c.cells), (3, c.lanes, c.cells - 1), (7, 2 * c.lanes + 1, 3)):
        a, b = elements(r, dtype, m * k), elements(r, dtype, k * columns)
        a[0] = {"fp32": 0x7F800000, "fp16": 0xFC00}.get(dtype, a[0])
        chip_machine = machine(chip)
        put(chip_machine, IN_A, a, FORMAT[dtype])
        put(chip_machine, IN_B, b, FORMAT[dtype])
        result = chip_machine.launch(matmul_program(chip, dtype, m, k, columns), schedule=random.Random(r.random()))
        assert (result.error, result.hang) == (None, None)
        rows = [a[i * k : (i + 1) * k] for i in range(m)]
        want = operators.matmul(
            [rows], [[b[i * columns : (i + 1) * columns] for i in range(k)]], dtype=dtype, lanes=c.lanes, cells=c.cells
        )
        assert get(chip_machine, OUT, m * columns, "I") == want


def conv_program(chip, h, w, channels, kernel, stride, pad, epilogue, params):
    """int8 convolution of one channel block, one cell group, NHWC at IN_A, weights [cell][ky][kx][c] at IN_B; ->
    (program, outputs' size)."""
    c = layout.config(chip)
    word, e_words = c.word_bytes, -(-4 * c.cells // c.word_bytes)
    weights, oh, ow = h * w, (h + 2 * pad - kernel) // stride + 1, (w + 2 * pad - kernel) // stride + 1
    params_word = weights + kernel * kernel * c.cells
    out_word = params_word + 2 * e_words
    slot = word // 2 if c.cells <= word // 2 else word
    program = [
        load(
            addr=IN_A,
            row_bytes=h * w * channels,
            step0=channels,
            chunk_bytes=channels,
            word_bytes=channels,
            n0=h * w,
            ss0=word,
        ),
        load(
            addr=IN_B,
            row_bytes=channels,
            chunk_bytes=channels,
            word_bytes=channels,
            n1=kernel * kernel,
            n2=c.cells,
            ds1=channels,
            ds2=channels * kernel * kernel,
            sp_base=weights * word,
            ss1=c.cells * word,
            ss2=word,
        ),
        load(
            addr=PARAMS,
            row_bytes=params * 4,
            chunk_bytes=4 * c.cells,
            step0=4 * c.cells,
            word_bytes=word,
            n0=2,
            sp_base=params_word * word,
            sw=word,
            ss0=e_words * word,
            signal=1,
        ),
        matrix(
            first=1,
            half=1,
            act_base=0,
            wgt_base=weights,
            nx=ow,
            ny=oh,
            sx=stride,
            sy=stride,
            kx=kernel,
            ky=kernel,
            dx=1,
            dy=1,
            ox=-pad,
            oy=-pad,
            lim_x=w,
            lim_y=h,
            x_stride=1,
            y_stride=w,
            pad=5,
            wait=1,
            signal=1,
        ),
        encode(
            "EPILOGUE",
            half=1,
            rows=oh * ow,
            param_base=params_word,
            out_base=out_word * word,
            out_pitch=slot,
            wait=1 << 4,
            signal=1,
            **epilogue,
        ),
        store(
            addr=OUT + 1,
            chunk_bytes=c.cells,
            word_bytes=word,
            n1=oh * ow,
            ds1=c.cells,
            sp_base=out_word * word,
            ss1=slot,
            wait=1 << 8,
        ),
    ]
    return program, oh, ow


@pytest.mark.parametrize("chip", CHIPS)
def test_conv_program_with_epilogue(chip):
    """Stride, padding with a zero point, requantisation to slots, an unaligned STORE."""
    r, c = rng(f"machine conv {chip}"), layout.config(chip)
    for h, w, channels, kernel, stride, pad in ((5, 4, 3, 3, 1, 1), (6, 6, c.lanes, 2, 2, 0), (3, 5, 1, 3, 2, 2)):
        x, weight = elements(r, "int8", h * w * channels), elements(r, "int8", c.cells * kernel * kernel * channels)
        bias, scale = (
            [r.getrandbits(14) for _ in range(c.cells)],
            [fp32(r, 116, 119) & 0x7FFFFFFF for _ in range(c.cells)],
        )
        fields = dict(bias_en=1, scale_en=1, out_zp=-4, int_lo=-4, int_hi=120, out_type=layout.enum("DTYPE", "INT8"))
        program, oh, ow = conv_program(chip, h, w, channels, kernel, stride, pad, fields, 2 * c.cells)
        m = machine(chip)
        put(m, IN_A, x, "B"), put(m, IN_B, weight, "B"), put(m, PARAMS, bias + scale, "I")
        result = m.launch(program)
        assert (result.error, result.hang, result.undefined) == (None, None, [])
        assert result.executed == [0, 1, 2, 3, 4, 5]
        nested_x = [[[[x[(i * w + j) * channels + ch] for j in range(w)] for i in range(h)] for ch in range(channels)]]
        nested_w = [
            [
                [
                    [weight[((o * kernel + i) * kernel + j) * channels + ch] for j in range(kernel)]
                    for i in range(kernel)
                ]
                for ch in range(channels)
            ]
            for o in range(c.cells)
        ]
        want = operators.conv2d(
            nested_x,
            nested_w,
            dtype="int8",
            lanes=c.lanes,
            cells=c.cells,
            stride=(stride, stride),
            padding=(pad, pad),
            pad=5,
            epilogue=operators.Epilogue("INT8", bias, scale, out_zp=-4, int_lo=-4, int_hi=120),
        )
        got = get(m, OUT + 1, oh * ow * c.cells, "B")
        assert [got[p * c.cells + o] for o in range(c.cells) for p in range(oh * ow)] == want


def run_load(m, store_words=4, **fields):
    """A LOAD alone and a STORE of the first scratchpad words; the stored bytes with None where undefined."""
    word = m.config.word_bytes
    result = m.launch(
        [
            encode("LOAD", **{**dict(n0=1, n1=1, n2=1, n3=1), **fields}, signal=1),
            store(addr=OUT, chunk_bytes=word * store_words, word_bytes=word, sw=word, wait=1),
        ]
    )
    assert result.error is None and result.hang is None
    return [
        v if f else None for v, f in zip(m.memory.dram[OUT : OUT + word * store_words], m.memory.dram_defined[OUT:])
    ]


def test_load_padding_and_packing():
    m = machine("tiny")
    put(m, IN_A, list(range(1, 100)), "B")
    # positions -2..3 of a row of 3 bytes: pad bytes follow the destination address mod 4
    got = run_load(m, addr=IN_A, row_bytes=3, pos0=-2, chunk_bytes=6, word_bytes=16, pad=0xD3C2B1A0)
    pad = [0xA0, 0xB1, 0xC2, 0xD3]
    assert got[:16] == pad[:2] + [1, 2, 3] + [pad[k % 4] for k in range(5, 16)] and got[16:] == [None] * 48
    # two chunks in one word, the first fills the rest; overlapping windows
    got = run_load(m, addr=IN_A, row_bytes=9, step0=2, chunk_bytes=4, word_bytes=4, n0=3, ss0=5)
    assert got[:16] == [1, 2, 3, 4, 0, 3, 4, 5, 6, 0, 5, 6, 7, 8, 0, 0]
    # row limit: row 0 (position -1) and row 2 (position 1 of 1) are padding
    got = run_load(
        m, addr=IN_A, row_bytes=16, chunk_bytes=16, word_bytes=16, n1=3, ds1=16, ss1=16, rp0=-1, rp1=1, row_limit=1
    )
    assert got[:48] == [0] * 16 + list(range(17, 33)) + [0] * 16
    # words of 3 bytes, the last shorter
    got = run_load(m, addr=IN_A, row_bytes=16, chunk_bytes=7, word_bytes=3, sw=16)
    assert [got[k] for k in (0, 1, 2, 3, 16, 17, 18, 32, 33)] == [1, 2, 3, 0, 4, 5, 6, 7, 0]
    # excess beyond the word is dropped
    got = run_load(m, addr=IN_A, row_bytes=16, chunk_bytes=16, word_bytes=16, sp_base=12)
    assert got[:18] == [None] * 12 + [1, 2, 3, 4, None, None]


def test_load_terms_and_transposition():
    m = machine("tiny")
    values = [0x3F8FFFFF, 0x40490FDB, 0xFF800000, 0x00000001, 0x7F7FFFFF, 0xC2F6E979]
    put(m, IN_A, values, "I")
    for t in range(3):
        got = run_load(m, addr=IN_A, row_bytes=24, pos0=-4, chunk_bytes=32, word_bytes=32, conv=t + 1, pad=0x22221111)
        halves = [got[k] | got[k + 1] << 8 for k in range(0, 16, 2)]
        assert halves == [0x1111] + [n.split(v)[t] for v in values] + [0x2222]
        got = run_load(
            m,
            transpose=1,
            esize_log2=2,
            conv=t + 1,
            addr=IN_A,
            row_bytes=12,
            chunk_bytes=12,
            word_bytes=12,
            n1=2,
            ds1=12,
            sw=16,
        )
        assert [[got[16 * j + 2 * k] | got[16 * j + 2 * k + 1] << 8 for k in range(8)] for j in range(3)] == [
            [n.split(values[j])[t], n.split(values[3 + j])[t]] + [0] * 6 for j in range(3)
        ]
    put(m, IN_A, list(range(16)), "B")
    got = run_load(
        m,
        transpose=1,
        esize_log2=1,
        addr=IN_A,
        row_bytes=4,
        chunk_bytes=6,
        word_bytes=6,
        n1=2,
        ds1=4,
        sw=16,
        pad=0x04030201,
    )
    assert got[:8] == [0, 1, 4, 5, 1, 2, 3, 4] and got[16:20] == [2, 3, 6, 7] and got[32:40] == [1, 2, 3, 4] * 2


def test_undefined_follows_the_value():
    """int8: an undefined activation lane against zero weights is defined, against others not; the flag reaches DRAM."""
    for weight, defined in (([1, 2, 0, 0], True), ([1, 2, 3, 0], False)):
        m, c = machine("tiny"), layout.config("tiny")
        put(m, IN_A, [1, 2, 3, 4], "B")
        put(m, IN_B, weight, "B")
        program = [
            load(addr=IN_A, row_bytes=4, chunk_bytes=2, word_bytes=2, sp_base=1),  # bytes 1 and 2 of word 0
            load(
                addr=IN_B,
                row_bytes=4,
                pos0=-1,
                chunk_bytes=16,
                word_bytes=16,
                n1=c.cells,
                sp_base=16,
                ss1=16,
                signal=1,
            ),
            matrix(first=1, wgt_base=1, wait=1, signal=1),
            encode("EPILOGUE", rows=1, out_type=3, out_base=0x400, out_pitch=32, wait=1 << 4, signal=1),
            store(addr=OUT, chunk_bytes=4, word_bytes=16, sp_base=0x400, wait=1 << 8),
        ]
        result = m.launch(program)
        assert bool(m.memory.dram_defined[OUT]) == defined
        assert any(what == "scratchpad" for _, what, _ in result.undefined)
        if defined:
            assert get(m, OUT, 1, "I") == [1 * 1 + 2 * 2]
        assert any(index == 4 for index, *_ in result.undefined) != defined


@pytest.mark.parametrize(
    "dtype, one, absent_code, inf", [("BF16", 0x3F80, 0x0001, 0x7F80), ("FP16", 0x3C00, 0x7C01, 0xFC00)]
)
def test_skipped_and_absent_lanes_are_defined(dtype, one, absent_code, inf):
    """What an absent weight or a skipped special meets does not matter."""
    pairs = lambda codes, flags: [(b, f) for c, f in zip(codes, flags) for b in (c & 255, c >> 8)]
    a_flags = [1, 0]
    for skip, absent, weight, defined in (
        (0, 1, absent_code, True),
        (0, 0, absent_code, False),
        (0, 0, 0, False),
        (1, 0, inf, True),
        (0, 0, inf, False),
        (0, 1, absent_code ^ 0x8000, False),
    ):
        d = SimpleNamespace(dtype=layout.enum("DTYPE", dtype), skip_special=skip, absent=absent)
        got = accumulate(d, 0, Operand(d, pairs([one, 0x1234], a_flags)), Operand(d, pairs([one, weight], [1, 1])))
        assert got == (0x3F800000 if defined else None)


def run_epilogue(m, residual, **fields):
    """Accumulator row 0 of zeros through an EPILOGUE over scratchpad words 8 and 9 filled with 0xEE; those words
    afterwards."""
    c, word = m.config, m.config.word_bytes
    fill = load(chunk_bytes=2 * word, word_bytes=word, sw=word, sp_base=8 * word, pad=0xEEEEEEEE)
    put(m, IN_A, residual, "B")
    res = load(
        addr=IN_A, row_bytes=len(residual), chunk_bytes=len(residual), word_bytes=word, sw=word, sp_base=4 * word
    )
    weights = load(chunk_bytes=c.lanes, word_bytes=c.lanes, n0=c.cells + 1, sp_base=16 * word, ss0=word, signal=1)
    mac = matrix(first=1, act_base=16, wgt_base=17, wait=1, signal=1)
    epi = encode("EPILOGUE", rows=1, out_pitch=word, wait=1 << 4, signal=1, **fields)
    stored = store(addr=OUT, chunk_bytes=2 * word, word_bytes=word, sw=word, sp_base=8 * word, wait=1 << 8)
    result = m.launch([fill, res, weights, mac, epi, stored])
    assert (result.error, result.hang) == (None, None)
    return [v if f else None for v, f in zip(m.memory.dram[OUT : OUT + 2 * word], m.memory.dram_defined[OUT:])]


@pytest.mark.parametrize("chip", CHIPS)
@pytest.mark.parametrize("dtype", ["BF16", "FP16"])
def test_epilogue_rows_in_words_and_slots(chip, dtype):
    """Residuals and outputs of 1, 2 and 4 bytes; a slot leaves the rest of its word, a row of whole words does not."""
    c = layout.config(chip)
    word, cells = c.word_bytes, c.cells
    int8, half, single = (layout.enum("DTYPE", name) for name in ("INT8", dtype, "FP32"))
    ones = dict(res_en=1, res_base=4 * word, res_scale=0x3F800000)
    values = [(7 * i) % 100 for i in range(cells)]
    slot = cells <= word // 2
    got = run_epilogue(
        machine(chip),
        values,
        out_type=int8,
        out_base=8 * word + (word // 2 if slot else 0),
        int_lo=-128,
        int_hi=127,
        res_type=0,
        **ones,
    )
    assert got == (
        [0xEE] * (word // 2) + values + [0xEE] * word if slot else values + [None] * (word - cells) + [0xEE] * word
    )
    narrow = {"BF16": n.f2b, "FP16": n.f2h}[dtype]
    rows = [narrow(n.round32(Fraction(v))) for v in values]
    got = run_epilogue(
        machine(chip),
        [b for v in rows for b in (v & 255, v >> 8)],
        out_type=single,
        out_base=5 * word,
        res_type=half,
        **ones,
    )
    assert got == [0xEE] * (2 * word)  # written elsewhere
    got = run_epilogue(
        machine(chip),
        [b for v in rows for b in (v & 255, v >> 8)],
        out_type=half,
        out_base=8 * word,
        res_type=half,
        **ones,
    )
    assert got[: 2 * cells] == [b for v in rows for b in (v & 255, v >> 8)]
    assert got[2 * cells :] == [None] * (-2 * cells % word) + [0xEE] * (2 * word - 2 * cells - (-2 * cells % word))


def test_matrix_input_dilation_and_pad():
    """One row of activations, dilated by two, a 1x3 kernel of ones: pads where nothing is."""
    m, c = machine("tiny"), layout.config("tiny")
    put(m, IN_A, [10, 20, 30], "B")
    put(m, IN_B, [1, 1, 1], "B")
    program = [
        load(addr=IN_A, row_bytes=3, chunk_bytes=1, word_bytes=1, step0=1, n0=3, ss0=16),
        load(
            addr=IN_B,
            row_bytes=3,
            chunk_bytes=1,
            word_bytes=1,
            step0=1,
            n0=3,
            n1=c.cells,
            sp_base=48,
            ss0=16 * c.cells,
            ss1=16,
            signal=1,
        ),
        matrix(first=1, wgt_base=3, nx=7, kx=3, dx=1, ox=-1, lim_x=3, x_stride=1, idx=2, pad=1, wait=1, signal=1),
        encode("EPILOGUE", rows=7, out_type=3, out_base=0x1000, out_pitch=32, wait=1 << 4, signal=1),
        store(addr=OUT, chunk_bytes=4, word_bytes=4, n1=7, ds1=4, sp_base=0x1000, ss1=32, wait=1 << 8),
    ]
    assert m.launch(program).error is None
    x = [1, 10, 1, 20, 1, 30, 1, 1, 1]
    assert get(m, OUT, 7, "I") == [sum(x[i : i + 3]) for i in range(7)]
