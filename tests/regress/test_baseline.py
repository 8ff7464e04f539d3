# SPDX-License-Identifier: Apache-2.0
"""Cycles against a baseline or another run: exact, with the stall cause of each change; accepting with a reason."""

import json
import shlex
import shutil
import subprocess
import sys

import pytest
from torch_presil.regress import baseline, exit_codes, records as run_records

from .conftest import CLI


@pytest.fixture
def measured(place, monkeypatch):
    """A suite whose case takes so many cycles."""
    place.suite("one", {"case": "cycles", "plain": "passes"})

    def cycles(count):
        monkeypatch.setenv("FAKE_CYCLES", str(count))

    cycles(100)
    return cycles


def test_cycles_that_changed_are_told_with_their_cause(place, measured):
    assert place.go("one", run="before") == 0
    measured(130)
    assert place.go("one", against="before") == exit_codes.CYCLES
    record = place.found()["case"]
    assert record["status"] == "cycles" and record["compared"] and place.found()["plain"]["status"] == "passed"
    text = "conv1: 100 -> 130 cycles (+30): reader data 40 -> 70 (+30)"
    assert record["message"] == text and text in place.printed
    assert place.go("one", against="before", builds=["check"]) == exit_codes.CYCLES  # builds take the same cycles
    measured(100)
    assert place.go("one", against=str(place.runs / "before")) == 0 and place.found()["case"]["compared"]


def test_without_a_baseline_nothing_is_compared(place, measured):
    assert place.go("one") == 0 and not place.found()["case"]["compared"]
    text = "cycles: 1 of 1 runs not compared: {} has nothing of their chip, memory and seed"
    assert text.format("baseline.json") in place.printed
    before = place.last.name
    assert place.go("one", against=before, memory=["ideal"]) == 0 and text.format(before) in place.printed
    assert place.go("one", against=before) == 0 and "not compared" not in place.printed
    assert place.go("one", against="none") == 0 and "not compared" not in place.printed
    assert place.go("one", against="no-such-run") == exit_codes.USAGE
    assert place.go("one", against="/no/such.json") == exit_codes.USAGE


def test_accepted_cycles_are_the_suite_s_baseline(place, measured):
    assert place.go("one") == 0
    assert place.go(accept="first figures") == 0
    path = place.folder / "baseline.json"
    first = json.loads(path.read_text())
    assert [note["reason"] for note in first["reasons"]] == ["first figures"]
    assert first["cases"]["one/case[base]#0"]["launches"] == {"conv1": [100, {"reader": {"busy": 60, "data": 40}}]}
    measured(90)
    assert place.go("one") == exit_codes.CYCLES and "--accept-cycles" in place.printed
    assert place.go("one", against="none") == 0
    assert place.go("one", accept="weights are prefetched") == 0
    assert place.go("one") == 0 and place.found()["case"]["compared"]
    second = json.loads(path.read_text())
    assert [note["reason"] for note in second["reasons"]] == ["first figures", "weights are prefetched"]
    assert all(note["date"] and note["cases"] == 1 for note in second["reasons"])
    assert path.read_text().count("\n") > 6  # a line a launch


def test_a_baseline_is_for_its_seed(place, measured):
    place.go("one")
    place.go(accept="first figures")
    measured(90)
    assert place.go("one", seed=5) == 0 and not place.found()["case"]["compared"]


def test_what_is_not_written(place, measured, capsys):
    place.go("one", mode="soak")
    assert place.go(accept="why") == exit_codes.USAGE and "fresh seeds" in capsys.readouterr().err
    place.go("one")
    assert place.go(accept=" ") == exit_codes.USAGE
    place.suite("bad", {"case": "cycles", "fails": "exit1"})
    assert place.go("bad", accept="why") == 1 and not (place.folder / "baseline.json").exists()
    place.suite("none", {"case": "passes"})
    place.go("none")
    assert place.go(accept="why") == exit_codes.USAGE and "reported cycles" in capsys.readouterr().err


def test_changes():
    old = {"a": [100, {"x": {"busy": 100}}], "b": [7, {}], "c": [5, {}]}
    new = {"a": [100, {"x": {"busy": 90, "wait": 10}}], "c": [9, {}], "d": [3, {}]}
    texts = [baseline.describe(change) for change in baseline.changes(old, new)]
    assert texts == [
        "b: no longer launched (7 cycles before)",
        "c: 5 -> 9 cycles (+4): no cause",
        "d: new, 3 cycles",
        "a: 100 -> 100 cycles (+0): x busy 100 -> 90 (-10); x wait 0 -> 10 (+10)",
    ]
    assert baseline.changes(old, old) == []


def test_the_line_that_repeats_a_run_gives_what_it_gave(place, measured):
    """Of every seed, against a run by its name; from another folder, by the program itself."""
    place.suite("one", {"case": ("cycles", "reseed = 2")})
    assert place.go("one", run="before") == 0 and place.go("one", accept="first figures") == 0
    measured(130)
    for against, code, some in ((None, 5, (0, 1)), ("before", 5, (1,)), ("none", 0, (1,))):
        assert place.go("one", against=against) == code
        records = place.last.records()
        assert [r["key"] for r in records] == ["one/case[base,fast]#0", "one/case[base,fast]#1"]
        for record in (records[index] for index in some):
            words = shlex.split(record["again"], comments=True)[2:]
            done = subprocess.run(
                [sys.executable, CLI, "regress", *words, "--run", "again"], cwd="/", capture_output=True, text=True
            )
            assert done.returncode == code, done.stdout + done.stderr
            (again,) = run_records.find(place.runs, "again").records()
            same = ("key", "seed", "status", "compared", "changes", "message", "again")
            assert {name: again[name] for name in same} == {name: record[name] for name in same}
            shutil.rmtree(place.runs / "again")


def test_an_index_is_of_a_case_s_seed(place, measured):
    for wrong in ({"case_index": 1}, {"case_index": -1, "case_seed": 5}):
        assert place.go("one", **wrong) == exit_codes.USAGE
