# SPDX-License-Identifier: Apache-2.0
"""House rules that a file can break: licence line, length, waivers, loose ends, what stands at the top level."""

import re

import pytest
from files import ROOT, text, tracked

TOP_LEVEL = {
    "CMakeLists.txt",
    "CMakePresets.json",
    "LICENSE",
    "README.md",
    "pyproject.toml",
    "presil",
    ".ci",
    ".gitignore",
    ".clang-format",
    "rtl",
    "sim",
    "driver",
    "torch_ext",
    "tests",
    "waveforms",
    "docs",
}
WITHOUT_SPDX = {"LICENSE", ".gitignore"}
CODE = {".c", ".h", ".cpp", ".py", ".sv", ".svh", ".rdl", ".cmake", ".sh"}
MOST_LINES = 700
LOOSE_END = re.compile(r"\b(TO" r"DO|FIX" r"ME|XX" r"X|HA" r"CK)\b")


def texts():
    found = [(path, text(path)) for path in tracked()]
    found = [(path, body) for path, body in found if body is not None]
    assert len(found) > 20, "the list of files is broken"
    return found


def test_every_file_names_its_licence():
    missing = [
        str(path)
        for path, body in texts()
        if path.name not in WITHOUT_SPDX
        and body.strip()
        and "SPDX-License-Identifier: Apache-2.0" not in "\n".join(body.splitlines()[:3])
    ]
    assert not missing


def test_licence_is_apache():
    assert "Apache License" in (ROOT / "LICENSE").read_text()[:200]


def test_files_are_short_enough():
    long = {
        str(path): body.count("\n") for path, body in texts() if path.suffix in CODE and body.count("\n") >= MOST_LINES
    }
    assert not long


def test_no_loose_ends():
    found = [
        f"{path}: {match.group()}"
        for path, body in texts()
        if path.suffix != ".md"
        for match in [LOOSE_END.search(body)]
        if match
    ]
    assert not found


def test_rtl_waives_no_warning():
    rtl = [
        (path, body) for path, body in texts() if path.parts[0] == "rtl" and path.suffix != ".py"
    ]  # registers.py writes rules for PeakRDL's code
    assert rtl, "no RTL found"
    assert not [
        str(path) for path, body in rtl if re.search(r"lint_off|-Wno-|\blint_save\b", body) or path.suffix == ".vlt"
    ]


def test_top_level():
    assert {path.parts[0] for path in tracked()} <= TOP_LEVEL


@pytest.mark.parametrize("name", ["presil", ".ci/run"])
def test_start_scripts_are_executable(name):
    assert (ROOT / name).stat().st_mode & 0o111


def test_what_c_calls_in_a_simulator_throws_nothing():
    """There is one list of presil_transport_ops in C++, transport_table(): each function in it is a Guard
    (sim/harness/guard.h), and so is the one that its users hand over as it is."""
    cpp = [(path, body) for path, body in texts() if path.suffix in (".cpp", ".h") and "sim" in path.parts]
    whole = re.compile(r"return \{\s*sizeof\(presil_transport_ops\),(.*?)\};", re.S)
    lists = [entries for _, body in cpp for entries in whole.findall(re.sub(r"//[^\n]*", "", body))]
    assert len(lists) == 1
    entries = [entry.strip() for entry in re.findall(r"[^,<]+(?:<[^>]*>[^,]*)?", lists[0])]
    allowed = re.compile(r"Guard<[\w:]+, Ops::note>::call|nullptr|PRESIL_TRANSPORT_ABI|Ops::last_error|bus_open")
    loose = [entry for entry in entries if entry and not allowed.fullmatch(entry)]
    assert len(entries) > 20 and not loose, loose
    tables = [
        (path, " ".join(made.split()))
        for path, body in cpp
        for made in re.findall(r"constexpr presil_transport_ops \w+ =(.*?);", body, re.S)
    ]
    made = re.compile(r"(presil::)?transport_table<\w+>\( ?(nullptr|(presil::)?Guard<\w+, Ops::note>::call)\)")
    assert len(tables) >= 2
    assert not [table for table in tables if not made.fullmatch(table[1])], tables


# Columns: of code; of tables (data files, documents); of running text.
MOST_COLUMNS, MOST_TABLE_COLUMNS, MOST_RTL_COLUMNS = 120, 140, 100
TABLES = {".toml", ".json", ".rdl", ".ini", ".in"}
WRITTEN_BY_PROGRAMS = {
    "tests/cycles/baseline.json",
    "tests/regress/baseline.json",
    "torch_ext/torch_presil/regress/suites/baseline.json",
}


def columns_allowed(path, line: str, in_code_block: bool) -> float:
    if path.suffix == ".md":
        return float("inf") if line.startswith("|") or in_code_block else MOST_COLUMNS
    if path.suffix == ".sv" and path.parts[0] == "rtl":
        return MOST_RTL_COLUMNS
    return MOST_TABLE_COLUMNS if path.suffix in TABLES else MOST_COLUMNS


def test_lines_fit_a_diff():
    long = []
    for path, body in texts():
        if path.suffix == ".svg" or str(path) in WRITTEN_BY_PROGRAMS or str(path.parent) == "docs/reports":
            continue
        in_code_block = False
        for number, line in enumerate(body.splitlines(), 1):
            in_code_block ^= line.lstrip().startswith("```")
            if len(line) > columns_allowed(path, line, in_code_block):
                long.append(f"{path}:{number}: {len(line)} columns")
    assert not long, "\n".join(long[:50])


def undocumented(body: str):
    """Numbers of the lines that declare ports or parameters of a module without a comment of three slashes, on the line
    or on the one above. Clock and reset say what they are."""
    header, before = False, ""
    for number, line in enumerate(body.splitlines(), 1):
        header = (header or line.startswith("module ")) and not line.startswith(");")
        declared = line.partition("//")[0]
        if header and re.match(r"\s*(input|output|inout|parameter)\b", line):
            named = re.search(r"\b(clk|rst),?\s*$", declared) or "///" in line or before.lstrip().startswith("///")
            if not named:
                yield number
        before = line


def test_ports_and_parameters_of_the_chip_are_documented():
    found, modules = [], 0
    for path, body in texts():
        if path.suffix == ".sv" and path.parts[0] == "rtl":
            modules += body.count("\nmodule ")
            found += [f"{path}:{number}" for number in undocumented(body)]
    assert modules > 30 and not found, "\n".join(found[:50])


def test_a_port_without_a_comment_is_found():
    body = "module m (\n  input logic clk,\n  /// bytes\n  input logic [7:0] a,\n  output logic b, // c\n);\n"
    assert list(undocumented(body)) == [5]
