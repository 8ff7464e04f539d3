# SPDX-License-Identifier: Apache-2.0
"""presil_matrix alone: random descriptors at the sizes where something changes; sums are read through the epilogue's
port while the next descriptors run."""

import cocotb
from oracle import engines, layout
from oracle.support import fp16
from rig import CONFIG, WORDS, Feeder, ReadPort, Rig, Scratchpad, Watched, executed, near, run_out, scaled

CELLS, ROWS = CONFIG.cells, CONFIG.acc_rows
MOST = 150  # activation rows that a descriptor streams
DTYPES = [layout.enum("DTYPE", name) for name in ("INT8", "BF16", "FP16")]


def axis(r, n: int, k: int) -> dict:
    """sx, dx, ox, lim_x, idx: of rows that are inside, outside, or both."""
    stride, dilation, inverse = r.choice((1, 1, 2, 3)), r.choice((0, 1, 1, 2)), r.choice((1, 1, 1, 2, 3))
    reach = (n - 1) * stride + (k - 1) * dilation
    origin = near(r, 1, (0, -1, -reach, -2 * inverse), -reach - 9)
    return dict(s=stride, d=dilation, id=inverse, o=origin, lim=near(r, 1, (1, reach // inverse, 3, 0)))


def draw(r, started: set) -> dict:
    """Fields of a MATRIX; some leave the scratchpad, which the oracle tells. started: (half, row) that hold a sum."""
    nx = near(r, 1, (1, 1, CELLS, ROWS, 5), 1)
    ny = near(r, 1, (1, ROWS // nx), 1) if nx * 2 <= ROWS else 1
    kx, ky, ncb = r.choice(((1, 1, 1), (1, 1, 1), (2, 1, 1), (1, 3, 1), (1, 1, 2), (2, 2, 2)))
    if nx * ny * kx * ky * ncb > MOST:
        kx = ky = ncb = 1
    half, rows = r.getrandbits(1), nx * ny
    base = near(r, 1, (0, max(0, ROWS - rows)))
    first = int(not all((half, base + k) in started for k in range(rows)) or r.random() < 0.3)
    f = dict(nx=nx, ny=ny, kx=kx, ky=ky, ncb=ncb, half=half, first=first, acc_base=base, dtype=r.choice(DTYPES))
    f |= dict(skip_special=r.getrandbits(1), absent=r.getrandbits(1), pad=r.choice((0, 0x80, 0x7F, r.getrandbits(8))))
    for letter, n, k in (("x", nx, kx), ("y", ny, ky)):
        f |= {f"{name}{letter}" if name != "lim" else f"lim_{letter}": v for name, v in axis(r, n, k).items()}
    f["wgt_base"] = near(r, 1, (0, WORDS - kx * ky * ncb * CELLS, WORDS // 2))
    f["act_base"] = near(r, 1, (0, CONFIG.banks, WORDS - 1, WORDS // 2))
    f |= {f"{name}_stride": r.choice((0, 1, 1, 7, CONFIG.banks, 0xFFFF)) for name in ("x", "y", "cb")}
    return window(r, f) if r.random() < 0.4 else f


def window(r, f: dict) -> dict:
    """The same with `depthwise`, in a window of the modes' lengths and with borders near its ends."""
    f |= dict(depthwise=1, kx=r.choice((1, 2, 3, 5)), ky=r.choice((1, 3, 4, 5)), ncb=1, idx=1, idy=1)
    f["extra_cells"] = r.choice((0, 0, 1, 2, r.randrange(CELLS), CELLS - 1))
    for letter in "xy":
        dilation, step = r.choice((1, 1, 2, 5)), r.choice((1, 1, 2))
        reach = ((f[f"n{letter}"] - 1) * step + f[f"k{letter}"] - 1) * dilation
        f |= {f"d{letter}": dilation, f"s{letter}": dilation * step}
        f |= {f"o{letter}": near(r, 1, (0, -1, -reach), -reach - 9), f"lim_{letter}": near(r, 1, (1, reach, 3, 0))}
    across, down = r.choice(((1, f["kx"]), (1, f["kx"]), (2, 7), (0, 1), (0xFFFF, 3)))
    f |= dict(wgt_x_stride=across, wgt_y_stride=down)
    f["wgt_base"] = near(r, 1, (0, WORDS - f["kx"] * f["ky"], WORDS // 2))
    return f


def content(r, memory: Watched) -> None:
    """Most words are bf16 or fp16 of like size, so that sums neither vanish nor overflow; the rest is anything."""
    for at in range(0, len(memory.spad), 32):
        kind = r.choices((bf16_code, fp16_code, None), (50, 35, 15))[0]
        if kind:
            span = r.choice(((0, 2), (0, 30), (8, 20), (8, 20), (27, 30)))
            rare = r.choice(((1, 0, 0x8000), (0x7C01, 0, 0x83FF) if r.random() < 0.15 else (0x8001, 0, 0x03FF)))
            codes = [r.choice(rare) if r.random() < 0.1 else kind(r, span) for _ in range(16)]
            memory.spad[at : at + 32] = b"".join(code.to_bytes(2, "little") for code in codes)


def bf16_code(r, _span) -> int:
    """As fp16 of like size too."""
    return r.getrandbits(1) << 15 | r.randint(115, 139) << 7 | r.getrandbits(7)


def fp16_code(r, span) -> int:
    return fp16(r, *span)


class Epilogue:
    """Reads rows whose sums stay, in cycles that are free: none after a cycle in which acc_taken names the half."""

    def __init__(self, rig: Rig, eager: float):
        self.rig, self.eager, self.rows, self.asked, self.count = rig, eager, [], [None, None], 0
        rig.set("acc_re", 0)

    def step(self) -> None:
        rig = self.rig
        if self.asked[1]:  # asked in the cycle before the last, so its data was there in the last
            (half, row), want = self.asked[1]
            rig.expect(rig.take("acc_q", CELLS), want, f"sums of half {half}, row {row}")
            self.count += 1
        self.asked = [None, self.asked[0]]
        taken = rig.get("acc_taken")
        wanted = rig.random.choice(self.rows) if self.rows and rig.chance(self.eager) else None
        if wanted and not taken >> wanted[0][0] & 1:
            self.asked[0] = wanted
            rig.set("acc_half", wanted[0][0])
            rig.set("acc_row", wanted[0][1])
            rig.set("acc_re", 1)
        else:
            rig.set("acc_re", 0)


async def compare(dut, name: str, count: int, eager: float, ready: float):
    rig = Rig(dut, name)
    r, memory = rig.random, Watched(rig.random)
    content(r, memory)
    programs, sums, users, started = [], [], {}, set()
    while len(programs) < count:
        f = draw(r, started)
        before = [[list(row) for row in half] for half in memory.accumulators]
        words = executed("MATRIX", engines.matrix, f, memory)
        if not words:
            memory.accumulators = before
            continue
        rows = [(f["half"], f["acc_base"] + k) for k in range(f["nx"] * f["ny"])]
        started |= set(rows)
        for row in rows:
            users.setdefault(row, []).append(len(programs))
        programs.append(words)
        sums.append({row: list(memory.accumulators[row[0]][row[1]]) for row in rows})
    spad = Scratchpad(memory.spad)
    await rig.reset(halt=0)
    feeder, reader = Feeder(rig, programs, eager), Epilogue(rig, 0.5)
    ports = ReadPort(rig, "act", spad.word, ready), ReadPort(rig, "wgt", spad.word, ready)
    latest = {}

    def step():
        for port in ports:
            port.step()
        if feeder.step():
            latest.update(sums[feeder.done - 1])
        offered = feeder.given + int(feeder.offered)
        # what nobody adds to from now on, or not before a descriptor that has not been offered
        reader.rows = [
            (row, want) for row, want in latest.items() if not any(feeder.done <= k < offered for k in users[row])
        ]
        reader.step()

    await run_out(rig, feeder, step)
    during = reader.count
    for row, want in sorted(latest.items()):
        reader.rows, reader.eager = [(row, want)], 1.0
        for _ in range(3):
            await rig.cycle()
            reader.step()
    assert during > count and reader.count >= during + len(latest), "too few rows were read"


@cocotb.test()
async def nothing_waits(dut):
    await compare(dut, "nothing waits", scaled(40), 1.0, 1.0)


@cocotb.test()
async def all_wait(dut):
    await compare(dut, "all wait", scaled(25), 0.3, 0.5)


@cocotb.test()
async def a_halt_ends_it(dut):
    """After a halt nothing is asked for; when it is idle, a reset makes it as new."""
    rig = Rig(dut, "halt")
    r, memory = rig.random, Watched(rig.random)
    spad = Scratchpad(memory.spad)
    for _ in range(scaled(8)):
        programs = []
        while len(programs) < 2:
            words = executed("MATRIX", engines.matrix, draw(r, set()), memory)
            programs += [words] if words else []
        await rig.reset(halt=0, acc_re=0)
        feeder = Feeder(rig, programs, 1.0)
        ports = ReadPort(rig, "act", spad.word, 0.8), ReadPort(rig, "wgt", spad.word, 0.8)
        stop, idle = rig.cycles + r.randrange(60), 0
        while not idle:
            rig.set("halt", int(rig.cycles >= stop))
            await rig.cycle()
            for part in (*ports, feeder):
                part.step()
            if rig.cycles > stop + 1:
                rig.expect((rig.get("act_valid"), rig.get("wgt_valid")), (0, 0), "requests after a halt")
                idle = rig.status("idle")
            assert rig.cycles < stop + 300, "not idle after a halt"
