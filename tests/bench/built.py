# SPDX-License-Identifier: Apache-2.0
"""Where the build's libraries are: PRESIL_LIBRARY_PATH, then PRESIL_BUILD_DIR/lib, by default build/check."""

import os
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def build_directory() -> Path:
    return Path(os.environ.get("PRESIL_BUILD_DIR", ROOT / "build" / "check"))


def library(name: str) -> Path:
    folders = [Path(f) for f in os.environ.get("PRESIL_LIBRARY_PATH", "").split(":") if f]
    folders.append(build_directory() / "lib")
    for folder in folders:
        if (folder / name).exists():
            return folder / name
    raise FileNotFoundError(
        f"{name}: expected in {', '.join(map(str, folders))}; build it (ninja {Path(name).stem[3:]})"
    )
