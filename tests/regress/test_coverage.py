# SPDX-License-Identifier: Apache-2.0
"""Coverage in a run of regress: what cases leave is merged, shown and in every report; the build on demand."""

import json
import re
import struct
import tomllib
from pathlib import Path

import pytest
from torch_presil.regress import kinds
from torch_presil.regress.run_list import Job

from .conftest import HERE
from .dvsim_models import Results
from .test_html import in_a_browser, opened

NAME = "n" * 32
TABLE = (
    "0\t1\tline\trtl/a.sv\t5\t3\ttop.a\tblock\t5-8\n1\t1\tline\trtl/a.sv\t9\t3\ttop.a\tblock\t9\n"
    "2\t1\tuser\trtl/a.sv\t20\t3\ttop.a.c_full\tc_full\t20\n3\t1\tuser\trtl/a.sv\t21\t3\ttop.a.c_end\tc_end\t21\n"
)


@pytest.fixture
def covered(place, tmp_path):
    """A run of two cases: one of two layers, and one that reaches more."""
    made = tmp_path / "made"
    for case, counts in (("net", (1, 0, 1, 0)), ("other", (0, 1, 0, 0))):
        (made / case).mkdir(parents=True)
        (made / case / f"coverage.points-{NAME}").write_text(TABLE)
        data = struct.pack("<8sII32s16x4I", b"PRESILCV", 1, 4, NAME.encode(), *counts)
        data += struct.pack("<QBQB", 1, 1, 2, 4) if case == "net" else b""
        (made / case / "coverage.1").write_bytes(data)
    (made / "net" / "result.json").write_text(json.dumps({"checks": 1, "labels": [["conv1", 1], ["fc", 1]]}))
    lines = [
        f'[case.{case}]\nkind = "command"\ncommand = ["cp", "-r", "{made}/{case}/.", "{{directory}}"]'
        for case in ("net", "other")
    ]
    (place.folder / "some.toml").write_text("\n".join(lines))
    body = 'stage = "V2"\ngoal = "g"\nstimulus = "s"\ncheck = "c"\ntests = ["net"]\n'
    (place.folder / "testplan.toml").write_text(f'[testpoint.point]\n{body}covers = ["a.c_full", "a.c_end"]\n')
    assert place.go("some") == 0, place.printed
    return place


def test_it_is_merged_and_shown(covered):
    own = covered.results()["presil"]["coverage"]
    assert own["total"]["line"] == {"reached": 5, "total": 5, "percent": 100.0}
    assert own["total"]["cover"] == {"reached": 1, "total": 2, "percent": 50.0}
    assert own["layers"]["some/net: fc"]["only_here"] == ["a.c_full"] and own["covers_missing"] == ["a.c_end"]
    assert own["lines_of_no_model"] == [["rtl/a.sv", 9]]
    (tested,) = [t for t in own["testpoints"] if t["name"] == "point"]
    assert tested["missing"] == ["a.c_end"]
    assert json.loads((covered.last.path / "coverage.json").read_text()) == own
    assert re.search(r"some\s.*100.0 %.*50.0 %", covered.printed) and "not reached: a.c_end" in covered.printed
    assert "some/net: fc: a.c_full" in covered.printed


def test_it_is_in_what_dvsim_has(covered):
    results = Results.model_validate(covered.results("dvsim.json"))
    code, own = results.coverage.code, covered.results()["presil"]["coverage"]["total"]
    assert (code.line_statement, results.coverage.assertion) == (100.0, 50.0)
    assert (code.branch, code.toggle) == (own["branch"]["percent"], own["toggle"]["percent"])
    assert (code.block, code.fsm, results.coverage.functional) == (None, None, None)
    assert results.vplan_coverage == 50.0, "of the testpoint's two covers"
    page = covered.last.path / "report.html"
    assert results.cov_report_page == results.vplan_report_page == page and page.is_file()


def test_a_run_without_coverage_says_nothing_of_it(place):
    place.suite("plain", {"good": "passes"})
    assert place.go("plain") == 0
    assert place.results()["presil"]["coverage"] is None and "Coverage" not in place.printed


@in_a_browser
def test_it_is_in_the_report(covered):
    page = opened(covered.last.path / "report.html")
    body = page.split("<script")[0]
    assert "some/net: fc" in body and "<td>a.c_end</td>" in body and "lines 5 of 5" in body


def test_the_library_is_built_on_demand(tmp_path, monkeypatch):
    monkeypatch.setenv("PRESIL_BUILD_DIR", str(tmp_path))
    monkeypatch.delenv("PRESIL_LIBRARY_PATH", raising=False)
    job = Job("s", "c", "command", str(tmp_path), {"command": ["true"]}, "wide", "coverage")
    with pytest.raises(kinds.Skip, match="libpresil_sim_wide_coverage.so is not built; --chip wide builds it"):
        kinds.resolve(job, tmp_path)
    (tmp_path / "lib").mkdir()
    (tmp_path / "lib" / "libpresil_sim_wide_coverage.so").touch()
    assert kinds.resolve(job, tmp_path).environment["PRESIL_COVERAGE"] == str(tmp_path / "coverage")
    assert "PRESIL_COVERAGE" not in kinds.resolve(Job(**{**job.as_dict(), "build": "check"}), tmp_path).environment


def test_programs_that_a_suite_names_are_there():
    """Of the suite `coverage`: what pytest is given."""
    words = tomllib.loads((HERE / "coverage.toml").read_text())["case"]["directed"]["command"]
    files = [word.replace("{root}", str(HERE.parents[1])) for word in words if word.endswith(".py")]
    assert len(files) > 3 and not [name for name in files if not Path(name).is_file()]
