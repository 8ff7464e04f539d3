# SPDX-License-Identifier: Apache-2.0
"""Random LOADs and STOREs within a region of the scratchpad and the DRAM islands (isa.md sections 2 and 3)."""

from itertools import product

from .space import ADDRESS_MASK, APART, ISLANDS, input_island, island_bytes, output_bytes, output_island
from .tokens import Operation

WORDS_LIMIT = 500  # scratchpad words that one descriptor moves
LONG = 1 << 16  # bytes: more than a count of 16 bits holds
SKIPPED = 3  # words, at most, between the places of two STOREs


def counts(r, limit):
    """n0..n3 with a product of at most `limit`; sometimes one of them is large."""
    out = [r.randint(1, 4), r.randint(1, 4), r.randint(1, 3), r.randint(1, 2)]
    if r.random() < 0.1:
        out = [1, 1, 1, 1]
        out[r.randrange(4)] = r.randint(1, 300)
    while out[0] * out[1] * out[2] * out[3] > limit:
        i = max(range(4), key=lambda k: out[k])
        out[i] = max(1, out[i] // 2)
    return out


def hop(r, n):
    """(which loop, islands to go, first island) of a stride of a multiple of ±2^31, or (0, 0, island)."""
    loops = [i for i in (1, 2, 3) if 1 < n[i] <= ISLANDS]
    if not loops or r.random() < 0.75:
        return 0, 0, r.randrange(ISLANDS)
    i = r.choice(loops)
    go = r.randint(1, (ISLANDS - 1) // (n[i] - 1))
    spare = ISLANDS - 1 - go * (n[i] - 1)
    first = r.randint(0, spare)
    return (i, go, first) if r.random() < 0.5 else (i, -go, ISLANDS - 1 - first)


def place(r, region, reach, size, grid, word):
    """A byte address from which `reach` (the farthest of each loop) and `size` more stay in the region, or None."""
    low, high = sum(min(0, v) for v in reach), sum(max(0, v) for v in reach) + size
    room = region.words * word - (high - low)
    if room < 0:
        return None
    return region.first * word - low + r.randrange(room // grid + 1) * grid


class Loads:
    """Draws LOADs. config: of the chip."""

    def __init__(self, r, config):
        self.r, self.c = r, config

    def fill(self, region):
        """All of a region from an input island."""
        r, word = self.r, self.c.word_bytes
        size = region.words * word
        down = r.getrandbits(1)
        first = input_island(self.c, r.randrange(ISLANDS)) + r.randrange(island_bytes(self.c) - size)
        if r.random() < 0.7:
            first = first // 4 * 4  # so that the floats of the image are floats in the scratchpad
        fields = dict(
            row_bytes=size,
            chunk_bytes=size,
            word_bytes=word,
            sp_base=(region.first + (region.words - 1) * down) * word,
            sw=-word if down else word,
            pad=r.getrandbits(32),
        )
        op = self.finish(fields, [1, 1, 1, 1], first, [0, 0, 0], 0)
        op.writes = [("S", region.first, region.first + region.words)]
        return op

    def random(self, region, source=None):
        """Any LOAD that writes within a region; None if the dice gave none that fits. source: (first byte, bytes)
        to read there instead of from the input."""
        transposed = self.r.random() < 0.3
        return self.transposed(region, source) if transposed else self.plain(region, source)

    def positions(self, unit, n, chunk):
        """pos0, step0, row_bytes: near, far, or brought back by a large step. May choose other counts."""
        special = self.r.random()
        if special < 0.03 and n[0] > 1:
            return self.round(unit, n, chunk)
        if special < 0.06 and n[0] > 1:
            return self.long(unit, n, chunk)
        if special < 0.3 and n[0] > 1 and chunk > 14 * self.c.word_bytes:
            return self.past(unit, n, chunk)
        r, style = self.r, self.r.random()
        pos0, step0, row_bytes = r.randint(-40, 40), r.randint(0, 48), r.randint(0, 300)
        if style < 0.15:
            near_end = (1 << 31) - r.randint(41, 900)
            far = r.choice((r.randint(1 << 16, 1 << 17), r.randint(1 << 16, (1 << 31) - 70000), near_end))
            pos0, row_bytes = far + pos0, r.choice((far + r.randint(0, 300), 0xFFFFFFFC))
        elif style < 0.25 and n[0] > 1:
            far = r.choice((r.randint(1 << 15, 1 << 17), r.randint(1 << 16, 1 << 30)))
            pos0, step0 = pos0 - far, far
        elif style < 0.32 and n[0] > 1:
            step0 = r.randrange(1 << 27, 1 << 31)  # the last chunk's position takes more than 32 bits
        elif style < 0.36:
            pos0 = -(r.randint(1, 1 << 31)) // unit * unit
        if n[0] == 1:
            step0 = r.choice((step0, r.randrange(1 << 31)))
        end = pos0 // unit * unit + (n[0] - 1) * (step0 // unit * unit) + chunk
        if 0 < end < 1 << 31 and r.random() < 0.3:
            row_bytes = max(0, end + unit * r.randint(-2, 1))
        return tuple(v // unit * unit for v in (pos0, step0, row_bytes))

    def round(self, unit, n, chunk):
        """The last chunk lies little more than a multiple of 2^32 behind the first."""
        r = self.r
        n[:] = [r.randint(4, 9), r.randint(1, 2), 1, 1]
        k = n[0] - 1
        step0 = -(-(r.randint(1, (k - 1) // 2) << 32) // k) // 4 * 4 + 4 * r.randint(0, 9)
        pos0 = r.choice((0, 0, -step0, -step0 + chunk)) + r.randint(-9, 9) // unit * unit
        return max(-(1 << 31), pos0), step0, max(0, pos0 + chunk) // unit * unit + 4 * r.randint(1, 90)

    def long(self, unit, n, chunk):
        """A row of more than 2^16 bytes is read, all of it."""
        r = self.r
        n[1:] = [1, 1, 1]
        step0 = -(-LONG // (n[0] - 1)) // unit * unit + unit * r.randint(0, 99)
        pos0 = r.randint(-9, 40) // unit * unit
        end = pos0 + (n[0] - 1) * step0 + chunk
        return pos0, step0, r.choice((0xFFFFFFFC, end // unit * unit + unit * r.randint(-2, 2)))

    def past(self, unit, n, chunk):
        """Chunks that overlap and are read one by one, from below position 2^31 to beyond."""
        r = self.r
        step0 = r.randint(1, chunk // unit - 1) * unit
        pos0 = (1 << 31) - r.randint(1, max(1, (n[0] - 1) * step0 // unit)) * unit
        end = pos0 + (n[0] - 1) * step0 + chunk
        row_bytes = r.choice((r.randint(0, 300), 0xFFFFFFFC, end + unit * r.randint(-9, 2), 1 << 31))
        return pos0, step0, row_bytes // unit * unit

    def plain(self, region, source):
        r, word = self.r, self.c.word_bytes
        conv = r.choice((0, 0, 1, 2, 3))
        unit, limit = (4, 2 * word) if conv else (1, word)
        piece = limit if r.random() < 0.5 else unit * r.randint(1, limit // unit)
        chunk = unit * r.randint(1, r.choice((3 * limit, 3 * limit, 20 * word, 700)) // unit)
        pieces = -(-chunk // piece)
        n = counts(r, max(1, WORDS_LIMIT // pieces))
        pos0, step0, row_bytes = self.positions(unit, n, chunk)
        grid = 2 if conv else 1
        for _ in range(8):
            sw = word if r.random() < 0.6 else r.choice((-1, 0, 1, 1)) * grid * r.randint(0, 2 * word // grid)
            ss = [r.choice((word * r.randint(-3, 6), word, 0, grid * r.randint(0, word // grid))) for _ in range(4)]
            reach = [sw * (pieces - 1), *(s * (k - 1) for s, k in zip(ss, n))]
            at = place(r, region, reach, word, word if r.random() < 0.7 else grid, word)
            if at is not None:
                break
        else:
            return None
        ss = [s if k > 1 else r.randrange(-(1 << 31), 1 << 31) // grid * grid for s, k in zip(ss, n)]
        fields = dict(
            conv=conv,
            esize_log2=r.getrandbits(2),
            pos0=pos0,
            step0=step0,
            row_bytes=row_bytes,
            chunk_bytes=chunk,
            word_bytes=piece,
            sp_base=at,
            sw=sw if pieces > 1 else r.randrange(-(1 << 31), 1 << 31) // grid * grid,
            **{f"ss{i}": s for i, s in enumerate(ss)},
        )
        return self.dram(region, fields, n, unit, source, at, reach)

    def transposed(self, region, source):
        r, word = self.r, self.c.word_bytes
        conv = r.choice((0, 0, 1, 2, 3))
        log2 = 2 if conv else r.randint(0, 2)
        source_size, size = 1 << log2, 2 if conv else 1 << log2
        columns = r.randint(1, word // size)
        n = [1, r.randint(1, self.c.lanes // size), r.randint(1, 3), r.randint(1, 2)]
        sw, ss2, ss3 = word * r.randint(-2, 2), word * r.randint(-20, 20), word * r.randint(-20, 20)
        reach = [sw * (columns - 1), ss2 * (n[2] - 1), ss3 * (n[3] - 1)]
        at = place(r, region, reach, word, word, word)
        if at is None:
            return None
        pos0, step0, row_bytes = self.positions(source_size, n, columns * source_size)
        fields = dict(
            conv=conv,
            transpose=1,
            esize_log2=log2,
            pos0=pos0,
            step0=step0,
            row_bytes=row_bytes,
            chunk_bytes=columns * source_size,
            word_bytes=4 * r.randint(1, word // 2) if conv else r.randint(1, word),
            sp_base=at,
            sw=sw,
            ss0=r.randrange(-(1 << 31), 1 << 31),
            ss1=r.randrange(-(1 << 31), 1 << 31),
            ss2=ss2,
            ss3=ss3,
        )
        return self.dram(region, fields, n, source_size, source, at, reach)

    def dram(self, region, fields, n, unit, source, at, reach):
        """Adds the DRAM side: rows that lie in one island or hop through several."""
        r, word = self.r, self.c.word_bytes
        low = at + sum(min(0, v) for v in reach)
        high = at + sum(max(0, v) for v in reach) + word
        fields.update(
            pad=r.choice((0, r.getrandbits(32), r.getrandbits(32), 0x01010101 * r.getrandbits(8))),
            rp0=r.choice((r.randint(-3, 3), r.randint(-(1 << 15), (1 << 15) - 1))),
            row_limit=r.choice((0, 0, 0, r.randint(1, 5), r.randrange(1 << 16))),
        )
        for i in (1, 2, 3):
            fields[f"rp{i}"] = r.choice((r.randint(-2, 2), r.randint(-128, 127)))
        start = max(0, fields["pos0"])
        end = min(fields["row_bytes"], fields["pos0"] + (n[0] - 1) * fields["step0"] + fields["chunk_bytes"])
        span = max(0, end - start)
        first, room = source or (0, island_bytes(self.c))
        if LONG <= span < 2 * LONG and n[1:] == [1, 1, 1] and not source:
            room += span  # what lies behind the island is zero
        elif span > min(room // 2, 8192):
            return None
        loop, go, island = (0, 0, 0) if source else hop(r, n)
        ds = [r.choice((0, r.randint(-200, 200), word * r.randint(-9, 9))) for _ in range(3)]
        if source:
            ds = [0, 0, 0]
        if loop:
            ds[loop - 1] = r.randint(-60, 60)
        reach_d = [d * (k - 1) for d, k in zip(ds, n[1:])]
        below, above = sum(min(0, v) for v in reach_d), sum(max(0, v) for v in reach_d) + span
        if above - below >= room:
            return None
        middle = not source and r.random() < 0.2  # across the multiple of 2^31
        offset = room // 2 - r.randint(0, above - below) if middle else r.randrange(room - (above - below))
        base = (first or input_island(self.c, island)) - below + offset - start
        if unit > 1 and r.random() < 0.7:
            base = base // 4 * 4 if base // 4 * 4 + start + below >= (first or input_island(self.c, island)) else base
        if r.random() < 0.25 and base + end - (base + end) % word + start - end + below >= (
            first or input_island(self.c, island)
        ):
            base -= (base + end) % word  # what is read ends with a beat
        if loop:
            ds[loop - 1] += go * APART
        op = self.finish(fields, n, base, ds, loop)
        op.writes = [("S", low // word, -(-high // word))]
        return op

    def finish(self, fields, n, base, ds, loop):
        r = self.r
        for i in (1, 2, 3):
            alone = n[i] == 1
            fields[f"ds{i}"] = r.randrange(-(1 << 63), 1 << 63) if alone else ds[i - 1] + (r.randint(-9, 9) << 40)
            if alone:
                fields.setdefault(f"ss{i}", r.randrange(-(1 << 31), 1 << 31))
        base &= ADDRESS_MASK
        fields.update({f"n{i}": k for i, k in enumerate(n)})
        fields.update(addr=base | r.getrandbits(24) << 40)  # the chip's addresses have 40 bits
        return Operation("LOAD", fields)


class Stores:
    """Draws STOREs to places of the output islands that nothing else writes. `next`: offset in every output
    island. `kept`: bytes at its end for the last dump of the regions."""

    def __init__(self, r, config):
        self.r, self.c, self.next, self.kept = r, config, 0, 0

    def keep(self, regions):
        self.kept = sum((g.words + SKIPPED) * self.c.word_bytes for g in regions)

    def random(self, region):
        if self.r.random() < 0.02:
            return self.long(region)
        r, word = self.r, self.c.word_bytes
        unit = word if r.random() < 0.6 else 1 << r.randrange(word.bit_length())  # of scratchpad addresses
        piece = unit if r.random() < 0.5 else r.randint(1, unit)
        chunk = r.randint(1, r.choice((3 * piece, 3 * piece, 300)))
        pieces = -(-chunk // piece)
        n = counts(r, max(1, min(WORDS_LIMIT // pieces, 3000 // chunk)))
        offset = r.randrange(unit - min(piece, chunk) + 1) if r.random() < 0.6 else 0
        for _ in range(8):
            steps = [r.choice((word, 0, unit, unit * r.randint(-4, 4))) for _ in range(5)]
            reach = [steps[0] * (pieces - 1), *(s * (k - 1) for s, k in zip(steps[1:], n))]
            at = place(r, region, reach, unit, unit, word)
            if at is not None:
                break
        else:
            return None
        low, high = at + sum(min(0, v) for v in reach), at + sum(max(0, v) for v in reach) + unit
        fields = dict(chunk_bytes=chunk, word_bytes=piece, sp_base=at + offset, ordered=r.getrandbits(1))
        steps = [s if k > 1 else r.randrange(-(1 << 31), 1 << 31) for s, k in zip(steps, (pieces, *n))]
        fields.update(zip(("sw", "ss0", "ss1", "ss2", "ss3"), steps))
        op = self.dram(fields, n)
        if op:
            op.reads = [("S", low // word, -(-high // word))]
        return op

    def long(self, region):
        """Rows of more than 2^16 bytes, of a few words again and again."""
        r, word = self.r, self.c.word_bytes
        chunk = r.choice((word, r.randint(word // 2, 4 * word), r.randint(word, LONG - 1)))
        n = [LONG // chunk + 1, 1, 1, 1]
        moves = [k if k <= region.words // 2 else 1 for k in (-(-chunk // word), n[0])]  # words that sw, ss0 go through
        at, reach = region.first, moves[0] + moves[1] - 1
        at += r.randrange(region.words - reach + 1)
        fields = dict(chunk_bytes=chunk, word_bytes=word, sp_base=at * word, ordered=r.getrandbits(1))
        fields.update(sw=word * (moves[0] > 1), ss0=word * (moves[1] > 1))
        op = self.dram(fields, n)
        if op:
            op.reads = [("S", at, at + reach)]
        return op

    def dump(self, region):
        word = self.c.word_bytes
        self.kept -= (region.words + SKIPPED) * word
        fields = dict(chunk_bytes=word, word_bytes=word, sp_base=region.first * word, ss0=word)
        op = self.dram(fields, [region.words, 1, 1, 1])
        op.reads = [("S", region.first, region.first + region.words)]
        return op

    def dram(self, fields, n):
        """Rows side by side in random order and direction, or hopping from island to island."""
        r, row = self.r, n[0] * fields["chunk_bytes"]
        loop, go, island = hop(r, n)
        ds, size = [0, 0, 0], row
        for i in r.sample((1, 2, 3), 3):
            if i == loop:
                continue
            ds[i - 1] = r.choice((-1, 1)) * (size + r.choice((0, 0, r.randint(0, 40))))
            size += abs(ds[i - 1]) * (n[i] - 1)
        if loop:
            ds[loop - 1] = r.randint(-60, 60)
            size += abs(ds[loop - 1]) * (n[loop] - 1)
        start = self.next + r.choice((0, r.randint(0, SKIPPED * self.c.word_bytes)))
        if start + size > output_bytes(self.c) - self.kept:
            return None
        self.next = start + size
        base = output_island(self.c, island) + start - sum(min(0, d * (k - 1)) for d, k in zip(ds, n[1:]))
        if loop:
            ds[loop - 1] += go * APART
        for i in (1, 2, 3):
            fields[f"ds{i}"] = ds[i - 1] + (r.randint(-9, 9) << 40) if n[i] > 1 else r.randrange(-(1 << 63), 1 << 63)
            fields.setdefault(f"ss{i}", 0 if n[i] > 1 else r.randrange(-(1 << 31), 1 << 31))
        fields.update({f"n{i}": k for i, k in enumerate(n)})
        fields.update(addr=base & ADDRESS_MASK | r.getrandbits(24) << 40)
        op = Operation("STORE", fields)
        op.writes = [("D", a, a + row) for a in rows(fields)]
        return op


def rows(f):
    """DRAM addresses of position 0 of each row of a LOAD or STORE, in order."""
    base = f["addr"]
    for i3, i2, i1 in product(range(f["n3"]), range(f["n2"]), range(f["n1"])):
        yield base + i1 * f["ds1"] + i2 * f["ds2"] + i3 * f["ds3"] & ADDRESS_MASK


def load_reads(f, word):
    """(first byte, bytes) of each run of bytes that a LOAD reads, in order: isa.md section 2, and the chunks that
    presil_load reads by themselves."""
    f = {"pos0": 0, "step0": 0, "rp0": 0, "rp1": 0, "rp2": 0, "rp3": 0, "row_limit": 0, **f}
    base, out = f["addr"], []
    alone = f["n0"] > 1 and f["step0"] < f["chunk_bytes"] and f["chunk_bytes"] > 14 * word
    for i3, i2, i1 in product(range(f["n3"]), range(f["n2"]), range(f["n1"])):
        position = f["rp0"] + i1 * f["rp1"] + i2 * f["rp2"] + i3 * f["rp3"]
        if f["row_limit"] and not 0 <= position < f["row_limit"]:
            continue
        at = base + i1 * f["ds1"] + i2 * f["ds2"] + i3 * f["ds3"]
        for i0 in range(f["n0"] if alone else 1):
            first = f["pos0"] + i0 * f["step0"]
            last = first + f["chunk_bytes"] + (0 if alone else (f["n0"] - 1) * f["step0"])
            start, end = max(0, first), min(f["row_bytes"], last)
            if start < end:
                out.append((at + start & ADDRESS_MASK, end - start))
    return out
