# SPDX-License-Identifier: Apache-2.0
"""presil_tokens alone: counters that are plain integers here (docs/isa.md section 1), at zero, at 255 and between."""

import cocotb
from oracle.machine import TOKEN_LIMIT
from rig import Rig, scaled

ENGINES, COUNTERS, GIVEN = 4, 20, 16  # VECTOR gives none


class Model:
    def __init__(self):
        self.count = [0] * COUNTERS

    def cycle(self, wants: list, asks: int, give: int) -> tuple[int, int]:
        """(engines whose tokens are taken, the lower number first; engines whose signal passes 255)."""
        left, taken, grant = [c > 0 for c in self.count], [0] * COUNTERS, 0
        for e in range(ENGINES):
            mine = [t for t in range(COUNTERS) if wants[e] >> t & 1]
            if asks >> e & 1 and all(left[t] for t in mine):
                grant |= 1 << e
                for t in mine:
                    left[t], taken[t] = False, 1
        overflow = 0
        for t in range(COUNTERS):
            value = self.count[t] + (give >> t & 1) - taken[t]
            if value > TOKEN_LIMIT:
                overflow |= 1 << t // 4
            self.count[t] = value & 255
        return grant, overflow


async def compare(rig: Rig, cycles: int, giving: float, asking: float, start: int) -> list[int]:
    """start: signals of all counters, at first. How many cycles had grants, an overflow, a signal and a take at 255."""
    r, model, seen = rig.random, Model(), [0, 0, 0]
    await rig.reset(clear=0, asks=0, give=0)
    for k in range(start + cycles):
        if r.random() < 0.002 and k > start:
            rig.set("clear", 1)
            await rig.cycle()
            rig.set("clear", 0)
            model = Model()
            continue
        give = 0xFFFF if k < start else sum(rig.chance(giving) << t for t in range(GIVEN))
        asks = 0 if k < start else sum(rig.chance(asking) << e for e in range(ENGINES))
        wants = [sum(1 << t for t in r.sample(range(GIVEN), r.choice((0, 1, 1, 2, 3)))) for _ in range(ENGINES)]
        rig.put("want", wants)
        rig.set("asks", asks)
        rig.set("give", give)
        await rig.cycle()
        full = [t for t in range(GIVEN) if model.count[t] == TOKEN_LIMIT and give >> t & 1]
        have = sum((c > 0) << t for t, c in enumerate(model.count))
        counts = [sum(model.count[4 * e + k] << 8 * k for k in range(4)) for e in range(5)]
        rig.expect((rig.get("have"), rig.take("counts", 5)), (have, counts), "counters")
        grant, overflow = model.cycle(wants, asks, give)
        rig.expect((rig.get("grant"), rig.get("overflow")), (grant, overflow), f"grant, overflow of {asks=} {give=:#x}")
        seen[0] += bool(grant)
        seen[1] += bool(overflow)
        seen[2] += any(model.count[t] == TOKEN_LIMIT for t in full)
    return seen


@cocotb.test()
async def near_zero(dut):
    grants, overflows, _ = await compare(Rig(dut, "near zero"), scaled(1500), 0.1, 0.7, 0)
    assert grants > 100 and not overflows, (grants, overflows)


@cocotb.test()
async def near_full(dut):
    rig, seen = Rig(dut, "near full"), [0, 0, 0]
    for _ in range(scaled(4)):
        seen = [a + b for a, b in zip(seen, await compare(rig, 60, 0.25, 0.9, TOKEN_LIMIT))]
    assert all(count > 5 for count in seen), seen
