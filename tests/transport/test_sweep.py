# SPDX-License-Identifier: Apache-2.0
"""A share of the sweep of tests/bits on `tiny` over every transport: the same bits as the oracle, and the same cycles
and stalls as the simulator library in this process.

Replay a seed with PRESIL_SEED; PRESIL_SHARE=1 runs the whole sweep, not every 12th case.
"""

import os

import pytest
from bench import driver
from bits.generate import cases
from bits.sweep import Counts, Run, check

from .servers import MODELS, SERVERS, Server

SEED, SHARE = int(os.environ.get("PRESIL_SEED", "1")), int(os.environ.get("PRESIL_SHARE", "12"))
MODEL = "latency=37,response=11,stall=0.1"


def share() -> list:
    return cases("tiny", SEED, 1150, 60_000)[::SHARE]


def measured(device, some) -> list:
    """(output bytes, cycles, stalls, beats) of each case."""
    found = []
    for case in some:
        run = Run(device, case)
        got = run.run(Counts())
        found.append((got.tobytes(), [(r.cycles, bytes(r.stalls), r.read_beats, r.write_beats) for r in run.reports]))
    return found


@pytest.fixture(scope="module", params=[*SERVERS, *MODELS])
def server(request, tmp_path_factory):
    with Server(request.param, "tiny", tmp_path_factory.mktemp(request.param)) as s:
        yield s


def test_same_bits_as_the_oracle(server):
    counts = Counts()
    with driver.Device("tiny", mode="verify", build=None, transport=server.transport) as device:
        for case in share():
            check(device, case, counts, verify=True)
    print(f"PRESIL_SEED={SEED} {counts}")
    assert counts.cases >= 90 and counts.confirmed > 10_000


def test_same_cycles_as_in_process(server):
    """Also with back-pressure, and for a second client of the same server. Without a clock: none, and the reports say
    so."""
    if server.name in MODELS:
        with driver.Device("tiny", mode="rtl", build=None, transport=server.transport) as device:
            run = Run(device, share()[0])
            run.run(Counts())
        assert run.reports and all((r.mode, r.cycles) == (driver.MODES["model"], 0) for r in run.reports)
        return
    for model in ("", MODEL):
        with driver.Device(
            "tiny", mode="rtl", build=None, transport=server.transport, memory_model=model, seed=5
        ) as device:
            there = measured(device, share()[::2])
        with driver.Device("tiny", mode="rtl", memory_model=model, seed=5) as device:
            here = measured(device, share()[::2])
        different = [i for i, (a, b) in enumerate(zip(there, here, strict=True)) if a != b]
        assert not different and all(cycles for _, reports in here for cycles, *_ in reports), (
            f"cases {different} of the share differ, memory model {model or 'default'}"
        )
