# SPDX-License-Identifier: Apache-2.0
"""presil_epilogue alone: random descriptors over random sums, with a scratchpad and accumulators that make it wait."""

import cocotb
from oracle import engines, layout
from oracle.support import CORNERS32, CORNERS_FP16, any32, fp16, fp32
from rig import CONFIG, WORD, WORDS, Feeder, ReadPort, Rig, Scratchpad, Watched, executed, near, run_out, scaled

CELLS, ROWS = CONFIG.cells, CONFIG.acc_rows
# What is read, and four places for what is written: the engine holds two descriptors.
INPUT, PLACE = range(WORDS // 2), WORDS // 8
BYTES = {0: 1, 1: 2, 2: 4, 3: 4, 5: 2}  # of an element, by type
NORMAL = [c for c in CORNERS32 if not 0 < c & 0x7FFFFFFF < 0x800000]


def unit(element: int) -> int:
    size = CELLS * element
    return WORD if 2 * size > WORD else 1 << (size - 1).bit_length()


def draw(r, number: int) -> dict:
    """Fields of an EPILOGUE that writes in place `number` mod 4; some leave it, which `fits` tells."""
    rows = near(r, 1, (1, 1, 2, ROWS, 9), 1)
    out, res = r.choice((0, 1, 2, 3, 5, 5)), r.choice((0, 1, 2, 5))
    first = WORD * (len(INPUT) + number % 4 * PLACE)
    grid = unit(BYTES[out])
    words = -(-CELLS * BYTES[out] // WORD)
    pitch = near(r, grid, (grid, words * WORD, words * WORD, 3 * WORD), grid)
    f = dict(rows=rows, acc_base=near(r, 1, (0, max(0, ROWS - rows))), half=r.getrandbits(1), out_type=out)
    f |= dict(out_base=first + near(r, grid, (0, WORD, grid)), out_pitch=pitch, res_type=res)
    f |= {name: r.getrandbits(1) for name in ("acc_fp32", "bias_en", "scale_en", "res_en", "clamp_en")}
    f["param_base"] = near(r, 1, (0, CONFIG.banks, len(INPUT) // 2))
    if r.random() < 0.3 and out == res and pitch >= words * WORD:  # in place, row by row
        f |= dict(res_base=f["out_base"], res_pitch=pitch)
    else:
        grid = unit(BYTES[res])
        f |= dict(res_base=near(r, grid, (0, 64 * WORD, 5 * grid)), res_pitch=near(r, grid, (grid, WORD, 2 * WORD)))
    f |= dict(res_zp=r.choice((0, r.randint(-128, 127), r.randrange(-(1 << 31), 1 << 31))), res_scale=fp32(r, 110, 130))
    f |= dict(clamp_lo=r.choice((0, 0xFF800000, fp32(r))), clamp_hi=r.choice((0x40C00000, 0x7F800000, fp32(r))))
    f["out_zp"] = r.choice((0, r.randint(-128, 127), r.randrange(-(1 << 31), 1 << 31)))
    return f | dict(int_lo=r.choice((-128, 0, r.randint(-99, 9))), int_hi=r.choice((127, r.randint(-9, 99))))


def fits(f: dict, written: set) -> bool:
    low = WORD * (f["out_base"] // WORD - len(INPUT)) // (PLACE * WORD)
    inside = {a // WORD for a in written}
    return bool(inside) and all((w - len(INPUT)) // PLACE == low and w in range(len(INPUT), WORDS) for w in inside)


def reads_only_input(f: dict) -> bool:
    """But for a residual in place."""
    if not f["res_en"] or f["res_base"] == f["out_base"]:
        return True
    return f["res_base"] + f["rows"] * f["res_pitch"] + 4 * CELLS < len(INPUT) * WORD


def sums(r) -> list:
    """Of both halves, as integers and floats of every kind, also those between which fp16 ends or rounds."""

    def one():
        edge = fp32(r, *r.choice(((101, 116), (141, 143)))) & 0xFFFFF000 | r.choice((0, 1, 0xFFF))
        some = any32(r), r.randrange(-70000, 70000) & 0xFFFFFFFF, fp32(r, 120, 140), r.choice(NORMAL), edge
        return r.choice(some)

    return [[[one() for _ in range(CELLS)] for _ in range(ROWS)] for _ in range(2)]


def values(r, memory: Watched) -> None:
    """Parameters and residuals that are floats more often than not."""
    for at in range(0, len(memory.spad), 4):
        if r.random() < 0.7:
            memory.spad[at : at + 4] = fp32(r, 118, 136).to_bytes(4, "little")
        elif r.random() < 0.5:
            codes = [r.choice((fp16(r), fp16(r, 0, 1), r.choice(CORNERS_FP16))) for _ in range(2)]
            memory.spad[at : at + 4] = b"".join(code.to_bytes(2, "little") for code in codes)


class Accumulators:
    """Gives a row one cycle after it is asked for; never in the cycle after acc_taken."""

    def __init__(self, rig: Rig, rows: list, taken: float):
        self.rig, self.rows, self.probability, self.refused = rig, rows, taken, 0
        rig.set("acc_taken", 0)

    def step(self) -> None:
        rig = self.rig
        if rig.get("acc_re"):
            half = rig.get("acc_half")
            assert not self.refused >> half & 1, f"reads half {half} when it is taken (cycle {rig.cycles})"
            rig.put("acc_q", self.rows[half][rig.get("acc_row")])
        self.refused = rig.held["acc_taken"]
        rig.set("acc_taken", rig.chance(self.probability) | rig.chance(self.probability) << 1)


class WritePort:
    """The scratchpad grants the epilogue always."""

    def __init__(self, rig: Rig, spad: Scratchpad):
        self.rig, self.spad = rig, spad
        rig.set("epi_ready", 1)

    def step(self) -> None:
        rig = self.rig
        if rig.get("epi_valid"):
            mask = (1 << WORD) - 1 if rig.get("epi_full") else rig.get("epi_mask")
            self.spad.write(rig.get("epi_addr"), rig.get("epi_data"), mask)


async def compare(dut, name: str, count: int, eager: float, ready: float, taken: float):
    rig = Rig(dut, name)
    r, memory = rig.random, Watched(rig.random)
    values(r, memory)
    memory.accumulators = sums(r)
    start, programs, touched, after = bytes(memory.spad), [], [], []
    while len(programs) < count:
        before, flags = bytes(memory.spad), bytes(memory.spad_defined)
        f = draw(r, len(programs))
        words = executed("EPILOGUE", engines.epilogue, f, memory) if reads_only_input(f) else None
        if not words or not fits(f, memory.spad_written):
            memory.spad[:], memory.spad_defined[:] = before, flags
            continue
        programs.append(words)
        touched.append(memory.spad_written)
        after.append((bytes(memory.spad), bytes(memory.spad_defined)))
    spad = Scratchpad(start)
    await rig.reset(halt=0)
    feeder = Feeder(rig, programs, eager)
    accumulators = Accumulators(rig, memory.accumulators, taken)
    port, out = ReadPort(rig, "res", spad.word, ready), WritePort(rig, spad)

    def differ(k: int, addresses) -> list:
        want, defined = after[k]
        return [a for a in addresses if defined[a] and spad.bytes[a] != want[a]]

    def step():
        port.step()
        out.step()
        accumulators.step()
        if feeder.step():
            k = feeder.done - 1
            d = layout.decode(programs[k])
            rig.expect(differ(k, touched[k])[:1], [], f"EPILOGUE {k} ({d}): bytes that are not there when it is done")

    await run_out(rig, feeder, step)
    rig.expect(differ(count - 1, range(len(start)))[:1], [], "bytes of the scratchpad that differ")


@cocotb.test()
async def nothing_waits(dut):
    await compare(dut, "nothing waits", scaled(60), 1.0, 1.0, 0.0)


@cocotb.test()
async def all_wait(dut):
    await compare(dut, "all wait", scaled(40), 0.5, 0.5, 0.4)


@cocotb.test()
async def sums_are_rarely_free(dut):
    await compare(dut, "sums are rarely free", scaled(20), 1.0, 1.0, 0.85)
