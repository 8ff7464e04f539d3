# SPDX-License-Identifier: Apache-2.0
"""presil_load alone: random LOADs at the sizes where something changes, beats and scratchpad that make it wait."""

import cocotb
from oracle import engines
from oracle.support import any32, fp32
from rig import ADDRESS_MASK, CONFIG, WORD, WORDS, Feeder, Rig, Scratchpad, Watched, executed, near, outside, run_out
from rig import scaled

DRAM_BYTES, BASE = 1 << 16, 0xAB_FFFF_8000  # the image crosses 4 GiB


def draw(r) -> dict:
    """Fields of a LOAD; some break a rule or leave their memory, which the oracle tells."""
    conv, transpose = r.choice((0, 0, 1, 2, 3)), int(r.random() < 0.3)
    log2 = r.randrange(3)
    unit = 4 if conv else 1 << log2 if transpose else 1
    limit = 2 * WORD if conv else WORD
    piece = near(r, unit, (unit, limit // 2, limit, limit, limit), unit)
    points = (unit, limit) if transpose else (unit, piece, limit, 2 * WORD, 15 * WORD, 40 * WORD, 4096)
    chunk = near(r, unit, points, unit)
    n = [r.choice((1, 1, 2, 3)), r.choice((1, 2, 5)), r.choice((1, 1, 2)), r.choice((1, 1, 3))]
    if transpose:
        n[:2] = [1, near(r, 1, (1, CONFIG.lanes // (2 if conv else unit)), 1)]
    elif r.random() < 0.1:
        n = [1, 1, 1, 1]
        n[r.randrange(4)], chunk = 70, unit
    while chunk * n[0] * n[1] * n[2] * n[3] > 5000:
        n[max(range(4), key=lambda i: n[i])] = 1
    pos0 = near(r, unit, (0, 0, 0, -chunk, 4 * unit), -2 * chunk)
    step0 = near(r, unit, (0, unit, chunk - unit, chunk, 2 * chunk))
    row = near(r, unit, (0, 1, pos0 + (n[0] - 1) * step0 + chunk, pos0 + chunk, 4096), 0)
    strides = [r.choice((0, row, 4096, -WORD, r.randint(-99, 99))) for _ in range(3)]
    address = BASE + near(r, r.choice((1, 1, 4, WORD)), (4096, 8192 - WORD, DRAM_BYTES // 2, DRAM_BYTES // 2 - row))
    grid = WORD if transpose else 2 if conv else r.choice((1, WORD))
    pieces = -(-chunk // piece)
    steps = [near(r, grid, (0, WORD, WORD, pieces * WORD, -WORD), -(1 << 20)) for _ in range(5)]
    base = near(r, grid, (0, WORD * CONFIG.banks, WORD * (WORDS - 1), WORD * WORDS // 2, WORD * WORDS // 3))
    f = dict(conv=conv, transpose=transpose, esize_log2=log2, addr=address)
    f |= dict(row_bytes=row, pos0=pos0, step0=step0, chunk_bytes=chunk, word_bytes=piece, pad=r.getrandbits(32))
    f |= {f"n{k}": count for k, count in enumerate(n)} | {f"ds{k + 1}": s for k, s in enumerate(strides)}
    f |= dict(zip(("sw", "ss0", "ss1", "ss2", "ss3"), steps), sp_base=base)
    if r.random() < 0.3:
        f |= dict(row_limit=r.choice((1, 2, 4)), rp0=r.randint(-2, 2), rp1=r.randint(-1, 1), rp2=r.randint(-2, 2))
        f["rp3"] = r.randint(-2, 2)
    return f


def image(r) -> bytes:
    """Floats of every kind, and anything."""
    out = [r.choice((any32(r), any32(r), fp32(r) & 0xFFFF0000 | 0x8000)) for _ in range(DRAM_BYTES // 4)]
    return b"".join(value.to_bytes(4, "little") for value in out)


def beats(reads) -> set:
    """Beats that hold the bytes of (address, count)."""
    return {beat for a, count in reads for beat in range(a // WORD, (a + count - 1) // WORD + 1)}


class Bus:
    """Answers bursts in order with the image's beats, and keeps the beats by descriptor."""

    def __init__(self, rig: Rig, dram: bytes, ready: float, valid: float):
        self.rig, self.dram, self.ready, self.valid = rig, dram, ready, valid
        self.queue, self.seen, self.offered = [], {}, False
        rig.set("burst_ready", 0)
        rig.set("rvalid", 0)

    def step(self) -> None:
        rig = self.rig
        if rig.held["burst_ready"] and rig.get("burst_valid"):
            first, count = rig.get("burst_beat"), rig.get("burst_len") + 1
            assert first * WORD % 4096 + count * WORD <= 4096, f"a burst of {count} at {first * WORD:#x} crosses 4 KiB"
            self.queue += range(first, first + count)
            self.seen.setdefault(rig.get("burst_index"), []).extend(range(first, first + count))
        rig.set("burst_ready", rig.chance(self.ready))
        if self.offered and rig.get("rready"):
            self.queue.pop(0)
            self.offered = False
        if not self.offered:
            self.offered = bool(self.queue) and bool(rig.chance(self.valid))
            if self.offered:
                at = (self.queue[0] * WORD - BASE) & ADDRESS_MASK
                assert at < len(self.dram), f"beat {self.queue[0] * WORD:#x} is outside what any descriptor reads"
                rig.set("rdata", int.from_bytes(self.dram[at : at + WORD], "little"))
        rig.set("rvalid", int(self.offered))


class WritePort:
    def __init__(self, rig: Rig, spad: Scratchpad, ready: float):
        self.rig, self.spad, self.ready = rig, spad, ready
        rig.set("ld_ready", 0)

    def step(self) -> None:
        rig = self.rig
        if rig.held["ld_ready"] and rig.get("ld_valid"):
            mask = (1 << WORD) - 1 if rig.get("ld_full") else rig.get("ld_mask")
            self.spad.write(rig.get("ld_addr"), rig.get("ld_data"), mask)
        rig.set("ld_ready", rig.chance(self.ready))


async def compare(dut, name: str, count: int, eager: float, bus_ready: float, valid: float, ready: float):
    rig = Rig(dut, name)
    r, memory = rig.random, Watched(rig.random, DRAM_BYTES, BASE)
    memory.dram[:] = image(r)
    start, programs, reads, touched, after = bytes(memory.spad), [], [], [], []
    while len(programs) < count:
        spad = bytes(memory.spad)
        words = executed("LOAD", engines.load, draw(r), memory)
        if not words:
            memory.spad[:] = spad
            continue
        programs.append(words)
        reads.append(beats(memory.read))
        touched.append(memory.spad_written)
        after.append(bytes(memory.spad))
    spad = Scratchpad(start)
    await rig.reset(halt=0)
    feeder = Feeder(rig, programs, eager)
    bus, port = Bus(rig, bytes(memory.dram), bus_ready, valid), WritePort(rig, spad, ready)

    def step():
        bus.step()
        port.step()
        if feeder.step():
            k = feeder.done - 1
            later = set().union(*touched[k + 1 : k + 9])
            wrong = [a for a in touched[k] - later if spad.bytes[a] != after[k][a]]
            rig.expect(wrong[:1], [], f"LOAD {k}: bytes that are not there when it is done")
        rig.expect(rig.get("err_valid"), 0, "an error")

    await run_out(rig, feeder, step)
    wrong = [a for a in range(len(after[-1])) if spad.bytes[a] != after[-1][a]]
    rig.expect(wrong[:1], [], "bytes of the scratchpad that differ")
    for k, want in enumerate(reads):
        rig.expect(set(bus.seen.get(feeder.index(k), [])), want, f"beats of LOAD {k}")


@cocotb.test()
async def nothing_waits(dut):
    await compare(dut, "nothing waits", scaled(60), 1.0, 1.0, 1.0, 1.0)


@cocotb.test()
async def all_wait(dut):
    await compare(dut, "all wait", scaled(30), 0.5, 0.5, 0.6, 0.5)


@cocotb.test()
async def slow_scratchpad(dut):
    await compare(dut, "slow scratchpad", scaled(20), 1.0, 1.0, 1.0, 0.25)


@cocotb.test()
async def outside_the_scratchpad(dut):
    """The error names descriptor and word; after a halt and a reset it loads again."""
    rig = Rig(dut, "outside")
    r, memory = rig.random, Watched(rig.random, DRAM_BYTES, BASE)
    for _ in range(scaled(12)):
        words, address = outside("LOAD", engines.load, lambda: draw(r), memory)
        await rig.reset(halt=0)
        feeder = Feeder(rig, [words], 1.0)
        bus = Bus(rig, bytes(memory.dram) + bytes(1 << 16), 0.9, 0.9)
        port = WritePort(rig, Scratchpad(bytes(memory.spad)), 0.9)
        while not rig.get("err_valid"):
            await rig.cycle()
            for part in (bus, port, feeder):
                part.step()
            assert not feeder.over and rig.cycles < 200_000, "no error"
        rig.expect(rig.get("err_index"), feeder.index(0), "the error's descriptor")
        rig.expect(rig.get("err_addr"), address & 0xFFFFFFFF, "the error's address")
        rig.set("halt", 1)
        for _ in range(3):
            await rig.cycle()
        rig.expect((rig.status("idle"), rig.get("burst_valid")), (1, 0), "idle and no burst after a halt")
