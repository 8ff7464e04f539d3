# SPDX-License-Identifier: Apache-2.0
"""A place for runs, and suites made of tests/regress/faulty.py."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from rich.console import Console
from torch_presil.regress import command, records

HERE = Path(__file__).parent
CLI = HERE.parents[1] / "torch_ext" / "torch_presil" / "cli.py"


class Place:
    """A folder with suites and the runs of them."""

    def __init__(self, folder: Path):
        self.folder, self.runs = folder / "suites", folder / "runs"
        self.folder.mkdir()
        self.console = None

    def suite(self, name: str, cases: dict, head: str = "") -> None:
        """cases: name -> way of faulty.py, or (way, further lines)."""
        text = head
        for case, way in cases.items():
            way, more = way if isinstance(way, tuple) else (way, "")
            line = json.dumps(["{python}", str(HERE / "faulty.py"), way])
            text += f'\n[case.{case}]\nkind = "command"\ncommand = {line}\n{more}\n'
        (self.folder / f"{name}.toml").write_text(text)

    def go(self, *suites, **options) -> int:
        """The exit code; what was printed is in `printed`."""
        chosen = command.Options(suites=suites, folders=(str(self.folder),), runs=str(self.runs), **options)
        with (self.folder.parent / "printed").open("w") as file:
            code = command.main(chosen, Console(file=file, width=160))
        self.printed = (self.folder.parent / "printed").read_text()
        return code

    def arguments(self, *words) -> list[str]:
        return [sys.executable, str(CLI), "regress", "--suites", str(self.folder), "--runs", str(self.runs), *words]

    def start(self, *words, **more) -> subprocess.Popen:
        return subprocess.Popen(
            self.arguments(*words), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, **more
        )

    @property
    def last(self) -> records.Run:
        return records.find(self.runs, None)

    def found(self) -> dict:
        """Records of the last run by case."""
        return {r["case_name"]: r for r in self.last.records()}

    def results(self, name: str = "results.json") -> dict:
        return json.loads((self.last.path / name).read_text())


@pytest.fixture
def place(tmp_path, monkeypatch) -> Place:
    monkeypatch.delenv("PRESIL_CHIP", raising=False)
    return Place(tmp_path)


def alive(number: int) -> bool:
    try:
        return Path(f"/proc/{number}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


@pytest.fixture(autouse=True)
def no_runs_of_ours(monkeypatch, tmp_path):
    monkeypatch.setenv("PRESIL_REGRESS_RUNS", str(tmp_path / "runs"))
    assert os.environ["PRESIL_REGRESS_RUNS"]
