# SPDX-License-Identifier: Apache-2.0
"""Several launches in flight on RTL (relay_top.sv, which takes four): test_relay.c in builds fast and check."""

import os
import subprocess
from pathlib import Path

import pytest

BUILD = Path(os.environ.get("PRESIL_BUILD_DIR", Path(__file__).resolve().parents[3] / "build" / "check"))


@pytest.mark.parametrize("build", ("fast", "check"))
def test_several_in_flight(build):
    environment = {**os.environ, "PRESIL_RELAY_BUILD": build, "PRESIL_LIBRARY_PATH": str(BUILD / "lib")}
    run = subprocess.run([BUILD / "bin/test_relay"], env=environment, capture_output=True, text=True, timeout=240)
    assert run.returncode == 0 and "[  PASSED  ] 5 test(s)." in run.stdout + run.stderr, run.stdout + run.stderr
