# SPDX-License-Identifier: Apache-2.0
"""conv2d and matmul as numerics.md defines them, for all output elements or a sample.

Data are nested sequences of ints (lists, tuples, or integer numpy arrays used as containers): bit patterns of
`dtype`, int8 also signed. dtype: "int8", "bf16", "fp16", "fp32" (six passes) or "fp32_bf16" (fp32 operands, pass
(0,0) alone). The result is a list of bit patterns of epilogue.out, in the order of `elements`, or of all coordinates in
row-major order.
"""

from dataclasses import dataclass, field
from itertools import compress, product

from . import fast, numerics
from .order import Reduction

# (a term, w term) of the passes, section 5 "fp32 operators"
FP32_PASSES = ((2, 0), (1, 1), (0, 2), (1, 0), (0, 1), (0, 0))
PASSES = {"bf16": ((0, 0),), "fp16": ((0, 0),), "fp32_bf16": ((0, 0),), "fp32": FP32_PASSES}
ELEMENT_BYTES = {"int8": 1, "bf16": 2, "fp16": 2, "fp32": 2, "fp32_bf16": 2}


@dataclass(frozen=True)
class Epilogue:
    """numerics.Epilogue for a whole operator: bias and scale are sequences by output channel, residual has the
    output's shape.
    `out` None: the accumulator's own type (RAW32 for int8, else FP32)."""

    out: str | None = None
    bias: object = None
    scale: object = None
    residual: object = None
    res_type: str = "FP32"
    res_zp: int = 0
    res_scale: int = 0x3F800000
    clamp: tuple[int, int] | None = None
    out_zp: int = 0
    int_lo: int = -128
    int_hi: int = 127

    def element(self, dtype, channel, coordinate):
        """The epilogue of one output element."""
        residual = self.residual
        if residual is not None:
            for index in coordinate:
                residual = residual[index]
            residual = int(residual) & 0xFFFFFFFF
        return numerics.Epilogue(
            out=self.out or ("RAW32" if dtype == "int8" else "FP32"),
            bias=None if self.bias is None else int(self.bias[channel]) & 0xFFFFFFFF,
            scale=None if self.scale is None else int(self.scale[channel]) & 0xFFFFFFFF,
            residual=residual,
            res_type=self.res_type,
            res_zp=self.res_zp,
            res_scale=self.res_scale,
            clamp=self.clamp,
            out_zp=self.out_zp,
            int_lo=self.int_lo,
            int_hi=self.int_hi,
        )


@dataclass
class Lanes:
    """Some consecutive elements of one operand as the array sees them: codes, decoded significands and exponents by
    term."""

    codes: list
    significands: list = field(default_factory=list)
    exponents: list = field(default_factory=list)
    special: list = field(default_factory=list)

    def joined(self, others, n):
        """This and the others one after the other, zeros up to n lanes."""
        parts = [self, *others]
        fill = n - sum(len(p.codes[0]) for p in parts)
        out = Lanes([], [], [], [])
        for t in range(len(self.codes)):
            out.codes.append([v for p in parts for v in p.codes[t]] + [0] * fill)
            if self.significands:
                out.significands.append([v for p in parts for v in p.significands[t]] + [0] * fill)
                out.exponents.append([v for p in parts for v in p.exponents[t]] + [fast.EXP0] * fill)
                out.special.append(any(p.special[t] for p in parts))
        return out


def int8_lanes(values):
    return Lanes([[numerics.signed(int(v), 8) for v in values]])


def operand_format(dtype):
    """The numerics.Format that the array sees; None of int8."""
    return {"int8": None, "fp16": numerics.FP16}.get(dtype, numerics.BF16)


def float_lanes(terms, form):
    """Lanes of one code list a term."""
    table = fast.TABLES[form.name]
    return Lanes(
        terms,
        [[table.significand[c] for c in t] for t in terms],
        [[table.exponent[c] for c in t] for t in terms],
        [any(table.special[c] for c in t) for t in terms],
    )


def make_lanes(values, dtype):
    """The operand elements `values` (patterns of dtype) as Lanes; numerics.md section 6 for fp32."""
    if dtype == "int8":
        return int8_lanes(values)
    if dtype in ("bf16", "fp16"):
        return float_lanes([[int(v) & 0xFFFF for v in values]], operand_format(dtype))
    terms = [fast.split(int(v) & 0xFFFFFFFF) for v in values]
    count = 1 if dtype == "fp32_bf16" else 3
    return float_lanes([[t[i] for t in terms] for i in range(count)], numerics.BF16)


def accumulate(dtype, blocks, absent, n):
    """The accumulator pattern after all passes over blocks, a list of (activation Lanes, weight Lanes); section 5. n:
    the lanes of the array."""
    if dtype == "int8":
        total = 0
        for a, w in blocks:
            total += sum(map(int.__mul__, a.codes[0], w.codes[0]))
        return total & 0xFFFFFFFF
    acc, passes, guard, form = numerics.zero32(0), PASSES[dtype], numerics.guard_bits(n), operand_format(dtype)
    for number, (ta, tw) in enumerate(passes):
        skip = number < len(passes) - 1
        for a, w in blocks:
            if a.special[ta] or w.special[tw]:
                v = numerics.float_dot(form, a.codes[ta], w.codes[tw], skip, absent, guard)
            else:
                v = fast.dot(a.significands[ta], a.exponents[ta], w.significands[tw], w.exponents[tw], guard)
            acc = fast.add(acc, v)
    return acc


class Convolution:
    """One convolution: caches of decoded activations and weights, and the value of any output element.

    x: [N][C][H][W]; w: [O][C/groups][KY][KX]; padding: (y, x) or ((top, bottom), (left, right)), negative crops;
    input_dilation: zeros
    (the pad value) between input pixels, as transposed convolution has them; pad: the byte of padding for int8 (the
    zero point)."""

    def __init__(
        self,
        x,
        w,
        *,
        dtype,
        lanes,
        cells,
        stride=(1, 1),
        padding=(0, 0),
        dilation=(1, 1),
        groups=1,
        input_dilation=(1, 1),
        pad=0,
        epilogue=None,
    ):
        self.x, self.w, self.dtype = x, w, dtype
        self.stride, self.dilation, self.input_dilation = stride, dilation, input_dilation
        self.epilogue = epilogue or Epilogue()
        self.batch, channels, self.size = len(x), len(x[0]), (len(x[0][0]), len(x[0][0][0]))
        kernel = (len(w[0][0]), len(w[0][0][0]))
        assert channels % groups == 0 and len(w) % groups == 0 and len(w[0]) == channels // groups
        self.low = [p[0] if isinstance(p, tuple) else p for p in padding]
        high = [p[1] if isinstance(p, tuple) else p for p in padding]
        self.out_size = tuple(
            (((s - 1) * i + 1 + lo + hi - d * (k - 1) - 1) // st + 1)
            for s, i, lo, hi, d, k, st in zip(self.size, input_dilation, self.low, high, dilation, kernel, stride)
        )
        assert min(self.out_size) > 0, "empty output"
        steps = (dilation, input_dilation, stride, self.out_size)
        self.reduction = Reduction(channels, kernel, ELEMENT_BYTES[dtype], lanes, cells, len(w), groups, *steps)
        self.absent = groups > 1 and dtype != "int8" and not self.reduction.depthwise
        self.pad_code = pad if dtype == "int8" else 0
        self.pixels, self.weights, self.block_lists, self.padding_lanes = {}, {}, {}, {}

    def coordinates(self):
        """All output coordinates (n, o, y, x), row-major."""
        return product(range(self.batch), range(len(self.w)), *map(range, self.out_size))

    def segment(self, n, uy, ux, c0, c1):
        """The activation lanes of channels c0..c1-1 at position (uy, ux) of the dilated input."""
        position, inside = [], True
        for u, i, size in zip((uy, ux), self.input_dilation, self.size):
            inside = inside and u >= 0 and u % i == 0 and u // i < size
            position.append(u // i)
        if not inside:
            if c1 - c0 not in self.padding_lanes:
                self.padding_lanes[c1 - c0] = make_lanes([self.pad_code] * (c1 - c0), self.dtype)
            return self.padding_lanes[c1 - c0]
        key = (n, *position, c0, c1)
        if key not in self.pixels:
            y, x = position
            self.pixels[key] = make_lanes([self.x[n][c][y][x] for c in range(c0, c1)], self.dtype)
        return self.pixels[key]

    def activations(self, n, oy, ox, cell_group):
        """The activation blocks of an output position, in order."""
        base_y, base_x = oy * self.stride[0] - self.low[0], ox * self.stride[1] - self.low[1]
        dy, dx = self.dilation
        blocks = []
        for block in self.blocks(cell_group, self.met(oy, ox)):
            parts = [self.segment(n, base_y + ky * dy, base_x + kx * dx, c0, c1) for ky, kx, c0, c1 in block]
            blocks.append(self.whole(parts))
        return blocks

    def meeting(self, axis, o):
        """The kernel's rows (axis 0) or columns that meet no gap of the dilated input from output row or column o, but
        an element or the padding around all."""
        first, apart = o * self.stride[axis] - self.low[axis], self.input_dilation[axis]
        positions = range(self.reduction.kernel[axis])
        return tuple(k for k in positions if (first + k * self.dilation[axis]) % apart == 0)

    def met(self, oy, ox):
        """Of a depthwise kernel over a dilated input: its rows and columns that meet no gap. Else None, all of it."""
        if not self.reduction.depthwise or self.input_dilation == (1, 1):
            return None
        return self.meeting(0, oy), self.meeting(1, ox)

    def whole(self, parts):
        if len(parts) == 1 and len(parts[0].codes[0]) == self.reduction.n:
            return parts[0]
        return parts[0].joined(parts[1:], self.reduction.n)

    def blocks(self, cell_group, met=None):
        if (cell_group, met) not in self.block_lists:
            self.block_lists[cell_group, met] = self.reduction.blocks(cell_group, met)
        return self.block_lists[cell_group, met]

    def weight_blocks(self, o, met=None):
        """The weight blocks of an output channel; channels outside its group are absent (section 5, groups)."""
        if (o, met) not in self.weights:
            low, high = self.reduction.group(o)
            blocks = []
            for block in self.blocks(self.reduction.cell_group(o), met):
                parts = []
                for ky, kx, c0, c1 in block:
                    inside = [self.w[o][c - low][ky][kx] if low <= c < high else 0 for c in range(c0, c1)]
                    lanes = make_lanes(inside, self.dtype)
                    if self.absent:
                        mark_absent(lanes, [low <= c < high for c in range(c0, c1)], operand_format(self.dtype))
                    parts.append(lanes)
                blocks.append(self.whole(parts))
            self.weights[o, met] = blocks
        return self.weights[o, met]

    def accumulators(self, elements):
        """The accumulator patterns of output coordinates (n, o, y, x). What lies between the elements of a dilated
        input is no product of floating-point numbers (section 5, phases)."""
        phases = self.dtype != "int8" and self.input_dilation != (1, 1)
        cache, out = {}, []
        for n, o, y, x in elements:
            key = (n, y, x, self.reduction.cell_group(o))
            if key not in cache:
                if len(cache) > 4096:
                    cache.clear()
                cache[key] = self.activations(*key)
            met = self.met(y, x)
            blocks = list(zip(cache[key], self.weight_blocks(o, met)))
            if phases and met is None:
                order = self.blocks(self.reduction.cell_group(o), met)
                rows, columns = self.meeting(0, y), self.meeting(1, x)
                meet = [segments[0][0] in rows and segments[0][1] in columns for segments in order]
                blocks = list(compress(blocks, meet))
            out.append(accumulate(self.dtype, blocks, self.absent, self.reduction.n))
        return out

    def outputs(self, elements=None):
        """The output patterns of the coordinates, or of all."""
        elements = [tuple(map(int, e)) for e in (self.coordinates() if elements is None else elements)]
        return [
            numerics.epilogue(acc, self.dtype != "int8", self.epilogue.element(self.dtype, e[1], e))
            for e, acc in zip(elements, self.accumulators(elements))
        ]


def mark_absent(lanes, present, form):
    """Gives the weights that are not present the absent code."""
    for t, codes in enumerate(lanes.codes):
        lanes.codes[t] = [stored(c, form) if p else form.absent for c, p in zip(codes, present)]


def stored(code, form):
    """A true weight next to absent ones: what is the absent code, or as good, as another code of its value."""
    if form is numerics.BF16:
        return code if code >> 7 & 255 else code & 0x8000
    return numerics.NAN_FP16 if code == form.absent else code


def conv2d(x, w, *, elements=None, **options):
    """Output patterns of a convolution; options as Convolution's. elements: coordinates (n, o, y, x)."""
    return Convolution(x, w, **options).outputs(elements)


def transposed_weights(w, groups):
    """[C][O/groups][KY][KX] of a transposed convolution as [O][C/groups][KY][KX] of the convolution that it is: in
    and out exchanged
    within each group, the kernel turned by 180 degrees."""
    channels, per_group = len(w), len(w[0])
    size = channels // groups
    return [
        [[list(row)[::-1] for row in list(w[g * size + c][o])[::-1]] for c in range(size)]
        for g in range(groups)
        for o in range(per_group)
    ]


def conv_transpose2d(
    x, w, *, stride=(1, 1), padding=(0, 0), output_padding=(0, 0), dilation=(1, 1), groups=1, elements=None, **options
):
    """Transposed convolution (torch's meaning of the arguments) as the convolution of the dilated input."""
    kernel = (len(w[0][0]), len(w[0][0][0]))
    edges = tuple(
        (d * (k - 1) - p, d * (k - 1) - p + extra) for d, k, p, extra in zip(dilation, kernel, padding, output_padding)
    )
    return Convolution(
        x,
        transposed_weights(w, groups),
        padding=edges,
        dilation=dilation,
        groups=groups,
        input_dilation=tuple(stride),
        **options,
    ).outputs(elements)


def matmul(a, b, *, dtype, lanes, cells, transpose_a=False, transpose_b=False, epilogue=None, elements=None):
    """C[i] = A[i] @ B[i]: a [B][M][K] ([B][K][M] if transpose_a), b [B][K][N] ([B][N][K] if transpose_b); a batch of
    1 on either side
    is shared. A 1x1 convolution over K (section 5); output channels are the columns. elements: coordinates (batch, m,
    n)."""
    batch = max(len(a), len(b))
    assert len(a) in (1, batch) and len(b) in (1, batch)
    m_count, k_count = (len(a[0][0]), len(a[0])) if transpose_a else (len(a[0]), len(a[0][0]))
    n_count = len(b[0]) if transpose_b else len(b[0][0])
    assert k_count == len(b[0][0] if transpose_b else b[0])
    reduction = Reduction(k_count, (1, 1), ELEMENT_BYTES[dtype], lanes, cells, n_count)
    bounds = [(c0, c1) for ((_, _, c0, c1),) in reduction.blocks(0)]
    epilogue = epilogue or Epilogue()

    def blocks(get):
        parts = [make_lanes([get(k) for k in range(c0, c1)], dtype) for c0, c1 in bounds]
        return [p if len(p.codes[0]) == reduction.n else p.joined([], reduction.n) for p in parts]

    rows, columns, out = {}, {}, []
    everything = product(range(batch), range(m_count), range(n_count))
    for i, m, n in [tuple(map(int, e)) for e in elements] if elements is not None else everything:
        ai, bi = a[i if len(a) > 1 else 0], b[i if len(b) > 1 else 0]
        if (i, m) not in rows:
            rows[i, m] = blocks((lambda k: ai[k][m]) if transpose_a else (lambda k: ai[m][k]))
        if (i, n) not in columns:
            columns[i, n] = blocks((lambda k: bi[n][k]) if transpose_b else (lambda k: bi[k][n]))
        acc = accumulate(dtype, list(zip(rows[i, m], columns[i, n])), False, reduction.n)
        out.append(numerics.epilogue(acc, dtype != "int8", epilogue.element(dtype, n, (i, m, n))))
    return out
