# SPDX-License-Identifier: Apache-2.0
"""presil conform finds nothing in sa16: not in its simulator, where nothing is skipped, nor in its chip library."""

import os
import re
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[2]


def conform(level: str) -> tuple[tuple[int, ...], str]:
    """(passed, failed, skipped) of one level, and what was printed."""
    build = Path(os.environ.get("PRESIL_BUILD_DIR", ROOT / "build" / "check"))
    command = [sys.executable, str(ROOT / "torch_ext" / "torch_presil" / "cli.py"), "conform", "--level", level]
    command += [str(build / "lib" / "libpresil_sim_sa16_check.so"), "--description", str(HERE / "sa16.conform.toml")]
    done = subprocess.run(command, capture_output=True, text=True)
    counts = re.search(r"(\d+) passed, (\d+) failed, (\d+) skipped", done.stdout)
    assert counts and done.returncode == 0, done.stdout + done.stderr
    return tuple(int(n) for n in counts.groups()), done.stdout


def test_transport():
    (passed, failed, skipped), told = conform("transport")
    assert passed >= 30 and failed == skipped == 0, told


def test_chip():
    """Products and kernels that it does not pack are the host's: what is asked of them is skipped, and nothing else."""
    (passed, failed, _), told = conform("chip")
    assert passed >= 12 and failed == 0, told
    assert re.findall(r"^skipped ([a-z-]+):", told, re.MULTILINE) == ["matmul", "matmul-limits", "conv"], told
