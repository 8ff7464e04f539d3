# SPDX-License-Identifier: Apache-2.0
"""docs/tour.md: its commands run, and say and draw what the page shows."""

import difflib
import os
import re
import subprocess
import sys

import pytest

from stub_waves import BUILD, ROOT

PAGE = ROOT / "docs" / "tour.md"


def run(page, target):
    environment = {k: v for k, v in os.environ.items() if not k.startswith("PRESIL_")}
    environment |= {"PRESIL_BUILD_DIR": str(BUILD), "PYTHONPATH": str(BUILD / "python")}
    command = [sys.executable, str(ROOT / "docs" / "run.py"), str(page), str(target)]
    return subprocess.run(command, capture_output=True, text=True, timeout=200, env=environment)


def test_the_tour_is_what_its_commands_give_today(tmp_path):
    done = run(PAGE, tmp_path / "tour.md")
    assert done.returncode == 0, done.stderr
    made = sorted(p.relative_to(tmp_path) for p in tmp_path.rglob("*") if p.is_file())
    kept = sorted(p.relative_to(PAGE.parent) for p in [PAGE, *PAGE.with_suffix("").iterdir()])
    assert made == kept and len(made) >= 4
    for name in made:
        texts = [(folder / name).read_text().splitlines() for folder in (PAGE.parent, tmp_path)]
        parts = "\n".join(difflib.unified_diff(*texts, "kept", "today", lineterm="", n=0))
        assert not parts, f"{name} is old: .venv/bin/python docs/run.py docs/tour.md\n{parts[:4000]}"
    text = PAGE.read_text()
    blocks = re.findall(r"^```(\w+)\n(.*?)^```$", text, re.M | re.S)
    assert sum(kind == "text" and bool(body.strip()) for kind, body in blocks) >= 8


@pytest.mark.parametrize(
    "body, text",
    [
        ("```python\nprint(1 / 0)\n```\n", "ZeroDivisionError"),
        ("```sh\nrm -r /\n```\n", "./presil waves or build/fast/bin/… expected"),
        ("```sh\n./presil waves nowhere.fst\n```\n", "status 2"),
        ("```sh\n./presil waves --help\n```\n![x](drawn/x.svg)\n", "No such file"),
    ],
)
def test_a_page_that_does_not_run_is_an_error(tmp_path, body, text):
    (tmp_path / "page.md").write_text(body)
    done = run(tmp_path / "page.md", tmp_path / "out.md")
    assert done.returncode and text in done.stderr and not (tmp_path / "out.md").exists()


def test_output_takes_the_place_of_what_was_there(tmp_path):
    (tmp_path / "page.md").write_text("a\n```python\nx = 2\nprint(x, x + 1)\n```\n```text\nold\n```\nb\n")
    done = run(tmp_path / "page.md", tmp_path / "out.md")
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "out.md").read_text() == (tmp_path / "page.md").read_text().replace("old", "2 3")
