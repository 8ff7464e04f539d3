# SPDX-License-Identifier: Apache-2.0
"""One module alone at a time, on `tiny` (docs/testing.md)."""

import os

import leaf
import pytest

SEED = os.environ.get("PRESIL_SEED") or os.environ.get("PRESIL_DAY") or "1"
LEAST = {"load": 4, "store": 4, "matrix": 3, "epilogue": 3, "command": 8, "tokens": 2, "scratchpad": 2}
LEAST |= {"counters": 3, "record": 4, "weights": 4, "agen": 4, "load_columns": 5, "check": 4, "load_walk": 5}
LEAST |= {"epilogue_pipe": 4, "array": 4, "functions": 5}


@pytest.fixture(scope="module")
def simulators():
    return leaf.simulators("tiny")


@pytest.mark.parametrize("name", leaf.NAMES)
def test_leaf(simulators, name):
    ran, failed = leaf.bench(simulators[name], PRESIL_SEED=SEED)
    assert len(ran) >= LEAST[name], "cocotb ran too few tests"
    assert not failed, f"{failed}; again with: .venv/bin/python tests/cocotb/leaf.py {name} --seed {SEED}"
