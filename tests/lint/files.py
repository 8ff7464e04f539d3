# SPDX-License-Identifier: Apache-2.0
"""The files of the repository, as git or the directory knows them."""

import os
import shutil
import subprocess
import sys
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
BUILD = Path(os.environ.get("PRESIL_BUILD_DIR", ROOT / "build" / "check")) / "lint"
LEFT_OUT = {".git", ".venv", "build", "__pycache__", ".pytest_cache", ".hypothesis", ".cache", ".ruff_cache"}


@cache
def tracked() -> tuple[Path, ...]:
    """Paths relative to the root. In an unpacked archive, or without git: everything but what tools leave behind."""
    if (ROOT / ".git").exists() and shutil.which("git"):
        names = subprocess.run(["git", "-C", str(ROOT), "ls-files", "-z"], capture_output=True, check=False)
        if names.returncode == 0:
            return tuple(Path(name) for name in names.stdout.decode().split("\0") if name and (ROOT / name).is_file())
    found = (path.relative_to(ROOT) for path in ROOT.rglob("*") if path.is_file())
    return tuple(path for path in found if not LEFT_OUT & set(path.parts))


@cache
def text(path: Path) -> str | None:
    """Contents, or None of a binary file."""
    raw = (ROOT / path).read_bytes()
    return None if b"\0" in raw[:4096] else raw.decode()


def sources(config: str, out: Path | None = None) -> list[Path]:
    """All files of the chip in one configuration, packages first. out: where those that are generated go, if another
    stage may be reading the usual folder."""
    out = out or BUILD / config
    subprocess.run(
        [sys.executable, str(ROOT / "rtl" / "generate.py"), "--out", str(out), "--config", config], check=True
    )
    files = sorted(out.glob("*.sv")) + sorted((ROOT / "rtl").glob("*.sv"))
    assert any(file.name == "presil_top.sv" for file in files)
    return sorted(files, key=lambda file: (not file.name.endswith("_pkg.sv"), file.parent != out, file.name))
