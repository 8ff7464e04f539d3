# SPDX-License-Identifier: Apache-2.0
"""Which file of driver/core knows which other. A file includes the headers of what it uses and no others, and uses
only what stands below it here: so there is no circle. device.h has the device's parts and no function; whoever
touches a part of the device includes that part's header."""

import json
import re
import shutil
from functools import cache
from pathlib import Path

import pytest
from files import ROOT

# From the bottom up: a file, or two that are one for others. What stands in one line does not know each other.
ORDER = """
error log ranges presil_heap running
presil_heap_check life choose_transport chip_writes
callbacks library device_memory
look_at_plan
queue
residency io_map
bytes scratch
conversions
settle layouts start
kept_op
recording model weights
enqueue listeners
op on_chip
copy event heap_blocks verify by_reference
peer stream
host launch
in_flight
execute conv_and_matmul
device debug list_program moved_list
""".split("\n")[1:-1]
# Headers that are not called like the file which has their functions.
OF = {"fail": ("error", "log"), "device": ()}
# Headers of this folder that a header may include; device.h may include any.
HEADERS = {
    "by_reference": {"queue"},
    "chip_writes": {"ranges"},
    "conversions": {"queue"},
    "device_memory": {"presil_heap"},
    "enqueue": {"queue"},
    "execute": {"queue"},
    "in_flight": {"queue"},
    "launch": {"queue"},
    "kept_op": {"queue"},
    "layouts": {"queue"},
    "listeners": {"queue", "ranges"},
    "model": {"ranges"},
    "peer": {"queue"},
    "queue": {"fail"},
    "recording": {"queue"},
    "scratch": {"queue"},
    "weights": {"kept_op"},
}


@cache
def bare(text: str) -> str:
    """Code without comments and texts."""
    return re.sub(r'/\*.*?\*/|//[^\n]*|"(?:\\.|[^"\\\n])*"', " ", re.sub(r"#include[^\n]*", "", text), flags=re.S)


def included(text: str) -> set:
    return {m.removesuffix(".h") for m in re.findall(r'#include "([^"]+)"', text)}


@cache
def declared(header: str) -> set:
    """Names that a header gives: functions, types, macros, constants."""
    code = bare(header)
    names = set(re.findall(r"#define (\w+)", code)) - set(re.findall(r"#ifndef (\w+)", code))
    code = re.sub(r"__attribute__\(\(.*?\)\)\)?", "", code)
    names |= set(re.findall(r"\}\s*(\w+);", code)) | set(re.findall(r"\b(presil_\w+|ranges_\w+)\(", code))
    names |= set(re.findall(r"^typedef [^{;]*?\(?\*?(\w+)\)?(?:\([^;]*\))?;", code, flags=re.M))
    for body in re.findall(r"\benum \w*\s*\{([^}]*)\}", code):
        names |= set(re.findall(r"(\w+)\s*(?:=[^,]*)?(?:,|$)", body.strip()))
    return names | set(re.findall(r"^extern [^;]*?(\w+);", code, flags=re.M))


def parts(device: str) -> dict:
    """Part of the device -> its type, of device.h."""
    body = device[device.index("struct presil_device {") :]
    return {name: kind for kind, name in re.findall(r"^    (\w+) (\w+);", body, flags=re.M)}


@cache
def structs(header: str) -> set:
    """Types of the API whose insides a header shows."""
    return set(re.findall(r"^struct (\w+) \{", bare(header), flags=re.M))


def uses(code: str, headers: dict, of_device: dict) -> set:
    words = set(re.findall(r"\w+", code))
    found = {name for name, text in headers.items() if words & declared(text)}
    for part in set(re.findall(r"\b\w*device->(\w+)\b", code)) & set(of_device):
        found |= {name for name, text in headers.items() if of_device[part] in declared(text)}
    return found


def complaints(folder: Path) -> list:
    headers = {p.stem: p.read_text() for p in folder.glob("*.h")}
    of_device = parts(headers["device"])
    rank = {name: level for level, line in enumerate(ORDER) for name in line.split()}
    found = [
        f"{name}: not in ORDER"
        for name in {p.stem for p in folder.glob("*.c")} | set(headers) - set(OF)
        if name not in rank
    ]
    for name, text in headers.items():
        if name != "device":
            allowed = HEADERS.get(name, set())
            found += [f"{name}.h: includes {h}.h" for h in (included(text) & set(headers)) - allowed]
            found += [f"{name}.h: {h}.h is allowed, not included" for h in allowed - included(text)]
    if declared(headers["device"]) & set(re.findall(r"\b(presil_\w+)\(", bare(headers["device"]))):
        found.append("device.h: declares a function")
    for path in sorted(folder.glob("*.c")):
        own, text = path.stem, path.read_text()
        code, here = bare(text), included(text) & set(headers)
        used = uses(code, headers, of_device) - {"device"}
        found += [f"{own}.c: uses {h}.h and does not include it" for h in used - here]
        insides = {h for h in here if structs(headers[h])}
        found += [f"{own}.c: includes {h}.h and uses nothing of it" for h in here - used - insides - {"device", own}]
        for h in here - {"device"}:
            for unit in OF.get(h, (h,)):
                if unit != own and own not in OF.get(h, ()) and rank.get(unit, 0) >= rank.get(own, 0):
                    found.append(f"{own}.c: includes {h}.h, which stands above or beside it")
    return found


def test_core_reads_downhill():
    assert complaints(ROOT / "driver" / "core") == []


PLANTED = {
    "a circle": ("queue.c", '#include "queue.h"\n', '#include "queue.h"\n#include "launch.h"\n',
                 ["queue.c: includes launch.h and uses nothing of it",
                  "queue.c: includes launch.h, which stands above or beside it"]),
    "an include that was forgotten": ("execute.c", '#include "event.h"\n', "",
                                      ["execute.c: uses event.h and does not include it"]),
    "a part of the device touched from below": (
        "callbacks.c", "void presil_reports_open(report_state *reports) {",
        "void spoil(presil_device *device) { device->run.clock = device->queue.capacity; }\n"
        "void presil_reports_open(report_state *reports) {",
        ["callbacks.c: uses queue.h and does not include it", "callbacks.c: uses running.h and does not include it"]),
    "a function of the whole device": ("device.h", "struct presil_device {",
                                       "void presil_everything(presil_device *device);\nstruct presil_device {",
                                       ["device.h: declares a function"]),
    "a header that brings another": (
        "callbacks.h", '#include "presil.h"\n', '#include "presil.h"\n#include "queue.h"\n',
        ["callbacks.h: includes queue.h"]),
}  # fmt: skip


@pytest.mark.parametrize("what", PLANTED)
def test_what_is_wrong_is_found(tmp_path, what):
    name, old, new, expected = PLANTED[what]
    folder = tmp_path / "core"
    shutil.copytree(ROOT / "driver" / "core", folder)
    text = (folder / name).read_text()
    assert text.count(old) == 1
    (folder / name).write_text(text.replace(old, new))
    assert sorted(complaints(folder)) == sorted(expected)


def test_a_file_without_a_place_is_found(tmp_path):
    folder = tmp_path / "core"
    shutil.copytree(ROOT / "driver" / "core", folder)
    (folder / "shortcut.c").write_text('#include "start.h"\nint f(presil_device *d) { return presil_start(d); }\n')
    assert "shortcut: not in ORDER" in complaints(folder)


OF_CHIPS = r"\b(descriptors?|scratchpad|tiles?|tokens?|accumulators?|epilogue|im2col|bf16|systolic|array)\b"


def words_of_chips(folder: Path) -> list:
    """Texts of the core that are a chip's name or configuration, or a word of its engines."""
    configs = set(json.loads((ROOT / "rtl" / "configs.json").read_text())) - {"_"}
    tables = [*ROOT.glob("driver/chip/**/*.c"), *ROOT.glob("tests/**/*.c"), *ROOT.glob("torch_ext/**/*.c")]
    chips = {name for path in tables for name in re.findall(r'\.name = "(\w+)",\s*\.create', path.read_text())}
    assert {"presil", "relay"} <= chips and "base" in configs
    found = []
    for path in sorted(folder.glob("*.[ch]")):
        code = re.sub(r"/\*.*?\*/|#include[^\n]*", " ", path.read_text(), flags=re.S)
        for text in re.findall(r'"((?:\\.|[^"\\\n])*)"', code):
            if text in chips | configs or re.search(OF_CHIPS, text):
                found.append(f"{path.name}: {text}")
    return found


def test_core_has_no_word_of_a_chip():
    assert words_of_chips(ROOT / "driver" / "core") == []


def test_a_word_of_a_chip_is_found(tmp_path):
    for name, text in {
        "start.c": '#define DEFAULT_CHIP "presil"',
        "device.c": 'x = "base";',
        "a.c": 'f("base")',
    }.items():
        (tmp_path / name).write_text(f'/* "tiny" */\n{text}\n')
    (tmp_path / "b.h").write_text('fail("descriptor %u");\n')
    assert words_of_chips(tmp_path) == ["a.c: base", "b.h: descriptor %u", "device.c: base", "start.c: presil"]
