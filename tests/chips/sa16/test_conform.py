# SPDX-License-Identifier: Apache-2.0
"""presil conform, level transport, finds nothing in the simulator of sa16, and skips nothing."""

import os
import re
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[2]


def test_conform():
    build = Path(os.environ.get("PRESIL_BUILD_DIR", ROOT / "build" / "check"))
    command = [sys.executable, str(ROOT / "torch_ext" / "torch_presil" / "cli.py"), "conform", "--level", "transport"]
    command += [str(build / "lib" / "libpresil_sim_sa16_check.so"), "--description", str(HERE / "sa16.conform.toml")]
    done = subprocess.run(command, capture_output=True, text=True)
    counts = re.search(r"(\d+) passed, (\d+) failed, (\d+) skipped", done.stdout)
    assert counts, done.stdout + done.stderr
    assert int(counts[1]) >= 30 and counts.groups()[1:] == ("0", "0") and done.returncode == 0, done.stdout
