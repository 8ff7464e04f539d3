# SPDX-License-Identifier: Apache-2.0
"""The suite `coverage` reaches 95 % of the lines and 90 % of the testpoints, and no hole is one that is reached."""

import json
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
LINES, TESTPOINTS = 95.0, 90.0
SECONDS = 6000


def test_what_is_reached(tmp_path):
    command = [sys.executable, str(ROOT / "torch_ext" / "torch_presil" / "cli.py"), "regress", "coverage"]
    done = subprocess.run(
        [*command, "--runs", str(tmp_path), "--json", str(tmp_path / "j")],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=SECONDS,
    )
    print(done.stdout)
    assert done.returncode == 0, done.stdout[-2000:]
    found = json.loads((tmp_path / "j").read_text())["presil"]["coverage"]
    assert not found["problems"] and not found["stale_holes"]
    assert found["line_with_holes"]["total"] > 1500 and found["testpoints_reached"]["total"] > 20
    assert found["line_with_holes"]["percent"] >= LINES
    assert found["testpoints_reached"]["percent"] >= TESTPOINTS, found["covers_missing"]
