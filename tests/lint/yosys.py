# SPDX-License-Identifier: Apache-2.0
"""Yosys on the chip's sources, hierarchy kept, and what it writes of cells as text."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

from files import sources

PROGRAM = [sys.executable, str(Path(__file__).resolve().parents[1] / "bench" / "one_yosys.py")]


# Memories as cells with all their ports. opt_dff makes enables, without which memory_dff doesn't see that a read is
# registered; opt_clean takes away what it left of the multiplexer.
MEMORIES = (
    "opt_clean\nselect -set holders t:$mem* %m\nopt_dff -simple-dffe @holders\nopt_clean @holders\n"
    "memory_dff @holders\nmemory_collect @holders\n"
)


def run(place: Path, script: str) -> None:
    """yowasp's sandbox has the current directory and not much else."""
    (place / "script.ys").write_text(script)
    done = subprocess.run([*PROGRAM, "-q", "-s", "script.ys"], cwd=place, capture_output=True, text=True)
    assert done.returncode == 0, (done.stdout + done.stderr)[-4000:]


def copied(place: Path, config: str) -> str:
    """Names of the sources, copied to an empty place."""
    shutil.rmtree(place, ignore_errors=True)
    place.mkdir(parents=True)
    return " ".join(Path(shutil.copy(file, place)).name for file in sources(config, place / "rtl"))


def read(place: Path, config: str, sizes: dict[str, int]) -> str:
    """Copies the sources to place, with other sizes in the package of the configuration; gives the commands to read
    them. read_slang makes registers itself: no process is left for `proc`."""
    names = copied(place, config)
    package = place / "presil_config_pkg.sv"
    text = package.read_text()
    for name, value in sizes.items():
        text, found = re.subn(rf"(unsigned {name} = )\d+;", rf"\g<1>{value};", text)
        assert found == 1, name
    package.write_text(text)
    return (
        f"read_slang --threads 1 --keep-hierarchy --top presil_top {names}\nhierarchy -check -top presil_top\n"
        "select -assert-none p:*\n"
    )


def copies(text: str) -> dict[str, str]:
    """Modules that are as another is, but for the names of what has none in the source: {module: the one before it}."""
    parts = (part.split("\n", 1) for part in re.split(r"(?m)^(?=module )", text)[1:])
    bodies = {head.split()[1]: re.sub(r"(?m)^\s*attribute .*\n", "", body) for head, body in parts}
    first, seen = {}, {}

    def same(name: str) -> str:
        if name not in first:
            numbers = {}

            def renamed(found: re.Match) -> str:
                word = found.group(0)
                if word in bodies:
                    return same(word)
                internal = word[0] == "$" and not re.fullmatch(r"\$[a-zA-Z_0-9]*[a-zA-Z_]\w*", word)
                return numbers.setdefault(word, f"${len(numbers)}") if internal else word

            first[name] = seen.setdefault((name.split("$")[0], re.sub(r"[$\\]\S+", renamed, bodies[name])), name)
        return first[name]

    return {name.lstrip("\\"): same(name).lstrip("\\") for name in bodies if same(name) != name}


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
