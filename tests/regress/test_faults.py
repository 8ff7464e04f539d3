# SPDX-License-Identifier: Apache-2.0
"""presil-replay --inject: what comes of each fault, and that the launch behind it is exactly as the one before."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from .conftest import HERE

BUILD = Path(os.environ.get("PRESIL_BUILD_DIR", HERE.parents[1] / "build" / "check"))
# Fault -> what may come of it.
FAULTS = {
    "read-slverr@?": {"EBUS"},
    "read-decerr@60": {"EBUS"},
    "read-slverr@0": {"EBUS"},
    "write-slverr@?": {"EBUS"},
    "write-decerr@0": {"EBUS"},
    "late=5000": {"masked"},
    "late=0": {"EHUNG"},
    "cancel": {"ECANCELLED"},
    "stop@?": {"ESTOPPED"},
    "fatal@50": {"ESTOPPED"},
    "slow=2000": {"masked"},
    "flip@?": {"other bits", "masked"},
    "upset:u_command@300": {"masked", "other bits", "other cycles", "EHUNG", "EDESC", "EBUS", "ESTOPPED", "EDEAD"},
}


@pytest.fixture(scope="module")
def bundle(tmp_path_factory):
    path = tmp_path_factory.mktemp("faults") / "rare.presil"
    environment = {**os.environ, "PRESIL_CHIP": "tiny"}
    making = [sys.executable, HERE.parent / "planted" / "rare.py", path]
    subprocess.run(making, env=environment, check=True, timeout=200)
    return path


def replay(bundle, *words):
    told = bundle.with_suffix(".json")
    command = [BUILD / "bin" / "presil-replay", bundle, "--launches", "0:2", "--build", "check", "--json", told, *words]
    done = subprocess.run(command, capture_output=True, text=True, timeout=200, check=False)
    return done, json.loads(told.read_text())["launches"] if told.exists() else []


@pytest.mark.parametrize("fault", FAULTS)
def test_outcome_and_the_launch_behind_it(bundle, fault):
    done, launches = replay(bundle, "--inject", fault, "--seed", "7", "--expect", "|".join(FAULTS[fault]))
    assert done.returncode == 0 and len(launches) == 2, done.stdout + done.stderr
    for launch in launches:
        assert launch["fault"]["found"] in FAULTS[fault], launch
        assert launch["fault"]["exact"] or launch["fault"]["healed"], launch
        assert fault.startswith("upset") or (launch["fault"]["exact"] and launch["bits_equal"]), launch


def test_another_outcome_than_expected_fails(bundle):
    done, launches = replay(bundle, "--inject", "late=0", "--expect", "masked|EBUS")
    assert done.returncode == 1 and "expected masked|EBUS, found EHUNG" in launches[0]["error"], done.stdout
    assert launches[0]["fault"]["exact"] and not launches[0]["fault"]["as_expected"]


def test_the_seed_chooses_the_beat(bundle):
    chosen = {replay(bundle, "--inject", "read-slverr@?", "--seed", seed)[1][0]["fault"]["what"] for seed in "1231"}
    assert len(chosen) == 3, chosen


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["--inject", "slverr@x"], "expected at most 8 of"),
        (["--inject", "upset:no_such_name@3"], "no state of the model has"),
        (["--expect", "masked"], "--inject FAULT is missing"),
        (["--inject", "late=1", "--trace", "x.fst", "--window", "1:2"], "--window is of one launch"),
    ],
)
def test_wrong_calls(bundle, words, says):
    done, _ = replay(bundle, *words)
    assert done.returncode == 2 and says in done.stderr, done.stderr
