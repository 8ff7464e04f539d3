# SPDX-License-Identifier: Apache-2.0
"""C of this folder, compiled."""

import subprocess
from pathlib import Path

import pytest
from conform_runs import ROOT


@pytest.fixture(scope="session")
def compiled(tmp_path_factory):
    """compiled(source, *flags) -> a shared object made of a C file of this folder."""
    folder = tmp_path_factory.mktemp("faulty")

    def make(source: str, *flags: str) -> Path:
        out = folder / f"lib{Path(source).stem}.so"
        include = f"-I{ROOT}/driver/include", f"-I{ROOT}/tests/c"
        warnings = "-Wall", "-Wextra", "-Werror"
        command = ["cc", "-std=c11", "-shared", "-fPIC", "-O1", *warnings, *include, *flags, "-o", str(out)]
        subprocess.run([*command, str(Path(__file__).with_name(source))], check=True)
        return out

    return make
