# SPDX-License-Identifier: Apache-2.0
"""`presil regress smoke ops` finds 95 % of the faults of faults.toml (docs/programs.md)."""

import subprocess
import sys
from pathlib import Path


def test_regress_finds_planted_faults(tmp_path):
    command = [sys.executable, Path(__file__).with_name("kills.py"), "--least", "95", "--json", tmp_path / "score.json"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    print(done.stdout[-20000:], done.stderr[-4000:])
    assert done.returncode == 0
