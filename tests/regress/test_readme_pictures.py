# SPDX-License-Identifier: Apache-2.0
"""The pictures of README.md: what they say is what the commands say today (docs/pictures.py makes them anew)."""

import html
import json
import re
from pathlib import Path

import pytest
from PIL import Image
from torch_presil.regress import run_list, suite, testplan

ROOT = Path(__file__).resolve().parents[2]
PICTURES = ROOT / "docs" / "pictures"
BASELINE = ROOT / "torch_ext" / "torch_presil" / "regress" / "suites" / "baseline.json"
LETTER = re.compile(r'<text class="[^"]*" x="([\d.]+)" y="([\d.]+)"[^>]*>(.*?)</text>')
ENDED = re.compile(r"passed +(\S+) .* ([\d,]+) cycles$")
ANEW = "run .venv/bin/python docs/pictures.py"


def lines(name: str) -> list[str]:
    """What is written in it, line by line."""
    rows = {}
    for x, y, text in LETTER.findall((PICTURES / f"{name}.svg").read_text()):
        rows.setdefault(float(y), []).append((float(x), html.unescape(text).replace("\xa0", " ")))
    return ["".join(text for _, text in sorted(rows[y])).rstrip() for y in sorted(rows)]


def baseline(case: str) -> dict:
    """layer -> cycles."""
    found = json.loads(BASELINE.read_text())["cases"][case]["launches"]
    return {layer: cycles for layer, (cycles, *_) in found.items()}


def number(text: str) -> int:
    return int(text.replace(",", ""))


def test_they_are_those_of_readme():
    shown = set(re.findall(r"\]\(docs/pictures/([\w.]+)\)", (ROOT / "README.md").read_text()))
    assert shown == {path.name for path in PICTURES.iterdir()}


def test_the_regression_has_the_runs_of_smoke():
    text = lines("regress")
    folders = suite.search_path(())
    planned = run_list.expand(suite.Loader(folders).load(["smoke"]), run_list.Choice(default_chip="base"))
    rows = [found.groups() for line in text if (found := ENDED.match(line))]
    shown = {key: number(cycles) for key, cycles in rows}
    assert set(shown) == {job.key for job in planned}, ANEW
    assert shown["smoke/resnet18-first[base,fast]#0"] == baseline("layers/resnet18[base]#0")["conv1"], ANEW
    (counted,) = (line for line in text if line.startswith("testpoints: "))
    points = testplan.load(sorted({str(job.folder) for job in planned}))  # of the folders whose suites ran
    assert sum(map(int, re.findall(r"\d+", counted))) == len(points), ANEW


@pytest.mark.parametrize("name", ["against"])
def test_layers_take_the_cycles_of_the_baseline(name):
    known = baseline("layers/resnet18[base]#0")
    rows = re.findall(r"│ (layer[\w.]+) +│.*?│ +([\d,]+) │ +[\d.]+ % │", "\n".join(lines(name)))
    assert rows and all(number(cycles) == known[layer] for layer, cycles in rows), ANEW


def test_the_report_of_resnet50_has_the_cycles_of_the_baseline():
    """docs/pictures/perf.png has in it what it shows; layers of one geometry take the same cycles, so the baseline has
    the first of each."""
    told = json.loads(Image.open(PICTURES / "perf.png").info["Description"])
    known = baseline("layers/resnet50[base]#0")
    assert len(told["layers"]) == 54 and set(known) <= set(told["layers"]), ANEW
    assert {layer: told["layers"][layer] for layer in known} == known, ANEW
    assert sum(told["layers"].values()) == told["cycles"] and (told["dtype"], told["chip"]) == ("bf16", "base")


def test_int8_of_resnet18_has_the_cycles_of_the_baseline():
    told = json.loads(Image.open(PICTURES / "int8.png").info["Description"])
    known = baseline("networks/resnet18-int8[base]#0")
    assert list(told["layers"]) == list(known) and told["observer"] == "percentile", ANEW
    counts, noises, cycles = zip(*told["mixed"])
    assert counts == tuple(range(9)) and cycles[0] == sum(known.values()) < cycles[8], ANEW
    assert noises[0] < noises[8], ANEW


def test_lines_of_the_rtl_are_there():
    """Place and text, as far as the column shows it."""
    text = "\n".join(lines("against"))
    found = re.findall(r"│ (?:- )?\.\./\.\./(rtl/\w+\.sv):(\d+) +│\n│ +│ +│ +│ +│ +(.+?) *…? *│", text)
    assert len(found) >= 4
    for file, line, shown in found:
        source = (ROOT / file).read_text().splitlines()[int(line) - 1].strip()
        assert source.startswith(shown.rstrip(" …")), f"{file}:{line}: {source}: {ANEW}"
