# SPDX-License-Identifier: Apache-2.0
"""The rooms of driver/chip read downhill (driver/chip/chip.h): each includes its own headers and those of rooms below
it, so there is no circle. And what the README promises of reading the core."""

import re
from pathlib import Path

from files import ROOT

SAME_MEANING = {"error.c", "matmul.c"}  # error texts; matmul, planned and as an example

CHIP = ROOT / "driver/chip"
BELOW = {
    "asked": {"problem", "plan", "tiling", "descriptors"},
    "plan": {"problem", "tiling", "descriptors"},
    "tiling": {"problem", "descriptors"},
    "descriptors": set(),
    "problem": set(),
    "registers": {"problem", "plan", "tiling", "descriptors"},
}


def uphill(chip: Path) -> list:
    """Includes of a room that does not lie below; `chip` is what all include, and what includes all."""
    rooms = {p.name: p.parent.name for p in chip.rglob("*.h") if p.parent != chip}
    found = []
    for path in sorted(p for p in chip.rglob("*.[ch]") if p.parent != chip):
        for number, line in enumerate(path.read_text().splitlines(), 1):
            match = re.match(r'#include "([^"]+)"', line)
            room = rooms.get(match[1]) if match else None
            if room and room != path.parent.name and room not in BELOW[path.parent.name]:
                found.append(f"{path.relative_to(chip)}:{number}: {match[1]} of {room}/")
    return found


def test_rooms_read_downhill():
    assert uphill(CHIP) == []
    assert set(BELOW) == {p.name for p in CHIP.iterdir() if p.is_dir()}


def test_what_reads_uphill_is_found(tmp_path):
    for name, text in {
        "plan/plan.h": "",
        "asked/conv.c": '#include "plan.h"\n',
        "tiling/nest.c": '#include "chip.h"\n#include "plan.h"\n',
    }.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    assert uphill(tmp_path) == ["tiling/nest.c:2: plan.h of plan/"]


def test_no_circle_of_rooms():
    done = []
    while len(done) < len(BELOW):
        free = [room for room, below in BELOW.items() if room not in done and below <= set(done)]
        assert free, f"a circle among {set(BELOW) - set(done)}"
        done += free


def called_alike(driver: Path) -> dict:
    places = {}
    for path in sorted(driver.rglob("*.c")):
        places.setdefault(path.name, []).append(path.parent.relative_to(driver).as_posix())
    return {name: rooms for name, rooms in places.items() if len(rooms) > 1}


def test_no_file_is_called_like_another():
    assert set(called_alike(ROOT / "driver")) <= SAME_MEANING


def test_files_called_alike_are_found(tmp_path):
    for name in ("core/copy.c", "chip/asked/copy.c", "core/queue.c"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    assert called_alike(tmp_path) == {"copy.c": ["chip/asked", "core"]}


AFTERNOON = 2500


def reading_list(readme: str) -> list:
    text = readme.split("**The core in an afternoon**", 1)[1].split("\n\n", 1)[0]
    return re.findall(r"^\d+\. `([^`]+)`", text, re.MULTILINE)


def too_long(root: Path, files: list) -> list:
    lines = {name: len((root / name).read_text().splitlines()) for name in files}
    return [f"{sum(lines.values())} lines: {lines}"] if sum(lines.values()) > AFTERNOON else []


def test_the_core_can_be_read_in_an_afternoon():
    files = reading_list((ROOT / "README.md").read_text())
    assert len(files) > 5
    assert too_long(ROOT, files) == []


def test_more_than_an_afternoon_is_found(tmp_path):
    (tmp_path / "a.c").write_text("x\n" * AFTERNOON)
    (tmp_path / "b.c").write_text("x\n")
    assert too_long(tmp_path, ["a.c"]) == []
    assert len(too_long(tmp_path, ["a.c", "b.c"])) == 1
    assert reading_list("**The core in an afternoon**: so.\n1. `a.c`: x\n2. `b.c`: y\n\n3. `c.c`") == ["a.c", "b.c"]
