# SPDX-License-Identifier: Apache-2.0
"""A chip without time: executes descriptors (isa.md) on a DRAM image, engine by engine as the tokens allow.

    machine = Machine("tiny", dram=bytearray(1 << 16))
    result = machine.launch([encode("LOAD", ...), ...])       # result.error, result.hang, result.undefined;
    machine.memory.dram

Each descriptor is executed as a whole when its tokens are there; `schedule` (a random.Random) picks among the engines
that can start, so that a launch whose result depends on the order shows as different results. What the contract
leaves open is followed as 'undefined' byte by byte: compare only bytes with machine.memory.dram_defined set.
"""

import math
from collections import deque
from dataclasses import dataclass, field

from . import layout, numerics
from .engines import ELEMENT_BYTES, ENGINES, ChipError

QUEUE = 4  # descriptors an engine's queue holds
TOKEN_LIMIT = 255
WINDOW_PAGE, WINDOW_ENABLE, WINDOW_READ, WINDOW_WRITE = (1 << 28) - 1, 1 << 28, 1 << 29, 1 << 30
OPERAND_TYPES = ("INT8", *numerics.FORMATS)
OWNERS = ("LOAD", "MATRIX", "EPILOGUE", "STORE")  # of the token counters, four each


class Memory:
    """DRAM, scratchpad and accumulators with a defined flag for every byte and cell. DRAM keeps its flags from launch
    to launch."""

    def __init__(self, config, dram, base=0):
        self.config, self.dram, self.base = config, dram, base
        self.dram_defined = dram.like(1) if hasattr(dram, "like") else bytearray(b"\1") * len(dram)
        self.windows = []  # (WINDOWn_FIRST, WINDOWn_LAST)
        self.spad_bytes = config.banks * config.bank_words * config.word_bytes
        self.start_launch()

    def start_launch(self):
        """Section 1: scratchpad and accumulators are undefined at the start of a launch."""
        self.spad, self.spad_defined = bytearray(self.spad_bytes), bytearray(self.spad_bytes)
        self.accumulators = [[[None] * self.config.cells for _ in range(self.config.acc_rows)] for _ in range(2)]
        self.undefined, self.index = [], 0

    def note(self, what, address, flags):
        if not all(flags):
            self.undefined.append((self.index, what, address + list(flags).index(0)))

    def check_windows(self, address, count, permit):
        """Section 1: of each page that is touched; address as the burst's in it, which begins at a beat."""
        if not any(last & WINDOW_ENABLE for _, last in self.windows):
            return
        pages = [(first, last & WINDOW_PAGE) for first, last in self.windows if last & WINDOW_ENABLE and last & permit]
        for page in range(address >> 12, (address + count - 1 >> 12) + 1):
            if not any(first <= page & WINDOW_PAGE <= last for first, last in pages):
                word = self.config.word_bytes
                raise ChipError("WINDOW", max(address // word * word, page << 12) & (1 << 40) - 1)

    def read_dram(self, address, count):
        """(values, flags); the range is read in whole beats."""
        self.check_windows(address, count, WINDOW_READ)
        word = self.config.word_bytes
        first, last = address // word * word, -(-(address + count) // word) * word
        if first < self.base:
            raise ChipError("READ_BUS", first)
        if last > self.base + len(self.dram):
            raise ChipError("READ_BUS", max(first, (self.base + len(self.dram)) // word * word))
        at = address - self.base
        return self.dram[at : at + count], self.dram_defined[at : at + count]

    def write_dram(self, address, content):
        self.check_windows(address, len(content), WINDOW_WRITE)
        for k, (value, defined) in enumerate(content):
            at = address + k - self.base
            if not 0 <= at < len(self.dram):
                raise ChipError("WRITE_BUS", (address + k) // self.config.word_bytes * self.config.word_bytes)
            self.dram[at], self.dram_defined[at] = value, defined

    def check_spad(self, address):
        if not 0 <= address < self.spad_bytes:
            raise ChipError("SPAD_RANGE", address // self.config.word_bytes * self.config.word_bytes)

    def write_spad(self, address, content):
        """Bytes [(value, defined)] within one word."""
        self.check_spad(address)
        end = address + len(content)
        self.spad[address:end], self.spad_defined[address:end] = (
            bytes(v for v, _ in content),
            bytes(d for _, d in content),
        )

    def read_spad(self, address, count):
        """Bytes [(value, defined)] within one word."""
        self.check_spad(address)
        end = address + count
        self.note("scratchpad", address, self.spad_defined[address:end])
        return list(zip(self.spad[address:end], self.spad_defined[address:end]))

    def read_spad_row(self, address, count):
        word, out = self.config.word_bytes, []
        while count:
            part = min(count, word - address % word)
            out += self.read_spad(address, part)
            address, count = address + part, count - part
        return out

    def read_word(self, word, whole=False):
        """The first LANES bytes of a scratchpad word (all with `whole`)."""
        size = self.config.word_bytes
        return self.read_spad(word * size, size if whole else self.config.lanes)


@dataclass
class Result:
    """error: (code name, descriptor index, address) or None; hang: what the engines wait for, or None; undefined:
    (index, what, address)
    of reads of undefined bytes; executed: indices in the order of
    execution."""

    error: tuple | None = None
    hang: str | None = None
    undefined: list = field(default_factory=list)
    executed: list = field(default_factory=list)


def check(d, config):
    """Section 1: what the command processor refuses, or None: OPCODE, then VERSION, then FIELD."""
    if d.kind in (None, "VECTOR"):
        return "OPCODE"
    if d.isa != layout.generated().ISA_VERSION:
        return "VERSION"
    counts = (
        "n0",
        "n1",
        "n2",
        "n3",
        "chunk_bytes",
        "word_bytes",
        "nx",
        "ny",
        "kx",
        "ky",
        "ncb",
        "idx",
        "idy",
        "sx",
        "sy",
        "rows",
    )
    if any(getattr(d, name, 1) == 0 for name in counts):
        return "FIELD"
    return "FIELD" if d.reserved or broken_limit(d, config) else None


def broken_limit(d, config):
    """FIELD of section 1, beyond zero counts."""
    if d.kind == "NOP":
        return bool(d.wait or d.signal)
    if d.kind == "MATRIX" and d.dtype not in types(OPERAND_TYPES):
        return True
    if d.kind == "MATRIX":
        broken = broken_depthwise(d, config) if d.depthwise else d.extra_cells > 0
        return d.nx * d.ny + d.acc_base > config.acc_rows or broken
    return {"LOAD": broken_load, "STORE": broken_store, "EPILOGUE": broken_epilogue}[d.kind](d, config)


def types(names):
    """{code: bytes of an element} of the types that a field may have."""
    return {layout.enum("DTYPE", name): ELEMENT_BYTES[name] for name in names}


def broken_depthwise(d, config):
    if max(d.kx, d.ky) > 5 or (d.ncb, d.idx, d.idy) != (1, 1, 1) or d.extra_cells >= config.cells:
        return True
    if d.sx not in (d.dx, 2 * d.dx) or d.sy not in (d.dy, 2 * d.dy):
        return True
    return (d.nx - 1) * d.sx // d.dx + d.kx > 64


def broken_load(d, config):
    word, source, element = config.word_bytes, 4 if d.conv else 1 << d.esize_log2, 2 if d.conv else 1 << d.esize_log2
    if d.conv > 3 or d.step0 < 0 or d.word_bytes > (2 * word if d.conv else word):
        return True
    if d.conv and any(v % 4 for v in (d.row_bytes, d.pos0, d.step0, d.chunk_bytes, d.word_bytes)):
        return True
    if not d.transpose:
        pieces = -(-d.chunk_bytes // d.word_bytes)
        loops = (pieces, d.sw), (d.n0, d.ss0), (d.n1, d.ss1), (d.n2, d.ss2), (d.n3, d.ss3)
        return bool(d.conv) and any(a % 2 for a in (d.sp_base, *used(*loops)))
    columns, rest = divmod(d.chunk_bytes, source)
    addresses = [d.sp_base, *used((columns, d.sw), (d.n2, d.ss2), (d.n3, d.ss3))]
    return (
        source > 4
        or d.n0 != 1
        or d.n1 > config.lanes // element
        or rest != 0
        or columns * element > word
        or any(a % word for a in addresses)
    )


def broken_store(d, config):
    if d.conv or d.word_bytes > config.word_bytes:
        return True
    pieces = -(-d.chunk_bytes // d.word_bytes)
    strides = used((pieces, d.sw), (d.n0, d.ss0), (d.n1, d.ss1), (d.n2, d.ss2), (d.n3, d.ss3))
    block = math.gcd(config.word_bytes, *strides)
    return d.sp_base % block + min(d.chunk_bytes, d.word_bytes) > block


def broken_epilogue(d, config):
    out, res = types(numerics.OUT_TYPES).get(d.out_type), types(numerics.RES_TYPES).get(d.res_type)
    if out is None or d.rows + d.acc_base > config.acc_rows:
        return True
    if broken_rows(d.rows, out, d.out_base, d.out_pitch, config):
        return True
    if d.res_en and (res is None or broken_rows(d.rows, res, d.res_base, d.res_pitch, config)):
        return True
    return bool(d.clamp_en) and any(0 < f & 0x7FFFFFFF < 0x800000 for f in (d.clamp_lo, d.clamp_hi))


def broken_rows(rows, element, base, pitch, config):
    """Rows of CELLS elements that don't begin at a word, or, where one fits in half a word, at a slot of it."""
    count, word = config.cells * element, config.word_bytes
    unit = word if 2 * count > word else 1 << (count - 1).bit_length()
    return any(a % unit for a in (base, *used((rows, pitch))))


def used(*loops):
    """The strides of (count, stride) that are ever added."""
    return [stride for count, stride in loops if count > 1]


class Machine:
    """config: a name of configs.json or a namespace of its keys; dram: the image, changed in place, at DRAM address
    base."""

    def __init__(self, config, dram, base=0):
        self.config = layout.config(config) if isinstance(config, str) else config
        self.memory = Memory(self.config, dram, base)

    def launch_ring(self, ring_base, size, head, tail, schedule=None):
        """The descriptors head..tail-1 (free-running counts) of a ring in DRAM."""
        if size > 1 << 16 or (tail - head) & 0xFFFFFFFF > size:
            return Result(error=("RING", head, 0))
        program = []
        for count in range((tail - head) & 0xFFFFFFFF):
            at = ring_base - self.memory.base + (head + count) % size * 128
            raw = self.memory.dram[at : at + 128]
            program.append([int.from_bytes(raw[i : i + 4], "little") for i in range(0, 128, 4)])
        return self.launch(program, head, schedule)

    def launch(self, program, first_index=0, schedule=None):
        """One launch of descriptors (lists of 32 words)."""
        self.memory.start_launch()
        return Launch(self, program, first_index, schedule).run()


class Launch:
    """The state of a launch: tokens, queues, the command processor's position."""

    def __init__(self, machine, program, first_index, schedule):
        self.machine, self.memory, self.schedule = machine, machine.memory, schedule
        self.program = deque((first_index + i & 0xFFFFFFFF, layout.decode(words)) for i, words in enumerate(program))
        self.queues = {name: deque() for name in OWNERS}
        self.tokens, self.result = [0] * 20, Result()

    def run(self):
        try:
            while True:
                self.dispatch()
                ready = [name for name in OWNERS if self.queues[name] and not self.missing(self.queues[name][0][1])]
                if not ready:
                    break
                self.execute(self.schedule.choice(ready) if self.schedule else ready[-1])
        except ChipError as error:
            self.result.error = (error.code, self.memory.index, error.address)
        else:
            self.result.hang = self.waiting()
        self.result.undefined = self.memory.undefined
        return self.result

    def dispatch(self):
        """Hands descriptors to the queues, in order, until one is full."""
        while self.program:
            index, d = self.program[0]
            self.memory.index = index
            code = check(d, self.machine.config)
            if code:
                raise ChipError(code)
            if d.kind != "NOP":
                if len(self.queues[d.kind]) == QUEUE:
                    return
                self.queues[d.kind].append((index, d))
            self.program.popleft()

    def missing(self, d):
        return [t for t in range(20) if d.wait >> t & 1 and not self.tokens[t]]

    def execute(self, name):
        index, d = self.queues[name].popleft()
        self.memory.index = index
        for t in range(20):
            self.tokens[t] -= d.wait >> t & 1
        ENGINES[name](d, self.memory)
        self.result.executed.append(index)
        first = 4 * OWNERS.index(name)
        for s in range(4):
            self.tokens[first + s] += d.signal >> s & 1
            if self.tokens[first + s] > TOKEN_LIMIT:
                raise ChipError("TOKEN_OVERFLOW")

    def waiting(self):
        """Text for descriptors that never start, or None."""
        stuck = [
            f"{name}: descriptor {q[0][0]} waits for token {self.missing(q[0][1])}"
            for name, q in self.queues.items()
            if q
        ]
        return "; ".join(stuck) or None
