# SPDX-License-Identifier: Apache-2.0
"""Pages that say how many: lines of a chip's C, checks of presil conform. They say what there is."""

import re
import sys
from pathlib import Path

import pytest
from files import ROOT

sys.path.insert(0, str(ROOT / "torch_ext" / "torch_presil"))
from conform.checks import CHECKS, LEVELS  # noqa: E402
from conform.register import load  # noqa: E402

SA16, TEMPLATE = ROOT / "tests/chips/sa16", ROOT / "torch_ext/torch_presil/newchip/template"
MOST_GLUE = 800  # lines of C that a chip of sa16's kind may take: else presil_kit.h lacks something


def lines_of_code(*paths: Path) -> int:
    """Neither empty nor comment, as cloc counts C."""
    bodies = (re.sub(r"/\*.*?\*/|//[^\n]*", "", path.read_text(), flags=re.S) for path in paths)
    return sum(bool(line.strip()) for body in bodies for line in body.splitlines())


def lines(*paths: Path) -> int:
    return sum(len(path.read_text().splitlines()) for path in paths)


def of_sa16(executor: bool) -> int:
    files = [path for path in (SA16 / "chip").iterdir() if path.suffix in (".c", ".h")]
    return lines_of_code(*(path for path in files if executor or not path.stem.startswith("twin")))


def of_level(level: str) -> int:
    load()
    return sum(check.level == level for check in CHECKS.values())


SAID = [
    ("tests/chips/sa16/README.md", r"# (\d+); (\d+) with the executor", lambda: (of_sa16(False), of_sa16(True))),
    ("docs/own-chip.md", r"in (\d+) lines of C, (\d+) with a model", lambda: (of_sa16(False), of_sa16(True))),
    (
        "docs/own-chip.md",
        r"(\d+) lines of SystemVerilog and (\d+) of C that say why",
        lambda: (lines(*(TEMPLATE / "rtl").iterdir()), lines(*(TEMPLATE / "chip").iterdir())),
    ),
    (
        "tests/chips/nngen/README.md",
        r"(\d+) lines of C without comments",
        lambda: (lines_of_code(ROOT / "tests/chips/nngen/chip/nnmac_chip.c"),),
    ),
    (
        "docs/conform.md",
        r"--level transport`: (\d+) checks.*?`--level chip`: (\d+) checks",
        lambda: (of_level("transport"), of_level("chip")),
    ),
]


@pytest.mark.parametrize("page, said, counted", SAID, ids=[f"{Path(page).name}: {said}" for page, said, _ in SAID])
def test_a_page_says_what_is_counted(page, said, counted):
    found = re.findall(said, (ROOT / page).read_text(), re.S)
    expected = [tuple(map(str, counted()))]
    assert [pair if isinstance(pair, tuple) else (pair,) for pair in found] == expected, f"{page}: {expected} counted"


def test_the_glue_of_a_large_chip_is_small():
    assert 300 < of_sa16(False) <= MOST_GLUE


@pytest.mark.parametrize("level", LEVELS)
def test_the_tables_of_the_page_name_each_check(level):
    """Once with what it asks, once with what two chips made of it; in the order of --list."""
    load()
    names = [check.name for check in CHECKS.values() if check.level == level]
    text = (ROOT / "docs/conform.md").read_text()
    section = text[text.index(f"## The checks of level `{level}`") :].split("\n## ")[0]
    assert re.findall(r"^\| `([\w-]+)` \|", section, re.M) == names
    assert re.findall(rf"^\| {level} \| `([\w-]+)` \|", text, re.M) == names
