# SPDX-License-Identifier: Apache-2.0
"""What a failure's bundle tells besides: its launch alone, the module whose signals part first from those of the last
good simulator, a waveform of these cycles (without a good one of those around the first wrong byte), and a picture.
The RTL's names come from traces, the chip's from its own tables."""

import contextlib
import io
import time
from dataclasses import dataclass, field
from pathlib import Path

from rich.console import Console

from .failing_launch import Unclear, arguments, choice, keep_launch, limited, replay
from .run_list import Job
from .kinds import Skip
from .recapture import recapture, wanted
from .signatures import signature
from .traced import Simulators

FIRST_WINDOW, GROWS = 4096, 4  # cycles that are traced at first; how much more each time
AROUND = 60  # cycles in the picture, before and behind
BEFORE, BEHIND = 1024, 256  # cycles in the waveform, where there is only the first wrong byte to go by


@dataclass
class Found:
    """What one failure's examination gave. unit: the module (or engine) at fault, as far as that can be told; command:
    the first one behind which the chip has something else than the model, as the chip calls it."""

    unit: str = ""
    command: str = ""
    evidence: str = ""
    bundle: str = ""
    waveform: str = ""
    picture: str = ""
    seconds: float = 0.0
    lines: list = field(default_factory=list)


# ---- the first wrong command ----


def first_command(job: Job, bundle: Path, folder: Path) -> tuple[str, str]:
    """(its name, which one it is and what is wrong behind it), by presil-replay --bisect. Raises Unclear: a chip that
    can't run a part of a launch, a launch that is right when it runs against the model."""
    told = replay(job, bundle, folder / "bisect.json", None, "--bisect")
    if told["command"] is None:
        raise Unclear("no command differs from the model's")
    first = told["command"] if told["right"] == told["command"] else f"one of {told['right']} to {told['command']}"
    where = f": {told['where']}" if "where" in told else ""
    return told["name"], f"first wrong command {first} of {told['commands']}, {told['name']}{where}"


def _name_command(job: Job, record: dict, bundle: Path, launches: int, found: Found) -> None:
    """Where bits are wrong or it hangs; the launch alone, as it was recorded. Cycles have no first command."""
    given = arguments(job)
    if launches > 1 or record["status"] == "cycles" or "--inject" in given or "--mode" in given:
        return
    try:
        found.command, text = first_command(job, bundle, bundle.parent)
        found.evidence = text
    except Unclear as unclear:
        found.lines.append(str(unclear))


def windows(last: int):
    """(first, last) cycles, each behind the one before and larger."""
    begin, length = 0, FIRST_WINDOW
    while begin <= last:
        yield begin, begin + length - 1
        begin, length = begin + length, length * GROWS


def _waves():
    """torch_presil.waves, also where the command is run as a file."""
    if __package__.startswith("torch_presil."):
        from torch_presil import waves
        from torch_presil.waves import command, parting
    else:
        import waves
        from waves import command, parting
    return waves, command, parting


def _beside(job: Job) -> tuple:
    """Where a view of the job's chip may lie."""
    return job.folder, *([Path(job.library).parent] if job.library else [])


# ---- the failing simulator alone ----


def _around_the_first_difference(job: Job, bundle: Path, library: Path, found: Found) -> None:
    """A waveform, and its picture, of the cycles around the one in which the chip wrote the first wrong byte."""
    launches = replay(job, bundle, bundle.parent / "trace.json", library)["launches"]
    cycle = (launches[0].get("difference") or {}).get("cycle")
    if cycle is None or len(launches) > 1:
        raise Unclear("no first difference whose cycle is known: no waveform")
    begin, waveform = max(0, cycle - BEFORE), bundle.with_suffix(".fst")
    more = ["--trace", waveform, "--window", f"{begin}:{cycle + BEHIND}"]
    replay(job, bundle, bundle.parent / "trace.json", library, *more)
    found.waveform = str(waveform)
    _, command, _ = _waves()
    view = command.find(command.Trace(waveform), None, _beside(job)).path
    found.picture = _picture(waveform, cycle, "first difference", view, begin, bundle.with_suffix(".svg"))


# ---- last good against new ----


class Comparison:
    def __init__(self, job: Job, bundle: Path, launches: int, good: Path, new: Path):
        self.job, self.bundle, self.launches, self.good, self.new = job, bundle, launches, good, new
        self.folder = bundle.parent
        self.cycles: list[int] = []  # of each launch, on the new one

    def _trace(self, library: Path, name: str, window) -> tuple[Path, dict]:
        path = self.folder / name
        path.unlink(missing_ok=True)
        more = ["--trace", path] + (["--window", f"{window[0]}:{window[1]}"] if window else [])
        told = replay(self.job, self.bundle, self.folder / "trace.json", library, *more)
        return path, told

    def run(self) -> tuple[dict, Path]:
        """(what torch_presil.waves.parting says of the first window in which they part, the new one's trace)."""
        _, _, parting = _waves()
        longest = 1 << 40
        whole = self.launches > 1 or "--inject" in arguments(self.job)
        for window in [None] if whole else windows(longest):
            good, told = self._trace(self.good, "good.fst", window)
            new, ran = self._trace(self.new, f"{self.bundle.stem}.fst", window)
            self.cycles = [row.get("cycles") or 0 for row in ran["launches"]]
            there = [path for path in (good, new) if path.is_file() and path.stat().st_size]
            if len(there) < 2:
                raise Unclear("no signal parts from the last good simulator's while both run")
            text = io.StringIO()
            first = window[0] if window else None
            table, beside = Console(file=text, width=160), _beside(self.job)
            result = parting.run(good, new, None, (), 20, table, first_cycle=first, folders=beside)
            if result["first"]:
                (self.folder / "parting.txt").write_text(text.getvalue())
                return result, new
            if window and all((row.get("cycles") or longest) <= window[1] for row in told["launches"]):
                break
        raise Unclear("no signal parts from the last good simulator's")

    def cut(self, waveform: Path, cycle: int) -> None:
        """Of a trace of several launches leaves the cycles around the one in which signals part: the others, which
        only lead to it, are as long as they are."""
        last, before = 0, 0
        while last + 1 < len(self.cycles) and before + self.cycles[last] <= cycle:
            before, last = before + self.cycles[last], last + 1
        # What the host does between launches has cycles too, some hundreds: the window is wider than that.
        begin, part = max(0, cycle - before - BEFORE), self.folder / "window.fst"
        window = ["--launches", f"0:{last + 1}", "--trace", part, "--window", f"{begin}:{cycle - before + BEHIND}"]
        replay(self.job, self.bundle, self.folder / "trace.json", self.new, *window)
        if part.is_file() and part.stat().st_size:
            part.replace(waveform)


def module_of(row: dict) -> str:
    """Of the signal that parts: the module that drives it, by its file; and where it is."""
    place = row["signal"].rpartition(".")[0]
    files = [Path(driver["place"].rpartition(":")[0]).stem for driver in row["drivers"]]
    return f"{files[0]} ({place})" if files and place else files[0] if files else place


def _picture(waveform: Path, cycle: int, mark: str, view, first: int | None, to: Path) -> str:
    _, command, _ = _waves()
    window = (max(0, cycle - AROUND), cycle + AROUND)
    command.show(waveform, view, window, {mark: cycle}, to, None, None, (), first)
    return str(to)


# ---- the whole ----


def _run_again(job: Job, record: dict, run_path: Path, simulators: Simulators) -> tuple[dict, str]:
    """(the record with a bundle, where cycles alone changed; what is to be said of it)."""
    if not wanted(record):
        return record, ""
    good = None
    with contextlib.suppress(Unclear):
        good = simulators.good(job)
    return recapture(job, record, run_path, good)


def _how(bundle: Path) -> str:
    """What a user can do who wants to know it."""
    waves = f"presil waves {bundle} --against COMMIT"
    return f"It is with a simulator of before, in the build trace: the same run with --good SO, or {waves}"


def examine(job: Job, record: dict, run_path: Path, simulators: Simulators) -> Found:
    found, began = Found(), time.monotonic()
    try:
        record, said = _run_again(job, record, run_path, simulators)
        job = limited(job, record, run_path)
        bundle, launches = keep_launch(job, record, run_path)
        found.bundle = str(bundle)
        found.lines += filter(None, [said, choice(record, run_path / Path(record["log"]).parent)])
        if launches > 1 and not said:
            found.lines.append("alone the launch is in order: it depends on the one before it")
        _name_command(job, record, bundle, launches, found)
        new = simulators.new(job)
        try:
            good = simulators.good(job)
        except Unclear as unclear:
            if launches == 1 and record["status"] == "failed" and "--inject" not in arguments(job):
                _around_the_first_difference(job, bundle, new, found)
            raise Unclear(f"{unclear}: the module is not known. {_how(bundle)}") from unclear
        try:
            comparison = Comparison(job, bundle, launches, good, new)
            result, trace = comparison.run()
        except Unclear:  # the good one does all of it, too: so no command is wrong, as one that is refused as it should
            found.command = found.evidence = ""
            raise
        first = result["first"][0]
        found.unit = module_of(first)
        line = first["drivers"][0] if first["drivers"] else {"place": "", "text": ""}
        parts = f"{first['signal']} parts first, in cycle {first['cycle']}: {line['place']} {line['text']}".strip()
        found.evidence = "; ".join(filter(None, [parts, found.evidence]))
        found.waveform, cycle = str(trace), first["cycle"]
        to, begin = bundle.with_suffix(".svg"), result["from"] or None
        found.picture = _picture(trace, cycle, "parts first", result["view"], begin, to)
        if launches > 1 and "--inject" not in arguments(job):
            comparison.cut(trace, cycle)
    except (Unclear, Skip) as unclear:
        found.lines.append(str(unclear))
    except Exception as error:  # noqa: BLE001 the report goes on without
        found.lines.append(f"not examined: {type(error).__name__}: {error}")
    finally:
        for name in ("good.fst", "window.fst", "trace.json", "alone.json", "bisect.json", "changed.presil"):
            (run_path / Path(record["log"]).parent / name).unlink(missing_ok=True)
    found.seconds = time.monotonic() - began
    return found


def apply(record: dict, found: Found, run_path: Path) -> dict:
    """The record with what was found; its signature begins with the unit."""
    told = {**record, "examined": round(found.seconds, 1)}
    if found.unit or found.command:
        unit = found.unit or record.get("unit") or ""
        told |= {"unit": unit, "command": found.command}
        told["signature"] = signature(record["status"], unit, record["message"], found.command)
    if found.evidence or found.lines:
        told["evidence"] = "; ".join(filter(None, [found.evidence, *found.lines]))
    files = ("bundles", found.bundle), ("waveforms", found.waveform), ("pictures", found.picture)
    for name, path in files:
        if path:
            inside = Path(path).resolve()
            if inside.is_relative_to(run_path.resolve()):
                path = str(inside.relative_to(run_path.resolve()))
            told[name] = [path, *[other for other in told.get(name) or [] if other != path]]
    return told
