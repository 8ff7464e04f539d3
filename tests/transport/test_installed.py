# SPDX-License-Identifier: Apache-2.0
"""`cmake --install` and find_package(Presil COMPONENTS sim) on what it laid down, as docs/ports.md has it: a foreign
project reaches Verilator's C++ with nothing of this tree. What that compiles to: tests/setup/test_pip.py."""

import subprocess
from pathlib import Path

from .servers import BUILD

ROOT = Path(__file__).resolve().parents[2]


def run(*command) -> None:
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True, timeout=200)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]


def test_a_chip_of_ones_own_from_what_cmake_installs(tmp_path):
    prefix, project = tmp_path / "prefix", tmp_path / "project"
    run("cmake", "--install", BUILD, "--component", "python", "--prefix", prefix)
    package = prefix / "torch_presil"
    run(
        *("cmake", "-S", ROOT / "tests/ports_example", "-B", project, "-G", "Ninja"),
        f"-DPresil_DIR={package / 'cmake'}",
    )
    run("cmake", "--build", project, "--target", "presil_sim_mine_fast_verilate")
    assert (project / "presil_sim_mine_fast.dir/model/Vchip.h").exists()
    rules = (project / "build.ninja").read_text()
    assert f"{package}/sources/sim/" in rules and f"{ROOT}/sim" not in rules and f"{BUILD}/" not in rules
