# SPDX-License-Identifier: Apache-2.0
"""What each engine does with one descriptor (isa.md sections 2 to 5), on a Memory (oracle.machine).

Every byte and accumulator cell has a defined flag. An undefined operand makes a result undefined unless the result is
the same for all its values; what was read undefined is noted in memory.undefined.
"""

from functools import cache
from itertools import product

from . import fast, layout, numerics

ELEMENT_BYTES = {"INT8": 1, "BF16": 2, "FP16": 2, "FP32": 4, "RAW32": 4}
WORD_SPACE = 1 << 16
DRAM_MASK = (1 << 40) - 1


class ChipError(Exception):
    """An error of isa.md section 1: the code's name and ERROR_ADDR."""

    def __init__(self, code, address=0):
        super().__init__(code, address)
        self.code, self.address = code, address


@cache
def formats():
    return {layout.enum("DTYPE", name): form for name, form in numerics.FORMATS.items()}


def operand_format(d):
    """The numerics.Format of a MATRIX's operands; None of int8."""
    return formats().get(d.dtype)


# --- LOAD (section 2) -------------------------------------------------------------------------
def dram_address(d, i1, i2, i3):
    return (d.addr + i1 * d.ds1 + i2 * d.ds2 + i3 * d.ds3) & DRAM_MASK


def load_row(d, memory, i1, i2, i3):
    """{position: (value, defined)} of the bytes of a row that the chip reads; every other position is padding."""
    position = d.rp0 + i1 * d.rp1 + i2 * d.rp2 + i3 * d.rp3
    if d.row_limit and not 0 <= position < d.row_limit:
        return {}
    start, end = max(0, d.pos0), min(d.row_bytes, d.pos0 + (d.n0 - 1) * d.step0 + d.chunk_bytes)
    if start >= end:
        return {}
    values, defined = memory.read_dram(dram_address(d, i1, i2, i3) + start & DRAM_MASK, end - start)
    return {start + k: pair for k, pair in enumerate(zip(values, defined))}


def pad_byte(d, address):
    return d.pad >> 8 * (address % 4) & 255, 1


def source_word(d, row, start, count, to):
    """`count` source bytes from position start as destination bytes [(value, defined)] for scratchpad address `to`;
    conversion included."""
    if not d.conv:
        return [row.get(start + k) or pad_byte(d, to + k) for k in range(count)]
    out = []
    for k in range(0, count, 4):
        source = [row.get(start + k + b) for b in range(4)]
        if None in source:
            out += [pad_byte(d, to + len(out) + b) for b in range(2)]
        else:
            term = fast.split(sum(v << 8 * b for b, (v, _) in enumerate(source)))[d.conv - 1]
            out += [(byte, int(all(defined for _, defined in source))) for byte in (term & 255, term >> 8)]
    return out


def load(d, memory):
    if d.transpose:
        return load_transposed(d, memory)
    for i3 in range(d.n3):
        for i2 in range(d.n2):
            for i1 in range(d.n1):
                row = load_row(d, memory, i1, i2, i3)
                for i0 in range(d.n0):
                    load_chunk(
                        d,
                        memory,
                        row,
                        d.pos0 + i0 * d.step0,
                        d.sp_base + i0 * d.ss0 + i1 * d.ss1 + i2 * d.ss2 + i3 * d.ss3,
                    )


def load_chunk(d, memory, row, start, to):
    word = memory.config.word_bytes
    for w, at in enumerate(range(0, d.chunk_bytes, d.word_bytes)):
        address = (to + w * d.sw) & 0xFFFFFFFF
        content = source_word(d, row, start + at, min(d.word_bytes, d.chunk_bytes - at), address)
        offset = address % word
        content = content[: word - offset]  # the excess is dropped
        if offset == 0:
            content += [pad_byte(d, address + k) for k in range(len(content), word)]
        memory.write_spad(address, content)


def load_transposed(d, memory):
    word = memory.config.word_bytes
    source_size = 4 if d.conv else 1 << d.esize_log2
    for i3 in range(d.n3):
        for i2 in range(d.n2):
            rows = [load_row(d, memory, i1, i2, i3) for i1 in range(d.n1)]
            for j in range(d.chunk_bytes // source_size):
                address = (d.sp_base + j * d.sw + i2 * d.ss2 + i3 * d.ss3) & 0xFFFFFFFF
                content = []
                for row in rows:
                    content += source_word(d, row, d.pos0 + j * source_size, source_size, address + len(content))
                memory.write_spad(address, content + [pad_byte(d, address + k) for k in range(len(content), word)])


# --- STORE (section 3) ------------------------------------------------------------------------
def store(d, memory):
    for i3 in range(d.n3):
        for i2 in range(d.n2):
            for i1 in range(d.n1):
                for i0 in range(d.n0):
                    to = dram_address(d, i1, i2, i3) + i0 * d.chunk_bytes
                    base = d.sp_base + i0 * d.ss0 + i1 * d.ss1 + i2 * d.ss2 + i3 * d.ss3
                    for w, at in enumerate(range(0, d.chunk_bytes, d.word_bytes)):
                        count, address = min(d.word_bytes, d.chunk_bytes - at), (base + w * d.sw) & 0xFFFFFFFF
                        memory.write_dram(to + at & DRAM_MASK, memory.read_spad(address, count))


# --- MATRIX (section 4) -----------------------------------------------------------------------
def matrix(d, memory):
    if d.depthwise:
        return depthwise(d, memory)
    cells, block = memory.config.cells, 0
    for cb in range(d.ncb):
        for ky in range(d.ky):
            for kx in range(d.kx):
                base = d.wgt_base + ((cb * d.ky + ky) * d.kx + kx) * cells
                weights = [Operand(d, memory.read_word((base + c) % WORD_SPACE)) for c in range(cells)]
                matrix_block(d, memory, weights, cb, ky, kx, first=bool(d.first) and block == 0)
                block += 1


def matrix_block(d, memory, weights, cb, ky, kx, first):
    pad = Operand(d, pad_word(d, memory))
    for y in range(d.ny):
        for x in range(d.nx):
            ux, uy = d.ox + x * d.sx + kx * d.dx, d.oy + y * d.sy + ky * d.dy
            if (
                ux >= 0
                and ux % d.idx == 0
                and ux // d.idx < d.lim_x
                and uy >= 0
                and uy % d.idy == 0
                and uy // d.idy < d.lim_y
            ):
                word = d.act_base + ux // d.idx * d.x_stride + uy // d.idy * d.y_stride + cb * d.cb_stride
                activation = Operand(d, memory.read_word(word % WORD_SPACE))
            else:
                activation = pad
            row = memory.accumulators[d.half][d.acc_base + y * d.nx + x]
            for c, weight in enumerate(weights):
                row[c] = accumulate(d, 0 if first else row[c], activation, weight)


def pad_word(d, memory):
    return [(0 if operand_format(d) else d.pad, 1)] * memory.config.lanes


def depthwise(d, memory):
    """Cell c has element c of every weight word and element c / (1 + extra_cells) of every activation, its lanes are
    the kernel's positions. None of the weights and none of the window is left unread."""
    element, step_x, step_y = 2 if operand_format(d) else 1, d.sx // d.dx, d.sy // d.dy
    columns, rows = (d.nx - 1) * step_x + d.kx, (d.ny - 1) * step_y + d.ky
    offsets = [ky * d.wgt_y_stride + kx * d.wgt_x_stride for ky, kx in product(range(d.ky), range(d.kx))]
    weights = [memory.read_word((d.wgt_base + at) % WORD_SPACE) for at in offsets]
    window = [[window_word(d, memory, i, j) for i in range(columns)] for j in range(rows)]
    guard = numerics.guard_bits(memory.config.lanes // 2)
    for y, x in product(range(d.ny), range(d.nx)):
        words = [window[y * step_y + ky][x * step_x + kx] for ky, kx in product(range(d.ky), range(d.kx))]
        row = memory.accumulators[d.half][d.acc_base + y * d.nx + x]
        for c in range(memory.config.cells):
            alone = (c + 1) * element > memory.config.lanes  # a cell without an element
            a = [b for v in words for b in element_of(v, c if alone else c // (1 + d.extra_cells), element)]
            w = [b for v in weights for b in element_of(v, c, element)]
            a, w = Operand(d, a), Operand(d, w)
            row[c] = accumulate(d, 0 if d.first else row[c], a, w, guard)


def element_of(word, c, size):
    """The bytes of element c; zeros beyond the word's last one, whose dot product is +0."""
    return word[c * size : (c + 1) * size] or [(0, 1)] * size


def window_word(d, memory, i, j):
    """The LANES bytes at position (i, j) of a depthwise window."""
    ux, uy = d.ox + i * d.dx, d.oy + j * d.dy
    if 0 <= ux < d.lim_x and 0 <= uy < d.lim_y:
        return memory.read_word((d.act_base + ux * d.x_stride + uy * d.y_stride) % WORD_SPACE)
    return pad_word(d, memory)


class Operand:
    """One word of LANES bytes as lanes: codes, their defined flags, and decoded floats."""

    def __init__(self, d, content):
        form = operand_format(d)
        size = 2 if form else 1
        self.codes = [
            content[i][0] | (content[i + 1][0] << 8 if size == 2 else 0) for i in range(0, len(content), size)
        ]
        self.defined = [all(flag for _, flag in content[i : i + size]) for i in range(0, len(content), size)]
        self.all_defined = all(self.defined)
        if form:
            table = fast.TABLES[form.name]
            self.special = any(table.special[c] for c in self.codes)
            self.significands = [table.significand[c] for c in self.codes]
            self.exponents = [table.exponent[c] for c in self.codes]
        else:
            self.values = [fast.INT8[c] for c in self.codes]


def accumulate(d, acc, a, w, guard=None):
    """The new accumulator pattern, None if undefined. acc None: undefined before. guard: G of numerics.md 4.4, where
    it is not that of as many lanes."""
    if acc is None:
        return None
    form = operand_format(d)
    if not (a.all_defined and w.all_defined):
        lanes = known_lanes(d, a, w)
        if lanes is None:
            return None
        codes_a, codes_w = [[lane[side] for lane in lanes] for side in (0, 1)]
        if form:
            v = numerics.float_dot(form, codes_a, codes_w, bool(d.skip_special), bool(d.absent), guard)
            return fast.add(acc, v)
        return numerics.int8_dot(codes_a, codes_w, acc) & 0xFFFFFFFF
    if not form:
        return (acc + sum(map(int.__mul__, a.values, w.values))) & 0xFFFFFFFF
    if a.special or w.special:
        v = numerics.float_dot(form, a.codes, w.codes, bool(d.skip_special), bool(d.absent), guard)
        return fast.add(acc, v)
    guard = numerics.guard_bits(len(a.codes)) if guard is None else guard
    return fast.add(acc, fast.dot(a.significands, a.exponents, w.significands, w.exponents, guard))


def known_lanes(d, a, w):
    """[(a, w)] with each lane that has an undefined operand but contributes nothing whatever it is replaced by (0,
    0); None if one may
    contribute."""
    out, form = [], operand_format(d)
    for x, x_defined, y, y_defined in zip(a.codes, a.defined, w.codes, w.defined):
        if x_defined and y_defined:
            out.append((x, y))
            continue
        if form:
            nothing = (d.absent and y_defined and y == form.absent) or (
                d.skip_special and ((x_defined and form.special(x)) or (y_defined and form.special(y)))
            )
        else:
            nothing = (x_defined and x == 0) or (y_defined and y == 0)
        if not nothing:
            return None
        out.append((0, 0))
    return out


# --- EPILOGUE (section 5) ---------------------------------------------------------------------
def epilogue(d, memory):
    bias, scale = parameters(d, memory)
    raw = d.out_type == layout.enum("DTYPE", "RAW32")
    out, res = (
        layout.enum_name("DTYPE", d.out_type),
        layout.enum_name("DTYPE", d.res_type) if d.res_en and not raw else None,
    )
    nothing = [None] * memory.config.cells
    common = dict(
        out=out,
        res_type=res or "FP32",
        res_zp=d.res_zp,
        res_scale=d.res_scale,
        clamp=(d.clamp_lo, d.clamp_hi) if d.clamp_en else None,
        out_zp=d.out_zp,
        int_lo=d.int_lo,
        int_hi=d.int_hi,
    )
    for r in range(d.rows):
        residuals = (
            read_row(memory, (d.res_base + r * d.res_pitch) & 0xFFFFFFFF, ELEMENT_BYTES[res]) if res else nothing
        )
        content = []
        for acc, b, s, q in zip(memory.accumulators[d.half][d.acc_base + r], bias, scale, residuals):
            if (
                acc is None
                or (d.bias_en and b is None)
                or (d.scale_en and not raw and s is None)
                or (res and q is None)
            ):
                content += [(0, 0)] * ELEMENT_BYTES[out]
                continue
            one = numerics.Epilogue(
                bias=b if d.bias_en else None, scale=s if d.scale_en else None, residual=q, **common
            )
            value = numerics.epilogue(acc, bool(d.acc_fp32), one)
            content += [(value >> 8 * k & 255, 1) for k in range(ELEMENT_BYTES[out])]
        write_row(memory, (d.out_base + r * d.out_pitch) & 0xFFFFFFFF, content)


def parameters(d, memory):
    """(bias, scale) patterns by cell; None where undefined. Both are read if either is used."""
    cells, word = memory.config.cells, memory.config.word_bytes
    if not (d.bias_en or d.scale_en):
        return [None] * cells, [None] * cells
    words = -(-4 * cells // word)
    tables = []
    for first in (0, words):
        content = [
            pair for w in range(words) for pair in memory.read_word((d.param_base + first + w) % WORD_SPACE, whole=True)
        ]
        tables.append(elements(content[: 4 * cells], 4))
    return tables


def elements(content, size):
    """Little-endian elements of [(value, defined)]; None where a byte is undefined."""
    groups = [content[i : i + size] for i in range(0, len(content), size)]
    return [sum(v << 8 * b for b, (v, _) in enumerate(g)) if all(flag for _, flag in g) else None for g in groups]


def read_row(memory, address, size):
    return elements(memory.read_spad_row(address, memory.config.cells * size), size)


def write_row(memory, address, content):
    """A row of the epilogue: in a slot the word's other bytes stay; else what is left of the last word becomes
    undefined."""
    word = memory.config.word_bytes
    if len(content) > word // 2:
        content = content + [(0, 0)] * (-len(content) % word)
    for at in range(0, len(content), word):
        memory.write_spad(address + at, content[at : at + word])


ENGINES = {"LOAD": load, "MATRIX": matrix, "EPILOGUE": epilogue, "STORE": store}
