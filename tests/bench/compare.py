# SPDX-License-Identifier: Apache-2.0
"""Runs random programs on a simulator library and on the C twin, and compares everything that both show: bytes, what
was written where, errors, and counters with what the program says they must be."""

import ctypes
import mmap

import numpy as np
from oracle import layout


from . import chip as chips, kept
from .chip import TransportError
from .programs import BATCH, program, space
from .programs.tokens import ENGINES
from .programs.transfers import load_reads, rows
from .twin import Twin

BUSY, COMMAND, WAIT = 0, 1, 2  # CAUSE; WAIT + engine
WEIGHTS, SCRATCHPAD, BUS_REQUEST, BUS_DATA, BUS_RESPONSE, DRAIN, ERROR = range(7, 14)
PATIENCE, HANG = 3_000_000, 20_000


class Difference(AssertionError):
    """RTL and twin, or RTL and program, disagree."""


def expect(condition, text):
    if not condition:
        raise Difference(text)


class Window:
    """The DRAM window of the programs at a host address, as numpy arrays of its islands."""

    def __init__(self, host, config):
        self.host = host
        size = space.island_bytes(config)
        self.inputs = [self.array(space.input_island(config, k), size) for k in range(space.ISLANDS)]
        size = space.output_bytes(config)
        self.outputs = [self.array(space.output_island(config, k), size) for k in range(space.ISLANDS)]

    def array(self, address, size):
        at = self.host + address - space.WINDOW_BASE
        return np.frombuffer((ctypes.c_uint8 * size).from_address(at), np.uint8)


class Pair:
    """A simulator library and a twin with equal memories."""

    def __init__(self, config, build="fast", seed=1, path=None, start=0):
        self.name, self.build, self.seed = config, build, seed
        self.chip = chips.Chip(path or chips.library(config, build), space.WINDOW_BYTES, space.WINDOW_BASE, seed)
        self.chip.start, self.chip.given = start, None
        self.config = self.chip.config
        self.twin = Twin(config)
        flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | getattr(mmap, "MAP_NORESERVE", 0x4000)
        self._memory = mmap.mmap(-1, space.WINDOW_BYTES, flags=flags)
        self.mine = Window(ctypes.addressof(ctypes.c_uint8.from_buffer(self._memory)), self.config)
        self.its = Window(self.chip.host(), self.config)
        self.launches = 0
        self.before = None
        self.statistics = {"programs": 0, "descriptors": 0, "cycles": 0, "engine cycles": 0}

    def start_batch(self):
        """From reset, so that a batch does not depend on the ones before."""
        self.chip.reset()
        self.chip.inject(None)
        self.chip.head, self.launches = self.chip.start, 0
        self.chip.write("IRQ_ENABLE", 3)
        self.chip.write_log(True)
        for mine, its in zip(self.mine.outputs, self.its.outputs):
            mine[:] = 0
            its[:] = 0

    def batch(self, numbers):
        """The programs of a range, from the beginning of a batch on. A failure tells how to see it again."""
        for number in numbers:
            if number % BATCH == 0:
                self.start_batch()
            p = program(self.name, number)
            try:
                self.run(p)
            except (Difference, TransportError) as error:
                self.keep(p, counted="causes don't add up" in str(error))
                again = f"tests/programs/replay.py {self.name} {number} --build {self.build}"
                raise Difference(f"{p}: {error}\nAgain: .venv/bin/python {again}") from error

    def run(self, p):
        """One program. Raises Difference."""
        for k, index in enumerate(p.images):
            data = np.frombuffer(space.image(p.image_seed, index, len(self.mine.inputs[k])), np.uint8)
            self.mine.inputs[k][:] = data
            self.its.inputs[k][:] = data
        self.first = self.chip.head
        if kept.folder():
            self.before = [a.copy() for a in self.its.outputs]
        self.begin(p)
        if p.expected:
            Broken(self, p).run()
        else:
            self.run_valid(p)

    def keep(self, p, counted=False):
        """A bundle of the program, with memory as it was before it. counted: it ended as it should, and its counters
        are wrong; what they hold may be left over from the program before. Returns what kept.keep() does."""
        broken = p.expected and p.expected.kind in ("error", "hang")
        inputs = [(space.input_island(self.config, k), its) for k, its in enumerate(self.mine.inputs)]
        outputs = (
            [(space.output_island(self.config, k), old) for k, old in enumerate(self.before)] if self.before else []
        )
        contents = [(address, data.tobytes()) for address, data in [*inputs, *outputs]]
        end = space.WINDOW_BASE + space.WINDOW_BYTES
        last = program(self.name, p.number - 1).raw() if p.number % BATCH and (counted or not p.expected) else []
        fault = p.expected.inject if broken and p.expected.inject else ""
        if broken and p.expected.fetch:
            fault = f"slverr@{fetched(self.chip, self.first, p.expected)}"
        raw, name = p.raw(broken=bool(broken)), f"program-{p.number}"
        return kept.keep(self.chip, raw, contents, end, name, last, fault, counted, self.first)

    def twin_runs(self, raw, p, written=None):
        """The twin's error of descriptors on its memory."""
        return self.twin.execute(
            b"".join(raw), self.mine.host, space.WINDOW_BASE, space.WINDOW_BYTES, p.number, written
        )

    def run_valid(self, p):
        raw, written = p.raw(), []
        error = self.twin_runs(raw, p, written)
        expect(not error.code and not error.deadlock, f"the twin refuses a valid program: {error.text.decode()}")
        cycles = self.drive(p, raw)
        self.finished(p)
        self.compare_bytes(p, written)
        self.compare_counters(p, cycles)

    def begin(self, p):
        chip = self.chip
        chip.set_memory_model(p.model, self.seed)
        chip.set_ring(p.ring, p.ring_log2)
        chip.counters()
        self.launches += 1
        chip.launch(self.launches)

    def drive(self, p, raw):
        """Doorbells and the wait; returns the cycles from the first doorbell's write to the interrupt."""
        chip, first = self.chip, self.chip.head
        chip.put(raw, first)
        start = chip.cycles()
        for end, pause in p.doorbells:
            chip.write("RING_TAIL", first + end)
            if pause:
                reason, _ = chip.wait(pause)
                expect(reason != chips.IRQ, f"an interrupt before the last doorbell: {chip.state()}")
        reason, _ = chip.wait(PATIENCE, HANG)
        if reason != chips.IRQ:
            raise Difference(f"no interrupt ({'hung' if reason == chips.HUNG else 'too slow'}): {chip.state()}")
        return chip.cycles() - start

    def finished(self, p):
        chip = self.chip
        expect(chip.read("IRQ_STATUS") == chips.DONE_IRQ, f"IRQ_STATUS {chip.read('IRQ_STATUS')}: {chip.error()}")
        expect(chip.read("STATUS") == 0, f"STATUS {chip.read('STATUS'):#x} after done")
        waits = [chip.read(f"WAIT_MASK{e}") for e in range(4)]
        expect(not any(waits), f"WAIT_MASK {waits} after done")
        chip.head = chip.head + len(p.words) & 0xFFFFFFFF
        expect(chip.read("RING_HEAD") == chip.head, f"RING_HEAD {chip.read('RING_HEAD')}, expected {chip.head}")
        expect(chip.error() == chips.Error("NONE", 0, 0), f"error registers after done: {chip.error()}")
        chip.write("IRQ_CLEAR", chips.DONE_IRQ)
        expect(chip.read("IRQ_STATUS") == 0, "IRQ_CLEAR.done does not clear")

    def compare_bytes(self, p, written):
        for k, (want, got) in enumerate(zip(self.mine.outputs, self.its.outputs)):
            if not np.array_equal(want, got):
                at = np.flatnonzero(want != got)
                address = space.output_island(self.config, k) + at[0]
                raise Difference(
                    f"{len(at)} bytes differ, the first at {address:#x}: RTL {got[at[0]]:#04x}, twin "
                    f"{want[at[0]]:#04x}; "
                    f"written by {writers(p, address)}"
                )
        for k, index in enumerate(p.images):
            data = np.frombuffer(space.image(p.image_seed, index, len(self.its.inputs[k])), np.uint8)
            expect(np.array_equal(self.its.inputs[k], data), "the chip wrote into its input")
        want, got = union(written), self.chip.written()
        expect(want == got, f"bytes written: RTL {differing(got, want)}, expected {differing(want, got)}")

    def compare_counters(self, p, cycles):
        causes, named = self.chip.counters()
        word, total = self.config.word_bytes, named["cycles"]
        loads = [op.fields for op in p.operations if op.kind == "LOAD"]
        stores = [op.fields for op in p.operations if op.kind == "STORE"]
        reads = [run for f in loads for run in load_reads(f, word)]
        writes = [(a, f["n0"] * f["chunk_bytes"]) for f in stores for a in rows(f)]
        wanted = {
            "launches": 1,
            "descriptors": len(p.words),
            "fetch_beats": len(p.words) * 128 // word,
            "read_beats": beats(reads, word),
            "read_bytes": beats(reads, word) * word,
            "write_beats": beats(writes, word),
            "write_bytes": sum(count for _, count in writes),
        }
        for name, value in wanted.items():
            expect(named[name] == value, f"counter {name} {named[name]}, expected {value}")
        expect(0 <= cycles - total <= 8, f"counter cycles {total}, but {cycles} from doorbell to interrupt")
        for e, name in enumerate(("LOAD", "MATRIX", "EPILOGUE", "STORE", "VECTOR")):
            self.check_causes(p, e, name, causes[e], total)
        matrices = [op.fields for op in p.operations if op.kind == "MATRIX"]
        streamed = sum(map(activations, matrices))
        descriptors = len(matrices)
        expect(
            streamed <= causes[1][BUSY] <= streamed + 2 * descriptors,
            f"MATRIX busy {causes[1][BUSY]} cycles with {streamed} rows of {descriptors} descriptors",
        )
        if descriptors:
            expect(
                0 < named["matrix_first"] <= named["matrix_last"] - streamed + 2 * descriptors,
                "matrix_first, matrix_last",
            )
            expect(named["matrix_last"] < total, f"matrix_last {named['matrix_last']} of {total} cycles")
        s = self.statistics
        s["programs"] += 1
        s["descriptors"] += len(p.words)
        s["cycles"] += total
        s["engine cycles"] += sum(total - sum(causes[e][COMMAND : WAIT + 5]) for e in range(4))

    def check_causes(self, p, e, name, causes, total):
        expect(sum(causes) == total, f"{name}'s causes add up to {sum(causes)} of {total} cycles: {causes}")
        allowed = {COMMAND}
        mine = [op for op in p.operations if op.kind == name]
        if mine:
            allowed |= {BUSY, DRAIN, SCRATCHPAD}
            allowed |= {WAIT + t // 4 for op in mine for t in range(20) if op.wait >> t & 1}
            allowed |= {"LOAD": {BUS_REQUEST, BUS_DATA}, "STORE": {BUS_REQUEST, BUS_DATA, BUS_RESPONSE}}.get(
                name, set()
            )
            allowed |= {WEIGHTS} if name == "MATRIX" else set()
        used = {cause for cause, value in enumerate(causes) if value}
        expect(used <= allowed, f"{name} has cycles of causes {sorted(used - allowed)}: {causes}")


class Broken:
    """One run of a program that must not end well (programs.broken)."""

    def __init__(self, pair, p):
        self.pair, self.p, self.fault, self.chip = pair, p, p.expected, pair.chip
        self.head = self.chip.head

    def run(self):
        raw, old = self.p.raw(broken=True), [a.copy() for a in self.pair.mine.outputs]
        predicted = self.pair.twin_runs(raw, self.p)
        self.agree(predicted)
        for mine, its in zip(self.pair.mine.outputs, old):
            mine[:] = its
        if self.fault.exact:
            error = self.pair.twin_runs(self.p.raw(), self.p)
            expect(not error.code and not error.deadlock, f"the twin refuses the sound program: {error.text.decode()}")
        getattr(self, self.fault.kind)(raw)
        self.chip.inject(None)
        self.check_bytes(old)
        written = sum(count for _, count in self.chip.written())
        if self.fault.kind == "error" and self.fault.exact and self.fault.loose is None and not self.fault.inject:
            # The beat that is on its way when the chip stops is written, and not counted.
            bytes_, word = self.counted, self.pair.config.word_bytes
            expect(bytes_ <= written <= bytes_ + word, f"write_bytes {bytes_}, but {written} bytes were written")
        s = self.pair.statistics
        kind = self.shown.code if self.fault.kind in ("error", "ring") else self.fault.kind
        s[kind] = s.get(kind, 0) + 1

    def agree(self, predicted):
        """The twin says what the program was made for; where it was made for the twin to say, takes that."""
        fault = self.fault
        unseen = fault.inject or fault.fetch or fault.kind in ("cancel", "ring")
        codes = {v: k for k, v in layout.generated().ENUMS["ERROR"].items()}
        says = (codes[predicted.code], predicted.index, predicted.address) if predicted.code else None
        if unseen:
            expect(not says and not predicted.deadlock, f"the twin says {says}")
        elif fault.kind == "hang":
            expect(predicted.deadlock, f"the twin sees no deadlock but {says}")
            self.waiting = predicted.index
        elif fault.errors is None:
            expect(says and says[:2] == ("SPAD_RANGE", fault.at), f"the twin says {says}, not SPAD_RANGE at {fault.at}")
            fault.errors = [says]
        else:
            expect(says in fault.errors, f"the twin says {says}, expected {fault.errors}")

    def start(self, raw):
        chip = self.chip
        chip.put(raw, chip.head)
        if self.fault.fetch:
            address = fetched(chip, chip.head, self.fault)
            self.fault.errors = [("FETCH_BUS", self.fault.fetch[0], address)]
            chip.inject(f"slverr@{address}")
        elif self.fault.inject:
            chip.inject(self.fault.inject)
        chip.write("RING_TAIL", chip.head + len(raw))

    def error(self, raw):
        chip = self.chip
        self.start(raw)
        reason, _ = chip.wait(PATIENCE, HANG)
        expect(reason == chips.IRQ, f"no interrupt: {chip.state()}")
        wanted = [chips.Error(code, self.head + at & 0xFFFFFFFF, address) for code, at, address in self.fault.errors]
        self.check_counters()
        self.stopped(wanted)

    def check_counters(self):
        """Every cycle is charged also where a launch ends early; what decode refuses is not handed over."""
        causes, named = self.chip.counters()
        self.counted = named["write_bytes"]
        handed = self.chip.read("RING_HEAD") - self.head & 0xFFFFFFFF
        expect(named["descriptors"] == handed, f"{named['descriptors']} descriptors counted, RING_HEAD says {handed}")
        for e, name in enumerate((*ENGINES, "VECTOR")):
            expect(sum(causes[e]) == named["cycles"], f"{name}'s causes don't add up to {named['cycles']}: {causes[e]}")
        error = self.chip.error()
        if error.code in ("OPCODE", "VERSION", "FIELD"):
            expect(self.head + handed & 0xFFFFFFFF == error.index, f"{error}, but {handed} descriptors handed over")

    def stopped(self, wanted):
        """The chip has stopped with one of these errors, and stays so until the queue is reset."""
        chip = self.chip
        self.shown = chip.error()
        expect(self.shown in wanted, f"{self.shown}; expected {' or '.join(map(str, wanted))}")
        expect(chip.read("IRQ_STATUS") == chips.ERROR_IRQ, f"IRQ_STATUS {chip.read('IRQ_STATUS')} after an error")
        status = chip.read("STATUS")
        expect(status & 3 == chips.ERROR, f"STATUS {status:#x} after an error")
        causes = chip.read("WAIT_CAUSE")
        expect(all(causes >> 4 * e & 15 == ERROR for e in range(4)), f"WAIT_CAUSE {causes:#x} after an error")
        chip.write("IRQ_CLEAR", chips.DONE_IRQ)
        expect(chip.read("IRQ_STATUS") == chips.ERROR_IRQ, "IRQ_CLEAR.done cleared the error")
        if self.p.number % 2:
            chip.write("IRQ_CLEAR", chips.ERROR_IRQ)
            expect(chip.read("IRQ_STATUS") == 0, "IRQ_CLEAR.error does not clear")
            expect(chip.read("STATUS") == status, "IRQ_CLEAR changed STATUS")
        if self.p.number % 3 == 0:
            chip.write("RING_TAIL", self.head + 1)
            reason, _ = chip.wait(300)
            expect(reason == chips.IRQ or self.p.number % 2, "an interrupt is gone")
            expect(chip.read("STATUS") == status, "a doorbell after an error is not ignored")
        expect(chip.error() == self.shown, f"the first error does not stay: {self.shown}, then {chip.error()}")
        self.reset()

    def reset(self):
        chip = self.chip
        chip.queue_reset()
        for name, value in (("STATUS", 0), ("RING_HEAD", chip.start), ("RING_TAIL", 0), ("IRQ_STATUS", 0)):
            expect(chip.read(name) == value, f"{name} {chip.read(name):#x} after a queue reset")
        expect(chip.error() == chips.Error("NONE", 0, 0), f"{chip.error()} after a queue reset")
        for e in range(4):
            tokens = chip.read(f"WAIT_TOKENS{e}")
            expect(tokens == 0, f"WAIT_TOKENS{e} {tokens:#x} after a queue reset")

    def hang(self, raw):
        chip = self.chip
        self.start(raw)
        reason, _ = chip.wait(PATIENCE, 4000)
        expect(reason == chips.HUNG, f"expected a wait for ever, found {chip.state()}")
        op = self.p.operations[self.waiting]
        e = ENGINES.index(op.kind)
        index, mask = chip.read(f"WAIT_INDEX{e}"), chip.read(f"WAIT_MASK{e}")
        expect((index, mask) == (self.head + self.waiting & 0xFFFFFFFF, op.wait), f"{op.kind} waits: {chip.state()}")
        expect(chip.read("STATUS") & 3 == chips.BUSY, f"STATUS {chip.read('STATUS'):#x} of a chip that waits")
        self.reset()

    def cancel(self, raw):
        self.start(raw)
        self.chip.wait(self.fault.after)
        self.reset()

    def ring(self, raw):
        chip, size = self.chip, 1 << self.chip.ring_log2
        running = self.p.number % 2
        if running:
            self.start(raw)
        chip.write("RING_TAIL", chip.head + size + (len(raw) if running else 0) + self.fault.excess)
        reason, _ = chip.wait(PATIENCE, HANG)
        expect(reason == chips.IRQ, f"no interrupt: {chip.state()}")
        heads = range(self.head, self.head + len(raw) + 1) if running else (self.head,)
        self.stopped([chips.Error("RING", head & 0xFFFFFFFF, 0) for head in heads])

    def check_bytes(self, old):
        """Every byte is the old one or the sound program's; the twin's memory takes what the chip left."""
        loose = self.fault.loose
        for k, its in enumerate(self.pair.its.outputs):
            wrong = (its != old[k]) & (its != self.pair.mine.outputs[k])
            first = space.output_island(self.pair.config, k)
            if loose is not None:
                for _, a, b in self.p.operations[loose].writes:
                    wrong[max(0, a - first) : max(0, b - first)] = False
            if self.fault.exact and wrong.any():
                address = first + int(np.flatnonzero(wrong)[0])
                raise Difference(f"byte {address:#x} is neither old nor new; written by {writers(self.p, address)}")
            self.pair.mine.outputs[k][:] = its


def fetched(chip, first: int, fault) -> int:
    """The address that a fault of a fetch is of, where the program begins at the ring's count `first`."""
    at, beat = fault.fetch
    return chip.ring + 128 * ((first + at) % (1 << chip.ring_log2)) + beat * chip.config.word_bytes


def beats(runs, word):
    return sum((first + count - 1) // word - first // word + 1 for first, count in runs)


def activations(f):
    """Cycles that a MATRIX takes: activations of its blocks, or the positions of its window."""
    if not f.get("depthwise"):
        return f["nx"] * f["ny"] * f["kx"] * f["ky"] * f["ncb"]
    return ((f["nx"] - 1) * f["sx"] // f["dx"] + f["kx"]) * ((f["ny"] - 1) * f["sy"] // f["dy"] + f["ky"])


def union(ranges):
    out = []
    for first, count in sorted(ranges):
        if out and first <= out[-1][0] + out[-1][1]:
            out[-1][1] = max(out[-1][1], first + count - out[-1][0])
        else:
            out.append([first, count])
    return [tuple(x) for x in out]


def differing(a, b):
    return [f"{first:#x}+{count}" for first, count in sorted(set(a) - set(b))[:3]]


def writers(p, address):
    """Ring positions of the STOREs that write a byte."""
    found = []
    for i, op in enumerate(p.operations):
        if op.kind == "STORE":
            size = op.fields["n0"] * op.fields["chunk_bytes"]
            if any(a <= address < a + size for a in rows(op.fields)):
                found.append(i)
    return f"descriptor {', '.join(map(str, found)) or 'none'}"
