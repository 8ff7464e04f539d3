# SPDX-License-Identifier: Apache-2.0
"""Simulators in the build `trace` for looking into a failure: of the RTL as it is, and as it was when the case last
passed. One that is not there is built of its RTL, where a view says how (docs/waves.md, [library])."""

import contextlib
import filecmp
import hashlib
import json
import os
import re
import shutil
from pathlib import Path

from .failing_launch import Unclear
from .kinds import build_directory
from .records import write_whole
from .run_list import Job

INDEX = "cases.json"
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


def _name(job: Job) -> str:
    return f"{job.key} {job.seed}"


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
        """The last good one of the job's case. Raises Unclear where there is none, or its RTL is today's."""
        if self.given:
            if self.given.is_file():
                return self.given
            raise Unclear(f"--good {self.given}: there is no such file")
        unclear = f"no last good simulator (--good) of {job.chip}"
        for folder in self._candidates(job):
            try:
                return self._of(folder, job)
            except Unclear as reason:
                unclear = str(reason)
        raise Unclear(unclear)

    def _candidates(self, job: Job) -> list[Path]:
        """Where it passed itself; else, the last first, where its case did with another seed, build or memory; where
        anything did on its chip."""
        known = self._index()
        if own := known.get(_name(job)):
            return [self.folder / own["folder"]]
        rows = [row for row in reversed(known.values()) if row["chip"] == job.chip]
        rows.sort(key=lambda row: row["case"] != job.name)
        if not rows:
            raise Unclear(f"no last good simulator (--good) of {job.chip}: no run has passed on it before")
        return [self.folder / name for name in dict.fromkeys(row["folder"] for row in rows)]

    def _of(self, folder: Path, job: Job) -> Path:
        path, today = folder / f"libpresil_sim_{job.chip}_trace.so", trace_library(job)
        same = Unclear("its RTL is that of the last run that passed")
        if path.is_file():
            if today and filecmp.cmp(path, today, shallow=False):
                raise same
            return path
        try:
            sources = Sources(job)
        except Unclear as unclear:
            raise Unclear(f"no last good simulator (--good) of {job.chip}; {unclear}") from unclear
        kept = folder / sources.rtl.name
        if not kept.is_dir():
            raise Unclear(f"no last good simulator (--good) of {job.chip}")
        if _same(kept, sources.rtl):
            raise same
        return self._built(kept, sources)

    # ---- what passed ----

    def _index(self) -> dict:
        """By a job's name: its case, its chip, the folder with the RTL or the library on which it passed last. What
        passed last is the last one."""
        try:
            return json.loads((self.folder / INDEX).read_text())
        except (OSError, ValueError):
            return {}

    def keep(self, jobs: list[Job]) -> None:
        """These have passed: their simulators, or the RTL to build them of."""
        known, kept = self._index(), {}
        for job in [job for job in jobs if not job.library]:
            of = job.chip, job.build
            if of not in kept:
                kept[of] = self._keep(job)
            if kept[of]:
                known.pop(_name(job), None)
                known[_name(job)] = {"case": job.name, "chip": job.chip, "folder": kept[of]}
        if any(kept.values()):
            write_whole(self.folder / INDEX, json.dumps(known, indent=1) + "\n")
            self._drop({row["folder"] for row in known.values()})

    def _drop(self, used: set) -> None:
        for path in self.folder.iterdir():
            if path.is_dir() and path.name not in used and not path.name.startswith("."):
                shutil.rmtree(path, ignore_errors=True)

    def _keep(self, job: Job) -> str:
        """The folder, named by what is in it; empty: nothing is known of the job's simulator."""
        library, sources = trace_library(job), None
        with contextlib.suppress(Unclear):
            sources = Sources(job)
        files = [library] if library else []
        if sources:
            files += sorted(p for p in sources.rtl.rglob("*") if p.is_file() and p.parent.name != "__pycache__")
        if not files:
            return ""
        name = hashlib.sha256(b"".join(path.name.encode() + path.read_bytes() for path in files)).hexdigest()[:16]
        kept, partial = self.folder / name, self.folder / f".{name}-{os.getpid()}"
        if not kept.is_dir():
            partial.mkdir(parents=True)
            if library:
                shutil.copyfile(library, partial / f"libpresil_sim_{job.chip}_trace.so")
            if sources:
                skipped = shutil.ignore_patterns("__pycache__")
                shutil.copytree(sources.rtl, partial / sources.rtl.name, ignore=skipped)
            partial.rename(kept)
        return name
