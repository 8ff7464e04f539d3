# SPDX-License-Identifier: Apache-2.0
"""Random descriptor programs: RTL and twin agree in bytes, errors and counters (docs/programs.md)."""

import pytest

from bench.compare import Pair
from bench.programs import BATCH

from .draw import FIRST_OF_DAY, SCALE

SHARES = {
    ("tiny", "fast"): 4000,
    ("odd", "fast"): 2200,
    ("base", "fast"): 256,
    ("wide", "fast"): 128,
    ("tiny", "check"): 512,
    ("odd", "check"): 256,
    ("base", "check"): 60,
    ("wide", "check"): 60,
}


def parts():
    """(chip, build, first number, count): in parts that two workers can share."""
    for (chip, build), count in SHARES.items():
        count = max(2 * BATCH, round(count * SCALE))
        for first in (0, FIRST_OF_DAY):
            for at in range(0, count // 2, 12 * BATCH):
                number = first + at + (1 << 19) * (build == "check")
                yield pytest.param(chip, build, number, min(12 * BATCH, count // 2 - at), id=f"{chip}-{build}-{number}")


@pytest.mark.parametrize(("chip", "build", "first", "count"), list(parts()))
def test_rtl_equals_twin(chip, build, first, count):
    first -= first % BATCH
    pair = Pair(chip, build)
    pair.batch(range(first, first + count))
    s = pair.statistics
    print(f"{chip} {build} from {first}: {s}")
    assert s["programs"] >= count // 2 and s["engine cycles"] > s["cycles"] // 2
