# SPDX-License-Identifier: Apache-2.0
"""What kills.py makes of what cases come to: which is asked first, what is kept, what counts as found."""

from pathlib import Path

from . import kills  # noqa
import pytest
import sheets
from torch_presil.regress.run_list import Job

FAULTS = sheets.load()[:4]


class Chips:
    """Stands for a Runner: (case, fault number) -> status, else passed; what was run is in `asked`."""

    def __init__(self, ends):
        self.ends, self.asked = ends, []

    def __call__(self, run, jobs, at_once, known, events):
        (job,) = jobs
        fault = int(job.env["PRESIL_MUTANT"])
        self.asked.append((job.case_name, fault))
        status = self.ends.get((job.case_name, fault), "passed")
        self.records = [{"status": status, "seconds": 1.0, "message": ""}]
        return self

    def go(self):
        pass


@pytest.fixture
def begun(tmp_path, monkeypatch):
    """Begins a campaign of two cases, `first` and `second`, with what was kept of those before."""
    (tmp_path / "stamp").write_text("rtl")

    def begin(ends, checked_by="today's tests"):
        chips = Chips(ends)
        monkeypatch.setattr(kills, "Runner", chips)
        monkeypatch.setattr(kills.Campaign, "library", lambda *_: tmp_path / "lib.so")
        jobs = [Job("s", name, "programs", str(tmp_path), {}, "tiny", "fast") for name in ("first", "second")]
        book = kills.Book(tmp_path / "kills.jsonl").read()
        return kills.Campaign(jobs, FAULTS, book, tmp_path, checked_by), chips

    return begin


def found_by(outcome):
    return outcome.line and outcome.line["case"].removeprefix("s/")


def test_the_case_that_found_most_is_asked_first(begun):
    work, chips = begun({("second", 1): "failed", ("second", 2): "hung"})
    assert [found_by(work.find(f)) for f in FAULTS[:2]] == ["second", "second"]
    # The chip without a fault (0) is looked at once for each case that finds one.
    assert chips.asked == [("first", 1), ("second", 1), ("second", 0), ("second", 2)]


def test_what_was_run_is_kept(begun, tmp_path):
    work, _ = begun({("second", 1): "failed"})
    before = [work.find(f) for f in FAULTS[:2]]
    with Path(tmp_path / "kills.jsonl").open("a") as file:
        file.write('{"digest": "torn')
    again, chips = begun({})
    after = [again.find(f) for f in FAULTS[:2]]
    assert chips.asked == [] and list(map(found_by, after)) == list(map(found_by, before)) == ["second", None]


def test_what_older_tests_found_is_asked_again(begun):
    work, _ = begun({("first", 1): "failed"})
    assert found_by(work.find(FAULTS[0])) == "first"
    edited, chips = begun({}, "tests that were edited")
    assert found_by(edited.find(FAULTS[0])) is None and chips.asked == [("first", 1), ("second", 1)]


@pytest.mark.parametrize("folder", kills.CHECKS)
def test_an_edit_of_what_looks_at_the_chip_is_seen(folder, tmp_path):
    for name in kills.CHECKS:
        (tmp_path / name / "in").mkdir(parents=True)
        (tmp_path / name / "in" / "check.py").write_text("assert bytes_equal\n")
    before = kills.checks(tmp_path)
    assert kills.checks(tmp_path) == before
    (tmp_path / folder / "in" / "check.py").write_text("pass\n")
    assert kills.checks(tmp_path) != before


def test_the_folders_of_checks_are_there():
    assert all((sheets.ROOT / folder).is_dir() for folder in kills.CHECKS)


def test_a_chip_without_a_fault_that_fails_ends_it(begun):
    work, _ = begun({("first", 1): "failed", ("first", 0): "failed"})
    with pytest.raises(SystemExit, match="the sound chip"):
        work.find(FAULTS[0])


def test_what_the_wall_clock_ended_has_found_nothing(begun):
    work, chips = begun({("first", 1): "infrastructure"})
    assert found_by(work.find(FAULTS[0])) is None and chips.asked == [("first", 1), ("second", 1)]


def test_the_table_says_who_found_how_many(begun):
    work, _ = begun({("second", 1): "failed", ("second", 2): "hung", ("first", 3): "crashed"})
    text = kills.table([work.find(f) for f in FAULTS])
    assert "| s/second | tiny, fast | 2 | 1.5 |" in text and "| s/first | tiny, fast | 1 |" in text
    assert text.endswith("| all | | 3 | 2.0 |")
