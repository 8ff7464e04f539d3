# SPDX-License-Identifier: Apache-2.0
"""presil regress --mode hybrid: what the timing store knew is counted in every report, and a launch of the sample that
gives other numbers is a failure with its bundle."""

import sys
import xml.etree.ElementTree as ElementTree

import pytest
from torch_presil.regress import exit_codes

from .conftest import HERE

sys.path.insert(0, str(HERE.parent / "jobs"))
from timing_store import Store, rows  # noqa: E402

COSIM = f'kind = "cosim"\nmodel = "{HERE / "models.py"}:small_cnn"\n'


@pytest.fixture
def chip(place, monkeypatch):
    monkeypatch.setenv("PRESIL_STORE", str(place.runs.parent / "timings.sqlite"))
    monkeypatch.setenv("PRESIL_STORE_SAMPLE", "0")
    place.store = place.runs.parent / "timings.sqlite"
    (place.folder / "nets.toml").write_text(
        f"[suite]\ndefaults = {{ chips = ['tiny'] }}\n[case.whole]\n{COSIM}[case.layers]\n{COSIM}distinct = true\n"
    )
    return place


def properties(place, case: str) -> dict:
    suites = ElementTree.fromstring((place.last.path / "junit.xml").read_text())
    listed = next(suite for suite in suites if f"/{case}[" in suite.get("name")).find("properties")
    return {p.get("name"): p.get("value") for p in listed}


def test_hits_are_counted_and_cycles_are_the_rtls(chip):
    assert chip.go("nets") == exit_codes.PASS and not chip.store.exists()
    real = chip.found()
    assert "store_hits" not in real["whole"] and "timing store" not in chip.printed
    assert chip.go("nets", mode="hybrid", against=chip.last.name) == exit_codes.PASS
    first, launches = chip.found()["whole"], len(real["whole"]["launches"])
    assert (first["store_hits"], first["sampled"]) == (0, 0) and first["compared"] and not first["changes"]
    assert chip.go("nets", mode="hybrid", against=chip.last.name) == exit_codes.PASS
    found = chip.found()
    assert found["whole"]["store_hits"] >= launches > 3 and found["whole"]["sampled"] == 0
    assert found["whole"]["compared"] and not found["whole"]["changes"]
    assert found["whole"]["launches"] == real["whole"]["launches"]
    assert "store_hits" not in found["layers"], "layers alone are simulated"
    hits = str(found["whole"]["store_hits"])
    assert properties(chip, "whole")["store_hits"] == hits and properties(chip, "whole")["sampled"] == "0"
    assert "store_hits" not in properties(chip, "layers")
    assert f"timing store: {hits} launches were known, 0 of them simulated again; 1 runs asked" in chip.printed
    told = {r["case_name"]: r for r in chip.results()["presil"]["records"]}
    assert str(told["whole"]["store_hits"]) == hits
    page = (chip.last.path / "report.html").read_text()
    assert f'"store_hits": {hits}' in page and "launches known (simulated again)" in page
    assert "--mode hybrid" in found["whole"]["again"] and "--mode hybrid" not in found["layers"]["again"]


def test_a_sample_that_differs_is_a_failure_with_its_bundle(chip, monkeypatch):
    assert chip.go("nets/whole", mode="hybrid") == exit_codes.PASS
    with Store(chip.store) as store:
        row = store.rows()[1]
        row.timing.cycles += 1
        store.put(row)
    monkeypatch.setenv("PRESIL_STORE_SAMPLE", "1")
    assert chip.go("nets/whole", mode="hybrid") == exit_codes.MISMATCH
    found = chip.found()["whole"]
    assert found["status"] == "failed" and "the timing store has" in found["message"], found
    assert len(found["bundles"]) == 1 and (chip.last.path / found["bundles"][0]).stat().st_size > 1000, found
    assert rows(chip.store) == [], "it is emptied"
    assert chip.go("nets/whole", mode="hybrid") == exit_codes.PASS and chip.found()["whole"]["store_hits"] == 0
    assert chip.go("nets/whole", mode="hybrid") == exit_codes.PASS
    sampled = chip.found()["whole"]
    assert sampled["sampled"] == sampled["store_hits"] > 3


def test_coverage_is_not_of_what_is_not_simulated(chip, capsys):
    assert chip.go("nets", mode="hybrid", builds=["coverage"]) == exit_codes.USAGE
    assert "--coverage" in capsys.readouterr().err
