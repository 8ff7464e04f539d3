# SPDX-License-Identifier: Apache-2.0
"""What decode refuses (docs/isa.md section 1), each rule at its limit: RTL, twin and oracle say the same of every
descriptor."""

from itertools import product

import pytest
from oracle import layout
from oracle.layout import encode
from oracle.machine import Machine

from bench.rtl import Rtl
from bench.twin import Twin

DRAM = 0x40000
IN, OUT = 0x20000, 0x30000


def base(kind, c):
    """A descriptor that is in order, as fields."""
    loop = dict(n0=1, n1=1, n2=1, n3=1, chunk_bytes=4, word_bytes=4)
    return {
        "NOP": {},
        "LOAD": dict(loop, addr=IN, row_bytes=4),
        "STORE": dict(loop, addr=OUT),
        "MATRIX": dict(first=1, nx=2, ny=3, sx=1, sy=1, kx=1, ky=1, ncb=1, lim_x=1, lim_y=1, idx=1, idy=1),
        "EPILOGUE": dict(rows=1, out_type=3),
    }[kind]


def unit(c, element):
    size = c.cells * element
    return c.word_bytes if 2 * size > c.word_bytes else 1 << (size - 1).bit_length()


def cases(c):
    """(kind, fields, refused)."""
    word, e = c.word_bytes, layout.enum
    yield from (("NOP", {}, False), ("NOP", dict(wait=1), True), ("NOP", dict(signal=8), True))
    for kind, names in (
        ("LOAD", "n0 n1 n2 n3 chunk_bytes word_bytes"),
        ("STORE", "n0 n1 n2 n3 chunk_bytes word_bytes"),
        ("MATRIX", "nx ny sx sy kx ky ncb idx idy"),
        ("EPILOGUE", "rows"),
    ):
        yield kind, {}, False
        for name in names.split():
            yield kind, {name: 0}, True
    # types and conversions that this chip doesn't have
    for code in range(16):
        yield "LOAD", dict(conv=code), code > 3
        yield "STORE", dict(conv=code), code > 0
        yield "MATRIX", dict(dtype=code), code not in (0, 1, 5)
        yield "EPILOGUE", dict(out_type=code), code not in (0, 1, 2, 3, 5)
        yield "EPILOGUE", dict(res_en=1, res_type=code, res_base=0), code not in (0, 1, 2, 5)
        yield "EPILOGUE", dict(res_en=0, res_type=code), False
        yield "EPILOGUE", dict(out_type=3, res_en=1, res_type=code), code not in (0, 1, 2, 5)
    # LOAD
    for conv, limit in ((0, word), (1, 2 * word), (3, 2 * word)):
        yield "LOAD", dict(conv=conv, word_bytes=limit), False
        yield "LOAD", dict(conv=conv, word_bytes=limit + 4), True
    for step in (0, 1 << 30, (1 << 31) - 4):
        yield "LOAD", dict(step0=step, row_bytes=0, n0=2), False
    for step in (-1, -4, -(1 << 31)):
        yield "LOAD", dict(step0=step), True
        yield "LOAD", dict(step0=step, conv=2), True
    for name in ("row_bytes", "pos0", "step0", "chunk_bytes", "word_bytes"):
        for off in (1, 2, 3):
            yield "LOAD", {name: 4 + off, "conv": 1}, True
            yield "LOAD", {name: 4 + off}, False
    yield "LOAD", dict(pos0=-8, conv=1), False
    yield "LOAD", dict(pos0=-7, conv=1), True
    yield "LOAD", dict(esize_log2=3), False  # of no meaning without transpose
    # LOAD, converting: to whole elements
    for conv in range(4):
        pieces = dict(conv=conv, chunk_bytes=12, word_bytes=8, row_bytes=12)
        yield "LOAD", {**pieces, "sp_base": 6}, False
        yield "LOAD", {**pieces, "sp_base": 5}, conv != 0
        yield "LOAD", {**pieces, "sw": word + 2}, False
        yield "LOAD", {**pieces, "sw": word + 1}, conv != 0
        yield "LOAD", {**pieces, "sw": word + 1, "word_bytes": 12}, False  # one piece: sw is never added
        for k in range(4):
            yield "LOAD", {**pieces, f"n{k}": 2, f"ss{k}": word + 4}, False
            yield "LOAD", {**pieces, f"n{k}": 2, f"ss{k}": -3, "sp_base": 2 * word}, conv != 0
            yield "LOAD", {**pieces, f"n{k}": 1, f"ss{k}": -3}, False
    for name, least in (("word_bytes", word), ("chunk_bytes", 1 << 16)):
        for bit in range(16):
            yield "LOAD", {name: 1 << bit, "row_bytes": 0}, 1 << bit > least
            yield "STORE", {name: 1 << bit}, 1 << bit > least
    # LOAD, transposing
    for conv, log2 in ((0, 0), (0, 1), (0, 2), (1, 2), (1, 0), (2, 3)):
        source, element = (4, 2) if conv else (1 << log2, 1 << log2)
        shape = dict(transpose=1, conv=conv, esize_log2=log2, chunk_bytes=2 * source, word_bytes=2 * source)
        shape |= dict(sw=word, row_bytes=2 * source)
        whole = source * (word // element)
        yield "LOAD", shape, False
        yield "LOAD", {**shape, "n1": c.lanes // element}, False
        yield "LOAD", {**shape, "n1": c.lanes // element + 1}, True
        yield "LOAD", {**shape, "n0": 2}, True
        for bit in range(16):  # every bit of what is compared
            yield "LOAD", {**shape, "n1": 1 << bit}, 1 << bit > c.lanes // element
            yield "LOAD", {**shape, "n0": 1 << bit}, bit > 0
            yield "LOAD", {**shape, "chunk_bytes": 1 << bit}, not source <= 1 << bit <= whole
        yield "LOAD", {**shape, "chunk_bytes": whole}, False
        yield "LOAD", {**shape, "chunk_bytes": whole + source}, True
        if source > 1:
            yield "LOAD", {**shape, "chunk_bytes": source + 1}, True
            yield "LOAD", {**shape, "chunk_bytes": source - 1, "word_bytes": source}, True
        yield "LOAD", {**shape, "sp_base": word // 2}, True
        yield "LOAD", {**shape, "sp_base": 3 * word}, False
        yield "LOAD", {**shape, "sw": word + 1}, True
        yield "LOAD", {**shape, "sw": 1, "chunk_bytes": source}, False  # one column
        for n, ss in (("n2", "ss2"), ("n3", "ss3")):
            yield "LOAD", {**shape, n: 2, ss: word // 2}, True
            yield "LOAD", {**shape, n: 1, ss: word // 2}, False
            yield "LOAD", {**shape, n: 2, ss: -word, "sp_base": 4 * word}, False
        yield "LOAD", {**shape, "ss0": 1, "ss1": 3, "n1": 2}, False  # not looked at
    yield "LOAD", dict(transpose=1, esize_log2=3, chunk_bytes=8, word_bytes=8), True
    # STORE
    yield "STORE", dict(chunk_bytes=word, word_bytes=word), False
    yield "STORE", dict(chunk_bytes=4, word_bytes=word + 1), True
    yield "STORE", dict(chunk_bytes=word, word_bytes=word, sp_base=1), True
    yield "STORE", dict(chunk_bytes=5, word_bytes=word, sp_base=word - 5), False
    yield "STORE", dict(chunk_bytes=5, word_bytes=word, sp_base=2 * word - 4), True
    yield "STORE", dict(chunk_bytes=7, word_bytes=4, sw=4), False  # pieces of 4 and 3
    yield "STORE", dict(chunk_bytes=7, word_bytes=4, sw=4, sp_base=1), True
    yield "STORE", dict(chunk_bytes=7, word_bytes=4, sw=2), True
    yield "STORE", dict(chunk_bytes=7, word_bytes=4, sw=12, sp_base=word), False
    yield "STORE", dict(chunk_bytes=4, word_bytes=4, sw=1, sp_base=word - 4), False  # one piece: sw is never added
    for k in range(4):
        yield "STORE", {f"n{k}": 2, f"ss{k}": -8, "sp_base": 9 * word + 4}, False
        yield "STORE", {f"n{k}": 2, f"ss{k}": -8, "sp_base": 9 * word + 5}, True
        yield "STORE", {f"n{k}": 2, f"ss{k}": 2, "sp_base": 0}, True
        yield "STORE", {f"n{k}": 1, f"ss{k}": 2, "sp_base": 0}, False
        yield "STORE", {f"n{k}": 2, f"ss{k}": 5 * word, "sp_base": word - 4}, False
        yield "STORE", {f"n{k}": 2, f"ss{k}": 0, "sp_base": word - 3}, True
    # MATRIX
    yield "MATRIX", dict(nx=c.acc_rows, ny=1), False
    yield "MATRIX", dict(nx=c.acc_rows, ny=1, acc_base=1), True
    yield "MATRIX", dict(nx=0xFFFF, ny=0xFFFF, acc_base=0xFFFF), True
    for i, j in product(range(16), repeat=2):  # every bit of the product
        yield "MATRIX", dict(nx=1 << i, ny=1 << j), 1 << i + j > c.acc_rows
        yield "MATRIX", dict(nx=1 << i, ny=1, acc_base=1 << j), (1 << i) + (1 << j) > c.acc_rows
    yield "MATRIX", dict(acc_base=c.acc_rows - 6), False
    yield "MATRIX", dict(acc_base=c.acc_rows - 5), True
    yield from depthwise_cases(c)
    # EPILOGUE
    for i, j in product(range(16), repeat=2):
        rows = dict(rows=1 << i, acc_base=1 << j, out_pitch=4 * word)
        yield "EPILOGUE", rows, (1 << i) + (1 << j) > c.acc_rows
    yield "EPILOGUE", dict(rows=c.acc_rows, out_pitch=4 * word), False
    yield "EPILOGUE", dict(rows=c.acc_rows, acc_base=1, out_pitch=4 * word), True
    for name, element in (("INT8", 1), ("BF16", 2), ("FP16", 2), ("FP32", 4), ("RAW32", 4)):
        u, out = unit(c, element), dict(out_type=e("DTYPE", name), rows=3)
        yield "EPILOGUE", {**out, "out_base": 5 * u, "out_pitch": 2 * u}, False
        for bad in (dict(out_base=u // 2), dict(out_pitch=u // 2), dict(out_pitch=-u + 1 & 0xFFFFFFFF)):
            yield "EPILOGUE", {**out, **bad}, True
        yield "EPILOGUE", {**out, "rows": 1, "out_pitch": 1}, False
        if name == "RAW32":
            continue
        u, res = unit(c, element), dict(out_type=2, rows=3, out_pitch=4 * word, res_en=1, res_type=e("DTYPE", name))
        yield "EPILOGUE", {**res, "res_base": 3 * u, "res_pitch": u}, False
        for bad in (dict(res_base=u // 2), dict(res_pitch=u // 2)):
            yield "EPILOGUE", {**res, **bad}, True
            yield "EPILOGUE", {**res, **bad, "res_en": 0}, False
    yield "EPILOGUE", dict(res_en=1, res_type=3), True
    yield "EPILOGUE", dict(res_en=0, res_type=3), False
    for bound in (1, 0x7FFFFF, 0x80000001, 0x807FFFFF):
        for name in ("clamp_lo", "clamp_hi"):
            yield "EPILOGUE", {"clamp_en": 1, name: bound}, True
            yield "EPILOGUE", {"clamp_en": 0, name: bound}, False
    for bound in (0, 0x80000000, 0x800000, 0x80800000, 0x7F800000, 0x7FC00000, 0xFF800000):
        yield "EPILOGUE", dict(clamp_en=1, clamp_lo=bound, clamp_hi=bound), False


def depthwise_cases(c):
    """MATRIX with `depthwise`, as cases()."""
    one = dict(depthwise=1, nx=1, ny=1, dx=1, dy=1)
    yield "MATRIX", dict(depthwise=1), True  # the dilations of base() are 0
    for k in range(256):
        yield "MATRIX", one | dict(extra_cells=k), k >= c.cells
        yield "MATRIX", dict(extra_cells=k), k > 0
    for k in range(1, 256):
        yield "MATRIX", one | dict(kx=k), k > 5
        yield "MATRIX", one | dict(ky=k), k > 5
    for name, width in (("ncb", 16), ("idx", 8), ("idy", 8)):
        for bit in range(width):
            yield "MATRIX", one | {name: 1 << bit}, bit > 0
            yield "MATRIX", one | {name: 1 << bit | 1}, bit > 0
    for axis in "xy":
        for i, j in product(range(16), repeat=2):  # every bit of both
            yield "MATRIX", one | {f"s{axis}": 1 << i, f"d{axis}": 1 << j}, i not in (j, j + 1)
        for d in (1, 5, 0x7FFF, 0x8000, 0x8001, 0xFFFF):
            for s in {d, 2 * d, 2 * d - 1, 2 * d + 1, 2 * d & 0xFFFF, d ^ 1, d ^ 0x8000, d >> 1}:
                if 0 < s < 1 << 16:
                    yield "MATRIX", one | {f"s{axis}": s, f"d{axis}": d}, s not in (d, 2 * d)
    for dilation, step, kernel in product((1, 5), (1, 2), (1, 2, 5)):
        row = one | dict(sx=dilation * step, dx=dilation, kx=kernel)
        for nx in range(1, c.acc_rows + 1):
            yield "MATRIX", row | dict(nx=nx), (nx - 1) * step + kernel > 64
        for ny in (1, c.acc_rows):  # as many rows as there are
            yield "MATRIX", one | dict(sy=dilation * step, dy=dilation, ky=kernel, ny=ny), False


def answers(program, c, dram, twin, rtl):
    """(code, index, address) of oracle, twin and RTL."""
    oracle = Machine(c, bytearray(dram)).launch(program)
    two, chip = twin.launch(program, bytearray(dram)), rtl.launch(program)
    return [
        (layout.enum("ERROR", oracle.error[0]), *oracle.error[1:]) if oracle.error else (0, 0, 0),
        (two.code, two.index, two.address),
        (chip.code, chip.index, chip.address),
    ]


@pytest.mark.parametrize("config", ["tiny", "odd"])
def test_each_rule_at_its_limit(config):
    c, field, refused = layout.config(config), layout.enum("ERROR", "FIELD"), {}
    rtl, dram = Rtl(config), bytes(i * 37 & 255 for i in range(DRAM))
    rtl.put(0, dram)
    with Twin(config) as twin:
        for kind, fields, wanted in cases(c):
            program = [encode("NOP"), encode(kind, **{**base(kind, c), **fields})]
            found = answers(program, c, dram, twin, rtl)
            assert found == [(field, 1, 0) if wanted else (0, 0, 0)] * 3, (kind, fields, found)
            refused[kind] = refused.get(kind, 0) + wanted
    assert all(refused[kind] >= n for kind, n in (("NOP", 2), ("LOAD", 40), ("STORE", 20), ("MATRIX", 400))), refused
    assert refused["EPILOGUE"] >= 20, refused


@pytest.mark.parametrize("config", ["tiny", "odd"])
def test_bits_that_no_field_names_are_zero(config):
    """Room for what later chips have: a program that uses it ends in FIELD here."""
    c, field = layout.config(config), layout.enum("ERROR", "FIELD")
    rtl, dram = Rtl(config), bytes(i * 37 & 255 for i in range(DRAM))
    rtl.put(0, dram)
    checked = 0
    with Twin(config) as twin:
        for kind in ("NOP", "LOAD", "STORE", "MATRIX", "EPILOGUE"):
            good = encode(kind, **base(kind, c))
            named = layout.decode([0xFFFFFFFF & ~15 | layout.generated().OPCODES[kind]] + [0xFFFFFFFF] * 31).reserved
            assert answers([encode("NOP"), good], c, dram, twin, rtl) == [(0, 0, 0)] * 3
            for bit in range(1024):
                if named >> bit & 1:
                    words = list(good)
                    words[bit // 32] |= 1 << bit % 32
                    found = answers([encode("NOP"), words], c, dram, twin, rtl)
                    assert found == [(field, 1, 0)] * 3, (kind, bit, found)
                    checked += 1
    assert checked > 2500, checked


@pytest.mark.parametrize("config", ["tiny", "odd"])
def test_programs_of_another_version_are_refused(config):
    c, version = layout.config(config), layout.enum("ERROR", "VERSION")
    rtl, dram = Rtl(config), bytes(DRAM)
    rtl.put(0, dram)
    with Twin(config) as twin:
        for isa in range(16):
            for kind in ("NOP", "LOAD", "STORE", "MATRIX", "EPILOGUE"):
                found = answers([encode("NOP"), encode(kind, **base(kind, c), isa=isa)], c, dram, twin, rtl)
                assert found == [(0, 0, 0) if isa == 2 else (version, 1, 0)] * 3, (isa, kind, found)
