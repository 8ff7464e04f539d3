# SPDX-License-Identifier: Apache-2.0
"""Guards what engines do to each other by as few tokens as do, so that a chip that loses one shows it in bytes.

Each operation says what it reads and writes as (space, first, end). An operation that conflicts with earlier ones of
other engines waits for the latest of each, unless what it or its engine has waited for before implies that it is
over. The n-th signal of one engine for another meets the other's n-th wait, since both are in order.
"""

from dataclasses import dataclass, field

ENGINES = ("LOAD", "MATRIX", "EPILOGUE", "STORE")
QUEUE = 4


@dataclass
class Operation:
    kind: str
    fields: dict
    reads: list = field(default_factory=list)
    writes: list = field(default_factory=list)
    wait: int = 0
    signal: int = 0
    place: int = 0  # in its engine's order
    known: dict = field(default_factory=dict)  # engine -> place up to which everything is over when this one starts


def overlap(a, b):
    return any(x[0] == y[0] and x[1] < y[2] and y[1] < x[2] for x in a for y in b)


def conflict(earlier, later):
    """Whether `later` may not run beside or before `earlier`."""
    if earlier.kind == later.kind:
        # An engine works in order, but an epilogue reads ahead of what the one before it writes.
        return earlier.kind == "EPILOGUE" and overlap(earlier.writes, later.reads)
    return (
        overlap(earlier.writes, later.reads)
        or overlap(earlier.reads, later.writes)
        or overlap(earlier.writes, later.writes)
    )


class Guard:
    """r chooses which of an engine's four counters is whose, and a few waits more than needed."""

    def __init__(self, r):
        self.r = r
        self.done = {name: [] for name in ENGINES}
        self.known = {name: {} for name in ENGINES}
        self.counter = {name: r.sample(range(4), 4) for name in ENGINES}

    def add(self, op):
        op.place = len(self.done[op.kind])
        if op.kind == "LOAD":
            # That a STORE is over, which an earlier token may have told, means that its bytes are in DRAM only so.
            for earlier in self.done["STORE"]:
                if overlap(earlier.writes, op.reads):
                    earlier.fields["ordered"] = 1
        known = dict(self.known[op.kind])
        needed = {}
        for name in ENGINES:
            for earlier in reversed(self.done[name]):
                if earlier.place <= known.get(name, -1):
                    break
                if conflict(earlier, op):
                    needed[name] = earlier
                    break
        for name, earlier in list(needed.items()):
            if any(e.known.get(name, -1) >= earlier.place for n, e in needed.items() if n != name):
                del needed[name]
        if self.r.random() < 0.05:
            name = self.r.choice(ENGINES)
            if name not in needed and self.done[name] and self.done[name][-1].place > known.get(name, -1):
                needed[name] = self.done[name][-1]
        for name, earlier in needed.items():
            bit = self.counter[name][ENGINES.index(op.kind)]
            earlier.signal |= 1 << bit
            op.wait |= 1 << 4 * ENGINES.index(name) + bit
            known[name] = earlier.place
            for other, place in earlier.known.items():
                known[other] = max(known.get(other, -1), place)
        op.known = self.known[op.kind] = known
        self.done[op.kind].append(op)


def runs(order):
    """Whether operations in this ring order all get to run with queues of four."""
    tokens, queues, at = [0] * 20, {name: [] for name in ENGINES}, 0
    while True:
        while at < len(order) and (order[at].kind == "NOP" or len(queues[order[at].kind]) < QUEUE):
            if order[at].kind != "NOP":
                queues[order[at].kind].append(order[at])
            at += 1
        moved = False
        for e, name in enumerate(ENGINES):
            if queues[name] and all(tokens[t] for t in range(20) if queues[name][0].wait >> t & 1):
                op, moved = queues[name].pop(0), True
                for t in range(20):
                    tokens[t] -= op.wait >> t & 1
                for s in range(4):
                    tokens[4 * e + s] += op.signal >> s & 1
        if not moved:
            return at == len(order) and not any(queues.values())


def shuffle(r, order):
    """Another order in the ring: each engine's own order is kept."""
    for _ in range(4):
        queues = {}
        for op in order:
            queues.setdefault(op.kind, []).append(op)
        out, names = [], list(queues)
        weights = [r.choice((1, 1, 3)) for _ in names]
        while any(queues.values()):
            name = r.choices(names, [w * bool(queues[n]) for n, w in zip(names, weights)])[0]
            out.append(queues[name].pop(0))
        if runs(out):
            return out
    return order
