# SPDX-License-Identifier: Apache-2.0
"""Random descriptor programs for RTL, twin and oracle.machine: legal by isa.md, synchronised with tokens, replayable
by (chip, seed, index).

DRAM: INPUT holds data of every kind, OUTPUT takes the stores. Every program fills the scratchpad's first ZONE words,
then mixes LOAD, MATRIX, EPILOGUE and STORE, and ends with a STORE of those words and of the epilogue's. Consecutive
descriptors of one engine are not synchronised with each other (an engine works in order); a change of engine is, by
one token.
"""

import random
from dataclasses import dataclass, field

from oracle.layout import config, encode

from .values import Stream, family_values

INPUT, INPUT_BYTES, OUTPUT, DRAM_BYTES = 0x1000, 0x4000, 0x8000, 0x40000
ZONE, ROWS_ZONE = 160, 320  # words [0, ZONE): operands; [ZONE, ROWS_ZONE): the epilogue's rows
ENGINES = ("LOAD", "MATRIX", "EPILOGUE", "STORE")
CLAMP_BOUNDS = (0, 0x80000000, 0x3F800000, 0xC0A00000, 0x7F800000, 0xFF800000, 0x42F60000, 0xC2000000, 0x7FC00000)


@dataclass
class Program:
    """descriptors: lists of 32 words; broken: index of the descriptor that was made malformed, or None; dump_offset:
    where in OUTPUT the final
    image of scratchpad words [0, ROWS_ZONE) goes."""

    chip: str
    seed: int
    index: int
    descriptors: list = field(default_factory=list)
    broken: int | None = None
    dump_offset: int = 0

    def describe(self):
        return (
            f"program({self.chip!r}, {self.seed}, {self.index}): {len(self.descriptors)} descriptors, "
            f"broken {self.broken}"
        )

    def dram(self):
        """The DRAM image (base 0) before the launch."""
        image = bytearray(DRAM_BYTES)
        s, quarter = Stream(self.chip, self.seed, self.index, "dram"), INPUT_BYTES // 4
        parts = [
            family_values(s, "int8", ("random", "extremes")[self.index % 2], (quarter,)),
            family_values(s, "bf16", ("normal", "wide", "mixed")[self.index % 3], (quarter // 2,)),
            family_values(s, "fp32", ("normal", "wide", "mixed")[self.index % 3], (quarter // 4,)),
            family_values(s, "bf16", "subnormal", (quarter // 2,)),
        ]
        for part, percent in ((1, 10), (3, 20)):
            parts[part][s.chance(parts[part].shape, percent)] = (
                0x0001  # the code of an absent weight, beside specials and without
            )
        data = b"".join(p.astype(p.dtype.newbyteorder("<")).tobytes() for p in parts)
        image[INPUT : INPUT + len(data)] = data
        return image


class Writer:
    """Draws the descriptors of one program."""

    def __init__(self, program, r):
        self.program, self.r, self.c = program, r, config(program.chip)
        self.steps, self.next_output = [], OUTPUT
        self.written = {}  # half -> accumulator rows that hold something

    def emit(self, kind, **fields):
        self.steps.append((kind, fields))

    def finish(self):
        """Adds the tokens where the engine changes and encodes."""
        for i, (kind, fields) in enumerate(self.steps):
            if i + 1 < len(self.steps) and self.steps[i + 1][0] != kind:
                fields["signal"] = 1 << ENGINES.index(self.steps[i + 1][0])  # a counter for each pair of engines
            if i and self.steps[i - 1][0] != kind:
                fields["wait"] = 1 << 4 * ENGINES.index(self.steps[i - 1][0]) + ENGINES.index(kind)
            self.program.descriptors.append(encode(kind, **fields))

    # LOAD
    def fill(self):
        """Every word of the operand zone from one quarter of the input or all of them."""
        word, start = self.c.word_bytes, INPUT + self.r.randrange(4) * INPUT_BYTES // 4
        rows = min(ZONE, INPUT_BYTES // 4 // word)
        for at in range(0, ZONE, rows):
            self.emit(
                "LOAD",
                addr_lo=start,
                row_bytes=rows * word,
                chunk_bytes=rows * word,
                word_bytes=word,
                sw=word,
                sp_base=at * word,
                n0=1,
                n1=1,
                n2=1,
                n3=1,
            )

    def load(self):
        r, word = self.r, self.c.word_bytes
        conv = r.choice((0, 0, 1, 2, 3))
        unit = 4 if conv else 1
        transposed = r.random() < 0.4
        fields = self.transposed(conv) if transposed else self.chunks(conv, unit)
        fields.update(
            conv=conv,
            pad=r.choice((0, r.getrandbits(32))),
            rp0=r.randint(-2, 2),
            rp1=r.randint(-1, 1),
            rp2=r.randint(-1, 2),
            rp3=r.randint(-1, 2),
            row_limit=r.choice((0, 0, r.randint(1, 4))),
        )
        # DRAM: all rows within the input
        spread = [r.choice((0, r.randrange(-200, 200), r.randrange(0, 64) * word)) for _ in range(3)]
        low = sum(min(0, s * (fields[f"n{i}"] - 1)) for i, s in enumerate(spread, 1))
        high = sum(max(0, s * (fields[f"n{i}"] - 1)) for i, s in enumerate(spread, 1)) + fields["row_bytes"]
        room = INPUT_BYTES - (high - low)
        if room <= 2 * word:
            spread, low, room = [0, 0, 0], 0, INPUT_BYTES - fields["row_bytes"]
        base = INPUT - low + r.randrange(word, room - word)
        fields.update(
            addr_lo=base // unit * unit if r.random() < 0.8 else base, ds1=spread[0], ds2=spread[1], ds3=spread[2]
        )
        self.place(fields, transposed)

    def chunks(self, conv, unit):
        r, word = self.r, self.c.word_bytes
        limit = word * (2 if conv else 1)
        word_bytes = unit * r.randint(1, limit // unit) if r.random() < 0.5 else limit
        return dict(
            row_bytes=unit * r.randint(0, 200 // unit),
            pos0=unit * r.randint(-20 // unit, 20 // unit),
            step0=unit * r.randint(0, 24 // unit),
            chunk_bytes=unit * r.randint(1, 3 * limit // unit),
            word_bytes=word_bytes,
            n0=r.randint(1, 4),
            n1=r.randint(1, 4),
            n2=r.randint(1, 3),
            n3=r.randint(1, 2),
        )

    def transposed(self, conv):
        r, c = self.r, self.c
        log = 2 if conv else r.randint(0, 1)
        source, size = 1 << log, 2 if conv else 1 << log
        limit = c.word_bytes * (2 if conv else 1)
        chunk = source * r.randint(1, limit // source)
        return dict(
            transpose=1,
            esize_log2=log,
            row_bytes=source * r.randint(0, 80 // source),
            pos0=source * r.randint(-6, 6),
            step0=0,
            chunk_bytes=chunk,
            word_bytes=limit,
            n0=1,
            n1=r.randint(1, c.lanes // size),
            n2=r.randint(1, 3),
            n3=r.randint(1, 2),
        )

    def place(self, fields, transposed):
        """Scratchpad addresses within the operand zone."""
        r, word = self.r, self.c.word_bytes
        grid = word if transposed else 2 if fields["conv"] else 1
        if transposed:
            words, loops = fields["chunk_bytes"] // (4 if fields["conv"] else 1 << fields["esize_log2"]), ("ss2", "ss3")
        else:
            words, loops = -(-fields["chunk_bytes"] // fields["word_bytes"]), ("ss0", "ss1", "ss2", "ss3")
        while True:
            strides = {"sw": word if transposed or r.random() < 0.7 else grid * r.randint(0, 2 * word // grid)}
            for name in loops:
                strides[name] = r.choice((word * r.randint(-3, 12), word, grid * r.randint(0, word // grid)))
            reach = [strides["sw"] * (words - 1)] + [strides[n] * (fields[f"n{n[2]}"] - 1) for n in loops]
            low, high = sum(min(0, v) for v in reach), sum(max(0, v) for v in reach) + word
            if high - low < ZONE * word - word:
                break
        base = -low + r.randrange((ZONE * word - (high - low)) // word) * word
        if not transposed and r.random() < 0.3:
            base += grid * r.randrange(word // grid)
        self.emit("LOAD", **fields, **strides, sp_base=base)

    # MATRIX
    def matrix(self):
        r, c = self.r, self.c
        nx, ny, kx, ky = r.randint(1, 6), r.randint(1, 4), r.randint(1, 3), r.randint(1, 3)
        ncb = r.randint(1, 3)
        blocks = max(1, (ZONE - 10) // c.cells)
        while ncb * kx * ky > blocks:
            ncb, kx, ky = max(1, ncb - 1), max(1, kx - r.randint(0, 1)), max(1, ky - r.randint(0, 1))
        fields = dict(
            nx=nx,
            ny=ny,
            kx=kx,
            ky=ky,
            ncb=ncb,
            sx=r.randint(1, 3),
            sy=r.randint(1, 3),
            dx=r.randint(0, 2),
            dy=r.randint(0, 2),
            ox=r.randint(-4, 2),
            oy=r.randint(-4, 2),
            lim_x=r.randint(0, 6),
            lim_y=r.randint(0, 5),
            x_stride=r.randint(0, 3),
            y_stride=r.randint(0, 8),
            cb_stride=r.randint(0, 5),
            idx=r.choice((1, 1, 2, 3)),
            idy=r.choice((1, 1, 2)),
            pad=r.getrandbits(8),
            half=r.getrandbits(1),
            bf16=r.getrandbits(1),
            skip_special=int(r.random() < 0.3),
            absent=int(r.random() < 0.4),
        )
        reach = (
            max(0, fields["lim_x"] - 1) * fields["x_stride"]
            + max(0, fields["lim_y"] - 1) * fields["y_stride"]
            + (ncb - 1) * fields["cb_stride"]
        )
        base = r.randrange(c.acc_rows - nx * ny + 1) if r.random() < 0.5 else 0
        rows, done = set(range(base, base + nx * ny)), self.written.setdefault(fields["half"], set())
        fields["first"] = int(not rows <= done or r.random() < 0.3)
        done |= rows
        self.emit(
            "MATRIX",
            **fields,
            acc_base=base,
            act_base=r.randrange(ZONE - reach),
            wgt_base=r.randrange(ZONE - ncb * kx * ky * c.cells + 1),
        )

    # EPILOGUE
    def epilogue(self):
        r, c = self.r, self.c
        half = r.choice(list(self.written))
        first = r.choice(sorted(self.written[half]))
        count = 1
        while first + count in self.written[half] and count < 12 and r.random() < 0.9:
            count += 1
        out, res = r.randrange(4), r.randrange(3)
        low = r.randint(-128, 100)
        fields = dict(
            half=half,
            acc_base=first,
            rows=count,
            acc_fp32=r.getrandbits(1),
            bias_en=r.getrandbits(1),
            scale_en=r.getrandbits(1),
            res_en=r.getrandbits(1),
            res_type=res,
            out_type=out,
            clamp_en=int(r.random() < 0.4),
            res_zp=r.randint(-130, 130),
            res_scale=r.choice((0x3F800000, 0x3DCCCCCD, 0x41200000)),
            clamp_lo=r.choice(CLAMP_BOUNDS),
            clamp_hi=r.choice(CLAMP_BOUNDS),
            out_zp=r.randint(-128, 127),
            int_lo=low,
            int_hi=r.randint(low, 127),
            param_base=r.randrange(ZONE - 2 * -(-4 * c.cells // c.word_bytes)),
        )
        out_base, out_pitch = self.rows((1, 2, 4, 4)[out], count, ZONE, ROWS_ZONE)
        res_base, res_pitch = self.rows((1, 2, 4)[res], count, 0, ZONE)
        self.emit("EPILOGUE", **fields, out_base=out_base, out_pitch=out_pitch, res_base=res_base, res_pitch=res_pitch)

    def rows(self, size, count, low, high):
        """(base, pitch) of rows of CELLS elements between two scratchpad words, by the alignment rule."""
        r, word, width = self.r, self.c.word_bytes, self.c.cells * size
        slot = 1 << (width - 1).bit_length() if width <= word // 2 else -(-width // word) * word
        pitch = slot if slot < word and r.random() < 0.5 else -(-slot // word) * word * r.choice((1, 1, 2))
        room = (high - low) * word - pitch * count
        offset = slot * r.randrange(word // slot) if slot < word else 0
        if pitch < word:
            offset = 0
        return low * word + r.randrange(room // word) * word + offset, pitch

    # STORE
    def store(self):
        r, word = self.r, self.c.word_bytes
        word_bytes, n = (
            r.choice((word, r.randint(1, word))),
            [r.randint(1, 4), r.randint(1, 3), r.randint(1, 2), r.randint(1, 2)],
        )
        chunk = r.randint(1, 3 * word_bytes)
        offset = r.randrange(word - word_bytes + 1)
        row = n[0] * chunk
        ds = [row + r.randrange(9), n[1] * (row + 9), n[2] * n[1] * (row + 9)]
        strides = dict(
            sw=word * r.randint(0, 3),
            ss0=word * r.randint(0, 5),
            ss1=word * r.randint(0, 5),
            ss2=word * r.randint(0, 5),
            ss3=word * r.randint(0, 5),
        )
        base = r.randrange(ZONE + 40) * word + offset
        address = self.next_output + r.randrange(1, 2 * word)
        self.next_output = address + n[3] * ds[2] + word
        self.emit(
            "STORE",
            addr_lo=address,
            chunk_bytes=chunk,
            word_bytes=word_bytes,
            n0=n[0],
            n1=n[1],
            n2=n[2],
            n3=n[3],
            ds1=ds[0],
            ds2=ds[1],
            ds3=ds[2],
            sp_base=base,
            ordered=r.getrandbits(1),
            **strides,
        )

    def dump(self):
        """The whole touched scratchpad."""
        word = self.c.word_bytes
        self.next_output = -(-self.next_output // word) * word
        self.program.dump_offset = self.next_output - OUTPUT
        self.emit(
            "STORE",
            addr_lo=self.next_output,
            chunk_bytes=ROWS_ZONE * word,
            word_bytes=word,
            sw=word,
            n0=1,
            n1=1,
            n2=1,
            n3=1,
        )


BREAKS = {
    "LOAD": (
        dict(n1=0),
        dict(chunk_bytes=0),
        dict(word_bytes=0xFFFF),
        dict(addr_hi=1, row_bytes=64, pos0=0, row_limit=0),
        dict(sp_base=0x7FFF0000, sw=0),
    ),
    "STORE": (dict(n3=0), dict(word_bytes=0xFFFF), dict(addr_hi=2), dict(sp_base=0x7FFF0000)),
    "MATRIX": (
        dict(nx=0),
        dict(idx=0),
        dict(sy=0),
        dict(ncb=0),
        dict(ky=0),
        dict(acc_base=0xFFFF),
        dict(wgt_base=0xFF00),
    ),
    "EPILOGUE": (dict(rows=0), dict(acc_base=0xFFFF), dict(out_base=0x7FFF0000)),
}


def program(chip, seed, index):
    """The index-th program of a chip and seed; every eighth has one malformed descriptor."""
    r = random.Random(f"program {chip} {seed} {index}")
    out = Program(chip, seed, index)
    writer = Writer(out, r)
    writer.fill()
    for _ in range(r.randint(3, 14)):
        kind = r.choice(("load", "load", "load", "matrix", "matrix", "epilogue", "store"))
        if kind == "epilogue" and not writer.written:
            kind = "matrix"
        getattr(writer, kind)()
    if writer.written:
        writer.epilogue()
    writer.dump()
    if index % 8 == 7:
        out.broken = r.randrange(1, len(writer.steps))
        kind, fields = writer.steps[out.broken]
        fields.update(r.choice((*BREAKS[kind], dict(isa=r.choice((0, 2, 15))))))
    writer.finish()
    return out
