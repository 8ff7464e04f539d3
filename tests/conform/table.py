# SPDX-License-Identifier: Apache-2.0
"""The table of docs/conform.md: what presil conform says of two chips that have nothing in common.

usage: table.py [--write]     prints it, or writes it into the page; PRESIL_BUILD_DIR has both simulators
"""

import sys
import textwrap
from pathlib import Path

from conform_runs import ROOT, conform, library

PAGE = ROOT / "docs" / "conform.md"
CHIPS = {"tiny": "tiny_check", "sa16": "sa16_check"}  # column -> library
BEGIN, END = "| level | check | tiny | sa16 |\n", "\n## What it costs"


def cell(row: dict) -> str:
    return f"{row['comparisons']:,}" if row["status"] == "passed" else row["status"]


def lines(runs: dict) -> list[str]:
    """runs: column -> presil conform's JSON."""
    columns = [{row["check"]: row for row in run["checks"]} for run in runs.values()]
    out = [BEGIN.rstrip(), "|---|---|---|---|"]
    for name, row in columns[0].items():
        out.append(f"| {row['level']} | `{name}` | {' | '.join(cell(column[name]) for column in columns)} |")
    return out


def skipped(runs: dict) -> list[str]:
    """Why, one line a chip and reason."""
    out = []
    for chip, run in runs.items():
        reasons = {}
        for row in run["checks"]:
            if row["status"] == "skipped":
                reasons.setdefault(row["text"], []).append(f"`{row['check']}`")
        for reason, names in reasons.items():
            out += textwrap.wrap(f"- {chip}, {', '.join(names)}: {reason}", 100, subsequent_indent="  ")
    return out


def expect_as_said(chip: str, run: dict) -> None:
    """The page says of each check of a run whether it passes or is skipped."""
    text = PAGE.read_text()
    rows = [
        [cell.strip(" `") for cell in row.split("|")] for row in text[text.index(BEGIN) :].split("\n\n")[0].split("\n")
    ]
    said = {row[2]: row[rows[0].index(chip)] for row in rows[2:]}
    for row in run["checks"]:
        page = said.get(row["check"], "missing")
        status = page if page in ("skipped", "failed", "missing") else "passed"
        again = "tests/conform/table.py --write makes it again"
        assert status == row["status"], f"{row['check']} of {chip}: {row['status']}, {PAGE} says {page}: {again}"


def main() -> None:
    runs = {chip: conform(library(name), status=None) for chip, name in CHIPS.items()}
    text = "\n".join([*lines(runs), "", *skipped(runs), ""])
    if "--write" not in sys.argv:
        return print(text)
    page = PAGE.read_text()
    begin, end = page.index(BEGIN), page.index(END)
    PAGE.write_text(page[:begin] + text + page[end:])


if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parent))
    main()
