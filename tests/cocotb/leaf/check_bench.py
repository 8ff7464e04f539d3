# SPDX-License-Identifier: Apache-2.0
"""presil_check alone: descriptors at the edge of each rule of docs/isa.md section 1 (FIELD), each bit of one, all
opcodes and versions, and anything, against the oracle's own decode."""

import cocotb
from oracle import layout
from oracle.machine import check
from rig import CONFIG, WORD, Rig, near, scaled

GENERATED = layout.generated()
ROWS, CELLS = CONFIG.acc_rows, CONFIG.cells
BITS = 32 * GENERATED.WORDS
KINDS = ("NOP", "LOAD", "STORE", "MATRIX", "EPILOGUE")
NONE, FIELD = layout.enum("ERROR", "NONE"), layout.enum("ERROR", "FIELD")
LIMITS = sorted({1, 4, 5, 64, 256, CELLS, CONFIG.lanes, CONFIG.lanes // 2, CONFIG.lanes // 4, WORD, 2 * WORD, ROWS})
TYPES = {n: [layout.enum("DTYPE", t) for t in "INT8 BF16 FP16 FP32 RAW32".split()[:n]] for n in (3, 4, 5)}
PLACES = "chunk_bytes word_bytes n0 n1 n2 n3 sp_base sw ss0 ss1 ss2 ss3"
# Fields that a rule names, and no others.
RULED = {
    "NOP": "wait signal",
    "LOAD": f"conv transpose esize_log2 row_bytes pos0 step0 {PLACES}",
    "STORE": f"conv {PLACES}",
    "MATRIX": "dtype depthwise extra_cells nx ny sx sy kx ky ncb dx dy acc_base idx idy",
    "EPILOGUE": "out_type rows acc_base out_base out_pitch res_en res_type res_base res_pitch"
    " clamp_en clamp_lo clamp_hi",
}


def counts(r) -> dict:
    return {f"n{k}": r.choice((1, 1, 2, 3, 0xFFFF)) for k in range(4)}


def load(r) -> dict:
    conv, transpose, log2 = r.choice((0, 1, 2, 3)), r.getrandbits(1), r.randrange(3)
    source = 4 if conv else 1 << log2
    most, element = (2 * WORD, 2) if conv else (WORD, source)
    unit = source if conv or transpose else 1
    f = counts(r) | dict(conv=conv, transpose=transpose, esize_log2=log2)
    f["word_bytes"] = min(most, near(r, unit, (unit, most // 2, most, most), unit))
    f["chunk_bytes"] = near(r, unit, (unit, f["word_bytes"], most, 5 * most), unit)
    f |= {name: unit * r.getrandbits(24) for name in ("row_bytes", "pos0", "step0")}
    if transpose:
        f |= dict(n0=1, n1=near(r, 1, (1, CONFIG.lanes // element), 1))
        f["chunk_bytes"] = min(most, f["chunk_bytes"])
    grid = WORD if transpose else 2 if conv else 1
    return f | {name: grid * r.getrandbits(25) for name in ("sp_base", "sw", "ss0", "ss1", "ss2", "ss3")}


def store(r) -> dict:
    """Most pieces end with their block, of which the strides are multiples."""
    block = 1 << r.randrange(WORD.bit_length())
    offset = near(r, 1, (0, 0, block // 2, block - 1))
    piece = max(1, near(r, 1, (block - offset,), 1))
    f = counts(r) | dict(conv=0, word_bytes=piece, chunk_bytes=near(r, 1, (1, piece, piece, 5 * piece), 1))
    if r.random() < 0.3:
        f |= dict(chunk_bytes=piece, word_bytes=near(r, 1, (piece, block, WORD), piece))
    strides = {name: block * r.choice((0, 1, 1, 3, r.getrandbits(20))) for name in ("sw", "ss0", "ss1", "ss2", "ss3")}
    return f | strides | dict(sp_base=block * r.getrandbits(20) + offset)


def matrix(r) -> dict:
    f = dict(dtype=r.choice(TYPES[3]), depthwise=r.getrandbits(1), extra_cells=0)
    f |= {name: near(r, 1, (1, 2, 255), 1) for name in ("kx", "ky", "idx", "idy")}
    f |= {name: near(r, 1, (1, 0xFFFE), 1) for name in ("sx", "sy", "dx", "dy", "ncb")}
    f["nx"] = near(r, 1, (1, 8, ROWS // 2), 1)
    if f["depthwise"]:
        f |= dict(ncb=1, idx=1, idy=1, extra_cells=near(r, 1, (0, CELLS - 1)))
        steps = {letter: r.choice((1, 2)) for letter in "xy"}
        f |= {f"k{letter}": near(r, 1, (1, 3, 5), 1) for letter in "xy"}
        f |= {f"d{letter}": near(r, 1, (1, 0x7FFE, 0xFFFE // step), 1) for letter, step in steps.items()}
        f |= {f"s{letter}": f[f"d{letter}"] * step for letter, step in steps.items()}
        f["nx"] = min(ROWS, near(r, 1, (1, (64 - f["kx"]) // steps["x"] + 1), 1))
    f["ny"] = near(r, 1, (1, ROWS // f["nx"]), 1)
    return f | dict(acc_base=near(r, 1, (0, max(0, ROWS - f["nx"] * f["ny"]))))


def epilogue(r) -> dict:
    out, res = r.choice(TYPES[5]), r.choice(TYPES[4])
    rows = near(r, 1, (1, 1, ROWS // 2, ROWS), 1)
    f = dict(out_type=out, res_type=res, rows=rows, acc_base=near(r, 1, (0, max(0, ROWS - rows))))
    for name, kind in (("out", out), ("res", res)):
        size = CELLS * (1 if kind == TYPES[5][0] else 2 if kind in TYPES[3] else 4)
        unit = 1 << min(size - 1, WORD - 1).bit_length()
        f |= {f"{name}_{what}": unit * r.choice((0, 1, 3, r.getrandbits(20))) for what in ("base", "pitch")}
    normal = (0, 0x80000000, 0x800000, 0x80800000, 0x3F800000, 0x7F800000, 0xFF800000, 0x7FFFFFFF)
    f |= {f"clamp_{end}": r.choice(normal) for end in ("lo", "hi")}
    if r.random() < 0.5:
        f |= dict(res_en=0, res_type=r.getrandbits(4), res_base=r.getrandbits(32))
        f |= dict(clamp_en=0, clamp_lo=r.choice((1, 0x807FFFFF)), clamp_hi=r.getrandbits(32))
    return f


DRAWS = {"NOP": lambda r: dict(wait=0, signal=0), "LOAD": load, "STORE": store, "MATRIX": matrix, "EPILOGUE": epilogue}


def table(kind: str) -> dict:
    return GENERATED.FIELDS["COMMON"] | GENERATED.FIELDS.get(kind, {})


def value(whole: int, place) -> int:
    word, low, width, _ = place
    return whole >> 32 * word + low & (1 << width) - 1


def changed(whole: int, place, new: int) -> int:
    word, low, width, _ = place
    mask = (1 << width) - 1
    return whole & ~(mask << 32 * word + low) | (new & mask) << 32 * word + low


def judged(whole: int) -> int:
    code = check(layout.decode(layout.split(whole)), CONFIG)
    return layout.enum("ERROR", code or "NONE")


def draw(r, kind: str) -> int:
    """A legal one; what no rule names is anything."""
    while True:
        fields = {name: r.getrandbits(place[2]) for name, place in table(kind).items()}
        fields |= dict(opcode=GENERATED.OPCODES[kind], isa=GENERATED.ISA_VERSION) | DRAWS[kind](r)
        whole = 0
        for name, place in table(kind).items():
            whole = changed(whole, place, fields[name])
        if judged(whole) == NONE:
            return whole


def beside(r, whole: int, place) -> list[int]:
    """Values at which something may change: beside its own, a limit, twice another field's."""
    own, width = value(whole, place), place[2]
    out = [0, own - 1, own + 1, own ^ 1 << r.randrange(width), r.getrandbits(width), 1 << width - 1, 2 * own]
    out += [r.choice(LIMITS) + r.choice((-1, 0, 1)) for _ in range(3)]
    return out


class Bench:
    def __init__(self, dut, name: str):
        self.rig = Rig(dut, name)
        self.codes = dict.fromkeys(range(4), 0)

    async def look(self, whole: int, what: str, en: int = 1) -> int:
        """What is wrong with it, by the oracle too."""
        want = judged(whole)
        self.codes[want] += 1
        self.rig.set("desc", whole)
        self.rig.set("en", en)
        await self.rig.cycle()
        self.rig.expect(self.rig.get("code"), want if en else NONE, f"{what}: {en=} desc={whole:#x}: code")
        return want


@cocotb.test()
async def beside_every_limit(dut):
    """A field at a time of a legal descriptor. Those that can make it illegal are those that a rule names."""
    bench = Bench(dut, "limits")
    r = bench.rig.random
    for kind in KINDS:
        ruled = set()
        for _ in range(scaled(60)):
            whole = draw(r, kind)
            await bench.look(whole, kind)
            for name, place in table(kind).items():
                for new in beside(r, whole, place) if name not in ("opcode", "isa") else ():
                    code = await bench.look(changed(whole, place, new), f"{kind}.{name}={new:#x}")
                    ruled |= {name} if code else set()
        bench.rig.expect(sorted(ruled), sorted(RULED[kind].split()), f"{kind}: fields with a rule")
    dut._log.info("%d checks, codes %s", bench.rig.checks, bench.codes)


@cocotb.test()
async def two_fields_at_once(dut):
    bench = Bench(dut, "two fields")
    r = bench.rig.random
    for _ in range(scaled(400)):
        kind = r.choice(KINDS[1:])
        first = draw(r, kind)
        for _ in range(20):
            whole = first
            for name in r.sample(RULED[kind].split(), 2):
                whole = changed(whole, table(kind)[name], r.choice(beside(r, whole, table(kind)[name])))
            await bench.look(whole, kind, bench.rig.chance(0.9))
    assert min(bench.codes[NONE], bench.codes[FIELD]) > bench.rig.checks // 10, bench.codes
    dut._log.info("%d checks, codes %s", bench.rig.checks, bench.codes)


@cocotb.test()
async def every_bit(dut):
    """Each bit of a legal descriptor: refused where it has no name."""
    bench = Bench(dut, "bits")
    for kind in KINDS:
        for _ in range(scaled(2)):
            whole = draw(bench.rig.random, kind)
            for bit in range(BITS):
                await bench.look(whole ^ 1 << bit, f"{kind} bit {bit}")
    dut._log.info("%d checks, codes %s", bench.rig.checks, bench.codes)


@cocotb.test()
async def every_opcode_and_version(dut):
    """OPCODE before VERSION before FIELD, of descriptors that are legal else, nearly, or not at all."""
    bench = Bench(dut, "opcodes")
    r, (opcode, isa) = bench.rig.random, (GENERATED.FIELDS["COMMON"][name] for name in ("opcode", "isa"))
    names = {GENERATED.OPCODES[kind]: kind for kind in KINDS}
    for _ in range(scaled(4)):
        for code, version in ((code, version) for code in range(16) for version in range(16)):
            legal = draw(r, names.get(code) or r.choice(KINDS))
            for whole in (legal, legal ^ 1 << r.randrange(8, BITS), r.getrandbits(BITS), 0):
                whole = changed(changed(whole, opcode, code), isa, version)
                await bench.look(whole, "opcode, version", bench.rig.chance(0.9))
    assert min(bench.codes.values()) > 10, bench.codes
    dut._log.info("%d checks, codes %s", bench.rig.checks, bench.codes)
