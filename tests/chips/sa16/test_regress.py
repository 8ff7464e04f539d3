# SPDX-License-Identifier: Apache-2.0
"""`presil regress` on a suite of the team of sa16, which is in no folder of ours: bits, cycles against a run and
against a baseline of its own, reports. What a fault in its RTL comes to: nightly_faults.py."""

import json
import os
import shutil
import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parent
CLI = HERE.parents[2] / "torch_ext" / "torch_presil" / "cli.py"


@pytest.fixture(scope="module")
def regress(tmp_path_factory):
    """regress(*words, status) -> (what was printed, the folder of the last run); the suite is a copy."""
    folder = tmp_path_factory.mktemp("team")
    for name in ("models.py", "networks.py"):
        shutil.copy(HERE / name, folder)
    shutil.copytree(HERE / "team", folder / "team")

    def run(*words, status: int) -> tuple:
        command = [sys.executable, CLI, "regress", "--runs", folder / "runs", *words]
        environment = {k: v for k, v in os.environ.items() if k != "PRESIL_CHIP"}
        done = subprocess.run([*map(str, command)], capture_output=True, text=True, timeout=280, env=environment)
        assert done.returncode == status, done.stdout + done.stderr
        return done.stdout + done.stderr, (folder / "runs" / "latest").resolve()

    run.suite = folder / "team" / "sa16.toml"
    return run


def test_against_a_run_and_a_baseline(regress):
    case = regress.suite, "--filter", "ds-cnn", "-j", "1"
    regress(*case, "--run", "first", status=0)
    cycles = _cycles(regress(*case, "--against", "first", "--run", "second", status=0)[1])
    assert cycles > 20_000

    regress("--accept-cycles", "the first ones", status=0)
    baseline = regress.suite.with_name("baseline.json")
    text = baseline.read_text()
    assert "the first ones" in text and "sa16/ds-cnn[sa16]#0" in text
    slower, folder = regress(*case, "--memory", "latency=400", "--against", "first", "--run", "slow", status=0)
    assert _cycles(folder) > cycles, "another memory is another row: it is not compared"

    changed = json.loads(text)
    (entry,) = changed["cases"].values()
    name = next(iter(entry["launches"]))
    entry["launches"][name][0] += 1
    baseline.write_text(json.dumps(changed))
    printed, folder = regress(*case, "--run", "changed", status=5)
    assert f"{name}: " in printed and "(-1)" in printed, printed
    tests = ElementTree.parse(folder / "junit.xml").getroot()
    assert [case.tag for case in tests.iter("failure")] == ["failure"]
    assert "sa16/ds-cnn" in (folder / "report.html").read_text()
    baseline.unlink()


def _cycles(folder: Path) -> int:
    (record,) = (json.loads(line) for line in (folder / "records.jsonl").read_text().splitlines())
    return record["cycles"]
