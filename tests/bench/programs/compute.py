# SPDX-License-Identifier: Apache-2.0
"""Random MATRIX and EPILOGUE descriptors over regions of the scratchpad (isa.md sections 4 and 5)."""

from oracle import layout
from oracle.support import CORNERS32, any32

from .tokens import Operation

BF16, RAW32, FP16 = (layout.enum("DTYPE", name) for name in ("BF16", "RAW32", "FP16"))
SIZES = {0: 1, BF16: 2, 2: 4, RAW32: 4, FP16: 2}  # of OUT and RES
AS_FP16 = 0.45  # of the fields that say BF16
NANS, SUBNORMALS = (0x7FC00000, 0xFFC00000, 0xFF800001), range(1, 0x800000)
MOST_ROWS = 400  # activation rows that one descriptor streams
ROW_LIMIT = 64  # positions of a row of a depthwise window


def matrix(r, c, acts, weights, rows_done):
    """rows_done: {half: set of accumulator rows that hold something}. acts, weights: regions."""
    nx, ny = r.randint(1, 7), r.randint(1, 5)
    if r.random() < 0.15:
        nx, ny = r.choice(((1, 1), (r.randint(1, c.acc_rows), 1), (1, r.randint(1, min(200, c.acc_rows)))))
    blocks = max(1, weights.words // c.cells)
    kx, ky, ncb = r.choice(
        ((1, 1, 1), (r.randint(1, 3), r.randint(1, 3), 1), (1, 1, r.randint(1, 4)), (2, 1, 2), (1, 2, 2))
    )
    if r.random() < 0.1:
        kx, ky, ncb = r.choice(((blocks, 1, 1), (1, blocks, 1), (1, 1, blocks)))
    while kx * ky * ncb > blocks or kx * ky * ncb * nx * ny > MOST_ROWS and kx * ky * ncb > 1:
        kx, ky, ncb = max(1, kx - 1), max(1, ky - 1), max(1, ncb - 1)
    kx, ky = min(kx, 255), min(ky, 255)
    used = kx * ky * ncb * c.cells
    f = dict(nx=nx, ny=ny, kx=kx, ky=ky, ncb=ncb)
    f |= dict(
        dtype=r.getrandbits(1),
        half=r.getrandbits(1),
        skip_special=int(r.random() < 0.3),
        absent=int(r.random() < 0.5),
        pad=r.choice((0, 0x80, 0x7F, r.getrandbits(8))),
    )
    (inside_x, x), (inside_y, y) = axis(r, nx, kx), axis(r, ny, ky)
    f |= named("x", x) | named("y", y)
    op = Operation("MATRIX", f)
    place_activations(r, acts, op, inside_x, inside_y)
    place_weights(r, weights, op, used)
    place_rows(r, c, op, rows_done)
    return op


def depthwise(r, c, acts, weights, rows_done):
    """A MATRIX with `depthwise`; as matrix()."""
    nx, ny = r.randint(1, 9), r.randint(1, 5)
    if r.random() < 0.35:
        nx, ny = r.choice(((1, 1), (1, r.randint(1, 40)), (r.choice((r.randint(1, 64), 64, 64)), 1)))
    kx, ky = r.choice(((3, 3), (5, 5), (r.randint(1, 5), r.randint(1, 5)), (3, 1), (1, 4), (1, 1)))
    step_x, step_y = r.choice((1, 1, 2)), r.choice((1, 1, 2))
    while (columns := (nx - 1) * step_x + kx) > ROW_LIMIT:
        nx -= 1
    ny = min(ny, c.acc_rows // nx)
    while ny > 1 and columns * ((ny - 1) * step_y + ky) > MOST_ROWS:
        ny -= 1
    f = dict(depthwise=1, nx=nx, ny=ny, kx=kx, ky=ky, ncb=1, idx=1, idy=1)
    f |= dict(
        dtype=r.getrandbits(1),
        half=r.getrandbits(1),
        skip_special=int(r.random() < 0.3),
        absent=int(r.random() < 0.3),
        pad=r.choice((0, 0x80, 0x7F, r.getrandbits(8))),
    )
    inside_x, x = window_axis(r, columns, step_x)
    inside_y, y = window_axis(r, (ny - 1) * step_y + ky, step_y)
    f |= named("x", x) | named("y", y)
    op = Operation("MATRIX", f)
    place_activations(r, acts, op, inside_x, inside_y)
    strides = ((1, kx), (1, kx), (2, 2 * kx + 1), (1, 5), (0, 1), (0, 0))
    across, down = r.choice([s for s in strides if (kx - 1) * s[0] + (ky - 1) * s[1] < weights.words])
    f |= dict(wgt_x_stride=across, wgt_y_stride=down)
    place_weights(r, weights, op, (kx - 1) * across + (ky - 1) * down + 1)
    place_rows(r, c, op, rows_done, on_top=0.25)
    return op


def other_half(r, c, op):
    """Some of bf16 becomes fp16, which has its size, and some elements of a window belong to several cells: all else
    of a program, cycles too, is what it was before."""
    if op.fields.get("depthwise"):
        op.fields["extra_cells"] = r.choice((0, 0, 1, r.randint(0, c.cells - 1), c.cells - 1))
    for name in ("dtype", "out_type", "res_type"):
        if op.fields.get(name) == BF16 and op.kind in ("MATRIX", "EPILOGUE") and r.random() < AS_FP16:
            op.fields[name] = FP16


def named(axis, fields):
    return {key.format(axis): value for key, value in fields.items()}


def place_activations(r, acts, op, inside_x, inside_y):
    """Strides and act_base, so that all of what is inside lies in the region."""
    f = op.fields
    strides = [r.choice((0, 1, 1, r.randint(-4, 6), r.randint(-12, 12))) for _ in range(3)]
    while True:
        reach = [[q * s for q in inside] or [0] for inside, s in zip((inside_x, inside_y), strides)]
        reach.append([k * strides[2] for k in range(f["ncb"])])
        low, high = sum(map(min, reach)), sum(map(max, reach))
        if high - low < acts.words:
            break
        widest = max(range(3), key=lambda i: max(reach[i]) - min(reach[i]))
        strides[widest] = strides[widest] // 2 if strides[widest] > 0 else -(-strides[widest] // 2)
    base = acts.first - low + r.randrange(acts.words - (high - low))
    f |= {f"{name}_stride": s % 65536 for name, s in zip(("x", "y", "cb"), strides)}
    f["act_base"] = base % 65536
    if inside_x and inside_y:
        op.reads.append(("S", base + low, base + high + 1))


def place_weights(r, weights, op, used):
    at = weights.first + r.randrange(weights.words - used + 1)
    op.fields["wgt_base"] = at
    op.reads.append(("S", at, at + used))


def place_rows(r, c, op, rows_done, on_top=0):
    """Half and rows of the accumulators, and whether they are begun. on_top: how often they are some of the MATRIX's
    before, and go on with its sums."""
    f, before = op.fields, rows_done.get("span")
    rows = f["nx"] * f["ny"]
    if on_top and before and rows <= before[2] and r.random() < on_top:
        f["half"], at = before[0], before[1] + r.randrange(before[2] - rows + 1)
        f["first"] = 0
    else:
        at = fresh_rows(r, c, f, rows, rows_done)
    rows_done["last"] = (f["half"], at + rows - 1)
    rows_done["span"] = f["half"], at, rows
    f["acc_base"] = at
    op.writes = [(f"A{f['half']}", at, at + rows)]
    if not f["first"]:
        op.reads.append(op.writes[0])


def fresh_rows(r, c, f, rows, rows_done):
    """The first of some rows, begun where they hold nothing."""
    at = r.choice((0, c.acc_rows - rows, r.randrange(c.acc_rows - rows + 1)))
    last = rows_done.get("last")
    if last and r.random() < 0.4 and last[1] + rows <= c.acc_rows:  # the row that came last, of this or the other half
        f["half"], at = last[0] ^ int(r.random() < 0.7), last[1]
    span, done = set(range(at, at + rows)), rows_done.setdefault(f["half"], set())
    if done and r.random() < 0.5:
        f["first"] = int(not span <= done)
    else:
        f["first"] = 1
    done |= span
    return at


def window_axis(r, count, step):
    """(positions of a depthwise window that are inside, fields) of one axis; as axis()."""
    if r.random() < 0.75:
        d, o, limit = r.choice((1, 1, 1, 2, 5)), r.randint(-4, 3), r.randint(0, count + 3)
    else:
        d = r.choice((1, r.randint(1, 300), r.randrange(1, 65536 // step), 65535 // step))
        o = r.choice((0, -1, r.randint(-32768, 32767), -32768, 32767))
        limit = r.choice((0, 1, r.randint(1, 300), r.randrange(65536), 65535))
    inside = {u for u in range(o, o + count * d, d) if 0 <= u < limit}
    return inside, {"s{}": step * d, "d{}": d, "o{}": o, "lim_{}": limit}


def axis(r, n, k):
    """(input positions that are inside, fields with {} for x or y) of one axis: near, or over all that 16 bits hold."""
    if r.random() < 0.75:
        s, d, o = r.randint(1, 3), r.randint(0, 3), r.randint(-6, 3)
        limit, spread = r.randint(0, 8), r.choice((1, 1, 1, 2, 3))
    else:
        s = r.choice((1, r.randint(1, 300), r.randrange(1, 65536), 65535))
        d = r.choice((0, 1, r.randint(0, 300), r.randrange(65536), 65535))
        o = r.choice((0, -1, r.randint(-32768, 32767), -32768, 32767))
        limit, spread = (
            r.choice((0, 1, r.randint(1, 300), r.randrange(65536), 65535)),
            r.choice((1, 2, r.randint(1, 255), 255)),
        )
    inside = set()
    for j in range(k):
        for i in range(n):
            u = o + i * s + j * d
            if u >= 0 and u % spread == 0 and u // spread < limit:
                inside.add(u // spread)
    return inside, {"s{}": s, "d{}": d, "o{}": o, "lim_{}": limit, "id{}": spread}


def number(r):
    """A float for a scale or a bound: of use, or any."""
    sane = (0x3F800000, 0x3DCCCCCD, 0x41200000, 0x3A83126F, 0xBF000000, 0x42C80000)
    return r.choice((r.choice(sane), r.choice(sane), any32(r)))


def bound(r):
    v = r.choice(
        (0, 0x80000000, 0x3F800000, 0xC0A00000, 0x42F60000, 0xC2000000, r.choice(NANS), number(r), r.choice(CORNERS32))
    )
    return v & 0x80000000 if v & 0x7FFFFFFF in SUBNORMALS else v


def integer(r):
    return r.choice(
        (
            0,
            r.randint(-128, 127),
            r.randint(-300, 300),
            r.choice((-(1 << 31), (1 << 31) - 1)),
            r.randint(-(1 << 31), (1 << 31) - 1),
        )
    )


def row_unit(c, size):
    """(alignment, bytes kept) of a row of `size`-byte elements."""
    count = c.cells * size
    if count > c.word_bytes // 2:
        return c.word_bytes, -(-count // c.word_bytes) * c.word_bytes
    unit = 1 << (count - 1).bit_length()
    return unit, unit


def rows_at(r, c, region, size, rows, apart=False):
    """(base, pitch) of rows within a region, and the words touched; None if they don't fit. apart: rows don't
    overlap."""
    unit, need = row_unit(c, size)
    pitch = need + unit * r.choice((0, 0, r.randint(0, 2)))
    pitch = (
        r.choice((pitch, pitch, pitch, -pitch, pitch if apart else 0))
        if rows > 1
        else r.randrange(1 << 32) // unit * unit
    )
    reach = (rows - 1) * pitch if rows > 1 else 0
    room = region.words * c.word_bytes - abs(reach) - need
    if room < 0:
        return None
    base = region.first * c.word_bytes + max(0, -reach) + r.randrange(room // unit + 1) * unit
    low, high = base + min(0, reach), base + max(0, reach) + need
    return base, pitch % (1 << 32), (low // c.word_bytes, -(-high // c.word_bytes))


def epilogue(r, c, params, residual, out, half, first, rows, raw=False):
    """Rows first..first+rows-1 of a half; None if they don't fit the regions. out and residual: the same region only
    with the same rows."""
    out_type, res_type = RAW32 if raw else r.randrange(4), r.randrange(3)
    in_place = residual is out and SIZES[out_type] == SIZES[res_type]
    if residual is out and not in_place:
        return None
    placed = rows_at(r, c, out, SIZES[out_type], rows, apart=in_place)
    taken = rows_at(r, c, residual, SIZES[res_type], rows)
    if placed is None or taken is None:
        return None
    if in_place:
        taken = placed
    tail = c.cells * SIZES[out_type] % c.word_bytes if row_unit(c, SIZES[out_type])[0] == c.word_bytes else 0
    words = -(-4 * c.cells // c.word_bytes)
    low, high = sorted((integer(r), integer(r)))
    if r.random() < 0.2:
        low, high = high, low  # the lower bound wins
    if out_type == RAW32 and r.random() < 0.5:
        unit = row_unit(c, SIZES[res_type])[0]  # nothing is read there
        taken = r.randrange(1 << 32) // unit * unit, r.randrange(1 << 32) // unit * unit, (0, 0)
    f = dict(
        half=half,
        acc_base=first,
        rows=rows,
        acc_fp32=r.getrandbits(1),
        bias_en=r.getrandbits(1),
        scale_en=r.getrandbits(1),
        res_en=r.getrandbits(1),
        clamp_en=int(r.random() < 0.4),
        res_type=res_type,
        out_type=out_type,
        out_base=placed[0],
        out_pitch=placed[1],
        res_base=taken[0],
        res_pitch=taken[1],
        res_zp=integer(r),
        res_scale=number(r),
        clamp_lo=bound(r),
        clamp_hi=bound(r),
        out_zp=integer(r),
        int_lo=low,
        int_hi=high,
        param_base=params.first + r.randrange(params.words - 2 * words + 1),
    )
    if raw:
        f |= dict(bias_en=0, scale_en=0)
    op = Operation("EPILOGUE", f, writes=[("S", *placed[2])], reads=[(f"A{half}", first, first + rows)])
    if f["bias_en"] or f["scale_en"]:
        op.reads.append(("S", f["param_base"], f["param_base"] + 2 * words))
    if f["res_en"] and out_type != RAW32:
        op.reads.append(("S", *taken[2]))
    op.tail = tail
    return op
