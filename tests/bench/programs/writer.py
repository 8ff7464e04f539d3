# SPDX-License-Identifier: Apache-2.0
"""Puts random descriptors together to programs that isa.md defines to the last stored byte."""

from dataclasses import dataclass

from oracle import layout

from . import compute
from .tokens import Guard, Operation, overlap, shuffle
from .transfers import Loads, Stores

MOST = 60  # descriptors
DEPTHWISE = 1 / 3  # of the MATRIXes


@dataclass
class Region:
    first: int
    words: int
    torn: bool = False  # words whose rest an epilogue left undefined: only stores of whole rows may follow


class Writer:
    """One program's operations in program order, guarded by tokens. plain: stores don't overlap, nothing is read
    back, so that after an error every byte has either its old value or its new one."""

    def __init__(self, r, config, modes, types, plain=False):
        """modes: decides which MATRIXes are depthwise, and draws them. types: decides what is fp16, and extra_cells."""
        self.r, self.c, self.modes, self.types, self.plain = r, config, modes, types, plain
        self.guard, self.order, self.regions, self.rows = Guard(r), [], [], {0: set(), 1: set()}
        self.loads, self.stores = Loads(r, config), Stores(r, config)
        self.stored = []

    def put(self, op):
        if op is None:
            return False
        compute.other_half(self.types, self.c, op)
        self.guard.add(op)
        self.order.append(op)
        return True

    def carve(self):
        """Regions of the scratchpad, somewhere: each holds weights, parameters, rows."""
        r, c = self.r, self.c
        total, count = c.banks * c.bank_words, r.randint(3, 5)
        sizes = [
            max(2 * -(-4 * c.cells // c.word_bytes), c.cells * r.randint(1, 3)) + r.randint(8, 24) for _ in range(count)
        ]
        gaps = sorted(r.sample(range(total - sum(sizes)), count))
        if r.random() < 0.3:
            gaps = [g + total - sum(sizes) - gaps[-1] for g in gaps]  # the last one ends with the memory
        at = 0
        for gap, size in zip(gaps, sizes):
            self.regions.append(Region(gap + at, size))
            at += size
        r.shuffle(self.regions)
        self.stores.keep(self.regions)
        for region in self.regions:
            self.put(self.loads.fill(region))

    def whole(self):
        return [region for region in self.regions if not region.torn]

    def step(self):
        r, whole = self.r, self.whole()
        kind = r.choice(("LOAD", "LOAD", "LOAD", "MATRIX", "MATRIX", "EPILOGUE", "EPILOGUE", "STORE", "STORE", "NOP"))
        if kind == "NOP":
            if r.random() < 0.3:
                self.order.append(Operation("NOP", {}))
        elif kind == "LOAD" and self.stored and not self.plain and r.random() < 0.2:
            self.read_back()
        elif kind == "LOAD" and whole:
            self.put(self.loads.random(r.choice(whole)))
        elif kind == "MATRIX" and whole:
            self.matrix(r.choice(whole), r.choice(whole))
        elif kind == "EPILOGUE" and (self.rows[0] or self.rows[1]) and whole:
            self.epilogue(whole)
        elif kind == "STORE" and whole:
            self.store(self.stores.random(r.choice(whole)))

    def matrix(self, acts, weights):
        """A third of them are depthwise, by numbers of their own: a program without one is what it was before."""
        if self.modes.random() < DEPTHWISE:
            self.put(compute.depthwise(self.modes, self.c, acts, weights, self.rows))
        else:
            self.put(compute.matrix(self.r, self.c, acts, weights, self.rows))

    def store(self, op):
        if op and self.put(op) and op.fields["n0"] * op.fields["chunk_bytes"] >= 16:
            self.stored += [w for w in op.writes]

    def read_back(self):
        """A LOAD of what a STORE wrote: DRAM is ordered by tokens too."""
        space, first, end = self.r.choice(self.stored)
        op = self.loads.random(self.r.choice(self.whole() or self.regions), (first, end - first))
        if op and self.whole():
            op.reads = [(space, first, end)]
            self.put(op)

    def epilogue(self, whole):
        r = self.r
        half = r.choice([h for h in (0, 1) if self.rows[h]])
        first = r.choice(sorted(self.rows[half]))
        rows = 1
        while first + rows in self.rows[half] and rows < 24 and r.random() < 0.85:
            rows += 1
        out = r.choice(whole)
        residual = out if r.random() < 0.2 else r.choice([g for g in whole if g is not out] or [out])
        op = compute.epilogue(r, self.c, r.choice(whole), residual, out, half, first, rows)
        if op is None or residual is not out and overlap(op.writes, [x for x in op.reads if x[0] == "S"]):
            return
        if out is not residual and any(overlap(op.writes, [x]) for x in op.reads if x[0] == "S"):
            return
        if residual is out and any(overlap(op.writes, [x]) for x in op.reads[1:] if x[1:] != op.writes[0][1:]):
            return
        self.put(op)
        if op.tail:
            self.tear(out, op)

    def tear(self, region, op):
        """Undefined bytes: rows are stored without them, then the region is filled anew."""
        f, word = op.fields, self.c.word_bytes
        row = self.c.cells * compute.SIZES[f["out_type"]]
        pitch = f["out_pitch"] - ((f["out_pitch"] >> 31) << 32)
        fields = dict(chunk_bytes=row, word_bytes=word, sp_base=f["out_base"], sw=word, ss1=pitch)
        store = self.stores.dram(fields, [1, f["rows"] if pitch else 1, 1, 1])
        if store:
            store.reads = op.writes
            self.put(store)
        self.put(self.loads.fill(region))

    def dump(self):
        """Everything that the program left: accumulators through the scratchpad, then every region."""
        r = self.r
        for half in (0, 1):
            self.dump_rows(half, self.rows[half])
        for region in r.sample(self.regions, len(self.regions)):
            self.store(self.stores.dump(region))

    def dump_rows(self, half, rows):
        r, rows, out = self.r, set(rows), max(self.regions, key=lambda g: g.words)
        unit, need = compute.row_unit(self.c, 4)
        most = out.words * self.c.word_bytes // need
        while rows:
            first = min(rows)
            count = 1
            while first + count in rows and count < most:
                count += 1
            op = None
            while op is None:
                op = compute.epilogue(r, self.c, out, out, out, half, first, count, raw=True)
            self.put(op)
            if op.tail or len(rows) > count:
                self.tear(out, op)
            rows -= set(range(first, first + count))

    def finish(self, shuffled=True):
        """Operations in ring order."""
        order = self.order
        return shuffle(self.r, order) if shuffled else order


def encode(r, op):
    """32 words; the tag is noise."""
    signal_and_wait = {} if op.kind == "NOP" else {"wait": op.wait, "signal": op.signal}
    return layout.encode(op.kind, **op.fields, **signal_and_wait, tag=r.getrandbits(32))
