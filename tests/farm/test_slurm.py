# SPDX-License-Identifier: Apache-2.0
"""presil regress --farm slurm on a real Slurm, of one machine."""

import json
import os
import subprocess

import pytest

from torch_presil.regress import exit_codes

from . import slurm as slurm_here
from .conftest import cases_below, wait_for
from .slurm import NoSlurm, Slurm


NEEDED = "PRESIL_NEEDS_SLURM"  # set where Slurm has to be: a missing one is a failure


def begun(folder) -> Slurm:
    try:
        return Slurm(folder)
    except NoSlurm as why:
        if os.environ.get(NEEDED):
            pytest.fail(f"{NEEDED} is set: {why}")
        pytest.skip(str(why))


@pytest.fixture(scope="module")
def slurm(tmp_path_factory):
    made = begun(tmp_path_factory.mktemp("slurm"))
    yield made
    made.end()


@pytest.fixture
def farm(slurm, place, monkeypatch, tmp_path) -> str:
    for name, value in slurm.environment.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("PRESIL_FARM_CACHE", str(tmp_path / "cache"))
    return f"slurm,cores=1,memory=1GB,interface=lo,jobs=2,walltime=00:10:00,log_directory={tmp_path}/logs"


def test_cases_are_jobs_of_slurm(slurm, farm, place, tmp_path, monkeypatch):
    """In two jobs of the queue, of which one is cancelled in mid-run; another takes its place, and none is left."""
    monkeypatch.setenv("FAKE_SECONDS", "2")
    place.suite("one", {"bad": "exit1", "told": "environment", "slow": ("slow", "reseed = 6")})
    runner = place.start("one", "--farm", farm, start_new_session=True)
    wait_for(lambda: len(set(cases_below(tmp_path / "cache").values())) == 2)
    first = slurm.ask("squeue", "-h", "-o", "%i %T").splitlines()
    slurm.ask("scancel", sorted(line.split()[0] for line in first if "RUNNING" in line)[0])
    out, _ = runner.communicate(timeout=150)
    assert runner.returncode == exit_codes.MISMATCH, out
    found = [(r["case_name"], r["status"]) for r in place.last.records()]
    assert sorted(found) == sorted([("bad", "failed"), ("told", "passed")] + [("slow", "passed")] * 6), out
    (log,) = (place.last.path / "cases").glob("*told*/log")
    assert json.loads(log.read_text().splitlines()[-1])["SLURM_JOB_ID"].isdigit()
    wait_for(lambda: not slurm.ask("squeue", "-h"), 30)


def test_what_the_queue_does_not_take_is_said(farm, place):
    place.suite("one", {"case": "passes"})
    assert place.go("one", farm="slurm,cores=1,no_such_option=3") == exit_codes.USAGE
    assert "no_such_option" in place.errors and "Traceback" not in place.errors
    assert subprocess.run(["squeue", "-h"], capture_output=True, env=os.environ).stdout == b""


def test_only_a_slurm_that_is_not_there_is_skipped(tmp_path, monkeypatch):
    monkeypatch.setattr(slurm_here, "PATH", str(tmp_path))
    monkeypatch.delenv(NEEDED, raising=False)
    with pytest.raises(pytest.skip.Exception, match="needs munged"):
        begun(tmp_path / "one")
    monkeypatch.setenv(NEEDED, "1")
    with pytest.raises(pytest.fail.Exception, match="needs munged"):
        begun(tmp_path / "two")
    for name in slurm_here.PROGRAMS:
        (tmp_path / name).write_text("#!/bin/sh\necho no right to do so\nexit 3\n")
        (tmp_path / name).chmod(0o755)
    monkeypatch.delenv(NEEDED)
    monkeypatch.setattr(slurm_here.os, "getuid", lambda: 0)
    with pytest.raises((RuntimeError, pytest.skip.Exception)) as caught:
        begun(tmp_path / "three")
    assert caught.type is RuntimeError and "munged ends at once: no right to do so" in str(caught.value)
