# SPDX-License-Identifier: Apache-2.0
"""RTL = twin on every byte written (mode verify) and = oracle: every element of small operators, at least 64 of
larger ones; forced tilings give the same bits.

A failure names its case; replay: PRESIL_CASE="tiny,1,417" pytest tests/bits/test_sweep.py -k replay.
PRESIL_SWEEP_MODE=model runs the twin alone.
"""

import os

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from bench import driver
from .generate import case, cases, directed_count, shapes
from .sweep import Counts, check

SEED = int(os.environ.get("PRESIL_SEED", "1"))
MODE = os.environ.get("PRESIL_SWEEP_MODE", "verify")
CASES = {"tiny": 1150, "odd": 1150, "base": 300, "wide": 120}  # a chip
LIMITS = {"tiny": 60_000, "odd": 60_000, "base": 200_000, "wide": 400_000}
PARTS = 6


def part(chip: str, number: int) -> list:
    return cases(chip, SEED, CASES[chip], LIMITS[chip])[number::PARTS]


@pytest.fixture(scope="module")
def device():
    """One open device at a time, of the chip that the test asks for."""
    opened = {}

    def get(chip, **options):
        key = (chip, *sorted(options.items()))
        if key not in opened:
            opened[key] = driver.Device(chip, mode=MODE, **options)
        return opened[key]

    yield get
    for d in opened.values():
        d.close()


def sweep(device, some, tiling_every=6) -> Counts:
    counts = Counts()
    failures = []
    for number, c in enumerate(some):
        tilings = (1, 2, 3) if tiling_every and number % tiling_every == 0 else ()
        try:
            check(device, c, counts, verify=MODE == "verify", tilings=tilings)
        except (AssertionError, driver.PresilError) as error:
            failures.append(f"{c.describe()}: {error}"[:600])
            if len(failures) == 5:
                break
    assert not failures, "\n".join(failures)
    return counts


@pytest.mark.parametrize("number", range(PARTS))
@pytest.mark.parametrize("chip", CASES)
def test_rtl_equals_twin_equals_oracle(device, chip, number):
    some = part(chip, number)
    counts = sweep(device(chip), some)
    print(f"{chip} part {number}: PRESIL_SEED={SEED} {counts}")
    assert counts.cases == len(some) and counts.elements > 0 and counts.confirmed > 0


def test_the_sweep_is_as_wide_as_promised():
    """>= 2,000 shapes, >= 10^6 output elements; what the parts run is what is counted here."""
    everything = {chip: [c for n in range(PARTS) for c in part(chip, n)] for chip in CASES}
    total = [c for some in everything.values() for c in some]
    elements = 0
    for c in total:
        count = 1
        for size in c.output_shape:
            count *= size
        elements += count
    print(f"{shapes(total)} shapes, {elements} elements")
    assert shapes(total) >= 2000 and elements >= 1_000_000
    assert all(CASES[chip] >= directed_count(chip) for chip in ("tiny", "odd"))


@pytest.mark.parametrize("chip", ["tiny", "odd"])
@settings(
    max_examples=40,
    deadline=None,
    derandomize="PRESIL_RANDOM" not in os.environ,
    suppress_health_check=list(HealthCheck),
    print_blob=True,
)
@given(index=st.integers(100_000, 10_000_000))
def test_hypothesis_finds_no_case_that_differs(device, chip, index):
    check(device(chip), case(chip, SEED, index, LIMITS[chip]), Counts(), verify=MODE == "verify")


# What the memory may do to a master that keeps to AXI4. Per channel: a chip that holds one up may be wrong only there.
PRESSURES = [
    "stall=0.4",
    "pressure=sparse",
    "pressure=heavy,commit=b",
    "pressure=starved",
    "pressure=bursty,interleave=1",
    "pressure=delayed,reorder=1,commit=b",
    "ideal,commit=b",
    "ideal,interleave=1,r=sparse",
    *(f"ideal,{channel}={profile}" for channel in ("aw", "w", "b", "ar", "r") for profile in ("starved", "bursty")),
]
PRESSED = {"tiny": 10, "odd": 10, "base": 8, "wide": 4}  # cases a memory model


@pytest.mark.parametrize("chip", PRESSED)
def test_back_pressure_changes_no_bit(device, chip):
    if MODE != "verify":
        pytest.skip("PRESIL_SWEEP_MODE=model: the twin has no clock")
    some = cases(chip, SEED + 1, PRESSED[chip], LIMITS[chip])
    plain = sweep(device(chip), some, 0)
    for model in PRESSURES:
        with driver.Device(chip, mode=MODE, memory_model=model, seed=SEED) as pressed:
            try:
                counts = sweep(pressed, some, 0)
            except AssertionError as error:
                raise AssertionError(f"memory_model={model!r}, PRESIL_SEED={SEED}: {error}") from None
        assert counts == plain and counts.confirmed > 0, model


@pytest.mark.parametrize("chip", ["tiny", "odd"])
def test_the_check_build_changes_no_bit(device, chip):
    if MODE != "verify":
        pytest.skip("PRESIL_SWEEP_MODE=model: the twin has no clock")
    some = cases(chip, SEED + 1, 60, LIMITS[chip])
    plain = sweep(device(chip), some, 0)
    assert sweep(device(chip, build="check", memory_model="pressure=heavy,commit=b", seed=SEED), some, 0) == plain


def test_replay():
    """PRESIL_CASE=CHIP,SEED,INDEX replays one case of the sweep; without it the first, so that replaying works."""
    name = os.environ.get("PRESIL_CASE", f"tiny,{SEED},0")
    chip, seed, index = name.split(",")
    with driver.Device(chip, mode=MODE) as d:
        c = case(chip, int(seed), int(index), LIMITS[chip])
        print(c.describe())
        counts = Counts()
        check(d, c, counts, verify=MODE == "verify", tilings=(1, 2, 3))
        assert counts.elements > 0 and (counts.confirmed > 0 or MODE != "verify")
