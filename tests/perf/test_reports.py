# SPDX-License-Identifier: Apache-2.0
"""The reports in docs/: what they say is what the RTL and the page say today (docs/reports.py makes them anew)."""

import importlib.util
import json
import re
import subprocess
from pathlib import Path

import pytest
from perf.test_command import BACKSTOP
from torch_presil.perf import page

ROOT = Path(__file__).resolve().parents[2]
BASELINE = ROOT / "torch_ext" / "torch_presil" / "regress" / "suites" / "baseline.json"
ANEW = "run .venv/bin/python docs/reports.py"
spec = importlib.util.spec_from_file_location("docs_reports", ROOT / "docs" / "reports.py")
reports = importlib.util.module_from_spec(spec)
spec.loader.exec_module(reports)


def kept(name: str) -> dict:
    return json.loads((reports.FOLDER / f"{name}.json").read_text())


def simulated(name: str, folder: Path, *more) -> dict:
    file = folder / "r.json"
    command = reports.command(name, "--html", "", "--json", str(file), "--jobs", "2", *more)
    done = subprocess.run(command, capture_output=True, text=True, cwd=folder, timeout=BACKSTOP)
    assert done.returncode == 0, done.stdout + done.stderr
    return reports.summary(json.loads(file.read_text()))


def test_the_table_is_of_the_summaries():
    assert reports.TABLE.read_text() == reports.table(), f"{ANEW} --table"
    assert "docs/reports.md" in (ROOT / "README.md").read_text()


@pytest.mark.parametrize("name", reports.MODELS)
def test_the_page_is_of_today_and_shows_the_summary(name):
    text = (reports.FOLDER / f"{name}.html").read_text()
    document = json.loads(re.search(r'id="data">(.*?)</script>', text, re.S).group(1))
    assert page.render(document) == text, ANEW
    assert reports.summary(document) == kept(name) and document["problems"] == [], ANEW
    assert not re.search(r'"/(work|home|root|tmp)', text), "a path of the machine that made it"


def test_resnet50_has_the_cycles_of_the_baseline():
    """Layers of one geometry take the same cycles, so the baseline has the first of each."""
    known = json.loads(BASELINE.read_text())["cases"]["layers/resnet50[base]#0"]["launches"]
    told = {row["name"]: row["cycles"] for row in kept("resnet50")["layers"]}
    assert len(told) == 54 and {layer: told[layer] for layer in known} == {k: v[0] for k, v in known.items()}, ANEW


@pytest.mark.nightly
def test_mobilenet_v2_simulated_again(tmp_path):
    assert simulated("mobilenet_v2", tmp_path) == kept("mobilenet_v2"), ANEW


def test_a_layer_of_bert_simulated_again(tmp_path):
    """The first of twelve, without the pooler: that takes the last one's result."""
    found = simulated("bert_base", tmp_path, "--config", "num_hidden_layers=1")["layers"]
    first = [row for row in found if row["name"].startswith("encoder.layer.0.")]
    assert len(first) == 7
    assert first == [row for row in kept("bert_base")["layers"] if row["name"].startswith("encoder.layer.0.")], ANEW
