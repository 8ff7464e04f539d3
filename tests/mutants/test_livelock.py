# SPDX-License-Identifier: Apache-2.0
"""A chip that fetches its first commands again and again: the bus is never silent, so the watchdog never barks. What
ends it is a number of cycles, the same on every machine."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from torch_presil.regress.examine import examine
from torch_presil.regress.run_list import Job
from torch_presil.regress.traced import Simulators

from bench import built
from .planted import library, number

ROOT = Path(__file__).resolve().parents[2]
REGRESS = ROOT / "tests" / "regress"
SUITE = """
[suite]
defaults = {{ chips = ["tiny"], timeout_cycles = 60000, timeout_seconds = 200 }}
{cases}
"""
CASES = """
[case.layers]
kind = "layers"
model = "models.py:small_cnn"
[case.sweep]
kind = "sweep"
share = 400
"""
BUNDLE = """
[case.bundle]
kind = "bundle"
file = "{file}"
"""
EXPECTED = "at most 60000 expected"


def regress(folder: Path, cases: str, *words, fault: str | None = None) -> tuple[int, dict]:
    """(the exit code, the records by case)"""
    (folder / "one.toml").write_text(SUITE.format(cases=cases))
    command = [sys.executable, ROOT / "torch_ext" / "torch_presil" / "cli.py", "regress", folder / "one.toml"]
    command += ["--runs", folder / "runs", "-j", "2", "--against", "none", *words]
    environment = {**os.environ}
    if fault:
        environment["PRESIL_MUTANT"] = str(number(fault))
        command += ["--library", library(), "--chip", "tiny", "--build", "fast"]
    done = subprocess.run([*map(str, command)], capture_output=True, text=True, timeout=280, env=environment)
    lines = (folder / "runs" / "latest" / "records.jsonl").read_text().splitlines()
    return done.returncode, {record["case_name"]: record for record in map(json.loads, lines)}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """With x.presil, of the right chip; each worker of pytest-xdist has its own."""
    out = tmp_path_factory.mktemp("livelock")
    shutil.copy(REGRESS / "models.py", out)
    shutil.copy(REGRESS / "kinds.toml", out)
    text = (out / "kinds.toml").read_text().replace("{kind_folder}", str(REGRESS))
    (out / "kinds.toml").write_text(text)
    code, found = regress(out, CASES)
    assert code == 0 and {r["status"] for r in found.values()} == {"passed"}, "the right chip does it in that time"
    (bundle,) = (out / "runs" / "bundles").glob("small_cnn-*.presil")
    shutil.copy(bundle, out / "x.presil")
    return out


def test_cases_are_hung_by_cycles(folder):
    code, found = regress(folder, CASES + BUNDLE.format(file="x.presil"), fault="livelock")
    assert code == 3 and {name: r["status"] for name, r in found.items()} == dict.fromkeys(found, "hung"), found
    assert set(found) == {"layers", "sweep", "bundle"}
    for name, record in found.items():
        assert EXPECTED in record["message"] and "time-out: not done after 60000 cycles" in record["message"], name
        assert record["seconds"] < 200, "it is not the wall clock"


def replay(folder: Path, *words, fault: str | None = None) -> subprocess.CompletedProcess:
    environment = {**os.environ, "PRESIL_MUTANT": str(number(fault) if fault else 9999)}
    command = [built.build_directory() / "bin" / "presil-replay", "x.presil", "--library", library(), *words]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=200, env=environment)


def test_presil_replay_counts_the_cycles_of_all_launches(folder):
    done = replay(folder, "--json", "whole.json")
    rows = json.loads((folder / "whole.json").read_text())["launches"]
    assert done.returncode == 0 and len(rows) == 4, done.stdout + done.stderr
    cycles = [row["cycles"] for row in rows]
    assert replay(folder, "--timeout-cycles", str(sum(cycles) + 100)).returncode == 0
    done = replay(folder, "--timeout-cycles", str(sum(cycles[:2]) - 100), "--json", "part.json")
    part = json.loads((folder / "part.json").read_text())["launches"]
    assert done.returncode == 3 and [row["outcome"] for row in part] == ["pass", "hung"], done.stdout
    assert f"at most {cycles[1] - 100} expected" in part[1]["error"], part[1]
    assert "launches 2 to 3 are not replayed" in done.stderr
    for words in (("--timeout-cycles", "0"), ("--timeout-cycles", "1e6")):
        done = replay(folder, *words)
        assert done.returncode == 2 and "a number from 1 on expected" in done.stderr


def test_a_fault_that_is_injected_has_no_more_time(folder):
    """Not the EHUNG that the fault is to come to."""
    words = ("--launches", "0", "--inject", "late=0", "--expect", "EHUNG")
    assert replay(folder, *words).returncode == 0
    done = replay(folder, *words, "--timeout-cycles", "100000")
    assert done.returncode == 3 and "time-out" in done.stdout + done.stderr, done.stdout + done.stderr


def test_it_is_looked_into_for_as_long_as_the_launch_should_take(folder, monkeypatch):
    """The suite grants 400 million cycles, minutes for each replay: the search would not be done in its 120 s."""
    monkeypatch.setenv("PRESIL_MUTANT", str(number("livelock")))
    bundle = folder / "one" / "alone.presil"
    bundle.parent.mkdir()
    tool = built.build_directory() / "bin" / "presil-bundle"
    subprocess.run([tool, "extract", "x.presil", "--launches", "0", "--out", bundle], cwd=folder, check=True)
    parameters = {"file": bundle.name, "mode": "rtl", "arguments": []}
    job = Job("one", "alone", "bundle", str(bundle.parent), parameters, "tiny", "fast", library=str(library()))
    job.timeout_cycles = 400_000_000
    record = {"status": "hung", "log": "one/log", "bundles": [], "changes": [], "before": {}, "key": job.key}
    found = examine(job, record, folder, Simulators(folder / "runs", None, None))
    assert found.command.startswith("LOAD") and found.evidence.startswith("first wrong command"), found
