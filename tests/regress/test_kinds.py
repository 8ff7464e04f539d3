# SPDX-License-Identifier: Apache-2.0
"""The kinds of case on the chip `tiny`: right, wrong call, too many cycles, a hang; and how results are judged."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from torch_presil.regress import cosim_case, exit_codes

from .conftest import CLI, HERE

ROOT = HERE.parents[1]
MODEL = f"{HERE / 'models.py'}:small_cnn"


@pytest.fixture
def chip(place):
    """A suite of every kind on the smallest chip."""
    sweep = 'kind = "sweep"\nshare = 400\n'
    cosim = f'kind = "cosim"\nmodel = "{MODEL}"\n'
    (place.folder / "chip.toml").write_text(
        f'[suite]\ndefaults = {{ chips = ["tiny"] }}\n[case.programs]\nkind = "programs"\nbatches = 1\n'
        f"[case.sweep]\n{sweep}[case.sweep-limit]\n{sweep}timeout_cycles = 10\n"
        f"[case.whole]\n{cosim}[case.layers]\n{cosim}distinct = true\ndtype = 'int8'\n"
        f"[case.limit]\n{cosim}timeout_cycles = 1000\n"
        f"[case.silent]\n{cosim}env = {{ PRESIL_WATCHDOG = '20' }}\nmemory = ['latency=5000']\n"
        f"[case.memory]\n{cosim}memory = ['colour=red']\n"
        '[case.no-model]\nkind = "cosim"\nmodel = "models.py:no_such"\n'
    )
    return place


def test_every_kind_on_the_chip(chip):
    assert chip.go("chip", jobs=2) == exit_codes.HANG
    found = chip.found()
    said = {name: (r["status"], r["message"]) for name, r in found.items()}
    for name in ("programs", "sweep", "whole", "layers"):
        assert said[name][0] == "passed", said
        assert found[name]["checks"] > 0 and found[name]["cycles"] > 1000 and found[name]["library"]
    assert set(found["whole"]["launches"]) >= {"0", "3", "5", "9"} and len(found["layers"]["launches"]) == 4
    stalls = found["whole"]["launches"]["0"]
    assert all(sum(causes.values()) == stalls["cycles"] for causes in stalls["stalls"].values()) and stalls["stalls"]
    assert said["sweep-limit"][0] == "hung" and said["limit"][0] == "hung"
    assert "time-out: not done after 1000 cycles, at most 1000 expected" in said["limit"][1]
    assert said["silent"][0] == "hung" and "EHUNG" in said["silent"][1], said["silent"]
    assert said["memory"][0] in ("unusable", "error") and "colour" in said["memory"][1]
    assert said["no-model"][0] == "unusable" and "no_such" in said["no-model"][1]
    assert chip.go("chip/whole", against=chip.last.name) == 0 and chip.found()["whole"]["compared"]
    assert chip.go("chip/whole", against=chip.last.name, memory=["ideal"]) == 0  # another memory: nothing to compare
    assert not chip.found()["whole"]["compared"]


def row(name="a", exact=True, cycles=10, **more):
    return {"name": name, "where": "chip", "cycles": cycles, "stalls": {"x": {"y": cycles}}, "bit_exact": exact, **more}


def judged(*rows, mode="verify", limit=0):
    return cosim_case.judge({"layers": list(rows)}, {"mode": mode, "timeout_cycles": limit})


def test_judging_a_co_simulation():
    host = {"name": "relu", "where": "host"}
    status, told = judged(row(), row(), row("b"), host)
    assert status == 0 and told["checks"] == 3 and told["cycles"] == 30 and list(told["launches"]) == ["a", "a#2", "b"]
    status, told = judged(row(), row("b", False, differences=["out[0, 3], at 0x10: RTL 1, model 2"]), row("c", False))
    assert (
        status == exit_codes.MISMATCH and told["unit"] == "b" and "out[0, 3]" in told["message"] and told["wrong"] == 2
    )
    status, told = judged(row(exact=False, differences=[]))
    assert status == exit_codes.MISMATCH and "not compared" in told["message"]
    assert judged(row(cycles=10), limit=10)[0] == 0 and judged(row(cycles=11), limit=10)[0] == exit_codes.HANG
    assert judged(host)[1]["checks"] == 0 and judged(row(exact=None), mode="rtl")[1]["checks"] == 1


def test_an_exception_becomes_an_exit_code():
    from torch_presil.models import ModelError

    for error, status in (
        (ModelError("no such"), exit_codes.USAGE),
        (RuntimeError("conv1: EHUNG: no progress"), exit_codes.HANG),
        (RuntimeError("RTL and model differ: x"), exit_codes.MISMATCH),
        (RuntimeError("ENODEV: libpresil_sim_x.so is neither"), exit_codes.USAGE),
        (KeyError("x"), exit_codes.INTERNAL),
    ):
        found, told = exit_codes.of_error(error)
        assert found == status and told["message"]


def test_help_is_true_and_needs_no_torch():
    done = subprocess.run(
        [sys.executable, "-X", "importtime", str(CLI), "regress", "--help"], capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0 and "--rerun-failed" in done.stdout and "docs/regress.md" in done.stdout
    assert "| torch" not in done.stderr and "rich" in done.stderr or "click" in done.stderr
    usage = subprocess.run([str(ROOT / "presil"), "--help"], capture_output=True, text=True, timeout=60).stdout
    assert "regress [SUITE...]" in usage


def test_the_runner_needs_no_torch(place):
    place.suite("one", {"case": "passes"})
    (Path(place.folder) / "torch.py").write_text("raise ImportError('the runner imported torch')\n")
    import os

    environment = {**os.environ, "PYTHONPATH": str(place.folder)}
    done = subprocess.run(place.arguments("one"), env=environment, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr
    assert json.loads((place.last.path / "run.json").read_text())["versions"]["torch"]
