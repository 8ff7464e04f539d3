# SPDX-License-Identifier: Apache-2.0
"""C of this folder, compiled."""

import subprocess
from pathlib import Path

import pytest
from conform_runs import ROOT, new_chip


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
def project(tmp_path_factory):
    """The folder of a project "mine", with the build `fast` in its build/."""
    folder = tmp_path_factory.mktemp("new") / "mine"
    assert "8 files" in new_chip("mine", folder)
    subprocess.run(["cmake", "-G", "Ninja", "-B", "build"], cwd=folder, check=True, stdout=subprocess.DEVNULL)
    targets = "presil_sim_mine_fast", "presil_chip_mine"
    subprocess.run(
        ["cmake", "--build", "build", "--target", *targets], cwd=folder, check=True, stdout=subprocess.DEVNULL
    )
    return folder
