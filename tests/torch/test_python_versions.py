# SPDX-License-Identifier: Apache-2.0
"""The Python module on CPython 3.12 and later, as far as it can be seen with 3.11: frames through the public interface
give the same lines (test_errors.py runs with both), and no other file knows the insides of an interpreter."""

import re
import subprocess
import sysconfig
from pathlib import Path

import pytest

CSRC = Path(__file__).parents[2] / "torch_ext" / "csrc"
# The functions that are new in a version, and names that are gone from its headers.
AS_IF = """
#include <Python.h>
#undef PY_VERSION_HEX
#define PY_VERSION_HEX {version}
extern "C" int Py_IsFinalizing(void);
extern "C" PyObject* PyErr_GetRaisedException(void);
extern "C" void PyErr_SetRaisedException(PyObject*);
#define cframe gone
#pragma GCC poison {poison} _PyInterpreterFrame
"""


@pytest.mark.parametrize(
    "version, poison",
    [("0x030C0000", "PyErr_Fetch PyErr_Restore"), ("0x030D0000", "PyErr_Fetch PyErr_Restore _Py_IsFinalizing")],
)
def test_frames_compile_as_if_on_a_later_version(version, poison, tmp_path):
    before = tmp_path / "as_if.h"
    before.write_text(AS_IF.format(version=version, poison=poison))
    done = subprocess.run(
        ["c++", "-std=c++17", "-fsyntax-only", "-Wall", "-Werror", f"-I{sysconfig.get_paths()['include']}"]
        + [f"-I{CSRC}", "-include", str(before), str(CSRC / "python" / "frames.cpp")],
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr[-3000:]


def test_one_file_knows_the_insides_of_an_interpreter():
    inside = re.compile(r"\b_Py\w+|Py_BUILD_CORE|PyErr_(Fetch|Restore)\b|pycore_")
    files = {p.name for p in CSRC.rglob("*") if p.suffix in (".cpp", ".h") and inside.search(p.read_text())}
    assert files == {"frames.cpp", "frames.h"}, files
