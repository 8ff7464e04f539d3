# SPDX-License-Identifier: Apache-2.0
"""The twelve bugs: a simulator library that has them all, the suite that finds them, and a run of it on one of them."""

import json
import os
import re
import shutil
import subprocess
import sys
import time
import tomllib
from dataclasses import dataclass, replace
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
sys.path.insert(0, str(HERE.parent / "mutants"))
import sheets  # noqa: E402

CLI = ROOT / "torch_ext" / "torch_presil" / "cli.py"
BUILD = Path(os.environ.get("PRESIL_BUILD_DIR", ROOT / "build" / "check"))
NEVER = 1000  # of a fault that is never chosen
FIRST_LINE = re.compile(r"^\d+ × (\w+) in (\w+)", re.M)


@dataclass
class Bug:
    number: int
    name: str
    case: str
    units: list
    command: str = ""
    ci: bool = False
    resnet18: bool = False


def bugs() -> list[tuple[Bug, sheets.Fault]]:
    with (HERE / "bugs.toml").open("rb") as file:
        rows = tomllib.load(file)["bug"]
    found = []
    for number, row in enumerate(rows, 1):
        own = {name: row.pop(name) for name in ("case", "units", "command", "ci", "resnet18") if name in row}
        bug = Bug(number, row["name"], **own)
        found.append((bug, sheets.Fault(number, **row)))
    return found


def library(config: str) -> Path:
    """With all of them, in the build trace: it simulates as `fast` does, and one library is enough for both."""
    faults = [fault for _, fault in bugs()]
    texts = {fault.file: (ROOT / "rtl" / fault.file).read_text() for fault in faults}
    (sheet,) = sheets.split(faults, texts)
    return sheets.build(sheet, texts, config, BUILD / "planted" / config, "trace")


def sound_library(config: str) -> Path:
    """Without any of them: the build's, or where it has none one that is made in the same way."""
    there = BUILD / "lib" / f"libpresil_sim_{config}_trace.so"
    if there.is_file():
        return there
    never = replace(bugs()[0][1], number=NEVER)
    texts = {never.file: (ROOT / "rtl" / never.file).read_text()}
    return sheets.build([never], texts, config, BUILD / "planted" / f"{config}-sound", "trace")


@dataclass
class Outcome:
    returncode: int
    printed: str
    record: dict
    folder: Path
    seconds: float

    @property
    def unit(self) -> str:
        """As the report's first line about the failure names it."""
        found = FIRST_LINE.search(self.printed)
        return found.group(2) if found else ""


class Suite:
    """planted.toml with the bundle that it needs, in a folder of its own."""

    def __init__(self, folder: Path, config: str):
        self.folder, self.config, self.runs = folder, config, folder / "runs"
        folder.mkdir(parents=True, exist_ok=True)
        for name in ("planted.toml", "models.py"):
            shutil.copy(HERE / name, folder)
        subprocess.run(
            [sys.executable, HERE / "rare.py", folder / "rare.presil"],
            env={**os.environ, "PRESIL_CHIP": config},
            check=True,
            timeout=200,
        )
        self.mutants, self.sound = library(config), sound_library(config)

    def run(self, what: str, number: int, *words) -> Outcome:
        """presil regress planted/WHAT on the library with one bug (0: none)."""
        command = [sys.executable, CLI, "regress", what, "--suites", self.folder, "--runs", self.runs, "-j", "1"]
        command += ["--library", self.mutants, *words]
        environment = {**os.environ, "PRESIL_MUTANT": str(number)}
        began = time.monotonic()
        done = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=1800, check=False)
        seconds = time.monotonic() - began
        folder = (self.runs / "latest").resolve()
        records = [json.loads(line) for line in (folder / "records.jsonl").read_text().splitlines()]
        return Outcome(done.returncode, done.stdout + done.stderr, records[-1] if records else {}, folder, seconds)
