# SPDX-License-Identifier: Apache-2.0
"""1,000 seeds of random programs, other ones each night, on every library of the chip that is built."""

import pytest

from bench.built import library
from bench.compare import Pair
from bench.programs import BATCH

from .draw import SCALE, SEED

SEEDS = 1000
SHARES = {
    ("tiny", "fast"): 1,
    ("odd", "fast"): 1,
    ("tiny", "check"): 10,
    ("odd", "check"): 10,
    ("base", "fast"): 10,
    ("wide", "fast"): 40,
}
PARTS = 20


@pytest.mark.parametrize("part", range(PARTS))
@pytest.mark.parametrize(("chip", "build"), list(SHARES), ids="-".join)
def test_thousand_seeds(chip, build, part):
    """A batch of every SHARES-th seed. The seeds: PRESIL_SEED (else the date) × 1000 + 0 … 999."""
    try:
        library(f"libpresil_sim_{chip}_{build}.so")
    except FileNotFoundError:
        pytest.skip(f"{chip} {build} is not built")
    pair = Pair(chip, build)
    print(f"PRESIL_SEED={SEED}, part {part}")
    for k in range(part, round(SEEDS * SCALE), PARTS):
        if k // PARTS % SHARES[chip, build] == 0:
            first = (SEED * SEEDS + k) << 20
            pair.batch(range(first, first + BATCH))
    assert pair.statistics["programs"] >= 1
