# SPDX-License-Identifier: Apache-2.0
"""1,000 seeds of random programs, other ones each night, on every library of the chip that the tests build.

A seed is a batch of BATCH programs. A chip or build that is slower has every so manyth of them (SHARES).
"""

import pytest

from bench.compare import Pair
from bench.programs import BATCH

from .draw import FIRST_OF_DAY, SCALE, SEED
from .test_hazards import no_report

SEEDS = 1000
SHARES = {
    ("tiny", "fast"): 1,
    ("odd", "fast"): 1,
    ("tiny", "check"): 10,
    ("odd", "check"): 10,
    ("base", "fast"): 10,
    ("wide", "fast"): 40,
    ("base", "check"): 100,
    ("wide", "check"): 100,
}
PARTS = 20
HAZARDS = 10_000  # legal ones that the sanitizer looks at, on each chip


def parts():
    """(chip, build, seeds): in as many parts as there are seeds, at most PARTS."""
    for (chip, build), share in SHARES.items():
        seeds = range(0, max(1, round(SEEDS * SCALE)), share)
        for part in range(min(PARTS, len(seeds))):
            yield pytest.param(chip, build, seeds[part::PARTS], id=f"{chip}-{build}-{part}")


@pytest.mark.parametrize(("chip", "build", "seeds"), list(parts()))
def test_thousand_seeds(chip, build, seeds):
    """The seeds: PRESIL_SEED (else the date) × 1000 + 0 … 999."""
    pair = Pair(chip, build)
    print(f"PRESIL_SEED={SEED}, {seeds}")
    for k in seeds:
        first = (SEED * SEEDS + k) << 20
        pair.batch(range(first, first + BATCH))
    print(pair.statistics)
    # The others, three of ten, are broken on purpose.
    assert pair.statistics["programs"] > len(seeds) * BATCH // 4


@pytest.mark.parametrize("part", range(PARTS))
@pytest.mark.parametrize("chip", ["tiny", "odd"])
def test_no_hazard_in_legal_programs(chip, part):
    """Three of ten are broken on purpose: 10,000 legal ones on each chip."""
    count = max(20, round(HAZARDS / 0.7 * SCALE / PARTS))
    first = FIRST_OF_DAY + (1 << 19) + part * count
    assert no_report(chip, range(first, first + count)) > count // 2
