# SPDX-License-Identifier: Apache-2.0
"""A simulator of sa16 with faults in its RTL, chosen by PRESIL_MUTANT when it starts (0: none): built in a folder of
its own, as a team builds theirs (docs/ports.md, "Outside of our tree")."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
BUILD = Path(os.environ.get("PRESIL_BUILD_DIR", HERE.parents[2] / "build" / "check"))
sys.path.insert(0, str(HERE.parents[1] / "mutants"))
from sheets import PACKAGE, Fault  # noqa: E402

RESIDUAL, HANG, SLOW = 1, 2, 3
FAULTS = [
    Fault(
        RESIDUAL,
        "sa16_requant.sv",
        "the residual's zero point is left out",
        "sext8(residual[8*i+:8]) - sext8(set[R_RES_ZERO][7:0])",
        "sext8(residual[8*i+:8])",
    ),
    Fault(
        HANG, "sa16_store.sv", "the last write's response is lost", "{4'd0, bvalid}", "{4'd0, bvalid && open != 5'd1}"
    ),
    Fault(SLOW, "sa16_store.sv", "one burst at a time", "open != MOST", "open == 5'd0"),
]
PROJECT = """cmake_minimum_required(VERSION 3.25)
project(sa16 LANGUAGES C CXX)
find_package(Presil 0.1 REQUIRED COMPONENTS sim)
file(GLOB rtl ${CMAKE_CURRENT_SOURCE_DIR}/rtl/*.sv)
list(FILTER rtl EXCLUDE REGEX "_pkg.sv$")
presil_add_chip(NAME sa16 TOP sa16_top CHIP sa16 CLOCK_MHZ 500 BUILDS trace PORTS ports.toml
  SOURCES rtl/presil_a_mutant_pkg.sv rtl/sa16_pkg.sv ${rtl})
"""


def library(folder: Path) -> Path:
    """libpresil_sim_sa16_trace.so with all of FAULTS, made in `folder`."""
    shutil.copytree(HERE / "rtl", folder / "rtl")
    shutil.copy(HERE / "ports.toml", folder)
    (folder / "CMakeLists.txt").write_text(PROJECT)
    (folder / "rtl" / "presil_a_mutant_pkg.sv").write_text(PACKAGE)
    for fault in FAULTS:
        path = folder / "rtl" / fault.file
        text = path.read_text()
        begin, end = fault.place(text)
        path.write_text(text[:begin] + fault.text(text[begin:end]) + text[end:])
    configure = ["cmake", "-G", "Ninja", "-S", folder, "-B", folder / "build", f"-DPresil_DIR={BUILD / 'cmake'}"]
    for command in ([*configure, f"-DPython3_EXECUTABLE={sys.executable}"], ["cmake", "--build", folder / "build"]):
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == 0, f"{command}\n{done.stdout[-4000:]}{done.stderr[-2000:]}"
    (made,) = (folder / "build").rglob("libpresil_sim_sa16_trace.so")
    return made
