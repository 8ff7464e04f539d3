# SPDX-License-Identifier: Apache-2.0
"""Rows and pieces of a LOAD, out of docs/isa.md section 2: what goes into presil_load_walk and what should come out."""

from dataclasses import dataclass, field
from itertools import product

from oracle.engines import dram_address
from rig import WORD, WORDS

HALF, SPACE = WORD // 2, 1 << 32  # SPACE: of scratchpad byte addresses
SLOTS = 16  # beats in the window


@dataclass
class Piece:
    shows: dict  # port: value
    data: range  # bytes of the word that come from the row
    need: int  # beats that have to be there, counted since the reset, as the next
    free: int  # beats that no word from this one on needs
    error: int | None  # address of the word outside
    group: dict | None = None  # with a group's last


@dataclass
class Row:
    beats: int
    rel: int | None
    pos: int
    s: int
    last1: int
    last: int = 0
    first: bool = False  # of its group
    end: int = 0  # beats up to its end, counted since the reset
    pieces: list[Piece] = field(default_factory=list)


def rows_of(d, own: int) -> list[Row]:
    """As presil_rows gives them."""
    out = []
    for i3, i2, i1 in product(range(d.n3), range(d.n2), range(d.n1)):
        position, address = d.rp0 + i1 * d.rp1 + i2 * d.rp2 + i3 * d.rp3, dram_address(d, i1, i2, i3)
        s = d.sp_base + (0 if d.transpose else i1 * d.ss1) + i2 * d.ss2 + i3 * d.ss3
        for i0 in range(d.n0 if own else 1):
            pos = d.pos0 + i0 * d.step0
            first, end = max(pos, 0), min(d.row_bytes, pos + d.chunk_bytes + (0 if own else (d.n0 - 1) * d.step0))
            row = Row(0, None, pos, (s + i0 * d.ss0) % SPACE, int(i1 == d.n1 - 1))
            if first < end and not (d.row_limit and not 0 <= position < d.row_limit):
                a = address + first
                row.beats, row.rel = (a + end - first - 1) // WORD - a // WORD + 1, a % WORD - first
            out.append(row)
    out[-1].last = 1
    return out


def words_of(d, row: Row, own: int) -> list[tuple[int, int, int]]:
    """(position, source bytes, scratchpad address) of each word of a row."""
    out, step = [], d.chunk_bytes if d.transpose else d.word_bytes
    for i0 in range(1 if own else d.n0):
        for w, at in enumerate(range(0, d.chunk_bytes, step)):
            s = (row.s + i0 * d.ss0 + w * d.sw) % SPACE
            out.append((row.pos + i0 * d.step0 + at, min(step, d.chunk_bytes - at), s))
    return out


def halves(d, offset: int, end: int) -> list[tuple[int, int]]:
    """Bytes of the word that a piece can bring."""
    if not d.conv:
        return [(0, WORD)]
    return [(0, HALF)] * (offset < HALF) + [(HALF, WORD)] * (end > HALF)


def pieces_of(d, row: Row, own: int, before: int) -> list[Piece]:
    """before: beats before the row. Without what its place in a group or descriptor adds."""
    out, scale, words = [], 2 if d.conv else 1, words_of(d, row, own)
    for n, (pos, count, s) in enumerate(words):
        offset = 0 if d.transpose else s % WORD
        end = offset + count // scale
        free = (row.rel + max(0, min(p for p, _, _ in words[n:]))) // WORD if row.beats else 0
        for low, high in halves(d, offset, end):
            there = [
                b for b in range(max(low, offset), min(high, end)) if 0 <= pos + (b - offset) * scale < d.row_bytes
            ]
            data = range(there[0], there[-1] + 1) if there and row.beats else range(0)
            shows, need = {"half": int(low > 0)}, 0
            if data:
                source = row.rel + pos + (low - offset) * scale
                shows |= dict(slot=(before + source // WORD) % SLOTS, shift=source % WORD)
                need = before + (source + (data[-1] + 1 - low) * scale - 1) // WORD + 1
            if not d.transpose:
                shows |= dict(addr=s // WORD % (1 << 16), full=int(offset == 0 and low == 0), pad=d.pad)
            if not d.transpose and (offset or low):
                shows |= dict(mlo=max(low, offset), mhi=min(high, end) if offset else WORD)
            outside = s // WORD * WORD if not d.transpose and s // WORD >= WORDS else None
            out.append(Piece(shows, data, need, before + min(row.beats, free), outside))
    return out


def padding(d, k: int, size: int) -> int:
    """Of element k of each column, wherever in a row its source is."""
    e = 1 << size
    element = d.pad >> 8 * (k * e % 4) & (1 << 8 * e) - 1
    return sum(element << 8 * b for b in range(0, 4, e))


def place(d, index: int, rows: list[Row], sets: int) -> int:
    """Adds to the pieces where they stand; sets: groups before. Groups of this one."""
    k, groups, size = 0, 0, 1 if d.conv else d.esize_log2
    for row in rows:
        row.first = bool(d.transpose and k == 0)
        for piece in row.pieces:
            ends = piece is row.pieces[-1]
            piece.shows |= dict(conv=int(d.conv > 0), term=d.conv, tr=d.transpose)
            piece.shows["done"] = int(ends and row.last and not d.transpose)
            if d.transpose:
                piece.shows |= dict(
                    set=(sets + groups) % 2, k=k, group=int(ends and row.last1), pad=padding(d, k, size)
                )
        if d.transpose and row.last1:
            group = dict(last=row.last, s=row.s, sw=d.sw % SPACE, pad=d.pad, index=index, size=size)
            group |= dict(cols=d.chunk_bytes // (4 if d.conv else 1 << size), bytes=k + 1 << size)
            row.pieces[-1].group = group
        groups += bool(d.transpose and row.last1)
        k = 0 if row.last1 else k + 1
    return groups
