# SPDX-License-Identifier: Apache-2.0
"""presil conform: runs the checks, one process each, and reports."""

import json
import os
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path

from rich.console import Console
from rich.markup import escape
from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from . import description, report
from .checks import CHECKS, LEVELS, OPENS, SECONDS, Check
from .register import load
from .seam import SOURCES, Transport, TransportError

EXIT_PASSED, EXIT_FAILED, EXIT_USAGE, EXIT_INTERRUPTED = 0, 1, 2, 130


class UsageError(Exception):
    """A wrong call: nothing was run."""


@dataclass
class Options:
    library: Path
    chip: Path | None = None
    described: Path | None = None
    levels: tuple = LEVELS
    only: str | None = None
    junit: Path | None = None
    json: Path | None = None
    html: Path | None = None


@dataclass
class Result:
    check: Check
    status: str
    comparisons: int
    text: str
    seconds: float = 0.0


@dataclass
class Run:
    options: Options
    facts: dict = field(default_factory=dict)
    results: list = field(default_factory=list)

    def count(self, status: str) -> int:
        return sum(result.status == status for result in self.results)


def _facts(library: Path) -> dict:
    """What the library says of itself. Raises UsageError."""
    if not library.is_file():
        raise UsageError(f"{library} is not there: a simulator library, libpresil_sim_NAME_BUILD.so, was expected")
    try:
        with Transport(library, memory_bytes=1 << 20) as device:
            info = device.info()
    except (OSError, AttributeError, TransportError) as error:
        raise UsageError(f"{library} can't be opened as a transport: {error}") from error
    names = ("chip", "config", "build", "text")
    return {"library": str(library)} | {name: getattr(info, name).decode() for name in names}


def find_description(options: Options, chip: str) -> Path | None:
    """CHIP.conform.toml beside the simulator or the chip's library, or in rtl/, unless one is named."""
    if options.described:
        if not options.described.is_file():
            raise UsageError(f"{options.described} is not there")
        return options.described
    folders = [path.absolute().parent for path in (options.library, options.chip) if path]
    for folder in (*folders, SOURCES / "rtl"):
        if (path := folder / f"{chip}.conform.toml").is_file():
            return path
    return None


def _places(options: Options) -> str:
    """Where the driver looks for the simulator and the chip's library."""
    folders = [str(path.absolute().parent) for path in (options.chip, options.library) if path]
    return ":".join([*folders, *filter(None, [os.environ.get("PRESIL_LIBRARY_PATH")])])


def _worker(check: Check, options: Options, described: Path | None) -> Result:
    command = [
        sys.executable,
        str(Path(__file__).with_name("one_check.py")),
        check.name,
        str(options.library.absolute()),
    ]
    command += [str(options.chip.absolute()) if options.chip else "-", str(described.resolve()) if described else "-"]
    start = time.monotonic()
    environment = {**os.environ, "PYTHONDONTWRITEBYTECODE": "1", "PRESIL_LIBRARY_PATH": _places(options)}
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=SECONDS, env=environment, errors="replace"
        )
    except subprocess.TimeoutExpired:
        return Result(check, "failed", 0, f"not at its end after {SECONDS} s", time.monotonic() - start)
    seconds = time.monotonic() - start
    try:
        told = json.loads(done.stdout.splitlines()[-1])
        if done.returncode and told["status"] != "failed":  # it crashed behind the last line
            return Result(check, "failed", 0, f"the check's process ended with {done.returncode}", seconds)
        return Result(check, told["status"], told["comparisons"], told["text"], seconds)
    except (IndexError, ValueError, KeyError, TypeError):
        last = (done.stderr.strip().splitlines() or ["no text"])[-1]
        return Result(check, "failed", 0, f"the process ended with {done.returncode}: {last}", seconds)


def _chosen(options: Options) -> list:
    import fnmatch

    load()
    for level in options.levels:
        if level not in LEVELS:
            raise UsageError(f"--level {level}: one of {', '.join(LEVELS)} was expected")
    found = [check for check in CHECKS.values() if check.level in options.levels]
    if options.only:
        found = [check for check in found if fnmatch.fnmatch(check.name, options.only)]
    if not found:
        raise UsageError(f"no check is named {options.only!r} at level {', '.join(options.levels)}: see --list")
    return found


def _closed(this: Run, check: Check) -> Result | None:
    """Of a check that needs the chip's driver, where it was found that the chip doesn't open: said once."""
    if check.level == "transport" or not any(r.check.name == OPENS and r.status == "failed" for r in this.results):
        return None
    return Result(check, "skipped", 0, f"the chip does not open: {OPENS} says why")


def run(options: Options, console: Console) -> Run:
    checks = _chosen(options)
    facts = _facts(options.library)
    if options.chip and not options.chip.is_file():
        raise UsageError(f"{options.chip} is not there: libpresil_chip_{facts['chip']}.so was expected")
    described = find_description(options, facts["chip"])
    if described:
        description.read(described)
    this = Run(options, facts | {"description": str(described or "none")})
    columns = SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn()
    with Progress(*columns, console=console, transient=True) as progress:
        task = progress.add_task("")
        for n, check in enumerate(checks, 1):
            progress.update(task, description=f"{check.level}: {check.name} ({n} of {len(checks)})")
            this.results.append(_closed(this, check) or _worker(check, options, described))
    return this


def main(options: Options) -> int:
    console = Console() if Console().width >= 120 else Console(width=120)
    try:
        this = run(options, console)
    except (UsageError, description.DescriptionError) as error:
        console.print(f"[red]presil conform: {escape(str(error))}[/red]", highlight=False)
        return EXIT_USAGE
    except KeyboardInterrupt:
        console.print("[yellow]interrupted; nothing was written[/yellow]")
        return EXIT_INTERRUPTED
    report.show(this, console)
    for path, render in ((options.junit, report.junit), (options.json, report.as_json), (options.html, report.html)):
        if path:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(render(this))
    return EXIT_FAILED if this.count("failed") or not this.count("passed") else EXIT_PASSED
