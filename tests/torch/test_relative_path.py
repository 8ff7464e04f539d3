# SPDX-License-Identifier: Apache-2.0
"""A PYTHONPATH that leads nowhere does not silently take another build."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

BUILD = Path(os.environ.get("PRESIL_BUILD_DIR", Path(__file__).resolve().parents[2] / "build" / "check"))


@pytest.mark.parametrize("place", ["build/check/python", "own/modules", str(BUILD / "python")])
def test_of_a_build_that_is_not_there(place, tmp_path):
    """Found by another way, as by the file that ./presil puts into .venv."""
    code = f"import sys; sys.path.append({str(BUILD / 'python')!r}); import torch_presil"
    environment = {**os.environ, "PYTHONPATH": place}
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=200, cwd=tmp_path, env=environment
    )
    refused = place.startswith("build")
    assert (done.returncode != 0) == refused, done.stderr
    assert not refused or f"PYTHONPATH has {place}, which is relative, and no folder of {tmp_path}" in done.stderr
