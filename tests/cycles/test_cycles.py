# SPDX-License-Identifier: Apache-2.0
"""Cycle counts and their causes are exact: the same twice, in any order, at other addresses, on both builds, with a
slow host; cycles equal baseline.json, tolerance 0.

PRESIL_UPDATE_BASELINE=1 rewrites the baseline: explain the change in the commit.
"""

import functools
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent
BASELINE = HERE / "baseline.json"
CHIPS = ("tiny", "odd", "base")


@functools.lru_cache(maxsize=None)
def measure(chip: str, build: str = "fast", *args: str) -> dict:
    environment = {**os.environ, "PRESIL_CHIP": chip, "PRESIL_BUILD": build}
    done = subprocess.run(
        [sys.executable, str(HERE / "measure.py"), *args], env=environment, capture_output=True, text=True, timeout=600
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(done.stdout)


def cycles_of(measured: dict) -> dict:
    return {name: m["cycles"] for name, m in measured.items()}


@pytest.mark.parametrize("chip", CHIPS)
def test_baseline(chip):
    cycles = cycles_of(measure(chip))
    assert len(cycles) >= 12 and all(c > 0 for c in cycles.values())
    recorded = json.loads(BASELINE.read_text()) if BASELINE.exists() else {}
    if os.environ.get("PRESIL_UPDATE_BASELINE") == "1":
        notice = {
            "_": "SPDX-License-Identifier: Apache-2.0. Cycles of tests/cycles/measure.py; "
            "PRESIL_UPDATE_BASELINE=1 rewrites them."
        }
        BASELINE.write_text(json.dumps({**notice, **recorded, chip: cycles}, indent=1) + "\n")
        return
    assert cycles == recorded[chip]


@pytest.mark.parametrize("chip", CHIPS)
def test_shuffled_order_gives_the_same_cycles(chip):
    assert measure(chip, "fast", "--order", "shuffled") == measure(chip)


@pytest.mark.parametrize("chip", CHIPS)
def test_other_addresses_give_the_same_cycles(chip):
    assert measure(chip, "fast", "--shift", "777") == measure(chip)


@pytest.mark.parametrize("chip", CHIPS)
def test_check_build_gives_the_same_cycles(chip):
    assert measure(chip, "check") == measure(chip)


def test_slow_host_gives_the_same_cycles():
    assert measure("tiny", "fast", "--slow", "3000") == measure("tiny")


def test_back_pressure_is_a_function_of_the_seed():
    first = measure("tiny", "fast", "--memory-model", "stall=0.3", "--seed", "5")
    assert first == measure("tiny", "fast", "--memory-model", "stall=0.3", "--seed", "5", "--order", "shuffled")
    assert first != measure("tiny", "fast", "--memory-model", "stall=0.3", "--seed", "6")
    assert all(cycles_of(first)[name] >= cycles for name, cycles in cycles_of(measure("tiny")).items())
