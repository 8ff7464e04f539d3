# SPDX-License-Identifier: Apache-2.0
"""Which folder includes what of which other: every #include in quotes, of every folder (README.md, "How it fits
together"). A room knows its neighbours through public headers alone."""

import re
from pathlib import Path

from files import ROOT

GENERATED = {"presil_desc.h", "presil_config.h", "presil_regs.h", "presil_rtl_hash.h"}
# Of a verilated model, and what is written for it.
MODEL = {
    "Vchip.h",
    "Vchip___024root.h",
    "Vchip__Syms.h",
    "points.h",
    "scramble.inc",
    "chip_ports.h",
    "fstcpp_assertion.h",
    "verilated.h",
    "verilated_fst_c.h",
}
API, TRANSPORT, CHIP = {"presil.h", "presil_op.h"}, {"presil_transport.h"}, {"presil_chip.h"}
BUNDLE = {"presil_bundle.h"}
CAPTURE = {"presil_capture.h", "presil_bundle_capture.h"}
COMMANDS = {"presil_image.h", "presil_debug.h"}  # lists as bytes and in parts
SIZED = {"presil_sized.h"}
CLOCK = {"presil_clock.h"}
REFERENCE = {"presil_reference.h"}
# Room -> headers that it may include of others. What is not named here includes its own alone.
ROOMS = {
    "rtl": set(),
    "driver/include": set(),
    "driver/core": API
    | TRANSPORT
    | CHIP
    | CAPTURE
    | COMMANDS
    | SIZED
    | CLOCK
    | REFERENCE
    | {"client.h", "board_ops.h"},
    "driver/chip": API | CHIP | {"presil_hazards.h", "presil_twin.h"} | GENERATED - {"presil_rtl_hash.h"},
    "driver/socket": TRANSPORT | CLOCK | {"presil_serve.h"},
    "driver/board": TRANSPORT | CLOCK,
    "driver/reference": {"presil_op.h"} | REFERENCE,
    "driver/bundle": API | BUNDLE | SIZED,
    "driver/capture": API | CAPTURE,
    "driver/jobs": API | CLOCK | CAPTURE | COMMANDS | SIZED | {"presil_jobs.h"},
    "driver/store": API | SIZED | {"presil_store.h"},
    "driver/replay": API | CAPTURE | BUNDLE | COMMANDS,
    "driver/aot": API | COMMANDS | REFERENCE,
    "driver/tools": API | {"presil_serve.h", "presil_store.h", "npy.h", "program.h", "format.h"},
    "driver/examples": API,
    "sim/twin": GENERATED - {"presil_rtl_hash.h"},
    "sim": TRANSPORT | {"presil_serve.h", "presil_twin_chip.h"} | GENERATED | MODEL,
    "torch_ext": API | CAPTURE | COMMANDS | {"presil_jobs.h", "presil_store.h"} | {"refused_operators.inc"},
    "torch_ext/torch_presil/newchip/template": CHIP | {"presil_kit.h"},  # what a chip of one's own begins with
}
SOURCES = {".c", ".h", ".cpp", ".hpp", ".sv", ".svh", ".v", ".vh"}


def room_of(path: str) -> str | None:
    inside = [room for room in ROOMS if path.startswith(room + "/")]
    return max(inside, key=len, default=None)


def includes(root: Path) -> list:
    """(room, header as it is written, path:line) of every include in quotes or of a presil header."""
    found = []
    for path in sorted(p for top in {r.split("/")[0] for r in ROOMS} for p in (root / top).rglob("*")):
        name = path.relative_to(root).as_posix()
        if path.suffix not in SOURCES or not path.is_file() or not room_of(name):
            continue
        for number, line in enumerate(path.read_text(errors="replace").splitlines(), 1):
            match = re.match(r'\s*[#`]\s*include\s+(?:"([^"]+)"|<((?:[\w/]*/)?presil\w*\.h)>)', line)
            if match:
                found.append((room_of(name), match[1] or match[2], f"{name}:{number}"))
    return found


def strange(root: Path) -> list:
    """What reaches over a wall."""
    own = {room: set() for room in ROOMS}
    for path in root.rglob("*"):
        if path.suffix in SOURCES and (room := room_of(path.relative_to(root).as_posix())):
            own[room].add(path.name)
    return [
        f"{where}: {room} includes {header}"
        for room, header, where in includes(root)
        if Path(header).name not in own[room] | ROOMS[room]
    ]


def test_rooms_know_each_other_through_public_headers():
    assert strange(ROOT) == []


def test_no_permission_is_left_over():
    used = {(room, Path(header).name) for room, header, _ in includes(ROOT)}
    broad = MODEL | API | TRANSPORT | CAPTURE | COMMANDS | GENERATED
    left = {(room, h) for room, allowed in ROOMS.items() for h in allowed - broad if (room, h) not in used}
    assert not left


def test_what_reaches_over_a_wall_is_found(tmp_path):
    files = {
        "rtl/presil_top.sv": '`include "presil_transport.h"\n',
        "sim/harness/bench.cpp": '#include "presil.h"\n#include "own.h"\n',
        "sim/harness/own.h": "",
        "driver/core/launch.c": '#include "presil_desc.h"\n#include "core.h"\n  #  include "chip.h"\n',
        "driver/core/core.h": '#include "presil_chip.h"\n',
        "driver/chip/plan.c": '#include "chip.h"\n#include "core.h"\n#include <presil_capture.h>\n',
        "driver/chip/chip.h": "",
    }
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    assert [line.split(":", 2)[:2] for line in strange(tmp_path)] == [
        ["driver/chip/plan.c", "2"],
        ["driver/chip/plan.c", "3"],
        ["driver/core/launch.c", "1"],
        ["driver/core/launch.c", "3"],
        ["rtl/presil_top.sv", "1"],
        ["sim/harness/bench.cpp", "1"],
    ]
