# SPDX-License-Identifier: Apache-2.0
"""tests/c/test_bursts.c and test_memory_model.c through the DPI module: a master of any bursts in a SystemVerilog
simulator, driven over a socket."""

import subprocess

import pytest

from .servers import BUILD, Server


@pytest.mark.parametrize("test", ["bursts", "memory_model"])
def test_over_dpi(test, tmp_path):
    with Server("dpi", "burst", tmp_path) as server:
        done = subprocess.run(
            [BUILD / "bin" / f"test_{test}", server.transport], capture_output=True, text=True, timeout=200
        )
    assert done.returncode == 0 and "PASSED" in done.stderr, done.stdout[-3000:] + done.stderr[-3000:]
