# SPDX-License-Identifier: Apache-2.0
"""Two simulators of one launch: the short window in which their signals part first, without a waveform of it all."""

import tempfile
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

from rich.progress import Progress, TimeRemainingColumn

from . import parting, replay
from .trace import Trace
from .view import find

CHUNK, STEP = 16384, 512  # cycles of one waveform: while searching; of the window that is found
BEFORE, BEHIND = 16, 64  # cycles around it


def body(path: Path) -> bytes:
    """An FST file without its header, which holds the date."""
    data = path.read_bytes()
    return data[1 + int.from_bytes(data[1:9], "big") :] if data[:1] == b"\0" else data


@dataclass
class Pair:
    """A launch on two simulators."""

    chosen: replay.Chosen
    libraries: tuple  # None: the build's own
    view: object  # a path, or None
    folder: Path
    same_names: bool = False
    early: set = field(default_factory=set)  # signals that differ at the doorbell already
    compared: int = 0

    def report(self, side: int, quiet: bool) -> dict:
        """What the launch does there, without a waveform."""
        library = self.libraries[side]
        return replay.run(self.chosen, "--build", "trace", *(["--library", library] if library else []), quiet=quiet)

    def traces(self, first: int, last: int) -> list:
        """Both waveforms of these cycles."""

        def one(side):
            path = self.folder / f"{side}.fst"
            replay.trace(self.chosen, path, f"{first}:{last}", self.libraries[side], quiet=True)
            return path

        with ThreadPoolExecutor(2) as pool:
            return list(pool.map(one, (0, 1)))

    def look(self) -> None:
        """At the doorbell: which signals both have, and which differ already."""
        a, b = map(Trace, self.traces(0, 2))
        self.same_names = list(a.variables) == list(b.variables)
        parts, self.compared, _ = self._compare(a, b)
        self.early = {p.name for p in parts if p.since == 0}

    def _compare(self, a: Trace, b: Trace) -> tuple:
        view = find(a, self.view)
        return parting.compare(a, b, view, tuple(view.cycles(t, 0).first for t in (a, b)))

    def differs(self, first: int, last: int) -> bool:
        paths = self.traces(first, last)
        if body(paths[0]) == body(paths[1]):
            return False
        if self.same_names and not self.early:
            return True
        return any(p.since or p.name not in self.early for p in self._compare(*map(Trace, paths))[0])


def narrow(differs, last: int, progress=lambda cycle: None) -> tuple | None:
    """The first cycles, STEP at most, of 0 to `last` in which differs(first, last) is true."""
    for low in range(0, last, CHUNK):
        progress(low)
        high = min(low + CHUNK, last)
        if differs(low, high):
            break
    else:
        return None
    while high - low > STEP:
        middle = (low + high) // 2
        if differs(low, middle):
            high = middle
        else:
            low = middle
    return low, high


def end_of(reports: list) -> int | None:
    """The cycle by which they have parted, or one of them has ended; None: both hang."""
    launches = [r["launches"][0] for r in reports]
    known = [one["cycles"] for one in launches]
    known += [one["difference"]["cycle"] + 1 for one in launches if one["difference"] and one["difference"]["cycle"]]
    return min((c for c in known if c), default=None)


def window(chosen, libraries: tuple, names: tuple, view, console) -> tuple:
    """((first, last) of the waveforms to compare, reports of both, signals compared). No window: they agree; and
    where both hang it is the whole launch."""
    with tempfile.TemporaryDirectory(dir=chosen.bundle.absolute().parent, prefix=".waves-") as folder:
        pair = Pair(chosen, libraries, view, Path(folder))
        reports = []
        for side, name in enumerate(names):
            console.print(f"on {name}:", highlight=False, markup=False)
            reports.append(pair.report(side, quiet=False))
        last = end_of(reports)
        if last is None:
            return (0, replay.LAST_CYCLE), reports, 0
        pair.look()
        columns = (*Progress.get_default_columns()[:-1], TimeRemainingColumn())
        with Progress(*columns, console=console, transient=True) as bar:
            task = bar.add_task("searching for the first difference", total=last)
            found = narrow(pair.differs, last, lambda cycle: bar.update(task, completed=cycle))
        if found:
            found = max(found[0] - BEFORE, 0), found[1] + BEHIND
        return found, reports, pair.compared
