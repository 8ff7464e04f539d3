# SPDX-License-Identifier: Apache-2.0
"""A bundle's launch, run again by presil-replay: for its waveform, and for why it hangs."""

import json
import os
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from . import sibling
from .trace import BUNDLE, WavesError

EXIT_USAGE, EXIT_HUNG, EXIT_INTERNAL = 2, 3, 4  # presil-replay's
HUNG = "EHUNG"
NO_CYCLE = 2**64 - 1
LAST_CYCLE = 2**63  # a window from the doorbell to the end
SOURCE_TREE = Path(__file__).resolve().parents[3]
PACKAGE = Path(__file__).resolve().parents[1]  # an installed one has programs of its own


def starts_with(path: Path, magic: bytes) -> bool:
    try:
        with open(path, "rb") as file:
            return file.read(len(magic)) == magic
    except OSError:
        return False


def is_bundle(path: Path) -> bool:
    return starts_with(path, BUNDLE)


def is_library(path: Path) -> bool:
    return starts_with(path, b"\x7fELF")


@dataclass(frozen=True)
class Chosen:
    """A launch of a bundle, and what was recorded of it."""

    bundle: Path
    number: int
    chip: str
    config: str
    cycle: int | None  # of the first difference that was recorded
    status: int  # presil_status; 0: OK


def _failed(results: list) -> bool:
    return any(r.status or (r.difference and r.difference.present) for r in results)


def choose(path: Path, number: int | None) -> Chosen:
    """The launch of that number; None: the first with a difference or a failure, else the first."""
    module = sibling("bundle")
    try:
        with module.Bundle(path) as bundle:
            launches = list(bundle.launches())
            results = {}
            for result in bundle.results():
                results.setdefault((result.chip, result.launch), []).append(result)
            of = [results.get((one.chip, one.launch), []) for one in launches]
            if number is None:
                number = next((i for i, found in enumerate(of) if _failed(found)), 0)
            if not 0 <= number < len(launches):
                raise WavesError(f"{path} has {len(launches)} launches, counted from 0: --launch {number} is none")
            differences = [r.difference for r in of[number] if r.difference and r.difference.present]
            cycle = next((d.cycle for d in differences if d.cycle != NO_CYCLE), None)
            status = next((r.status for r in of[number] if r.status), 0)
            chip = bundle.chips()[launches[number].chip]
            return Chosen(path, number, chip.chip, chip.config, cycle, status)
    except (ValueError, MemoryError) as error:
        raise WavesError(str(error)) from None


def program(config: str) -> str:
    """presil-replay: that of the build which PRESIL_BUILD_DIR names; else of several one that has the chip's trace
    library beside it."""
    name = "presil-replay"
    build = os.environ.get("PRESIL_BUILD_DIR")
    if build and (named := shutil.which(name, path=str(Path(build) / "bin"))):
        return named
    libraries = os.environ.get("PRESIL_LIBRARY_PATH", "")
    places = [Path(d).absolute().parent / "bin" for d in libraries.split(os.pathsep) if d]
    places += sorted((SOURCE_TREE / "build").glob("*/bin"))
    places += [PACKAGE / "bin", Path(sys.executable).parent, *map(Path, os.get_exec_path())]
    found = [path for place in places if (path := shutil.which(name, path=str(place)))]
    if not found:
        raise WavesError(
            f"{name} is neither in PRESIL_BUILD_DIR, {SOURCE_TREE}/build/*/bin nor on PATH: ./presil build makes it"
        )
    traces = (p for p in found if (Path(p).parents[1] / "lib" / f"libpresil_sim_{config}_trace.so").exists())
    return next(traces, found[0])


def run(chosen: Chosen, *arguments, quiet: bool = False) -> dict:
    """What presil-replay --json says, and `exit`; its table goes to standard output unless `quiet`."""
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "replay.json"
        span = f"{chosen.number}:{chosen.number + 1}"
        command = [program(chosen.config), str(chosen.bundle.absolute()), "--launches", span, "--json", str(report)]
        sys.stdout.flush()
        done = subprocess.run(
            [*command, *map(str, arguments)],
            stdout=subprocess.DEVNULL if quiet else None,
            stderr=subprocess.PIPE,
            text=True,
            errors="replace",
        )
        if done.returncode in (EXIT_USAGE, EXIT_INTERNAL) or done.returncode < 0 or not report.exists():
            raise WavesError(done.stderr.strip() or f"presil-replay ended with status {done.returncode}")
        if done.stderr:
            print(done.stderr, end="", file=sys.stderr)
        return {**json.loads(report.read_text(errors="replace")), "exit": done.returncode}


def trace(chosen: Chosen, path: Path, window: str | None, library: Path | None = None, quiet: bool = False) -> dict:
    """The launch's waveform, at `path`, and what presil-replay says."""
    path.unlink(missing_ok=True)
    options = ["--trace", path.absolute()]
    options += ["--window", window] if window else []
    options += ["--library", library] if library else []
    try:
        report = run(chosen, *options, quiet=quiet)
    except WavesError as error:
        if library:
            raise WavesError(
                f"{error}\n{library}: a simulator of the bundle's chip, configuration {chosen.config}, in its build "
                f"`trace` was expected (libpresil_sim_{chosen.config}_trace.so)"
            ) from None
        raise
    return report


def first_difference(chosen: Chosen, report: dict) -> int | None:
    """Its cycle: this run's, which the waveform is of; where it has none, the recorded one."""
    found = [one["difference"] for one in report["launches"] if one["difference"]]
    return next((d["cycle"] for d in found if d["cycle"] is not None), chosen.cycle)
