# SPDX-License-Identifier: Apache-2.0
"""Several launches in flight on RTL (relay_top.sv, which takes four): test_relay.c in builds fast and check."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
sys.path.insert(0, str(ROOT / "tests/conform"))
from conform_runs import check  # noqa: E402

BUILD = Path(os.environ.get("PRESIL_BUILD_DIR", ROOT / "build" / "check"))


@pytest.mark.parametrize("build", ("fast", "check"))
def test_several_in_flight(build):
    environment = {**os.environ, "PRESIL_RELAY_BUILD": build, "PRESIL_LIBRARY_PATH": str(BUILD / "lib")}
    run = subprocess.run([BUILD / "bin/test_relay"], env=environment, capture_output=True, text=True, timeout=240)
    assert run.returncode == 0 and "[  PASSED  ] 5 test(s)." in run.stdout + run.stderr, run.stdout + run.stderr


@pytest.mark.parametrize(
    "fault, text",
    (
        ("", ""),
        ("spills", "it wrote behind its scratch memory of 4096 bytes"),
        ("stale", "copy of 4096 bytes"),
    ),
)
def test_conform_asks_for_scratch_memory(fault, text):
    simulator = BUILD / "lib/libpresil_sim_relay_fast.so"
    found = check("scratch", simulator, "-", BUILD / "lib/libpresil_chip_relay.so", PRESIL_RELAY=f"all,{fault}")
    assert found["status"] == ("failed" if fault else "passed") and text in found["text"], found
    assert fault or found["comparisons"] == 18, found
