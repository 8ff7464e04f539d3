# SPDX-License-Identifier: Apache-2.0
"""Random programs of descriptors for one chip: LOADs of every shape over a defined scratchpad region, MATRIX,
EPILOGUE, STORE, one after the other by tokens. What a program computes makes no sense, but isa.md defines nearly all
of it: wilder in its LOADs than tests/bits/programs.py, which stays within what the RTL is promised."""

import struct

from oracle import layout
from oracle.layout import encode
from oracle.support import any32, bf16

BASE, IN_BYTES = 0x40000000, 0x3000
REGION = {"tiny": 400, "odd": 300, "base": 160}  # scratchpad words in use
OWNERS = ("LOAD", "MATRIX", "EPILOGUE", "STORE")
SIZES = {"INT8": 1, "BF16": 2, "FP32": 4, "RAW32": 4}


def image(r, chip):
    """DRAM: inputs of stretches of different kinds, then room for the whole region."""
    out = bytearray()
    while len(out) < IN_BYTES:
        kind = r.randrange(5)
        if kind == 0:
            out += r.randbytes(256)
        elif kind == 1:
            out += struct.pack("<64I", *(any32(r) for _ in range(64)))
        else:
            low, high = r.choice(((118, 134), (100, 150), (60, 200), (1, 255)))
            out += struct.pack("<128H", *(0 if r.random() < 0.1 else bf16(r, low, high) for _ in range(128)))
    return out[:IN_BYTES] + bytearray(REGION[chip] * layout.config(chip).word_bytes + 512)


class Writer:
    """Builds a program for a chip with the generator r."""

    def __init__(self, r, chip):
        self.r, self.c, self.words, self.program, self.last = r, layout.config(chip), REGION[chip], [], None
        half = self.words // 2
        for first in (0, half):
            self.put("LOAD", **self.block(first, half))

    def block(self, first, words):
        word = self.c.word_bytes
        return dict(
            addr_lo=BASE,
            row_bytes=words * word,
            step0=word,
            chunk_bytes=word,
            word_bytes=word,
            n0=words,
            n1=1,
            n2=1,
            n3=1,
            sp_base=first * word,
            ss0=word,
        )

    def put(self, opcode, **fields):
        """Appends a descriptor that waits for the one before: by the counter that the earlier engine keeps for the
        later one."""
        own, wait = OWNERS.index(opcode), 0
        if self.last:
            wait = 1 << 4 * OWNERS.index(self.last) + own
            self.program[-1][1] |= 1 << 24 + own
        self.program.append(encode(opcode, wait=wait, **fields))
        self.last = opcode

    def span(self, counts, strides, size):
        """A base in the region such that all of base + sum(i * stride) + size fit; None if they do not."""
        low = sum(min(0, (n - 1) * s) for n, s in zip(counts, strides))
        high = sum(max(0, (n - 1) * s) for n, s in zip(counts, strides)) + size
        room = self.words * self.c.word_bytes - (high - low)
        return None if room < 0 else self.r.randint(0, room) - low

    def load(self):
        r, word = self.r, self.c.word_bytes
        conv = r.choice((0, 0, 1, 2, 3))
        unit, limit = (4, 2 * word) if conv else (1, word)
        counts = [r.randint(1, n) for n in (5, 4, 2, 2)]
        chunk, piece = unit * r.randint(1, 3 * limit // unit), unit * r.randint(1, limit // unit)
        aligned = r.random() < 0.6
        step = lambda n: word * r.randint(-n, n) if aligned else r.randint(-n * word, n * word)
        sw, strides = step(2), [step(4) for _ in range(4)]
        base = self.span([*counts, -(-chunk // piece)], [*strides, sw], word)
        if base is None:
            return self.load()
        ds = [r.choice((0, r.randint(-500, 500))) for _ in range(3)]
        fields = dict(
            conv=conv,
            pos0=unit * r.randint(-20, 20),
            step0=unit * r.randint(0, 20),
            chunk_bytes=chunk,
            word_bytes=piece,
            n0=counts[0],
            n1=counts[1],
            n2=counts[2],
            n3=counts[3],
            ds1=ds[0],
            ds2=ds[1],
            ds3=ds[2],
            sp_base=base // word * word if aligned else base,
            sw=sw,
            ss0=strides[0],
            ss1=strides[1],
            ss2=strides[2],
            ss3=strides[3],
        )
        self.put(
            "LOAD",
            addr_lo=BASE + r.randint(2500, IN_BYTES - 5000),
            row_bytes=r.randint(0, 300) // unit * unit,
            pad=r.getrandbits(32),
            **self.rows(),
            **fields,
        )

    def rows(self):
        r = self.r
        return dict(
            rp0=r.randint(-3, 3),
            rp1=r.randint(-2, 2),
            rp2=r.randint(-2, 2),
            rp3=r.randint(-2, 2),
            row_limit=r.choice((0, r.randint(1, 6))),
        )

    def transpose(self):
        r, word = self.r, self.c.word_bytes
        conv = r.choice((0, 1, 2, 3))
        log2 = 2 if conv else r.randint(0, 1)
        element = 2 if conv else 1 << log2
        columns, rows, n2 = r.randint(1, word // element), r.randint(1, self.c.lanes // element), r.randint(1, 2)
        sw, ss2 = word * r.randint(1, 2), word * r.randint(-40, 40)
        base = self.span([columns, n2], [sw, ss2], word)
        if base is None:
            return self.transpose()
        self.put(
            "LOAD",
            transpose=1,
            conv=conv,
            esize_log2=log2,
            addr_lo=BASE + r.randint(2500, 4000),
            row_bytes=r.randint(0, 2 * word) // (4 if conv else 1) * (4 if conv else 1),
            pos0=r.randint(-4, 4) << log2,
            chunk_bytes=columns << log2,
            word_bytes=min(columns << log2, word),
            n0=1,
            n1=rows,
            n2=n2,
            n3=1,
            ds1=r.randint(-100, 100),
            ds2=r.randint(-500, 500),
            sp_base=base // word * word,
            sw=sw,
            ss2=ss2,
            pad=r.getrandbits(32),
            **self.rows(),
        )

    def matrix(self, bf16, first, rows):
        """Over `rows` accumulator rows from 0."""
        r, c = self.r, self.c
        nx = r.choice([n for n in range(1, rows + 1) if rows % n == 0])
        kx, ky, ncb = r.randint(1, 2), r.randint(1, 2), r.randint(1, 2)
        if kx * ky * ncb * c.cells > self.words:
            kx = ky = ncb = 1
        lim_x, lim_y = r.randint(1, 9), r.randint(1, 9)
        strides = [r.randint(0, 12) for _ in range(3)]
        last = (lim_x - 1) * strides[0] + (lim_y - 1) * strides[1] + (ncb - 1) * strides[2]
        self.put(
            "MATRIX",
            bf16=bf16,
            first=first,
            skip_special=r.getrandbits(1),
            absent=r.getrandbits(1),
            act_base=r.randint(0, max(0, self.words - 1 - last)),
            wgt_base=r.randint(0, self.words - kx * ky * ncb * c.cells),
            nx=nx,
            ny=rows // nx,
            sx=r.randint(1, 3),
            sy=r.randint(1, 3),
            kx=kx,
            ky=ky,
            ncb=ncb,
            dx=r.randint(0, 3),
            dy=r.randint(0, 3),
            ox=r.randint(-4, 4),
            oy=r.randint(-4, 4),
            lim_x=lim_x,
            lim_y=lim_y,
            x_stride=strides[0],
            y_stride=strides[1],
            cb_stride=strides[2],
            idx=r.choice((1, 1, 2, 3)),
            idy=r.choice((1, 1, 2, 3)),
            pad=r.getrandbits(8),
        )

    def epilogue(self, fp32, rows):
        r, c, word = self.r, self.c, self.c.word_bytes
        out, res = r.choice(list(SIZES)), r.choice(("INT8", "BF16", "FP32"))
        (out_base, out_pitch), (res_base, res_pitch) = (
            self.row_place(c.cells * SIZES[out], rows),
            self.row_place(c.cells * SIZES[res], rows),
        )
        number = lambda: r.choice(
            (any32(r), bf16(r, 100, 150) << 16, struct.unpack("<I", struct.pack("<f", r.uniform(-200, 200)))[0])
        )
        bound = lambda: next(f for f in iter(number, None) if f & 0x7FFFFFFF >= 0x800000 or not f & 0x7FFFFFFF)
        zero = lambda: r.choice((r.randint(-128, 127), r.randint(-(2**31), 2**31 - 1)))
        bounds = sorted((zero(), zero()))
        self.put(
            "EPILOGUE",
            acc_fp32=fp32,
            bias_en=r.getrandbits(1),
            scale_en=r.getrandbits(1),
            res_en=r.getrandbits(1),
            clamp_en=r.getrandbits(1),
            res_type=layout.enum("RES", res),
            out_type=layout.enum("OUT", out),
            rows=rows,
            param_base=r.randint(0, self.words - 2 * (-(-4 * c.cells // word))),
            out_base=out_base,
            out_pitch=out_pitch,
            res_base=res_base,
            res_pitch=res_pitch,
            res_zp=zero(),
            res_scale=number(),
            clamp_lo=bound(),
            clamp_hi=bound(),
            out_zp=zero(),
            int_lo=bounds[0],
            int_hi=bounds[1],
        )

    def row_place(self, size, rows):
        """(base, pitch) of rows of `size` bytes in the region, as isa.md section 5 aligns them."""
        word = self.c.word_bytes
        unit = word if size > word // 2 else 1 << (size - 1).bit_length()
        need = -(-size // unit) * unit
        pitch = unit * self.r.randint(0, 2) + (need if self.r.random() < 0.9 else 0)
        return self.r.randint(0, (self.words * word - (rows - 1) * pitch - need) // unit) * unit, pitch

    def store(self):
        """A random STORE over a part of what store_all wrote."""
        r, word = self.r, self.c.word_bytes
        piece, chunk, counts = r.randint(1, word), r.randint(1, 80), [r.randint(1, 3), r.randint(1, 3)]
        strides = [word * r.randint(0, 3) for _ in range(3)]
        base = self.span([*counts, -(-chunk // piece)], strides, 2 * word)
        self.put(
            "STORE",
            addr_lo=BASE + IN_BYTES + r.randint(700, 1700),
            chunk_bytes=chunk,
            word_bytes=piece,
            n0=counts[0],
            n1=counts[1],
            n2=1,
            n3=1,
            ds1=r.randint(-300, 300),
            sp_base=base // word * word + r.randint(0, word - piece),
            ss0=strides[0],
            ss1=strides[1],
            sw=strides[2],
            ordered=r.getrandbits(1),
        )

    def store_all(self):
        word = self.c.word_bytes
        self.put(
            "STORE",
            addr_lo=BASE + IN_BYTES,
            chunk_bytes=word,
            word_bytes=word,
            n0=self.words,
            n1=1,
            n2=1,
            n3=1,
            sp_base=0,
            sw=word,
            ss0=word,
        )


def program(r, chip):
    """One random program, as lists of 32 words."""
    w = Writer(r, chip)
    for _ in range(r.randint(1, 4)):
        r.choice((w.load, w.load, w.transpose))()
    for _ in range(r.randint(1, 2)):
        bf, rows = r.getrandbits(1), r.randint(1, 8)
        w.matrix(bf, 1, rows)
        if r.getrandbits(1):
            w.matrix(bf if r.random() < 0.9 else 1 - bf, 0, rows)
        w.epilogue(bf, rows)
        if r.getrandbits(1):
            w.load()
    w.store_all()
    if r.getrandbits(1):
        w.store()
    return w.program


def broken(r, words):
    """A program with one descriptor changed so that it is likely to fail or to wait for ever."""
    out = [list(d) for d in words]
    d = r.choice(out)
    change = r.randrange(8)
    if change == 0:
        d[0] = d[0] & ~15 | r.randint(5, 15)
    elif change == 1:
        d[0] = d[0] & ~0xF0 | r.choice((0, 2, 15)) << 4
    elif change == 2:
        d[1] ^= 1 << r.randrange(20)
    elif change == 3:
        d[1] ^= 1 << 24
    elif change == 4:
        d[4] ^= 1  # addr_hi, nx, param_base
    elif change == 5:
        d[r.choice((8, 9, 10))] &= r.choice((0xFFFF, 0xFFFF0000))
    elif change == 6:
        d[15] |= 1 << r.randint(18, 28)  # sp_base, int_hi
    else:
        d[3] |= 1 << r.randint(14, 31)  # addr_lo, wgt_base, acc_base
    return out
