# SPDX-License-Identifier: Apache-2.0
"""What a run leaves: records, JUnit, JSON after dvsim's, signatures; the HTML is in test_html.py."""

import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest
import xmlschema
from torch_presil.regress import exit_codes, signatures, testplan

from .dvsim_models import Results, Testplan

HERE = Path(__file__).parent


@pytest.fixture
def mixed(place):
    """A run with something of everything."""
    place.suite(
        "mixed",
        {
            "good": ("passes", "reseed = 2"),
            "unit": ("unit", "reseed = 3"),
            "assertion": ("assertion", "reseed = 3"),
            "wall": ("hang", "timeout_seconds = 1"),
            "skip": "exit77",
            "bundle": "bundle",
            "cycles": "cycles",
        },
    )
    body = 'stage = "V2"\ngoal = "g"\nstimulus = "s"\ncheck = "c"\n'
    (place.folder / "testplan.toml").write_text(
        f'[testpoint.all]\n{body}tests = ["mixed/good", "unit"]\n[testpoint.none]\n{body}tests = ["skip"]\n'
        f'[testpoint.good]\n{body}tests = ["good"]\n'
    )
    assert place.go("mixed", jobs=4) == exit_codes.MISMATCH
    return place


def test_failures_come_together_by_signature(mixed):
    groups = mixed.results("dvsim.json")["failed_jobs"]["buckets"]
    assert {name: len(some) for name, some in groups.items()} == {
        "failed in store: first difference at out[*], at *": 3,
        "crashed: SIGABRT; %Error: fake_fifo.sv:*: Assertion failed in TOP.fake.load[*]: p_no_overflow at cycle *": 3,
        "infrastructure: wall clock: not done after * s (timeout_seconds)": 1,
        "failed: seed *: bundle": 1,
    }
    assert mixed.printed.count("3 × ") == 2 and "first: mixed/unit[base,fast]#0" in mixed.printed


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("[  123.5 ns] conv1: differs at out[0, 1, 14, 3]", "[ 9 ns] conv1: differs at out[2, 7, 0, 255]"),
        ("/work/a/b.sv:31: Assertion x at 0x7fff_1234", "/tmp/other/b.sv:31: Assertion x at 0xdead"),
        ("32'hdeadbeef expected 16'h0", "32'h1 expected 16'hX"),
        ("12,345 cycles, 0.5 s", "7 cycles, 12.75 s"),
        ("launch 17: no progress for 200000 cycles", "launch 3: no progress for 1 cycles"),
    ],
)
def test_numbers_and_places_do_not_part_one_cause(one, other):
    assert signatures.normalised(one) == signatures.normalised(other)


@pytest.mark.parametrize(
    ("one", "other"),
    [("conv1 differs", "conv2 differs"), ("load: wait", "store: wait"), ("p_no_overflow", "p_no_underflow")],
)
def test_names_part_causes(one, other):
    assert signatures.normalised(one) != signatures.normalised(other)
    assert signatures.signature("failed", "a", one) != signatures.signature("failed", "b", one)
    assert signatures.signature("failed", "a", one) != signatures.signature("hung", "a", one)


@pytest.mark.parametrize(
    ("log", "line"),
    [
        ("start\nINFO error count 0\n%Error: x.sv:3: Assertion failed in a: p\nmore error\n", "%Error: x.sv:3"),
        ("Traceback (most recent call last):\n  File x\nValueError: bad thing\n", "ValueError: bad thing"),
        ("a\n==1==ERROR: AddressSanitizer: heap-use-after-free\nb\n", "==1==ERROR: AddressSanitizer"),
        ("one\ntwo\n\n", "two"),
        ("", ""),
    ],
)
def test_the_line_of_a_log_that_tells(tmp_path, log, line):
    (tmp_path / "log").write_text(log)
    found, number = signatures.first_wrong_line(tmp_path / "log")
    assert found.startswith(line) and (not line or log.splitlines()[number - 1].strip() == found)


def test_junit_holds_to_the_schema_and_has_the_properties(mixed):
    path = mixed.last.path / "junit.xml"
    xmlschema.XMLSchema(HERE / "junit.xsd").validate(str(path))
    suites = list(ElementTree.parse(path).getroot())
    assert len(suites) == 12
    by_name = {s.get("name"): s for s in suites}
    suite = by_name["mixed/unit[base,fast]#0"]
    properties = {p.get("name"): p.get("value") for p in suite.iter("property")}
    record = mixed.found()["unit"]
    assert properties["unit"] == "store" and properties["status"] == "failed"
    assert properties["replay"].startswith("./presil regress mixed/unit --case-seed ") and properties["seed"].isdigit()
    assert suite.find("testcase/failure").get("message").startswith("first difference") and record
    assert by_name["mixed/wall[base,fast]#0"].find("testcase/error").get("type") == "infrastructure"
    assert by_name["mixed/skip[base,fast]#0"].find("testcase/skipped") is not None
    assert not list(by_name["mixed/good[base,fast]#0"].find("testcase"))
    root = ElementTree.parse(path).getroot()
    assert (root.get("failures"), root.get("errors")) == ("4", "4")
    bundle = {p.get("name"): p.get("value") for p in by_name["mixed/bundle[base,fast]#0"].iter("property")}
    assert (mixed.last.path / bundle["bundle"]).read_bytes() == b"PRESILB\n"


def test_the_schema_refuses(tmp_path):
    schema = xmlschema.XMLSchema(HERE / "junit.xsd")
    for text in (
        '<testsuites><testsuite name="a" tests="1" failures="0" errors="0"><testcase name="a"><properties/></testcase>'
        "</testsuite></testsuites>",
        '<testsuites><testsuite name="a" tests="1" failures="0"/></testsuites>',
    ):
        assert not schema.is_valid(text)


def test_what_is_not_xml_is_kept_out(place):
    command = '["sh", "-c", "printf \'mismatch \\\\033[31m \\\\000 \\\\377 <&]]>\'; exit 1"]'
    (place.folder / "one.toml").write_text(f'[case.c]\nkind = "command"\ncommand = {command}\n')
    assert place.go("one") == 1
    xmlschema.XMLSchema(HERE / "junit.xsd").validate(str(place.last.path / "junit.xml"))


def test_results_have_dvsim_s_schema(mixed, tmp_path):
    whole, plain = mixed.results(), mixed.results("dvsim.json")
    results = Results.model_validate(plain)
    assert {**whole, "presil": None} == {**plain, "presil": None} and "presil" not in plain
    assert (results.passed, results.total) == (3, 11) and results.percent == round(300 / 11, 2)
    stage = results.stages["V2"]
    assert (stage.passed, stage.total) == (2, 5)
    point = stage.testpoints["all"]
    assert (point.passed, point.total) == (2, 5) and set(point.tests) == {"mixed/good", "mixed/unit"}
    assert stage.testpoints["none"].total == 0 and stage.testpoints["good"].percent == 100
    rest = results.stages["unmapped"].testpoints["unmapped"].tests
    assert set(rest) == {"mixed/assertion", "mixed/wall", "mixed/bundle", "mixed/cycles"}
    assert rest["mixed/cycles"].sim_time == 100 / 200 and rest["mixed/bundle"].sim_time is None
    assert (results.coverage, results.cov_report_page, results.vplan_coverage) == (None, None, None)
    failure = results.failed_jobs.buckets["failed: seed *: bundle"][0]
    assert failure.log_path.read_text().splitlines()[failure.line - 1] == failure.log_context[-1]


def test_the_testplan_as_dvsim_has_it(mixed, tmp_path):
    plan = Testplan.model_validate_json(Path(mixed.results("dvsim.json")["testplan_ref"]).read_text())
    tests = {point.name: point.tests for point in plan.testpoints}
    assert tests == {"all": ["mixed/good", "mixed/unit"], "none": ["mixed/skip"], "good": ["mixed/good"]}
    assert plan.testpoints[0].desc == "g\n\nStimulus: s\n\nCheck: c" and plan.name == "mixed"
    body = 'goal = "g"\nstimulus = "s"\ncheck = "c"\n'
    (mixed.folder / "testplan.toml").write_text(
        f"[testpoint.own]\nstage = 'alpha'\n{body}tests = ['*/good', 'no-such*']\n"
    )
    assert mixed.go("mixed", list=True, testplan=str(tmp_path / "plan.json")) == 0
    points = Testplan.model_validate_json((tmp_path / "plan.json").read_text()).testpoints
    (own,) = [point for point in points if point.name == "own"]
    assert own.stage == "N.A." and own.desc.endswith("Stage: alpha"), "dvsim knows no other stages"
    assert own.tests == ["mixed/good", "no-such*"]


def test_without_a_testplan_there_is_none(place):
    place.suite("plain", {"good": "passes"})
    assert place.go("plain") == 0 and place.results("dvsim.json")["testplan_ref"] is None
    assert not (place.last.path / testplan.FILE).exists()


def test_json_and_junit_go_where_asked(mixed, tmp_path):
    files = {"json": str(tmp_path / "a" / "r.json"), "junit": str(tmp_path / "b.xml"), "html": str(tmp_path / "c.html")}
    assert mixed.go("mixed", filter="good or cycles", **files) == 0
    assert all(Path(p).stat().st_size > 500 for p in files.values())
    assert (tmp_path / "b.xml").read_text() == (mixed.last.path / "junit.xml").read_text()


def test_testpoints_are_passed_failing_or_not_run(mixed):
    found = {t["name"]: t["status"] for t in mixed.results()["presil"]["testpoints"]}
    assert {"all": "failing", "none": "not run", "good": "passed"}.items() <= found.items()
    assert "failing" in mixed.printed and testplan.results([], []) == []


def test_a_record_is_one_line_at_once(mixed):
    lines = (mixed.last.path / "records.jsonl").read_text().splitlines()
    # What left a bundle has a second one, of what was found in it.
    examined = [line for line in lines if '"examined"' in line]
    assert len(lines) == 12 + len(examined) and len(examined) == 1 and mixed.last.plan["versions"]["torch"]
    for record in mixed.last.records():
        assert (mixed.last.path / record["log"]).exists() and record["again"].startswith("./presil regress mixed/")
