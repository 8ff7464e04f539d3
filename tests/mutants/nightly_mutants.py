# SPDX-License-Identifier: Apache-2.0
"""The random programs find 98 % of the faults of faults.toml (docs/programs.md)."""

import subprocess
import sys
from pathlib import Path


def test_programs_find_planted_faults(tmp_path):
    command = [sys.executable, Path(__file__).with_name("run.py"), "--least", "98", "--json", tmp_path / "score.json"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    print(done.stdout[-20000:], done.stderr[-4000:])
    assert done.returncode == 0
