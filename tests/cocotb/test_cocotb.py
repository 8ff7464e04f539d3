# SPDX-License-Identifier: Apache-2.0
"""Builds presil_top with Verilator for cocotb, once a configuration, and runs chip_tests.py; the counts of cocotb's
own report are asserted."""

import os
import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
BUILD = Path(os.environ.get("PRESIL_BUILD_DIR", ROOT / "build" / "fast")) / "cocotb"


@pytest.mark.parametrize("config", ["tiny", "odd"])
def test_chip(config, monkeypatch):
    from cocotb_tools.runner import get_runner

    generated = BUILD / config / "generated"
    subprocess.run(
        [sys.executable, str(ROOT / "rtl" / "generate.py"), "--out", str(generated), "--config", config], check=True
    )
    sources = (
        sorted(generated.glob("*.vlt"))
        + sorted(generated.glob("*_pkg.sv"))
        + sorted(ROOT.glob("rtl/*_pkg.sv"))
        + [p for p in sorted(generated.glob("*.sv")) if not p.name.endswith("_pkg.sv")]
        + [p for p in sorted(ROOT.glob("rtl/*.sv")) if not p.name.endswith("_pkg.sv")]
    )
    verilator_root = os.environ.get("VERILATOR_ROOT") or str(
        Path(sys.prefix) / "lib" / f"python{sys.version_info[0]}.{sys.version_info[1]}" / "site-packages" / "verilator"
    )
    monkeypatch.setenv("VERILATOR_ROOT", verilator_root)
    monkeypatch.setenv("PATH", f"{verilator_root}/bin:{os.environ['PATH']}")
    monkeypatch.setenv("MAKEFLAGS", "CFG_CXXFLAGS_PCH_I=-include")
    environment = {
        "PRESIL_CONFIG": config,
        "PRESIL_GENERATED": str(generated),
        "PYTHONPATH": f"{Path(__file__).parent}:{os.environ.get('PYTHONPATH', '')}",
    }
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    runner = get_runner("verilator")
    runner.build(
        sources=sources,
        hdl_toplevel="presil_top",
        build_dir=str(BUILD / config / "sim"),
        always=True,
        build_args=[
            "--assert",
            "--x-assign",
            "unique",
            "--x-initial",
            "unique",
            "-Wno-fatal",
            "-Werror-USERFATAL",
            "-O3",
            "--unroll-count",
            "1",
        ],
    )
    results = runner.test(
        hdl_toplevel="presil_top",
        test_module="chip_tests",
        build_dir=str(BUILD / config / "sim"),
        extra_env=environment,
    )
    cases = list(ElementTree.parse(results).iter("testcase"))
    failed = [c.get("name") for c in cases if c.find("failure") is not None or c.find("error") is not None]
    assert len(cases) >= 11, "cocotb ran too few tests"
    assert not failed, failed
