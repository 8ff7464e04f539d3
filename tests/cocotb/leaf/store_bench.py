# SPDX-License-Identifier: Apache-2.0
"""presil_store alone: random STOREs at the sizes where something changes, scratchpad and bus that make it wait."""

import cocotb
from oracle import engines, layout
from rig import ADDRESS_MASK, CONFIG, WORD, WORDS, Feeder, ReadPort, Rig, Scratchpad, Watched, executed, near
from rig import outside, run_out, scaled

DRAM_BYTES, BASE = 1 << 16, 0x12_FFFF_8000  # the image crosses 4 GiB


def draw(r) -> dict:
    """Fields of a STORE; some break a rule or leave their memory, which the oracle tells."""
    unit = r.choice((WORD, WORD, WORD, 1 << r.randrange(WORD.bit_length())))
    piece = near(r, 1, (1, unit, unit, CONFIG.lanes), 1)
    chunk = near(r, 1, (1, piece, 2 * piece, WORD, 4096), 1)
    n = [r.choice((1, 1, 2, 3)), r.choice((1, 2, 5)), r.choice((1, 1, 2)), r.choice((1, 1, 3))]
    if r.random() < 0.1:
        n, chunk = [1, 1, 1, 1], near(r, 1, (1, WORD), 1)
        n[r.randrange(4)] = 70
    while chunk * n[0] * n[1] * n[2] * n[3] > 4500:
        n[max(range(4), key=lambda i: n[i])] = 1
    row, pieces = n[0] * chunk, -(-chunk // piece)
    address = BASE + near(r, r.choice((1, 1, WORD)), (4096, 8192 - WORD, DRAM_BYTES // 2, DRAM_BYTES // 2 - row))
    strides = [r.choice((row, -row, row + 1, 4096, 0)) for _ in range(3)]
    steps = [near(r, unit, (0, WORD, WORD, pieces * WORD, -WORD), -(1 << 20)) for _ in range(5)]
    base = near(r, unit, (0, WORD * CONFIG.banks, WORD * (WORDS - 1), WORD * WORDS // 2)) + r.choice((0, 0, 1, 3))
    f = dict(addr=address, chunk_bytes=chunk, word_bytes=piece, sp_base=base)
    f |= {f"n{k}": count for k, count in enumerate(n)} | {f"ds{k + 1}": s for k, s in enumerate(strides)}
    return f | dict(zip(("sw", "ss0", "ss1", "ss2", "ss3"), steps), ordered=r.getrandbits(1))


class Bus:
    """Takes bursts and their beats in order, never a beat ahead of its burst; responses come late."""

    def __init__(self, rig: Rig, ready: float, answer: float):
        self.rig, self.ready, self.answer = rig, ready, answer
        self.beats, self.waiting, self.bytes, self.unanswered = [], 0, {}, {}
        self.bursts, self.order = {}, []
        for name in ("burst_ready", "beat_ready", "response"):
            rig.set(name, 0)

    def step(self) -> None:
        rig = self.rig
        if rig.held["burst_ready"] and rig.get("burst_valid"):
            first, count, index = rig.get("burst_beat"), rig.get("burst_len") + 1, rig.get("burst_index")
            assert first * WORD % 4096 + count * WORD <= 4096, f"a burst of {count} at {first * WORD:#x} crosses 4 KiB"
            self.beats += [(index, beat, beat == first + count - 1) for beat in range(first, first + count)]
            self.unanswered[index] = self.unanswered.get(index, 0) + 1
            self.bursts[index] = self.bursts.get(index, 0) + 1
        if rig.held["beat_ready"] and rig.get("beat_valid"):
            self.take(*self.beats.pop(0))
        if rig.held["response"]:
            self.unanswered[self.order.pop(0)] -= 1
        rig.set("burst_ready", rig.chance(self.ready))
        rig.set("beat_ready", int(bool(self.beats)) and rig.chance(self.ready))
        rig.set("response", int(bool(self.order)) and rig.chance(self.answer))

    def take(self, index: int, beat: int, last: bool) -> None:
        rig = self.rig
        data, strobe = rig.get("beat_data").to_bytes(WORD, "little"), rig.get("beat_strb")
        rig.expect(rig.get("beat_bytes"), strobe.bit_count(), "beat_bytes")
        mine = self.bytes.setdefault(index, {})
        for k in range(WORD):
            if strobe >> k & 1:
                mine.setdefault(beat * WORD + k & ADDRESS_MASK, []).append(data[k])
        if last:
            self.order.append(index)


async def compare(dut, name: str, count: int, eager: float, ready: float, answer: float):
    rig = Rig(dut, name)
    r, memory = rig.random, Watched(rig.random, DRAM_BYTES, BASE)
    programs, written, reads = [], [], []
    while len(programs) < count:
        words = executed("STORE", engines.store, draw(r), memory)
        if words:
            programs.append(words)
            written.append(memory.written)
            reads.append(memory.spad_read + (reads[-1] if reads else 0))
    await rig.reset(halt=0)
    feeder = Feeder(rig, programs, eager)
    port = ReadPort(rig, "st", Scratchpad(memory.spad).word, ready)
    bus = Bus(rig, ready, answer)
    ordered = [layout.decode(words).ordered for words in programs]

    def step():
        port.step()
        bus.step()
        if feeder.step():
            k = feeder.done - 1
            assert port.grants >= reads[k], f"STORE {k} done before it has read all"
            left = [i for i in range(k + 1) if bus.unanswered.get(feeder.index(i), 1 if ordered[k] else 0)]
            rig.expect(left[:1] if ordered[k] else [], [], f"STOREs without a response when ordered STORE {k} is done")
        rig.expect(rig.get("err_valid"), 0, "an error")

    await run_out(rig, feeder, step)
    rig.expect(bus.beats, [], "beats without data")
    for k, want in enumerate(written):
        got = bus.bytes.get(feeder.index(k), {})
        rig.expect({a: values[-1] for a, values in got.items()}, want, f"bytes of STORE {k}")


@cocotb.test()
async def nothing_waits(dut):
    await compare(dut, "nothing waits", scaled(60), 1.0, 1.0, 1.0)


@cocotb.test()
async def all_wait(dut):
    await compare(dut, "all wait", scaled(30), 0.5, 0.5, 0.3)


@cocotb.test()
async def late_responses(dut):
    await compare(dut, "late responses", scaled(30), 1.0, 0.9, 0.02)


@cocotb.test()
async def outside_the_scratchpad(dut):
    rig = Rig(dut, "outside")
    r, memory = rig.random, Watched(rig.random, DRAM_BYTES, BASE)
    for _ in range(scaled(12)):
        words, address = outside("STORE", engines.store, lambda: draw(r), memory)
        await rig.reset(halt=0)
        feeder, bus = Feeder(rig, [words], 1.0), Bus(rig, 0.9, 0.5)
        port = ReadPort(rig, "st", Scratchpad(memory.spad).word, 0.9)
        while not rig.get("err_valid"):
            await rig.cycle()
            for part in (port, bus, feeder):
                part.step()
            assert not feeder.over and rig.cycles < 200_000, "no error"
        rig.expect(rig.get("err_index"), feeder.index(0), "the error's descriptor")
        rig.expect(rig.get("err_addr"), address & 0xFFFFFFFF, "the error's address")
        rig.set("halt", 1)
        for _ in range(3):
            await rig.cycle()
        rig.expect((rig.status("idle"), rig.get("burst_valid"), rig.get("st_valid")), (1, 0, 0), "state after a halt")
