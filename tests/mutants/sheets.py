# SPDX-License-Identifier: Apache-2.0
"""Simulator libraries with planted faults: many in one, chosen by the environment variable PRESIL_MUTANT when a model
is made (0: none)."""

import fcntl
import hashlib
import os
import re
import shutil
import subprocess
import sys
import tomllib
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = """// SPDX-License-Identifier: Apache-2.0
package presil_a_mutant_pkg;
  // verilator lint_off WIDTH
  int unsigned number = $c32("(getenv(\\"PRESIL_MUTANT\\") ? atoi(getenv(\\"PRESIL_MUTANT\\")) : 0)");
endpackage
"""


@dataclass
class Fault:
    number: int
    file: str
    name: str
    old: str
    new: str
    statement: bool = False
    check: bool = False  # only an assertion shows it: planted in the check build
    untuned: bool = False  # no test was written or changed with it in sight
    equivalent: str = ""  # why it changes nothing that can be seen

    def place(self, text: str) -> tuple[int, int]:
        found = list(re.finditer(r"\s+".join(re.escape(part) for part in self.old.split()), text))
        if len(found) != 1:
            raise SystemExit(f"{self.file}, {self.name!r}: {self.old!r} stands {len(found)} times, expected once")
        return found[0].span()

    def text(self, old: str) -> str:
        chosen = f"presil_a_mutant_pkg::number == 32'd{self.number}"
        if self.statement:
            return f"if ({chosen}) begin {self.new} end else begin {old} end"
        return f"(({chosen}) ? ({self.new}) : ({old}))"


def load(rtl: Path = ROOT / "rtl") -> list[Fault]:
    with (Path(__file__).parent / "faults.toml").open("rb") as file:
        return [Fault(n, **row) for n, row in enumerate(tomllib.load(file)["fault"], 1)]


def split(faults: list[Fault], texts: dict[str, str]) -> list[list[Fault]]:
    """Faults of one build whose places don't overlap, in as few sheets as that takes."""
    sheets: list[list[Fault]] = []
    for fault in faults:
        a, b = fault.place(texts[fault.file])
        for sheet in sheets:
            spans = [f.place(texts[f.file]) for f in sheet if f.file == fault.file]
            if sheet[0].check == fault.check and all(b <= c or d <= a for c, d in spans):
                sheet.append(fault)
                break
        else:
            sheets.append([fault])
    return sheets


def write(sheet: list[Fault], texts: dict[str, str], out: Path) -> None:
    """rtl/ with the faults of a sheet."""
    shutil.rmtree(out, ignore_errors=True)
    shutil.copytree(ROOT / "rtl", out, ignore=shutil.ignore_patterns("__pycache__"))
    (out / "presil_a_mutant_pkg.sv").write_text(PACKAGE)
    for name in {f.file for f in sheet}:
        text = texts[name]
        places = sorted(((f.place(text), f) for f in sheet if f.file == name), key=lambda p: p[0], reverse=True)
        for (a, b), fault in places:
            text = text[:a] + fault.text(text[a:b]) + text[b:]
        (out / name).write_text(text)


def build(sheet: list[Fault], texts: dict[str, str], config: str, out: Path, kind: str = "fast") -> Path:
    """The library of a sheet, made by tests/mutants/CMakeLists.txt; by one process, if several want it.
    kind: the build, of faults that need no other."""
    out.mkdir(parents=True, exist_ok=True)
    with (out / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        return _build(sheet, texts, config, out, kind)


def _build(sheet: list[Fault], texts: dict[str, str], config: str, out: Path, kind: str) -> Path:
    kind = "check" if sheet[0].check else kind
    write(sheet, texts, out / "rtl")
    sources = [*sorted((out / "rtl").iterdir()), *sorted((ROOT / "sim").glob("*/*.[ch]*"))]
    stamp = hashlib.sha256(b"".join(path.read_bytes() for path in sources)).hexdigest()
    made = list((out / "build").glob(f"**/libpresil_sim_{config}_{kind}.so"))
    if made and (out / "stamp").exists() and (out / "stamp").read_text() == stamp:
        return made[0]
    tools = Path(sys.executable).parent
    cmake, ninja = (shutil.which(name, path=f"{tools}:{os.environ['PATH']}") for name in ("cmake", "ninja"))
    for command in (
        [cmake, "-S", Path(__file__).parent, "-B", out / "build", "-G", "Ninja", f"-DCMAKE_MAKE_PROGRAM={ninja}"]
        + [f"-DRTL_DIR={out / 'rtl'}", f"-DCONFIG={config}", f"-DBUILDS={kind}"]
        + [f"-DPython3_EXECUTABLE={sys.executable}"],
        [cmake, "--build", out / "build"],
    ):
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            raise SystemExit(f"{config}: a sheet of faults does not build:\n{done.stdout[-4000:]}{done.stderr[-2000:]}")
    (out / "stamp").write_text(stamp)
    return next((out / "build").glob(f"**/libpresil_sim_{config}_{kind}.so"))
