# SPDX-License-Identifier: Apache-2.0
"""C of this folder, compiled."""

import os
import subprocess
from pathlib import Path

import pytest
from conform_runs import BUILD, ROOT, new_chip


@pytest.fixture(scope="session")
def compiled(tmp_path_factory):
    """compiled(source, *flags) -> a shared object made of a C file of this folder."""
    folder = tmp_path_factory.mktemp("faulty")

    def make(source: str, *flags: str) -> Path:
        out = folder / f"lib{Path(source).stem}.so"
        if out.exists():
            return out
        include = f"-I{ROOT}/driver/include", f"-I{ROOT}/tests/c"
        warnings = "-Wall", "-Wextra", "-Werror"
        command = ["cc", "-std=c11", "-shared", "-fPIC", "-O1", *warnings, *include, *flags, "-o", str(out)]
        subprocess.run([*command, str(Path(__file__).with_name(source))], check=True)
        return out

    return make


@pytest.fixture(scope="session")
def ci(tmp_path_factory):
    """(folder of a project "mine", its ci.sh at its end): the two commands of docs/own-chip.md."""
    place = tmp_path_factory.mktemp("new")
    assert "8 files" in new_chip("mine", place / "mine")
    environment = {**os.environ, "PRESIL_BUILD_DIR": str(BUILD)}
    done = subprocess.run([place / "mine/ci.sh"], cwd=place, capture_output=True, text=True, env=environment)
    return place / "mine", done


@pytest.fixture(scope="session")
def project(ci):
    """The folder of the project, with what ci.sh built in its build/, whatever it said of it."""
    folder, done = ci
    built = {path.name for path in (folder / "build").glob("*.so")}
    names = {f"libpresil_{part}.so" for part in ("sim_mine_fast", "sim_mine_check", "chip_mine")}
    assert names == built, done.stdout[-3000:] + done.stderr[-3000:]
    return folder
