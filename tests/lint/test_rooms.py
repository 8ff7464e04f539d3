# SPDX-License-Identifier: Apache-2.0
"""The rooms of driver/chip read downhill (driver/chip/chip.h): each includes its own headers and those of rooms below
it, so there is no circle. And what the README promises of reading the core."""

import re
from pathlib import Path

from files import ROOT

CODE = {".c", ".h", ".cpp", ".py", ".sv"}
CONVENTIONAL = {"__init__", "conftest", "main"}
# Called alike in several folders, because it is the same thing there: what it is.
SAME_MEANING = {
    "capture": "launches as bundles: the room; torch.presil.capture",
    "command": "the command line of a subcommand of presil",
    "conv": "convolution: planned by our chip; its geometry as ATen gives it",
    "coverage": "coverage of the RTL: written by a simulator; read by presil regress",
    "device": "the device: of the driver; as torch sees it",
    "error": "a library's error texts",
    "fields": "the fields of a bundle, in C and in Python",
    "fuse": "steps fused behind convolutions and linear layers: by torch.fx; in TorchScript",
    "jobs": "launches on other processors (presil_jobs.h): the room; the setting of the device",
    "junit": "outcomes as JUnit XML, in one shape",
    "matmul": "matmul: planned by our chip; as the example of presil.h",
    "page": "a page of HTML with pictures: of presil perf; of presil waves",
    "partition": "a partition of a compiled graph: its launch in C++, its plan in Python",
    "presil_bundle": "the library of bundles, and the tool presil-bundle",
    "presil_serve": "the library of servers, and the tool presil-serve",
    "presil_store": "the timing store's interface, and the tool presil-store",
    "presil_transport": "the transport's table, in C and for Python",
    "reader": "reads bundles, in C and in Python",
    "replay": "presil-replay, and who calls it",
    "streams": "torch's streams, in C++ and in Python",
    "torch": "the C++ API of operators of one's own: its header and its source",
    "values": "the values of a bundle's fields, in C and in Python",
    "vision": "torchvision's operators, in C++ and in Python",
    "vp": "presil-vp, and who starts it",
    "way": "the way of wrong data: found by presil-replay, told by presil waves",
    "weights": "packed weights: of the driver; kept for torch's tensors",
    "why": "why a launch hangs: asked of our chip; told by presil why",
}

CHIP = ROOT / "driver/chip"
BELOW = {
    "asked": {"problem", "plan", "tiling", "descriptors"},
    "plan": {"problem", "tiling", "performance", "descriptors"},
    "tiling": {"problem", "descriptors"},
    "performance": {"descriptors"},
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


def called_alike(root: Path) -> dict:
    """Stem -> folders, of code that is called alike in several folders."""
    places = {}
    for top in ("driver", "sim", "torch_ext"):
        for path in (root / top).rglob("*"):
            if path.suffix in CODE and "__pycache__" not in path.parts:
                places.setdefault(path.stem, set()).add(path.parent.relative_to(root).as_posix())
    return {stem: sorted(rooms) for stem, rooms in places.items() if len(rooms) > 1}


def test_no_file_is_called_like_another_of_a_different_meaning():
    alike = called_alike(ROOT)
    assert {stem: rooms for stem, rooms in alike.items() if stem not in CONVENTIONAL | SAME_MEANING.keys()} == {}
    assert SAME_MEANING.keys() <= alike.keys(), "what is no longer called alike needs no permission"


def test_files_called_alike_are_found(tmp_path):
    for name in (
        "driver/core/copy.c",
        "driver/chip/asked/copy.c",
        "driver/core/queue.c",
        "driver/core/queue.h",
        "sim/harness/ring.h",
        "torch_ext/torch_presil/ring.py",
        "torch_ext/torch_presil/copy.toml",
    ):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    assert called_alike(tmp_path) == {
        "copy": ["driver/chip/asked", "driver/core"],
        "ring": ["sim/harness", "torch_ext/torch_presil"],
    }


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
