# SPDX-License-Identifier: Apache-2.0
"""Ways to end a program early, each with what must come of it. Only one thing is wrong with such a program (two with
`twice`), so that what it must end with does not depend on time."""

from dataclasses import dataclass, field

from oracle import layout

from .space import WINDOW_BYTES
from .tokens import ENGINES, Operation, runs
from .transfers import load_reads, rows


@dataclass
class Fault:
    """kind: error, hang, cancel, ring. at: ring position of the descriptor that is wrong, or None. errors: what the
    registers may show, (code, ring position, address); None: what the twin says of the broken words. changes:
    {ring position: {field: value}}. inject: for the transport. exact: every stored byte is either old or as the sound
    program leaves it, but for those of the STORE at `loose`."""

    kind: str
    at: int | None = None
    errors: list | None = None
    changes: dict = field(default_factory=dict)
    inject: str | None = None
    exact: bool = True
    loose: int | None = None
    after: int = 0  # cancel: cycles
    excess: int = 0  # ring: descriptors too many
    fetch: tuple | None = None  # (ring position, beat) that the bus refuses

    def broken_words(self, order, words):
        out = [list(w) for w in words]
        for at, changes in self.changes.items():
            table = {**layout.generated().FIELDS["COMMON"], **layout.generated().FIELDS.get(order[at].kind, {})}
            for name, value in changes.items():
                word, low, width, _ = table[name]
                mask, low = (1 << width) - 1, 32 * word + low
                out[at] = layout.split(layout.join(out[at]) & ~(mask << low) | (value & mask) << low)
        return out


def positions(order, kind):
    return [i for i, op in enumerate(order) if op.kind == kind]


# --- refused at decode ------------------------------------------------------------------------
COUNTS = {
    "LOAD": ("n0", "n1", "n2", "n3", "chunk_bytes", "word_bytes"),
    "STORE": ("n0", "n1", "n2", "n3", "chunk_bytes", "word_bytes"),
    "MATRIX": ("nx", "ny", "kx", "ky", "ncb", "idx", "idy", "sx", "sy"),
    "EPILOGUE": ("rows",),
}


def field_errors(r, c, op):
    """Changes of an operation that each are error FIELD: (counts of zero, the others, later chips', a mode's)."""
    f, word = op.fields, c.word_bytes
    zeros, out = [{name: 0} for name in COUNTS.get(op.kind, ())], []
    if op.kind == "NOP":
        out += [{"wait": 1 << r.randrange(20)}, {"signal": 1 << r.randrange(4)}]
    if op.kind == "STORE" and min(f["chunk_bytes"], f["word_bytes"]) > 1:
        out += [{"sp_base": f["sp_base"] | word - 1}]
    if op.kind == "STORE":
        out += [{"word_bytes": v} for v in (word + 1, 2 * word, 0xFFFF)]
    if op.kind == "LOAD":
        limit = word * (2 if f.get("conv") else 1)
        out += [{"word_bytes": v} for v in (limit + 1, 0xFFFF)]
        size = 2 if f.get("conv") else 1 << f.get("esize_log2", 0)
        out += [{"step0": v} for v in (-1, -4, -r.randint(1, 1 << 31))]
        if f.get("conv"):
            out += [{name: f[name] + r.randint(1, 3)} for name in ("row_bytes", "pos0", "chunk_bytes", "word_bytes")]
            if not f.get("transpose"):
                out += [{"sp_base": f["sp_base"] ^ 1}]
                out += [{f"ss{i}": f.get(f"ss{i}", 0) ^ 1} for i in range(4) if f[f"n{i}"] > 1]
        if f.get("transpose"):
            out += [{"sp_base": f["sp_base"] + r.randrange(1, word)}, {"chunk_bytes": limit + limit}]
            out += [] if f["conv"] else [{"esize_log2": 3}]
            out += [{"n0": v} for v in (2, 0xFFFF)] + [{"n1": v} for v in (c.lanes // size + 1, 0xFFFF)]
    if op.kind == "MATRIX":
        rows_ = f["nx"] * f["ny"]
        out += [{"acc_base": v} for v in (c.acc_rows - rows_ + 1, 0xFFFF)]
        out += [{"nx": 0xFFFF, "ny": 0xFFFF, "acc_base": 0xFFFF}, {"nx": c.acc_rows + 1, "ny": 1}]
        i = r.randrange(16)
        out += [{"nx": 1 << i, "ny": 1 << j, "acc_base": 0} for j in range(16) if 1 << i + j > c.acc_rows]
    if op.kind == "EPILOGUE":
        out += [{"out_base": f["out_base"] + 1}] if c.cells > 1 else []
        out += [{"res_type": 3}, {"res_base": f["res_base"] + 1}] if f["res_en"] else []
        out += [{"clamp_lo": r.randint(1, 0x7FFFFF)}, {"clamp_hi": 0x80000001}] if f["clamp_en"] else []
        out += [{"acc_base": v} for v in (c.acc_rows - f["rows"] + 1, 0xFFFF)] + [{"rows": 0xFFFF}]
    later = later_errors(r, op.kind)
    return zeros, out, later, depthwise_errors(r, c, f) if op.kind == "MATRIX" else []


def later_errors(r, kind):
    """Changes to types and conversions that this chip doesn't have."""
    least = {"LOAD": [("conv", 4)], "STORE": [("conv", 1)], "MATRIX": [("dtype", 2)], "EPILOGUE": [("out_type", 4)]}
    drawn = [(name, r.randint(low, 15)) for name, low in least.get(kind, ())]
    fp16, int32 = (layout.enum("DTYPE", name) for name in ("FP16", "INT32"))
    return [{name: int32 if name != "conv" and code == fp16 else code} for name, code in drawn]


def depthwise_errors(r, c, f):
    """Changes of a MATRIX that make a wrong one with `depthwise`, or that only such a one may have."""
    if not f.get("depthwise"):
        alone = [{"extra_cells": r.randint(1, 255)}]
        broken = max(f["kx"], f["ky"]) > 5 or (f["ncb"], f["idx"], f["idy"]) != (1, 1, 1)
        strides = [(f["sx"], f["dx"]), (f["sy"], f["dy"])]
        return alone + ([{"depthwise": 1}] if broken or any(s not in (d, 2 * d) for s, d in strides) else [])
    out = [{name: v} for name in ("kx", "ky") for v in (6, r.randint(6, 255))]
    out += [{name: v} for name in ("ncb", "idx", "idy") for v in (2, r.randint(2, 255))]
    out += [{f"d{a}": 0} for a in "xy"] + [{f"s{a}": 2 * f[f"d{a}"] + 1} for a in "xy" if f[f"d{a}"] < 1 << 15]
    out += [{f"d{a}": f[f"s{a}"] + 1} for a in "xy" if f[f"s{a}"] < 65535]
    out += [{"extra_cells": v} for v in (c.cells, r.randint(c.cells, 255), 255)]
    return out + [{"nx": 64, "ny": 1, "acc_base": 0, "kx": r.choice((2, 5))}]  # a row of more than 64 positions


def decode(r, c, order, at=None):
    at = r.randrange(len(order)) if at is None else at
    op, changes, code = order[at], {}, None
    fields = [group for group in field_errors(r, c, op) if group]
    if fields and r.random() < 0.7:
        changes, code = dict(r.choice(r.choice(fields))), "FIELD"
    if r.random() < 0.2 or code is None and r.random() < 0.5:
        changes["isa"], code = r.choice((0, 1, 3, 6, 10, 15)), "VERSION"
    if code is None or r.random() < 0.15:
        changes["opcode"], code = r.randint(5, 15), "OPCODE"
    return Fault("error", at, [(code, at, 0)], {at: changes})


# --- outside of the scratchpad ----------------------------------------------------------------
def spad_range(r, c, order, at=None):
    at = r.randrange(len(order)) if at is None else at
    op, f, word = order[at], order[at].fields, c.word_bytes
    words = c.banks * c.bank_words
    if op.kind == "NOP":
        return None
    fault = Fault("error", at)
    if op.kind in ("LOAD", "STORE"):
        low, high = (address // word for address in reach(f))
        if r.random() < 0.2:  # only a part is outside, and what lies inside is written somewhere else
            move, fault.exact = words + r.randrange(max(1, high - low)) - high, False
        else:
            move = outside(r, words, (1 << 32) // word - (high - low)) - low
        fault.changes[at] = {"sp_base": f["sp_base"] + move * word}
    elif op.kind == "MATRIX":
        activations = [where for where, _, _ in op.reads].count("S") > 1  # else every row is padding
        if activations and r.random() < 0.5:
            low, high = op.reads[0][1:]
            fault.changes[at] = {"act_base": f["act_base"] + outside(r, words, 65536 - (high - low)) - low}
        else:
            used = f["kx"] * f["ky"] * f["ncb"] * c.cells
            if f.get("depthwise"):
                used = (f["kx"] - 1) * f["wgt_x_stride"] + (f["ky"] - 1) * f["wgt_y_stride"] + 1
            fault.changes[at] = {"wgt_base": outside(r, words, 65536 - used)}
    else:
        names = ["out_base"] + ["res_base"] * (f["res_en"] and f["out_type"] != 3)
        names += ["param_base"] * (f["bias_en"] or f["scale_en"])
        name = r.choice(names)
        if name == "param_base":
            fault.changes[at] = {name: outside(r, words, 65536 - 2 * -(-4 * c.cells // word))}
        else:
            top = (1 << 32) // word - words
            fault.changes[at] = {name: f[name] % word + outside(r, words, top) * word}
            span = (f["rows"] - 1) * (f[name[:3] + "_pitch"] - (f[name[:3] + "_pitch"] >> 31 << 32))
            if f["rows"] > 1 and (span < 0 or span > (1 << 31)):
                fault.exact = False
    if op.kind == "STORE":
        fault.loose = at
    return fault


def reach(f):
    """The lowest and the highest scratchpad address at which a LOAD or STORE begins a word."""
    if f.get("transpose"):
        steps = [(f["sw"], f["chunk_bytes"] // (4 if f["conv"] else 1 << f["esize_log2"]))]
        loops = (2, 3)
    else:
        steps, loops = [(f.get("sw", 0), -(-f["chunk_bytes"] // f["word_bytes"]))], (0, 1, 2, 3)
    steps += [(f.get(f"ss{i}", 0), f[f"n{i}"]) for i in loops]
    ends = [s * (k - 1) for s, k in steps]
    return f["sp_base"] + sum(min(0, e) for e in ends), f["sp_base"] + sum(max(0, e) for e in ends)


def outside(r, words, end):
    """A word address >= words and < end: the first ones, and such whose low bits would be inside."""
    near = words + r.choice((0, 0, 1, r.randrange(64)))
    far = [near]
    for bit in (13, 15, 16, 16, 17, 20, 24, 27):
        v = (1 << bit) + r.randrange(words)
        if words <= v < end:
            far.append(v)
    v = r.choice((near, r.choice(far), r.choice(far), r.randrange(words, end) if end > words else near))
    return v if v < end else near


# --- the bus ----------------------------------------------------------------------------------
def moved_away(r, c, order):
    """A LOAD or STORE beyond all memory."""
    found = positions(order, r.choice(("LOAD", "STORE")))
    at = r.choice(found)
    op, f, word = order[at], order[at].fields, c.word_bytes
    delta = r.choice((1 << r.randrange(34, 40), r.randrange(1, 60) * 2 * WINDOW_BYTES)) & (1 << 40) - 1
    address = f["addr"] + delta & (1 << 40) - 1
    moved = {**f, "addr": address}
    runs_ = load_reads(moved, word) if op.kind == "LOAD" else [(a, 1) for a in rows(moved)]
    if not runs_:
        return None
    code = "READ_BUS" if op.kind == "LOAD" else "WRITE_BUS"
    changes = {"addr": address | f["addr"] >> 40 << 40}
    return Fault("error", at, [(code, at, runs_[0][0] // word * word)], {at: changes}, loose=at)


def refused(r, c, order):
    """A beat that the memory answers with an error, and who asks for it first."""
    word = c.word_bytes
    kind = r.choice(("LOAD", "STORE"))
    runs_ = []
    for at in positions(order, kind):
        f = order[at].fields
        found = load_reads(f, word) if kind == "LOAD" else [(a, f["n0"] * f["chunk_bytes"]) for a in rows(f)]
        runs_ += [(at, first // word, (first + count - 1) // word) for first, count in found]
    if not runs_:
        return None
    _, first, last = r.choice(runs_)
    beat = r.choice((first, last, r.randint(first, last)))
    at, first, _ = next(run for run in runs_ if run[1] <= beat <= run[2])
    if kind == "STORE":
        page = beat * word // 4096 * 4096 // word
        error = ("WRITE_BUS", at, max(first, page) * word)
    else:
        error = ("READ_BUS", at, beat * word)
    return Fault("error", at, [error], inject=f"{r.choice(('slverr', 'decerr'))}@{beat * word + r.randrange(word)}")


def fetch(r, c, order):
    at = r.randrange(len(order))
    return Fault("error", at, fetch=(at, r.randrange(128 // c.word_bytes)))


# --- tokens, ring, cancel -----------------------------------------------------------------------
def overflow(r, c, order):
    """255 signals of a counter that nobody waits for, and one more."""
    name = r.choice(ENGINES)
    e, used = ENGINES.index(name), 0
    for op in order:
        used |= op.wait >> 4 * e & 15
        if op.kind == name:
            used |= op.signal
    free = [s for s in range(4) if not used >> s & 1]
    templates = [op for op in order if op.kind == name and cost(op.fields) <= 40]
    if not free or not templates:
        return None
    template = min(templates, key=lambda op: cost(op.fields))
    bit = 1 << r.choice(free)
    first = len(order)
    for _ in range(256):
        order.append(Operation(name, dict(template.fields), list(template.reads), list(template.writes), 0, bit))
    return Fault("error", first + 255, [("TOKEN_OVERFLOW", first + 255, 0)], exact=False)


def cost(f):
    """About the words that move: of a LOAD whole rows come over the bus, whatever lies between their chunks."""
    rows = f.get("n1", 1) * f.get("n2", 1) * f.get("n3", 1)
    chunk, word = f.get("chunk_bytes", 1), f.get("word_bytes", 1)
    out = rows * f.get("n0", 1) * -(-chunk // word)
    for name in ("nx", "ny", "kx", "ky", "ncb", "rows"):
        out *= f.get(name, 1)
    if "row_bytes" in f:
        last = f.get("pos0", 0) + (f.get("n0", 1) - 1) * f.get("step0", 0) + chunk
        out = max(out, rows * ((min(f["row_bytes"], last) - max(0, f.get("pos0", 0))) // word))
    return out


def hang(r, c, order):
    """A signal that is not given: somebody waits for ever."""
    givers = [i for i, op in enumerate(order) if op.signal]
    r.shuffle(givers)
    for at in givers:
        op = order[at]
        bits = [1 << s for s in range(4) if op.signal >> s & 1]
        bit = r.choice(bits)
        op.signal &= ~bit
        stuck = not runs(order)
        op.signal |= bit
        if stuck:
            return Fault("hang", at, changes={at: {"signal": op.signal & ~bit}})
    return None


def cancel(r, c, order):
    return Fault("cancel", after=r.choice((r.randint(1, 60), r.randint(1, 600), r.randint(1, 4000))))


def ring(r, c, order):
    return Fault("ring", excess=r.choice((1, 2, r.randint(1, 1 << 16), r.randint(1, 1 << 31))))


def twice(r, c, order):
    """Two errors: one of them must be told, whole."""
    one, other = decode(r, c, order), r.choice((moved_away, decode))(r, c, order)
    if other is None or one.at == other.at:
        return None
    loose = [f.at for f in (one, other) if order[f.at].kind == "STORE"]
    both = Fault("error", one.at, one.errors + other.errors, {**one.changes, **other.changes})
    both.loose, both.exact = (loose or [None])[0], len(loose) < 2
    return both


KINDS = {
    decode: 5,
    spad_range: 5,
    moved_away: 2,
    refused: 4,
    fetch: 1,
    overflow: 1,
    hang: 2,
    cancel: 3,
    ring: 1,
    twice: 2,
}


def fault(kind, r, modes, c, order):
    """The fault of a kind, or None. What is outside or refused is often a depthwise MATRIX, of which there are few."""
    few = [i for i, op in enumerate(order) if op.fields.get("depthwise")]
    if kind in (decode, spad_range) and few and modes.random() < 0.9:
        return kind(modes, c, order, modes.choice(few))
    return kind(r, c, order)


def choose(r):
    return r.choices(list(KINDS), list(KINDS.values()))[0]
