# SPDX-License-Identifier: Apache-2.0
"""A new chip's project, made of template/: the name is put in place of "toy"."""

import os
import re
import sys
from pathlib import Path

TEMPLATE = Path(__file__).resolve().parent / "template"
NAME = re.compile(r"[a-z][a-z0-9_]{0,19}")
TAKEN = {"presil", "base", "tiny", "odd", "wide"}  # chips and configurations of Presil's own


class ProjectError(Exception):
    """Nothing was written; the text says what to do."""


def sources() -> Path:
    """Of Presil: the repository, or what a wheel installs."""
    package = Path(__file__).resolve().parents[1]
    for root in (package / "sources", package.parents[1]):
        if (root / "sim/presil_add_chip.cmake").is_file():
            return root
    raise ProjectError(f"neither {package / 'sources'} nor {package.parents[1]} has sim/presil_add_chip.cmake")


def cmake_package() -> Path:
    """Where CMake finds Presil: an installed package's folder, or the build tree's."""
    package = Path(__file__).resolve().parents[1]
    build = os.environ.get("PRESIL_BUILD_DIR") or package.parents[1] / "build/fast"
    for folder in (package / "cmake", Path(build).resolve() / "cmake"):
        if (folder / "PresilConfig.cmake").is_file():
            return folder
    raise ProjectError(f"neither {package}/cmake nor {build}/cmake has PresilConfig.cmake: ./presil build makes it")


def named(text: str, name: str) -> str:
    text = text.replace("toy", name).replace("TOY", name.upper())
    text = text.replace("@SOURCES@", str(sources())).replace("@PRESIL_DIR@", str(cmake_package()))
    return text.replace("@PYTHON@", sys.executable)


def make(name: str, directory: Path) -> list[Path]:
    """Writes the project; returns its files, relative to the directory. Raises ProjectError."""
    if not NAME.fullmatch(name):
        raise ProjectError(f"{name!r}: a name of at most 20 small letters, digits and _ was expected, a letter first")
    if name in TAKEN:
        raise ProjectError(f"{name!r} is a name of Presil's own: choose another")
    if directory.exists() and (not directory.is_dir() or any(directory.iterdir())):
        raise ProjectError(f"{directory} is there already: name a new folder, or an empty one")
    made = []
    for path in sorted(TEMPLATE.rglob("*")):
        if path.is_dir() or path.suffix == ".pyc":
            continue
        relative = Path(named(str(path.relative_to(TEMPLATE)), name))
        target = directory / relative
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(named(path.read_text(), name))
        target.chmod(path.stat().st_mode & 0o777)
        made.append(relative)
    return made
