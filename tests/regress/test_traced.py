# SPDX-License-Identifier: Apache-2.0
"""The simulators that a failure is looked into with: built when they are not there, and what is kept of a good run."""

import os
import shutil
from pathlib import Path

import pytest
from rich.console import Console
from torch_presil.regress import run_list, suite, traced
from torch_presil.regress.failing_launch import Unclear

BUILD = Path(os.environ.get("PRESIL_BUILD_DIR", Path(__file__).resolve().parents[2] / "build" / "check"))
NAME = "libpresil_sim_tiny_fast.so"


@pytest.fixture
def job(tmp_path, monkeypatch):
    """One on tiny, whose build has no `trace`."""
    shutil.copy2(BUILD / "lib" / NAME, tmp_path)
    monkeypatch.setenv("PRESIL_LIBRARY_PATH", str(tmp_path))
    monkeypatch.setattr(traced, "build_directory", lambda: None)
    cases = suite.Loader(suite.search_path()).load(["smoke"])
    jobs = run_list.expand(cases, run_list.Choice(chips=["tiny"], builds=["fast"]))
    return next(one for one in jobs if one.case_name == "cnn-bf16")


@pytest.fixture
def known(tmp_path):
    return traced.Simulators(tmp_path / "runs", None, Console(quiet=True))


def test_a_library_says_what_it_is():
    assert traced.identity(BUILD / "lib" / NAME) == ("presil", "tiny")


def test_what_is_missing_is_built_of_this_rtl_and_of_the_last_good(job, known):
    assert traced.trace_library(job) is None
    with pytest.raises(Unclear, match="no run has passed"):
        known.good(job)
    known.keep([job])
    kept = known.folder / "presil" / "rtl"
    assert (kept / "presil_agen.sv").is_file()
    with pytest.raises(Unclear, match="that of the last run that passed"):
        known.good(job)
    with open(kept / "presil_agen.sv", "a") as file:
        file.write("// as it was\n")
    new, good = known.new(job), known.good(job)
    assert new.name == good.name == "libpresil_sim_tiny_trace.so" and new != good
    assert traced.identity(new) == traced.identity(good) == ("presil", "tiny")
    known.keep([job])  # today's RTL passed again
    with pytest.raises(Unclear, match="that of the last run that passed"):
        known.good(job)


def test_rtl_that_was_edited_since_is_not_what_ran(job, known, tmp_path):
    os.utime(tmp_path / NAME, (0, 0))
    with pytest.raises(Unclear, match="newer than the simulator that ran"):
        known.new(job)
    known.keep([job])
    assert not known.folder.exists()


def test_a_library_in_the_build_trace_is_kept_and_goes_with_it(job, known, tmp_path):
    traced = tmp_path / "libpresil_sim_tiny_trace.so"
    traced.write_bytes(b"one")
    known.keep([job])
    assert known.good(job).read_bytes() == b"one" and known.new(job) == traced
    traced.unlink()
    known.keep([job])
    assert not (known.folder / traced.name).exists()


def test_a_good_simulator_that_is_not_there_is_said(job, tmp_path):
    given = traced.Simulators(tmp_path, str(tmp_path / "gone.so"), Console(quiet=True))
    with pytest.raises(Unclear, match="gone.so: there is no such file"):
        given.good(job)
