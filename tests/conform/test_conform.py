# SPDX-License-Identifier: Apache-2.0
"""presil conform on our chips: what it runs, what it writes, what it refuses."""

import json
import re
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest
import table
from conform_runs import BUILD, OF_CHOICE, ROOT, conform, library
from conform_runs import check as one_check

from conform.checks import CHECKS
from conform.register import load

load()
NAMES = {check.name for check in CHECKS.values()}


@pytest.mark.parametrize("name", ["tiny_check"])
def test_transport_of_our_chips(name, tmp_path):
    junit, html = tmp_path / "out.xml", tmp_path / "out.html"
    run = conform(library(name), "--level", "transport", "--junit", junit, "--html", html)
    expected = [check.name for check in CHECKS.values() if check.level == "transport"]
    assert [row["check"] for row in run["checks"]] == expected
    assert run["counts"] == {"passed": len(expected), "failed": 0, "skipped": 0}, run["output"]
    table.expect_as_said("tiny", run)
    suite = ElementTree.parse(junit).getroot().find("testsuite")
    assert [case.get("name") for case in suite.iter("testcase")] == expected and suite.get("failures") == "0"
    assert all(name in html.read_text() for name in expected)


@pytest.mark.parametrize(
    "name, skipped",
    [
        ("stub_fast", {"matmul", "matmul-limits", "conv", "layouts", "pool", "steps"} | OF_CHOICE),
        ("tiny_fast", {"pool"} | OF_CHOICE - {"timing", "usage", "weight-gradient", "work"}),
    ],
)
def test_chip_level_of_our_chips(name, skipped):
    chip = ["--chip", BUILD / "tests/c/libraries/libpresil_chip_stub.so"] if name == "stub_fast" else []
    run = conform(library(name), "--level", "chip", *chip)
    assert {row["check"] for row in run["checks"] if row["status"] == "skipped"} == skipped, run["output"]
    assert run["counts"]["failed"] == 0 and run["counts"]["passed"] >= 10, run["output"]


def test_our_chip_takes_several_launches_with_records():
    """It takes one at a time without."""
    run = conform(library("tiny_fast"), "--level", "chip", "--only", "queue", PRESIL_RECORDS="1")
    assert run["counts"] == {"passed": 1, "failed": 0, "skipped": 0}, run["output"]
    assert "up to 8 at once" in json.dumps(run["checks"]), run["checks"]


def test_a_run_without_a_passed_check_fails_and_says_why(tmp_path):
    copy = tmp_path / library("stub_fast").name  # there is no description beside it
    copy.write_bytes(library("stub_fast").read_bytes())
    run = conform(copy, "--level", "transport", "--only", "register-reset", status=1)
    assert [row["status"] for row in run["checks"]] == ["skipped"]
    assert "no registers are described" in run["output"]


def test_a_chip_that_does_not_open_is_said_once(tmp_path):
    """Its driver is another chip's: one failure with the reason, and nothing asked behind it."""
    run = conform(library("stub_fast"), "--level", "chip", "--chip", BUILD / "lib/libpresil_chip_presil.so", status=1)
    first, *others = run["checks"]
    assert first["check"] == "opens" and first["status"] == "failed" and "stub" in first["text"], first
    assert {(row["status"], row["text"]) for row in others} == {("skipped", "the chip does not open: opens says why")}
    assert len(others) >= 20


@pytest.mark.parametrize(
    "text, said",
    [
        ("[registers]\nA = { ofset = 0 }", "unknown ofset"),
        ("[registers]\nA = { reset = 0 }", "'offset' is missing"),
        ('[job]\nwrites = [["B", 1]]\naddress_step = 1\nbytes_step = 1\nbytes_most = 1', "no register 'B'"),
        ("[registers", "conform.toml"),
        ("[chip]\nmatmul = [[1, 2, 3]]", "[batches, m, k, n] was expected"),
        ("[chip]\nconv = 1", "unknown conv"),
    ],
)
def test_a_wrong_description_is_refused_with_its_place(text, said, tmp_path):
    path = tmp_path / "x.conform.toml"
    path.write_text(text)
    run = conform(library("stub_fast"), "--level", "transport", "--description", path, status=2)
    assert said in " ".join(run["output"].split()) and run["checks"] == []


def described(tmp_path, *changes) -> Path:
    """The stub's description with other text in it."""
    text = (ROOT / "tests/chip_stub/stub.conform.toml").read_text()
    for sound, instead in changes:
        assert text.count(sound) >= 1, sound
        text = text.replace(sound, instead, 1)
    path = tmp_path / "other.conform.toml"
    path.write_text(text)
    return path


def test_all_registers_that_differ_are_told_at_once(tmp_path):
    path = described(tmp_path, ("reset = 0x", "reset = 0x1"), ("reset = 0,", "reset = 0x77,"))
    run = conform(library("stub_fast"), "--only", "register-reset", "--description", path, status=1)
    (row,) = run["checks"]
    assert row["text"].count("expected") == 2 and "0x77 expected" in row["text"], row


@pytest.mark.parametrize(
    "sound, instead, said",
    [
        ("reset = 16, writable = 0", "reset = 17, writable = 0", "WORD, read-only, other than its reset value before"),
        ("reset = 0, writable = 0xffffffff", "reset = 0, writable = 0", "SRC_LO, read-only, 0xffffffff written"),
    ],
)
def test_what_changed_before_a_write_is_not_laid_to_it(sound, instead, said, tmp_path):
    """It was a doorbell among the registers that were written before."""
    found = one_check("register-reserved", library("stub_fast"), described(tmp_path, (sound, instead)))
    assert found["status"] == "failed" and said in found["text"], found


@pytest.mark.parametrize("name", ["job", "job-strobes", "bus-errors", "reset-anywhere"])
def test_a_job_that_is_no_copy(name, tmp_path):
    path = described(tmp_path, ("[job]", '[job]\ntarget_bytes = "bytes"'))
    assert one_check(name, library("stub_fast"), path)["status"] == "passed"
    path = described(tmp_path, ("[job]", '[job]\ntarget_bytes = "bytes + 16"'))
    found = one_check(name, library("stub_fast"), path)
    assert found["status"] == "failed" and "(target_bytes) is not the same" in found["text"], found


@pytest.mark.parametrize("done", [False, True])
def test_a_job_without_an_end_says_what_was_waited_for(done, tmp_path):
    polled = 'done = { register = "STATUS", mask = 2, value = 2 }\n' if done else ""
    path = described(tmp_path, ('["CONTROL", 1]', '["CONTROL", 0]'), ("failed =", f"{polled}failed ="))
    found = one_check("job", library("stub_fast"), path)
    assert found["status"] == "failed" and "has not ended after" in found["text"], found
    assert ("no interrupt came" in found["text"]) != done, found


def test_a_product_that_is_named_and_not_taken(tmp_path):
    """Skipped, it would be a chip of which nothing is asked."""
    path = described(tmp_path, ("[job]", "[chip]\nmatmul = [[1, 8, 64, 32]]\n\n[job]"))
    chip = BUILD / "tests/c/libraries/libpresil_chip_stub.so"
    run = conform(library("stub_fast"), "--only", "matmul", "--chip", chip, "--description", path, status=1)
    (row,) = run["checks"]
    assert row["status"] == "failed" and "names [1, 8, 64, 32]" in row["text"], row


def test_a_job_that_does_not_look_at_its_source(tmp_path):
    path = described(tmp_path, ("[job]", '[job]\ntarget_bytes = "bytes"'), ('"source', '"0 * source + commands + 8192'))
    found = one_check("job", library("stub_fast"), path)
    assert found["status"] == "failed" and "does not look at its source" in found["text"], found


def test_a_chip_that_does_not_open_says_so_once(tmp_path):
    copy = tmp_path / library("stub_fast").name
    copy.write_bytes(library("stub_fast").read_bytes())
    (tmp_path / "libpresil_chip_stub.so").write_text("no library")
    output = conform(copy, "--only", "[cr]o[pu][yn]*", "--chip", tmp_path / "libpresil_chip_stub.so", status=1)[
        "output"
    ]
    assert "failed copy, counters:" in " ".join(output.split()), output


def test_what_is_no_library_is_refused(tmp_path):
    assert "is not there" in conform(tmp_path / "no.so", status=2)["output"]
    (tmp_path / "text.so").write_text("no library")
    assert "can't be opened" in " ".join(conform(tmp_path / "text.so", status=2)["output"].split())


def test_each_paragraph_that_a_check_names_is_there():
    for check in CHECKS.values():
        text = " ".join(re.sub(r"\n \*", "\n", (ROOT / check.document).read_text()).split())
        assert check.paragraph in text, f"{check.name}: {check.document} has no {check.paragraph!r}"


def test_the_page_has_every_check_and_no_other():
    page = (ROOT / "docs/conform.md").read_text()
    rows = re.findall(r"^\| `([a-z-]+)` \|", page, re.M)
    assert sorted(rows) == sorted(NAMES)
