# SPDX-License-Identifier: Apache-2.0
"""presil conform, run as ./presil runs it."""

import json
import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
BUILD = Path(os.environ.get("PRESIL_BUILD_DIR", ROOT / "build" / "check"))
sys.path.insert(0, str(ROOT / "torch_ext" / "torch_presil"))

from conform.sweep import KINDS  # noqa: E402

# Checks of level chip of what a chip may do without; a new one stands here, for every chip's list of skips.
OF_CHOICE = frozenset({"activations", "scratch", "queue", "timing", "usage", "work", *KINDS})


def conform(*arguments, status: int | None = 0, **environment) -> dict:
    """What the run says as JSON; `status`: the exit code expected, None: any."""
    out = environment.pop("out", None) or Path(os.environ.get("TMPDIR", "/tmp")) / f"conform-{os.getpid()}.json"
    command = [sys.executable, str(ROOT / "torch_ext/torch_presil/cli.py"), "conform", *map(str, arguments)]
    done = subprocess.run(
        [*command, "--json", str(out)], capture_output=True, text=True, timeout=280, env={**os.environ, **environment}
    )
    assert status is None or done.returncode == status, done.stdout + done.stderr
    found = json.loads(out.read_text()) if out.exists() else {"checks": []}
    out.unlink(missing_ok=True)
    return found | {"code": done.returncode, "output": done.stdout + done.stderr}


def library(name: str) -> Path:
    path = BUILD / "lib" / f"libpresil_sim_{name}.so"
    assert path.exists(), f"{path}: build the target presil_sim_{name}"
    return path


def check(name: str, library: Path, description: Path, chip: Path | str = "-", **environment) -> dict:
    """What the process of one check says."""
    worker = ROOT / "torch_ext/torch_presil/conform/one_check.py"
    command = [sys.executable, str(worker), name, str(library), str(chip), str(description)]
    place = {"PRESIL_LIBRARY_PATH": str(library.parent)}
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=280, env={**os.environ, **place, **environment}
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return json.loads(done.stdout.splitlines()[-1])


def new_chip(*arguments, status: int = 0) -> str:
    command = [sys.executable, str(ROOT / "torch_ext/torch_presil/cli.py"), "new-chip", *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.returncode == status, done.stdout + done.stderr
    return " ".join((done.stdout + done.stderr).split())
