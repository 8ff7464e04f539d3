# SPDX-License-Identifier: Apache-2.0
"""What of a chip is shown, in which groups, with which names for values: waveforms/*.toml (docs/waves.md has the
format)."""

import fnmatch
import json
import os
import tomllib
from dataclasses import dataclass, field
from pathlib import Path

from .trace import Cycles, Trace, WavesError

KEYS = {"top", "title", "clock", "doorbell", "done", "rtl", "library", "enumerations", "groups", "pictures"}
FORMATS = ("hex", "unsigned", "signed", "binary")


@dataclass(frozen=True)
class Row:
    name: str  # in the trace
    label: str
    width: int
    format: str = "hex"
    enumeration: str | None = None


@dataclass
class View:
    path: Path
    top: str  # the module
    clock: str
    doorbell: str  # a bit: cycle 0 is where it first rises
    done: str | None
    title: str
    rtl: list
    enumerations: dict  # name -> {value: text}
    groups: list  # of the file, not yet looked up
    root: str = ""  # of the top module in the trace
    pictures: dict = field(default_factory=dict)
    library: dict | None = None  # {"chip": of bundles, "project": CMake project that builds a simulator of other RTL}

    def full(self, name: str) -> str:
        return f"{self.root}.{name}"

    def bell(self, trace: Trace) -> int | None:
        """When the doorbell rises; None: a trace of a window may lie behind it."""
        return next(trace.signal(self.full(self.doorbell)).rises(), None)

    def cycles(self, trace: Trace, first: int | None = None) -> Cycles:
        """From the doorbell on, or else the trace's beginning. first: what the trace's beginning is, if it is known."""
        clock = trace.signal(self.full(self.clock))
        return Cycles(clock, self.bell(trace)) if first is None else Cycles(clock, None, first)

    def end(self, trace: Trace, cycles: Cycles) -> int:
        """The cycle of the launch's end, or of the trace's."""
        rises = trace.signal(self.full(self.done)).rises() if self.done else ()
        return cycles.at(next((t for t in rises if t > cycles.zero), cycles.last))

    def rows(self, trace: Trace, only=None) -> list:
        """[(group, [Row])] with what the trace has. only: names of groups."""
        known = [g["name"] for g in self.groups]
        for name in only or ():
            if name not in known:
                raise WavesError(f"{self.path} has no group {name}; it has {', '.join(known)}")
        found = []
        for group in self.groups:
            if only and group["name"] not in only:
                continue
            rows = [row for item in group["signals"] for row in self._expand(trace, item, group["name"])]
            found.append((group["name"], rows))
        return found

    def _expand(self, trace: Trace, item, group: str) -> list:
        item = {"signal": item} if isinstance(item, str) else item
        wanted = self.full(item["signal"])
        if any(c in item["signal"] for c in "*?"):
            names = [n for n in trace.variables if fnmatch.fnmatchcase(n, wanted.replace("[", "[[]"))]
        else:
            trace.signal(wanted)  # says what is near
            names = [wanted]
        enumeration = item.get("enumeration")
        if enumeration is not None and enumeration not in self.enumerations:
            raise WavesError(f"{self.path}: group {group}: no enumeration {enumeration}")
        return [
            Row(
                name,
                item.get("label") if len(names) == 1 and "label" in item else name.removeprefix(self.root + "."),
                trace.variables[name].bitwidth or 1,
                item.get("format", "hex"),
                enumeration,
            )
            for name in names
        ]


def _enumeration(view: Path, name: str, entry: dict) -> dict:
    """{value: text} of a table in the view itself, or of a JSON file of the chip's."""
    values = entry.get("values")
    if values is None:
        path = view.parent / entry.get("file", "")
        try:
            values = json.loads(path.read_text())
            for key in entry["at"].split("."):
                values = values[key]
        except (OSError, ValueError, KeyError) as error:
            raise WavesError(
                f"{view}: enumeration {name}: `values`, or `file` and `at` of a JSON file, are needed: {error!r}"
            ) from None
    return {int(v): k for k, v in values.items()}


def load(path) -> View:
    path = Path(path)
    try:
        with open(path, "rb") as file:
            data = tomllib.load(file)
    except (OSError, tomllib.TOMLDecodeError) as error:
        raise WavesError(f"{path} is not a view: {error}") from None
    missing = [k for k in ("top", "clock", "doorbell", "groups") if k not in data]
    unknown = sorted(set(data) - KEYS)
    if missing or unknown:
        raise WavesError(f"{path}: missing: {missing or 'none'}; unknown: {unknown or 'none'}")
    for group in data["groups"]:
        for item in group["signals"]:
            if isinstance(item, dict) and item.get("format", "hex") not in FORMATS:
                raise WavesError(f"{path}: group {group['name']}: format {item['format']}: one of {', '.join(FORMATS)}")
    library = data.get("library")
    if library is not None:
        if set(library) != {"chip", "project"} or not data.get("rtl"):
            raise WavesError(f"{path}: [library]: `chip` and `project`, and `rtl` beside it, were expected")
        library = {**library, "project": (path.parent / library["project"]).resolve()}
    enumerations = {n: _enumeration(path, n, e) for n, e in data.get("enumerations", {}).items()}
    return View(
        path,
        data["top"],
        data["clock"],
        data["doorbell"],
        data.get("done"),
        data.get("title", data["top"]),
        [path.parent / p for p in data.get("rtl", [])],
        enumerations,
        data["groups"],
        pictures=data.get("pictures", {}),
        library=library,
    )


def views(folders=()) -> list:
    """Those that are found by themselves: NAME.view.toml in `folders` and in PRESIL_LIBRARY_PATH, then the source
    tree's, or an installed package's."""
    libraries = filter(None, os.environ.get("PRESIL_LIBRARY_PATH", "").split(os.pathsep))
    own = [p for folder in map(Path, (*folders, *libraries)) for p in sorted(folder.glob("*.view.toml"))]
    here = Path(__file__).resolve()
    ours = (p for top in (here.parents[3], here.parents[1] / "sources") for p in top.glob("waveforms/*.toml"))
    return [*own, *sorted(ours)]


def find(trace: Trace, path=None, folders=()) -> View:
    """The view that was asked for, or that of a chip whose top module the trace has. folders: as of views()."""
    candidates = [load(path)] if path else list(map(load, views(folders)))
    tops = {s.split(".")[-1] for s in trace.scopes}
    for view in candidates:
        if view.top in tops:
            view.root = trace.scope(view.top)
            return view
    known = ", ".join(f"{v.path} ({v.top})" for v in candidates) or "none"
    raise WavesError(
        f"{trace.path}: no view is for one of its modules ({', '.join(sorted(tops)[:8])}); views: {known}; "
        "write one (docs/waves.md): give it with --view, or keep it as NAME.view.toml beside the suite or the simulator"
    )


def text_of(row: Row, value, enumerations: dict) -> str:
    """A value as it is shown."""
    if not isinstance(value, int):
        return "" if value is None else str(value)
    if row.enumeration:
        named = enumerations[row.enumeration].get(value)
        if named is not None:
            return named
    if row.format == "unsigned":
        return str(value)
    if row.format == "signed":
        return str(value - (1 << row.width) if value >> (row.width - 1) & 1 else value)
    if row.format == "binary":
        return f"{value:0{row.width}b}"
    return f"{value:x}"
