# SPDX-License-Identifier: Apache-2.0
"""Faults in the RTL of sa16, from `presil regress` on its team's suite to unit, bundle and picture; and what a chip
whose launches can't be cut is told where that is needed."""

import json
import os
import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import faulty
import pytest
from faulty import BUILD, HANG, RESIDUAL, SLOW

HERE = Path(__file__).resolve().parent
CLI = HERE.parents[2] / "torch_ext" / "torch_presil" / "cli.py"
SUITE, VIEW = HERE / "team" / "sa16.toml", HERE / "team" / "sa16.view.toml"


def run(*words, status: int, fault: int = 0) -> str:
    environment = {**os.environ, "PRESIL_BUILD_DIR": str(BUILD), "PRESIL_MUTANT": str(fault)}
    command = [*map(str, words)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=280, env=environment)
    assert done.returncode == status, done.stdout + done.stderr
    return done.stdout + done.stderr


@pytest.fixture(scope="module")
def simulator(tmp_path_factory):
    return faulty.library(tmp_path_factory.mktemp("faulty") / "chip")


@pytest.fixture(scope="module")
def suite(simulator, tmp_path_factory):
    """suite(run's name, fault, exit code, more words) -> (what was printed, the only record, the run's folder)."""
    runs = tmp_path_factory.mktemp("runs")

    def regress(name: str, fault: int, status: int, *more) -> tuple:
        words = [sys.executable, CLI, "regress", SUITE, "--filter", "resnet8", "--library", simulator, "--runs", runs]
        words += ["--good", BUILD / "lib" / "libpresil_sim_sa16_trace.so", "--run", name, "-j", "1"]
        printed = run(*words, *more, status=status, fault=fault)
        records = [json.loads(line) for line in (runs / name / "records.jsonl").read_text().splitlines()]
        return printed, records[-1], runs / name

    regress("sound", 0, 0)
    return regress


def test_wrong_bits_are_traced_to_the_module(suite, simulator):
    printed, record, folder = suite("bits", RESIDUAL, 1, "--against", "sound", "--junit", "/dev/null")
    assert "failed in sa16_requant" in printed and "output [0, " in record["message"], printed
    assert "can't run a part of a launch" in record["evidence"], record
    picture = ElementTree.parse(folder / record["pictures"][0]).getroot()
    assert picture.tag.endswith("svg") and "products" in (folder / record["pictures"][0]).read_text()
    assert "<failure" in (folder / "junit.xml").read_text() and (folder / "report.html").stat().st_size > 10_000
    bundle = folder / record["bundles"][0]
    words = BUILD / "bin" / "presil-replay", bundle, "--library", simulator
    assert "can't run a part of a launch" in run(*words, "--bisect", status=2, fault=RESIDUAL)
    told = run(*words, "--minimize", folder / "small.presil", status=0, fault=RESIDUAL)
    assert "can't run a part of a launch: shape and data alone" in told and "a smaller shape: " in told, told
    run(BUILD / "bin" / "presil-replay", folder / "small.presil", "--library", simulator, status=1, fault=RESIDUAL)
    shown = run(sys.executable, CLI, "waves", bundle, "--view", VIEW, "--against", simulator, status=1, fault=RESIDUAL)
    assert "u_requant" in shown, shown


def test_a_hang_says_who_waits(suite):
    printed, record, folder = suite("hang", HANG, 3, "--against", "sound")
    assert "storing" in record["message"] and "operation 0 of" in record["message"], printed
    told = run(sys.executable, CLI, "why", folder / record["bundles"][0], status=0)
    assert "not hung" in told, "the sound simulator does not"


def test_other_cycles_are_told_by_cause(suite):
    printed, record, folder = suite("slow", SLOW, 5, "--against", "sound")
    assert record["status"] == "cycles" and "store" in printed and "bus" in printed, printed
    assert "cycles in sa16_store" in printed, printed
