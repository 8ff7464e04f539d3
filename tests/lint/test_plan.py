# SPDX-License-Identifier: Apache-2.0
"""The verification plan: testpoints, tests and covers that there are, a page that says so, holes with a reason."""

import sys

import pytest
from files import ROOT

sys.path.insert(0, str(ROOT))
sys.path.insert(0, str(ROOT / "tests"))
from coverage import plan  # noqa: E402


@pytest.fixture(scope="module")
def known():
    return plan.points(), plan.covers(), plan.cases()


def test_plan_rtl_and_suites_agree(known):
    points, covers, cases = known
    assert len(points) > 20 and len(covers) > 200 and len(cases) > 20
    assert not plan.problems(points, covers, cases)


def test_what_is_missing_is_found(known):
    points, covers, cases = known
    gone, new = "presil_load.c_full", "presil_load.c_new"
    assert plan.problems(points, covers - {gone} | {new}, cases) == [
        f"testpoint queues: no cover {gone} in rtl/",
        f"cover {new} of rtl/: in no testpoint",
    ]
    fewer = [case for case in cases if case.full_name != "nightly/driver"]
    assert [text for text in plan.problems(points, covers, fewer) if "nightly/driver" in text]


def test_the_page_is_up_to_date():
    assert plan.PAGE.read_text() == plan.page(), "tests/coverage/plan.py --write"


def test_holes_are_lines_with_a_reason():
    from presil_regress import coverage_report

    holes = coverage_report.holes([ROOT / "tests" / "regress"])
    lines = coverage_report.located(holes, ROOT)
    assert all(len(hole.reason) > 20 for hole in holes)
    assert len(holes) > 30 and not [hole for hole, numbers in lines.items() if not numbers]


def test_each_long_module_is_checked_alone():
    missing = {m.name: m.missing() for m in plan.modules.modules(plan.labels())}
    assert len(missing) > 20
    assert {name: what for name, what in missing.items() if what} == {}
    assert set(plan.modules.WITHIN) <= set(missing), "a module in WITHIN that rtl/ has not"
