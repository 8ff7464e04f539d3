# SPDX-License-Identifier: Apache-2.0
"""presil_scratchpad alone: six clients at once, in the same bank more often than not, some outside.

Priorities and times are those of docs/rtl.md; content and what is outside are the oracle's.
"""

import cocotb
from oracle.engines import ChipError
from rig import CONFIG, WORD, WORDS, Rig, Watched, near, scaled

LOG = WORD.bit_length() - 1
READS = ("act", "wgt", "st", "res")  # in order of priority
WIDTH = {"act": 16, "wgt": 16, "st": 16, "ld": 16, "res": 33 - LOG, "ep": 33 - LOG}
INSIDE = ("st", "ld")  # look at their range themselves
INDEXED = ("act", "wgt", "ep", "res")  # in order of what an error names


def address(r, client: str, others: list) -> int:
    """Near ends of banks and memory, in the bank of another client, or outside."""
    style = r.random()
    if style < 0.4 and others:
        other = r.choice(others)
        value = r.choice((other, other + CONFIG.banks, other - CONFIG.banks, other + 1))
    elif style < 0.9 or client in INSIDE:
        value = near(r, 1, (0, CONFIG.banks, WORDS - 1, WORDS // 2, r.randrange(WORDS)))
    else:
        value = r.choice((WORDS, WORDS + 1, (1 << WIDTH[client]) - 1, WORDS + r.randrange(1 << 15)))
    return value % (WORDS if client in INSIDE else 1 << WIDTH[client])


class Model:
    """What docs/rtl.md says: grants of this cycle, answers two cycles later, writes seen by reads two cycles later."""

    def __init__(self, r):
        self.memory, self.answers = Watched(r), [{}, {}]
        self.written = {}  # in the last cycle: byte → value

    def inside(self, word: int) -> bool:
        try:
            self.memory.check_spad(word * WORD)
        except ChipError:
            return False
        return True

    def grants(self, asked: dict) -> dict:
        """client → whether it may. asked: client → word of those that ask."""
        out, banks = {}, set()
        for client in READS:
            if client in asked:
                bank = (asked[client] & 0xFFFF) % CONFIG.banks
                out[client] = bank not in banks
                banks.add(bank)
        if "ep" in asked:
            out["ep"] = True
        if "ld" in asked:
            out["ld"] = "ep" not in asked or (asked["ep"] & 0xFFFF) % CONFIG.banks != asked["ld"] % CONFIG.banks
        return out

    def cycle(self, asked: dict, writes: dict) -> tuple[dict, dict, tuple | None]:
        """(grants, answers of this cycle: client → value or None, who is outside: (client, word) or None)."""
        grants, memory = self.grants(asked), self.memory
        answers = self.answers.pop(0)
        new = {}
        for client in READS:
            if grants.get(client):
                word = asked[client]
                data = memory.read_spad(word * WORD, WORD) if self.inside(word) else None
                new[client] = data and sum(value << 8 * k for k, (value, _) in enumerate(data))
        self.answers.append(new)
        for at, value in self.written.items():
            memory.write_spad(at, [(value, 1)])
        self.written = {}
        for client, (data, mask) in writes.items():
            if grants[client] and self.inside(asked[client]):
                for k in range(WORD):
                    if mask >> k & 1:
                        self.written[asked[client] * WORD + k] = data >> 8 * k & 255
        outside = next((c for c in INDEXED if c in asked and not self.inside(asked[c])), None)
        return grants, answers, outside and (outside, asked[outside])


async def compare(dut, name: str, cycles: int, busy: float):
    rig = Rig(dut, name)
    r, model = rig.random, Model(rig.random)
    for client in WIDTH:
        rig.set(f"{client}_valid", 0)
    await rig.reset()
    for word in range(WORDS):  # what the model holds
        rig.set("ld_valid", 1)
        rig.set("ld_full", 1)
        rig.set("ld_addr", word)
        rig.set("ld_data", int.from_bytes(model.memory.spad[word * WORD : (word + 1) * WORD], "little"))
        await rig.cycle()
    rig.set("ld_valid", 0)
    await rig.cycle()
    error, seen = None, {"lost": 0, "outside": 0, "answers": 0}
    for _ in range(cycles):
        asked, writes = {}, {}
        for client in r.sample(list(WIDTH), len(WIDTH)):
            if rig.chance(busy):
                asked[client] = address(r, client, list(asked.values()))
                rig.set(f"{client}_addr", asked[client])
            rig.set(f"{client}_valid", int(client in asked))
        for client in ("ep", "ld"):
            full = r.getrandbits(1)
            data, mask = r.getrandbits(8 * WORD), r.choice((0, 1, 1 << (WORD - 1), r.getrandbits(WORD)))
            for signal, value in (("full", full), ("data", data), ("mask", mask)):
                rig.set(f"{client}_{signal}", value)
            if client in asked:
                writes[client] = data, (1 << WORD) - 1 if full else mask
        index = {client: r.getrandbits(32) for client in INDEXED}
        for client, value in index.items():
            rig.set(f"{client}_index", value)
        await rig.cycle()
        grants, answers, outside = model.cycle(asked, writes)
        for client, may in grants.items():
            rig.expect(rig.get(f"{client}_ready"), int(may), f"{client} at {asked[client]:#x} granted, of {asked}")
        for client in READS:
            rig.expect(rig.get(f"{client}_rvalid"), int(client in answers), f"{client}_rvalid")
            if answers.get(client) is not None:
                rig.expect(rig.get(f"{client}_rdata"), answers[client], f"{client}_rdata")
        rig.expect(rig.get("range_valid"), int(bool(error)), "range_valid")
        if error:
            rig.expect((rig.get("range_index"), rig.get("range_addr")), error, "descriptor and address of the error")
        error = outside and (index[outside[0]], outside[1] * WORD & 0xFFFFFFFF)
        seen["lost"] += not all(grants.values())
        seen["outside"] += bool(error)
        seen["answers"] += len(answers)
    assert all(count > cycles // 50 for count in seen.values()), seen


@cocotb.test()
async def all_ask(dut):
    await compare(dut, "all ask", scaled(1200), 0.9)


@cocotb.test()
async def some_ask(dut):
    await compare(dut, "some ask", scaled(1000), 0.5)
