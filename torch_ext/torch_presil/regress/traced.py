# SPDX-License-Identifier: Apache-2.0
"""Simulators in the build `trace` for looking into a failure: of the RTL as it is, and as it was when everything last
passed. One that is not there is built of its RTL, where a view says how (docs/waves.md, [library])."""

import filecmp
import os
import re
import shutil
from pathlib import Path

from .failing_launch import Unclear
from .kinds import build_directory
from .run_list import Job

# What the harness says of itself in each library: the chip and its configuration.
_IDENTITY = re.compile(rb" chip=([\w.-]+)/([\w.-]+) build=")


def _waves():
    """(against, view, WavesError) of torch_presil.waves, also where the command is run as a file."""
    if __package__.startswith("torch_presil."):
        from torch_presil.waves import against, view
        from torch_presil.waves.trace import WavesError
    else:
        from waves import against, view
        from waves.trace import WavesError
    return against, view, WavesError


def library_of(job: Job, build: str) -> Path | None:
    """The job's simulator in a build: beside the library that it names, or where the driver finds it."""
    name, directory = f"libpresil_sim_{job.chip}_{build}.so", build_directory()
    places = [Path(job.library).parent] if job.library else []
    places += [] if job.library else [Path(p) for p in os.environ.get("PRESIL_LIBRARY_PATH", "").split(os.pathsep) if p]
    places += [directory / "lib"] if directory and not job.library else []
    return next((place / name for place in places if (place / name).is_file()), None)


def trace_library(job: Job) -> Path | None:
    return library_of(job, "trace")


def identity(library: Path) -> tuple[str, str] | None:
    """(chip, configuration) of a simulator library."""
    found = _IDENTITY.search(library.read_bytes())
    return (found[1].decode(), found[2].decode()) if found else None


def _same(one: Path, other: Path) -> bool:
    told = filecmp.dircmp(one, other, ignore=["__pycache__"])
    inside = all(_same(one / name, other / name) for name in told.common_dirs)
    return inside and not (told.left_only or told.right_only or told.diff_files or told.funny_files)


class Sources:
    """The RTL of which a job's simulator was built."""

    def __init__(self, job: Job):
        library = None if job.library else library_of(job, job.build)
        told = identity(library) if library else None
        if not told:
            raise Unclear(f"the RTL of {job.library or job.chip} is not known: name its simulator in the build trace")
        self.chip, self.config = told
        _, view, _ = _waves()
        views = [one for one in map(view.load, view.views([job.folder])) if one.library]
        mine = next((one for one in views if one.library["chip"] == self.chip), None)
        if mine is None:
            raise Unclear(f"no view says how the RTL of {self.chip} is built ([library], docs/waves.md)")
        self.view, self.rtl, made = mine.path, Path(mine.rtl[0]).resolve(), library.stat().st_mtime
        newer = [path for path in self.rtl.rglob("*.sv") if path.stat().st_mtime > made]
        if newer:
            raise Unclear(f"{newer[0]} is newer than the simulator that ran")


class Simulators:
    """given: the last good simulator (--good); runs: the folder of the runs, beside which it is kept otherwise."""

    def __init__(self, runs: Path, given: str | None, console):
        self.folder, self.given, self.console = runs / "good", Path(given) if given else None, console

    def _built(self, rtl: Path, sources: Sources) -> Path:
        against, _, error = _waves()
        try:
            return against.resolve(str(rtl), sources.chip, sources.config, sources.view, self.console).library
        except (error, OSError) as problem:
            raise Unclear(str(problem)) from problem

    def new(self, job: Job) -> Path:
        """The job's own in the build `trace`. Raises Unclear."""
        there = trace_library(job)
        if there is None:
            sources = Sources(job)
            there = self._built(sources.rtl, sources)
        return there

    def good(self, job: Job) -> Path:
        """The last good one. Raises Unclear where there is none, or its RTL is today's."""
        path = self.given or self.folder / f"libpresil_sim_{job.chip}_trace.so"
        if path.is_file():
            return path
        if self.given:
            raise Unclear(f"--good {self.given}: there is no such file")
        try:
            sources = Sources(job)
        except Unclear as unclear:
            raise Unclear(f"no last good simulator (--good) of {job.chip}; {unclear}") from unclear
        kept = self._kept(sources)
        if not kept.is_dir():
            raise Unclear(f"no last good simulator (--good) of {job.chip}: no run has passed as a whole before")
        if _same(kept, sources.rtl):
            raise Unclear("its RTL is that of the last run that passed")
        return self._built(kept, sources)

    def _kept(self, sources: Sources) -> Path:
        return self.folder / sources.chip / sources.rtl.name

    def keep(self, jobs: list[Job]) -> None:
        """After a run in which everything passed: its simulators, or the RTL to build them of."""
        for job in {job.chip: job for job in jobs if not job.library}.values():
            self._keep_library(job)
            try:
                self._keep_rtl(Sources(job))
            except Unclear:
                continue

    def _keep_library(self, job: Job) -> None:
        path = trace_library(job)
        kept = self.folder / f"libpresil_sim_{job.chip}_trace.so"
        if path is None:
            kept.unlink(missing_ok=True)  # an older run's
            return
        self.folder.mkdir(parents=True, exist_ok=True)
        temporary = self.folder / f".{path.name}-{os.getpid()}"
        shutil.copyfile(path, temporary)
        os.replace(temporary, kept)

    def _keep_rtl(self, sources: Sources) -> None:
        kept = self._kept(sources)
        if kept.is_dir() and _same(kept, sources.rtl):
            return
        partial = kept.with_name(f".{kept.name}-{os.getpid()}")
        shutil.copytree(sources.rtl, partial, ignore=shutil.ignore_patterns("__pycache__"))
        shutil.rmtree(kept, ignore_errors=True)
        partial.rename(kept)
