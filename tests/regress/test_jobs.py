# SPDX-License-Identifier: Apache-2.0
"""Processes of a case that is a whole network: PRESIL_JOBS, else the cores that the other runs leave."""

import json

import pytest
from torch_presil.regress import command, exit_codes, here, kinds
from torch_presil.regress.run_list import Job

from .conftest import HERE

COSIM = f'kind = "cosim"\nmodel = "{HERE / "models.py"}:small_cnn"\n'


@pytest.mark.parametrize(
    ("at_once", "runs", "cores", "jobs"), [(1, 20, 8, 8), (4, 20, 8, 2), (8, 1, 8, 8), (8, 20, 8, 1), (16, 20, 8, 1)]
)
def test_few_runs_take_all_cores(at_once, runs, cores, jobs):
    assert here.jobs_of_each(at_once, runs, cores) == jobs


@pytest.mark.parametrize(
    ("mode", "build", "jobs"),
    [("verify", "fast", 3), ("hybrid", "check", 3), ("rtl", "fast", None), ("verify", "coverage", None)],
)
def test_what_compares_the_whole_network_may_have_them(tmp_path, monkeypatch, mode, build, jobs):
    monkeypatch.setattr(kinds, "_check_coverage", lambda job: None)
    asked = {"model": "m:f", "mode": mode}
    command = kinds.resolve(Job("s", "c", "cosim", str(tmp_path), asked, "tiny", build), tmp_path, 3)
    assert json.loads(command.argv[-1])["jobs"] == jobs


def processes(place) -> str:
    (log,) = (place.last.path / "cases").glob("*/log")
    return next(line for line in log.read_text().splitlines() if line.startswith("processes "))


def test_a_lone_network_has_all_cores_and_the_cycles_of_one(place, monkeypatch):
    (place.folder / "nets.toml").write_text(f"[suite]\ndefaults = {{ chips = ['tiny'] }}\n[case.whole]\n{COSIM}")
    monkeypatch.setattr(command.exit_codes, "cores", lambda: 3)
    monkeypatch.delenv("PRESIL_JOBS", raising=False)
    assert place.go("nets") == exit_codes.PASS and processes(place) == "processes 3"
    several = place.found()["whole"]
    monkeypatch.setenv("PRESIL_JOBS", "1")
    assert place.go("nets", against=place.last.name) == exit_codes.PASS and processes(place) == "processes 1"
    found = place.found()["whole"]
    assert found["compared"] and found["launches"] == several["launches"] and found["checks"] == several["checks"] > 3
