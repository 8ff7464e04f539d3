# SPDX-License-Identifier: Apache-2.0
"""Every installed header stands by itself, in C and in C++: a chip's or a simulator's library may be in either."""

import re
import subprocess
from pathlib import Path

import pytest

DRIVER = Path(__file__).resolve().parents[2] / "driver"
HEADERS = DRIVER / "include"


@pytest.mark.parametrize("language", ["c", "c++"])
def test_each_public_header_compiles_alone(language):
    names = set(re.findall(r"include/(presil\w*\.h)", (DRIVER / "CMakeLists.txt").read_text()))
    assert {"presil.h", "presil_chip.h", "presil_transport.h", "presil_kit_plan.h"} <= names
    standard = {"c": "c11", "c++": "c++17"}[language]
    found = {}
    for name in sorted(names):
        command = ["cc", "-x", language, f"-std={standard}", "-fsyntax-only", f"-I{HEADERS}", "-"]
        done = subprocess.run(command, input=f'#include "{name}"\n', capture_output=True, text=True)
        if done.returncode:
            found[name] = done.stderr
    assert found == {}
