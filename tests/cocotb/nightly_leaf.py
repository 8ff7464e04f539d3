# SPDX-License-Identifier: Apache-2.0
"""One module alone at a time: more of them, on `odd` too, and each fault of tests/mutants/faults.toml that lies in one
of them (docs/testing.md)."""

import json
import os
import sys
from pathlib import Path

import leaf
import pytest
from simulator import BUILD, ROOT

sys.path.insert(0, str(ROOT / "tests" / "mutants"))
import sheets  # noqa: E402

SEED = os.environ.get("PRESIL_SEED") or os.environ.get("PRESIL_DAY") or "1"
# What a bench drives: its top and what lies in it. The arithmetic is for tests/oracle and tests/bits.
FILES = {
    "load": "load load_walk load_columns align split transpose rows bursts word_pkg",
    "store": "store store_pack rows bursts word_pkg",
    "matrix": "matrix agen weights array accumulator fp_pkg",
    "epilogue": "epilogue epilogue_pipe fp_pkg",
    "command": "command check",
    "tokens": "tokens",
    "scratchpad": "scratchpad bank",
    "counters": "counters",
    "record": "record",
    "weights": "weights",
    "agen": "agen",
    "load_columns": "load_columns",
    "check": "check",
    "load_walk": "load_walk",
    "epilogue_pipe": "epilogue_pipe fp_pkg",
    "array": "array dot_pkg fp_pkg",
    "functions": "dot_pkg fp_pkg",
}
LEAST = 2  # of each bench's faults; the table says how many there are


@pytest.mark.parametrize("config", ["tiny", "odd"])
def test_leaves(config):
    for name, simulator in leaf.simulators(config).items():
        ran, failed = leaf.bench(simulator, PRESIL_SEED=SEED, PRESIL_LEAF="8")
        assert ran and not failed, f"{name}: {failed}; again with: tests/cocotb/leaf.py {name} --config {config} " + (
            f"--seed {SEED} --scale 8"
        )


def faults_of(name: str, sheet: list) -> list:
    return [f for f in sheet if f.file in {f"presil_{part}.sv" for part in FILES[name].split()}]


@pytest.fixture(scope="module")
def planted():
    """(sheet, simulators with its faults); PRESIL_MUTANT chooses one."""
    faults = [f for f in sheets.load() if not f.equivalent]
    texts = {f.file: (sheets.ROOT / "rtl" / f.file).read_text() for f in faults}
    out = []
    for n, sheet in enumerate(sheets.split(faults, texts)):
        folder = BUILD / "mutants" / str(n)
        sheets.write(sheet, texts, folder / "rtl")
        names = [name for name in leaf.NAMES if faults_of(name, sheet)]
        out.append((sheet, leaf.simulators("tiny", names, folder / "rtl", folder / "leaf")))
    return out


def found(simulator, fault) -> bool:
    """A simulator that ends without a report has stopped at an assertion, or a fault made it run out of time."""
    try:
        ran, failed = leaf.bench(simulator, PRESIL_SEED="1", PRESIL_MUTANT=str(fault.number))
    except (RuntimeError, SystemExit):
        return True
    return bool(failed) or not ran


@pytest.mark.parametrize("name", leaf.NAMES)
def test_faults_are_found(planted, name):
    rows = []
    for sheet, simulators in planted:
        for k, fault in enumerate(faults_of(name, sheet)):
            if not k:
                assert leaf.bench(simulators[name], PRESIL_SEED="1", PRESIL_MUTANT="0")[1] == [], "sound, but red"
            rows.append((fault.file, fault.name, found(simulators[name], fault)))
            print(f"{'found   ' if rows[-1][2] else 'SURVIVED'} {name}: {fault.file}: {fault.name}", flush=True)
    Path(BUILD / f"leaf-{name}.json").write_text(json.dumps(rows, indent=1) + "\n")
    print(f"{name}: {sum(row[2] for row in rows)} of {len(rows)} faults found")
    assert sum(row[2] for row in rows) >= LEAST
