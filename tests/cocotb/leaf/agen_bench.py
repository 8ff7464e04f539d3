# SPDX-License-Identifier: Apache-2.0
"""presil_agen alone: every row of random MATRIXes against the formula of docs/isa.md section 4 - where it lies, whether
it is padding, which sum it belongs to - taken at random, and the cycles that the header promises."""

import cocotb
from cocotb.triggers import FallingEdge
from oracle import layout
from oracle.machine import check
from rig import CONFIG, SEED, Rig, near, ring_count, scaled

ROWS, SPACE = CONFIG.acc_rows, 1 << 16
MOST = 300  # rows of a descriptor
INT8, BF16, FP16 = (layout.enum("DTYPE", name) for name in ("INT8", "BF16", "FP16"))
LATENCY, DIVISION = 2, 16  # cycles from a descriptor to its first row, and what input dilation adds


def axis(r, n: int, k: int) -> dict:
    """s, d, id, o, lim: of rows that are inside, outside, or both; some far from both ends of 16 bits; some multiples
    of the input dilation, however large, which are inside where a quotient is right."""
    inverse = r.choice((1, 1, 1, 1, 2, 2, 3, 3, 4, 128, 129, 200, 254, 255))
    whole = (inverse, inverse * r.randint(1, 0xFFFF // inverse))
    near_by, far = (1, 1, 2, 3), (7, 255, 256, 0x7FFF, 0xFFFF)
    stride, dilation = (r.choice(r.choice((near_by, (0, 1, 1, 2), whole, far))) for _ in range(2))
    reach = (n - 1) * stride + (k - 1) * dilation
    wholes = [inverse * r.randint(-0x8000 // inverse + 1, 0x7FFF // inverse) for _ in range(2)]
    origin = min(0x7FFF, near(r, 1, (0, 0, -1, -reach, -2 * inverse, 5, 0x7FFF, -0x8000, *wholes), -0x8000))
    last = (max(origin, 0) + reach) // inverse
    limit = min(0xFFFF, near(r, 1, (1, last, last, 3, 0xFFFF, 0xFFFF), 0))
    return dict(s=max(1, stride), d=dilation, id=inverse, o=origin, lim=limit)


def common(r) -> dict:
    """What is no position."""
    f = dict(half=r.getrandbits(1), first=r.getrandbits(1), skip_special=r.getrandbits(1), pad=r.getrandbits(8))
    f |= dict(dtype=r.choice((INT8, BF16, FP16)), act_base=near(r, 1, (1, SPACE - 2, r.randrange(1, SPACE - 1))))
    return f | {f"{n}_stride": r.choice((0, 1, 1, 7, SPACE - 1, r.randrange(SPACE))) for n in ("x", "y", "cb")}


def name_of(name: str, letter: str) -> str:
    return f"lim_{letter}" if name == "lim" else f"{name}{letter}"


def draw(r, **fixed) -> dict:
    nx = near(r, 1, (1, 1, ROWS, 5, 17), 1)
    ny = near(r, 1, (1, 1, ROWS // nx), 1)
    f = common(r) | dict(nx=nx, ny=ny, kx=r.choice((1, 1, 2, 3)), ky=r.choice((1, 1, 2, 3)), ncb=r.choice((1, 1, 2, 3)))
    f |= fixed
    f["acc_base"] = near(r, 1, (0, max(0, ROWS - f["nx"] * f["ny"])))
    for letter in "xy":
        f |= {name_of(n, letter): v for n, v in axis(r, f[f"n{letter}"], f[f"k{letter}"]).items()}
    return f


def transposed(r) -> dict:
    """As a transposed convolution has it: most kernel columns and rows begin between the grid's; of a large dilation
    they are multiples, or nearly all would be padding."""
    f = draw(r, kx=r.randint(2, 4), ky=r.randint(2, 4), nx=r.randint(1, 5), ny=r.randint(1, 3))
    for letter in "xy":
        inverse = r.choice((1, 2, 3, 4, 2, 3, 129, 200, 254, 255))
        unit = 1 if inverse < 5 else inverse * r.randint(1, 0x7FFF // inverse)
        origin = max(-0x8000, min(0x7FFF // unit * unit, unit * r.randint(-6, 3)))
        f |= {f"s{letter}": unit * r.choice((1, 1, 2)), f"d{letter}": unit * r.choice((1, 1, 2))}
        f |= {f"id{letter}": inverse, f"o{letter}": origin, f"lim_{letter}": near(r, 1, (2, 6, 0xFFFE))}
    return f


def window(r) -> dict:
    """With `depthwise`: every position, or every other, of one whose rows have up to 64 positions."""
    f = common(r) | dict(depthwise=1, ncb=1, idx=1, idy=1, kx=r.randint(1, 5), ky=r.randint(1, 5))
    f |= dict(nx=near(r, 1, (1, 2, 5, 30, 60), 1), ny=near(r, 1, (1, 2, 3), 1))
    f["extra_cells"] = r.choice((0, 1, 2, r.randrange(CONFIG.cells), CONFIG.cells - 1))
    f["acc_base"] = near(r, 1, (0, max(0, ROWS - f["nx"] * f["ny"])))
    for letter in "xy":
        dilation, step = r.choice((1, 1, 2, 5, 300)), r.choice((1, 1, 2))
        reach = ((f[f"n{letter}"] - 1) * step + f[f"k{letter}"] - 1) * dilation
        f |= {f"d{letter}": dilation, f"s{letter}": dilation * step}
        f |= {f"o{letter}": near(r, 1, (0, -1, -reach), -0x8000), f"lim_{letter}": near(r, 1, (1, reach, 3, 0))}
    return f


def place(d, x: int, y: int, cb: int) -> dict:
    """Of an input position: its word, or that it is padding."""
    if x >= 0 == x % d.idx and x // d.idx < d.lim_x and y >= 0 == y % d.idy and y // d.idy < d.lim_y:
        word = d.act_base + x // d.idx * d.x_stride + y // d.idy * d.y_stride + cb * d.cb_stride
        return dict(row_pad=0, row_addr=word % SPACE)
    return dict(row_pad=1) | (dict(row_pad_byte=d.pad) if d.dtype == INT8 else {})


def rows_of(d, index: int) -> list[dict]:
    """What each row of a descriptor should show; what is not in it may be anything."""
    always = dict(row_half=d.half, row_float=int(d.dtype != INT8), row_skip=d.skip_special, row_depthwise=d.depthwise)
    always |= dict(row_index=index) | (dict(row_fp16=int(d.dtype == FP16)) if d.dtype != INT8 else {})
    out = positions(d) if d.depthwise else blocks(d)
    out = [always | row | dict(row_last=0) for row in out]
    out[-1]["row_last"] = 1
    return out


def blocks(d) -> list[dict]:
    out = []
    for cb, ky, kx in ((cb, ky, kx) for cb in range(d.ncb) for ky in range(d.ky) for kx in range(d.kx)):
        for y, x in ((y, x) for y in range(d.ny) for x in range(d.nx)):
            row = place(d, d.ox + x * d.sx + kx * d.dx, d.oy + y * d.sy + ky * d.dy, cb)
            row |= dict(row_emit=1, row_acc=d.acc_base + y * d.nx + x, row_first=int(d.first and not cb + ky + kx))
            out.append(row | dict(row_end=int((y, x) == (d.ny - 1, d.nx - 1))))
    return out


def positions(d) -> list[dict]:
    """A sum is complete at the last position that it needs."""
    across, down = d.sx // d.dx, d.sy // d.dy
    width, height = (d.nx - 1) * across + d.kx, (d.ny - 1) * down + d.ky
    ends = {(x * across + d.kx - 1, y * down + d.ky - 1): y * d.nx + x for y in range(d.ny) for x in range(d.nx)}
    out = []
    for j, i in ((j, i) for j in range(height) for i in range(width)):
        row = place(d, d.ox + i * d.dx, d.oy + j * d.dy, 0)
        row |= dict(row_emit=int((i, j) in ends), row_end=int((j, i) == (height - 1, width - 1)))
        row |= dict(row_x=i, row_kx=d.kx, row_ky=d.ky, row_extra=d.extra_cells)
        out.append(row | (dict(row_acc=d.acc_base + ends[i, j], row_first=d.first) if (i, j) in ends else {}))
    return out


def long_ones(r) -> list[list[int]]:
    """More than 8 bits of channel blocks, all 8 of the kernel."""
    one = dict(nx=1, ny=1, kx=1, ky=1, ncb=1)
    sizes = (dict(kx=255), dict(ky=255), dict(ncb=256), dict(ncb=257))
    return [programs(r, 1, lambda r, size=size: draw(r, **one | size))[0] for size in sizes]


def programs(r, count: int, *draws) -> list[list[int]]:
    """Legal ones of at most MOST rows."""
    out = []
    while len(out) < count:
        words = layout.encode("MATRIX", **r.choice(draws)(r))
        d = layout.decode(words)
        if not check(d, CONFIG) and (d.depthwise or d.nx * d.ny * d.kx * d.ky * d.ncb <= MOST):
            out.append(words)
    return out


class Bench:
    """Offers descriptors, takes rows, and knows in which cycle each of them should be there."""

    def __init__(self, dut, name: str):
        self.rig, self.fall = Rig(dut, name), FallingEdge(dut.clk)

    async def load(self, programs: list) -> None:
        """Behind a reset, whatever ran before it."""
        self.programs, self.given, self.ready, self.shown = programs, 0, [], -1
        decoded = [layout.decode(words) for words in programs]
        self.slow = [(d.idx, d.idy) != (1, 1) for d in decoded]
        rows = [rows_of(d, ring_count(number)) for number, d in enumerate(decoded)]
        self.left = [(number, row) for number, content in enumerate(rows) for row in content][::-1]
        await self.rig.reset(in_valid=0, row_take=0)
        self.free = self.rig.cycles  # since when the row register is

    async def cycle(self, offer: int, take: int) -> None:
        rig = self.rig
        offer = int(offer and self.given < len(self.programs))
        rig.offer(self.programs[self.given] if offer else None, self.given)
        await self.fall
        rig.set("row_take", int(take and rig.get("row_valid")))
        await rig.cycle()
        self.look()
        room = rig.get("in_ready")
        assert room or self.shown < self.given - 1, f"no room behind the running one (cycle {rig.cycles}, {SEED=})"
        if offer and room:
            self.ready.append(rig.cycles + 1 + LATENCY + DIVISION * self.slow[self.given])
            self.given += 1

    def look(self) -> None:
        """A row is there once the one before is taken, the first of a descriptor not before its set-up is over."""
        rig = self.rig
        number, row = self.left[-1] if self.left else (self.given, {})
        there = number < self.given and rig.cycles >= max(self.free, self.ready[number])
        rig.expect(rig.get("row_valid"), int(there), "row_valid")
        if there:
            self.shown = number
            rig.expect({name: rig.get(name) for name in row}, row, f"a row of descriptor {number}")
            if rig.held["row_take"]:
                self.left.pop()
                self.free = rig.cycles + 1


async def run(dut, name: str, count: int, eager: float, take: float, *draws, long: bool = False):
    bench = Bench(dut, name)
    rig = bench.rig
    chosen = programs(rig.random, count, *draws) + (long_ones(rig.random) if long else [])
    rig.random.shuffle(chosen)
    await bench.load(chosen)
    limit = rig.cycles + round((30 * count + len(bench.left)) * 3 / min(eager, take))
    while bench.left:
        await bench.cycle(rig.chance(eager), rig.chance(take))
        assert rig.cycles < limit, f"{len(bench.left)} rows left after {rig.cycles} cycles"
    assert rig.checks > count, "too few rows"
    for _ in range(20):
        await bench.cycle(0, 1)


@cocotb.test()
async def nothing_waits(dut):
    await run(dut, "nothing waits", scaled(160), 1.0, 1.0, draw, draw, transposed, long=True)


@cocotb.test()
async def windows(dut):
    await run(dut, "windows", scaled(40), 1.0, 0.9, window)


@cocotb.test()
async def all_wait(dut):
    await run(dut, "all wait", scaled(60), 0.05, 0.5, draw, transposed, window)


@cocotb.test()
async def a_reset_ends_it(dut):
    """In the middle of a division, of a row that waits, of another behind it."""
    bench = Bench(dut, "reset")
    r = bench.rig.random
    for _ in range(scaled(25)):
        await bench.load(programs(r, 4, draw, window))
        for _ in range(r.randrange(60)):
            await bench.cycle(bench.rig.chance(0.5), bench.rig.chance(0.6))
