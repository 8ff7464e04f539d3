# SPDX-License-Identifier: Apache-2.0
"""The simulators that a failure is looked into with: built when they are not there, and what is kept of a good run."""

import os
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
from rich.console import Console
from torch_presil.regress import examine, failures, run_list, suite, traced
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
    (kept,) = known.folder.glob("*/rtl")
    assert (kept / "presil_agen.sv").is_file()
    with pytest.raises(Unclear, match="that of the last run that passed"):
        known.good(job)
    as_it_was = kept.parent.rename(known.folder / "before") / "rtl"
    with open(as_it_was / "presil_agen.sv", "a") as file:
        file.write("// as it was\n")
    index = known.folder / traced.INDEX
    index.write_text(index.read_text().replace(kept.parent.name, "before"))
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
    with pytest.raises(Unclear, match="that of the last run that passed"):
        known.good(job)
    traced.write_bytes(b"two")
    assert known.good(job).read_bytes() == b"one" and known.new(job) == traced
    traced.unlink()
    known.keep([job])
    assert not list(known.folder.glob("*/*.so"))


def test_what_passed_counts_for_its_own_case_alone(job, known, tmp_path):
    """A bug that one case does not see: the other is compared with the RTL on which it passed itself."""
    traced = tmp_path / "libpresil_sim_tiny_trace.so"
    blind, sees = (replace(job, case_name=name) for name in ("blind", "sees"))
    for content, passed in ((b"one", [blind, sees]), (b"two", [blind])):
        traced.write_bytes(content)
        known.keep(passed)
    assert known.good(sees).read_bytes() == b"one"
    with pytest.raises(Unclear, match="that of the last run that passed"):
        known.good(blind)
    assert known.good(replace(job, case_name="new")).read_bytes() == b"one"  # the last that is not today's
    traced.write_bytes(b"three")
    assert known.good(replace(job, case_name="new")).read_bytes() == b"two"
    assert known.good(replace(sees, seed=7)).read_bytes() == b"one"  # its case before what passed last
    known.keep([blind, sees])
    assert [path.read_bytes() for path in known.folder.glob("*/*.so")] == [b"three"], "the others are nobody's"


def test_a_run_keeps_what_passed_in_it(place, tmp_path, monkeypatch):
    """Behind looking into what failed, which is so compared with what was there before."""
    traced_library = tmp_path / "libpresil_sim_base_trace.so"
    monkeypatch.setenv("PRESIL_LIBRARY_PATH", str(tmp_path))
    for content, ways in ((b"one", ("passes", "passes")), (b"two", ("passes", "bundle"))):
        traced_library.write_bytes(content)
        place.suite("two", dict(zip(("blind", "sees"), ways)))
        place.go("two")
    known = traced.Simulators(place.runs, None, Console(quiet=True))
    jobs = {one.case_name: one for one in place.last.jobs()}
    assert known.good(jobs["sees"]).read_bytes() == b"one"
    traced_library.write_bytes(b"three")
    assert known.good(jobs["blind"]).read_bytes() == b"two"
    place.go("two/blind")
    assert known.good(jobs["sees"]).read_bytes() == b"one"


def test_what_fails_for_the_first_time_is_compared_with_what_passed_before_this_run(place, tmp_path, monkeypatch):
    """Another case passes beside it, on the RTL that fails: this is kept behind looking into the failure."""
    traced_library, compared = tmp_path / "libpresil_sim_base_trace.so", []

    def looked_into(job, _record, _run_path, simulators):
        compared.append(simulators.good(job).read_bytes())
        return examine.Found()

    monkeypatch.setattr(failures, "examine", looked_into)
    monkeypatch.setenv("PRESIL_LIBRARY_PATH", str(tmp_path))
    for content, cases in ((b"one", {"blind": "passes"}), (b"two", {"blind": "passes", "new": "bundle"})):
        traced_library.write_bytes(content)
        place.suite("two", cases)
        place.go("two")
    assert compared == [b"one"]


def test_a_good_simulator_that_is_not_there_is_said(job, tmp_path):
    given = traced.Simulators(tmp_path, str(tmp_path / "gone.so"), Console(quiet=True))
    with pytest.raises(Unclear, match="gone.so: there is no such file"):
        given.good(job)
