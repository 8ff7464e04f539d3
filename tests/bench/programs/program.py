# SPDX-License-Identifier: Apache-2.0
"""Random programs by number: descriptors, DRAM, ring, doorbells, memory model, and what should come of them.

`program(chip, number)` is a function of its arguments alone. A launch also sees what the ones before it left in the
chip (the ring's counts, bits in idle registers), so programs run in batches of BATCH that begin with a reset.
"""

import random
from dataclasses import dataclass, field

from oracle import layout

from . import broken, space
from .tokens import ENGINES
from .writer import Writer, encode

BATCH = 64
MODELS = (
    ("ideal", 4),
    ("default", 2),
    ("default,stall=0.1", 2),
    ("latency=20,response=3,stall=0.5", 1),
    ("latency=7,response=90,bytes=3,bursts=2", 1),
    ("latency=1,response=1,bytes=0,bursts=1,stall=0.85", 1),
    ("latency=300,response=200", 1),
    ("latency=30,commit=b,b=starved", 1),
)
PROFILES = ("none", "none", "sparse", "heavy", "starved", "bursty", "delayed")


def memory_model(r):
    if r.random() < 0.6:
        return r.choices([m for m, _ in MODELS], [w for _, w in MODELS])[0]
    parts = [
        r.choice(("ideal", "latency=20", "latency=100,response=60", "latency=3,bursts=4")),
        f"commit={r.choice('wb')}",
    ]
    if r.random() < 0.3:
        parts.append(f"pressure={r.choice(PROFILES)}")
    else:
        parts += [f"{channel}={r.choice(PROFILES)}" for channel in ("ar", "r", "aw", "w", "b")]
    parts += [option for option in ("reorder=1", "interleave=1") if r.random() < 0.4]
    return ",".join(parts)


@dataclass
class Program:
    """operations: in ring order. doorbells: (descriptors that it shows, cycles until the next). expected: broken.Fault
    or None."""

    chip: str
    number: int
    operations: list
    words: list
    model: str
    ring: int
    ring_log2: int
    images: list
    doorbells: list = field(default_factory=list)
    expected: object = None

    @property
    def image_seed(self):
        return self.number // (128 * BATCH)

    def __str__(self):
        kind = f"{self.expected.kind} {self.expected.errors or ''}" if self.expected else "valid"
        return f"{self.chip} program {self.number} ({kind}, {len(self.words)} descriptors, {self.model})"

    def raw(self, broken=False):
        words = self.expected.broken_words(self.operations, self.words) if broken else self.words
        return [layout.to_bytes(w) for w in words]


def program(chip, number):
    config = layout.config(chip)
    r = random.Random(f"{chip} {number}")
    fault = broken.choose(r) if r.random() < 0.3 else None
    modes, types = (random.Random(f"{chip} {number} {what}") for what in ("modes", "types"))
    writer = Writer(r, config, modes, types, plain=fault is not None)
    writer.carve()
    for _ in range(r.choice((r.randint(2, 8), r.randint(6, 22)))):
        writer.step()
    writer.dump()
    order = writer.finish(shuffled=r.random() < 0.7)
    expected = fault and broken.fault(fault, r, modes, config, order)
    words = [encode(r, op) for op in order]
    least = max(1, (len(words) - 1).bit_length())
    log2 = r.randint(least, max(least, 8))
    out = Program(
        chip,
        number,
        order,
        words,
        memory_model(r),
        space.RING_AREA + 4096 * r.randrange(1 << 12),
        log2,
        [r.randrange(space.IMAGES) for _ in range(space.ISLANDS)],
        expected=expected,
    )
    out.doorbells = [(len(order), 0)] if fault else doorbells(r, order)
    return out


def doorbells(r, order):
    """One for all descriptors; or several, each while the chip is busy with what came before: right behind each other,
    or where one before waits for one behind."""
    count = len(order)
    cuts = []
    if r.random() < 0.35:
        for cut in r.sample(range(1, count), min(count - 1, r.randint(1, 3))):
            waits = busy_until_more(order, cut)
            cuts.append((cut, r.choice((0, r.randint(0, 40), r.randint(0, 600))) if waits else 0))
    cuts.sort()
    ends = [*(c for c, _ in cuts), count]
    pauses = [*(p for _, p in cuts), 0]
    return list(zip(ends, pauses))


def busy_until_more(order, cut):
    """Whether an operation before the cut waits for a token that only one behind it gives."""
    given, taken = [0] * 20, [0] * 20
    for op in order[:cut]:
        if op.kind == "NOP":
            continue
        first = 4 * ENGINES.index(op.kind)
        for t in range(20):
            taken[t] += op.wait >> t & 1
        for s in range(4):
            given[first + s] += op.signal >> s & 1
    return any(t > g for t, g in zip(taken, given))
