# SPDX-License-Identifier: Apache-2.0
"""sim/code_lines.py counts a library's instructions and lines from what callgrind wrote: names given once, addresses
relative or repeated, and the cost of calls left out."""

import runpy

import pytest
from files import ROOT

PROFILE = """events: Ir

ob=(1) /lib/libpresil_sim_base_fast.so
fn=(1) eval
0x1000 0 100
+4 0 100
+60 0 50
cob=(2) /lib/libc.so.6
cfn=(2) memcpy
calls=10 0x9000
* 0 7000
-64 0 1
fn=(3) rest
* 0 4
ob=(2)
fn=(2)
0x9000 0 900
ob=(1)
fn=(1)
0x1040 0 25
"""


def test_instructions_and_lines_of_the_library_alone():
    tool = runpy.run_path(str(ROOT / "sim" / "code_lines.py"))
    counts = tool["executions"](PROFILE.splitlines(), "libpresil_sim")
    assert counts == {0x1000: 105, 0x1004: 100, 0x1040: 75}
    ran, distinct, lines = tool["summary"](counts, 100)
    assert (ran, distinct, lines) == (pytest.approx(2.8), 3, pytest.approx(1.75))
    assert not tool["executions"](PROFILE.splitlines(), "libother")
