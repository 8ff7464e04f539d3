# SPDX-License-Identifier: Apache-2.0
"""./presil waves: save files for viewers, pictures, and what differs between two traces."""

import json
import sys
import time
from pathlib import Path

import click
from rich.console import Console
from rich.markup import escape

from . import draw, replay, viewers
from .trace import Trace, WavesError
from .view import find

EXIT_DIFFERENT, EXIT_USAGE, EXIT_INTERNAL, EXIT_INTERRUPTED = 1, 2, 4, 130


def parse_window(text: str) -> tuple:
    try:
        first, last = (int(part) if part else None for part in text.split(":"))
    except ValueError:
        raise WavesError(f"--window {text}: FIRST:LAST in cycles since the doorbell was expected") from None
    return first, last


def parse_marks(marks) -> dict:
    found = {}
    for mark in marks:
        name, _, cycle = mark.rpartition("=")
        if not name or not cycle.lstrip("-").isdigit():
            raise WavesError(f"--mark {mark}: NAME=CYCLE was expected")
        found[name] = int(cycle)
    return found


def is_waveform(name: str) -> bool:
    return Path(name).suffix in (".fst", ".vcd")


def show(path: Path, view, window, marks: dict, svg, html, out, only, first: int | None = None) -> dict:
    """Writes what was asked for; {what: path}. first: the cycle with which the trace begins, if that is known."""
    trace = Trace(path)
    found = find(trace, view)
    cycles = found.cycles(trace, first)
    end = found.end(trace, cycles)
    notes = []
    if first is None and found.bell(trace) is None:
        notes.append(f"{path}: {found.doorbell} never rises: cycles count from the beginning of the trace")
    elif cycles.first <= cycles.zero:
        marks = {"doorbell": 0, **marks}
    written = {}
    if svg or html:
        low, high = window or (None, None)
        part = draw.window(cycles, -10 if low is None else low, end + 10 if high is None else high)
        title = f"{path.name}: {found.title}, cycles {part.first} to {part.last}"
        picture = draw.svg(trace, found, part, marks, title, only)
        if svg:
            Path(svg).write_text(picture)
            written["svg"] = str(svg)
        if html:
            facts = {"trace": path, "view": found.path, "cycles of the launch": end}
            facts.update({f"marker {name}": f"cycle {cycle}" for name, cycle in marks.items()})
            Path(html).write_text(draw.html(picture, title, facts))
            written["html"] = str(html)
    else:
        stem = Path(out) if out else path.with_suffix("")
        stem.parent.mkdir(parents=True, exist_ok=True)
        written["gtkwave"] = str(viewers.gtkwave(trace, found, cycles, marks, stem.with_suffix(".gtkw"), only))
        written["surfer"] = str(viewers.surfer(trace, found, cycles, marks, stem.with_suffix(".sucl"), only))
    return {
        "trace": str(path),
        "view": str(found.path),
        "cycles": end,
        "marks": marks,
        "notes": notes,
        "written": written,
    }


def show_bundle(path: Path, launch, view, window: str | None, marks: dict, svg, html, out, only) -> dict:
    """Replays a launch of a bundle, and shows its waveform."""
    chosen = replay.choose(path, launch)
    first, _ = parse_window(window) if window else (None, None)
    waveform = path.with_name(f"{path.stem}-{chosen.number}.fst")
    # From when the doorbell was answered, as the cycles of differences are.
    report = replay.trace(chosen, waveform, window or f"0:{replay.LAST_CYCLE}")
    difference = replay.first_difference(chosen, report)
    if difference is not None:
        marks = {"first difference": difference, **marks}
    result = show(waveform, view, None, marks, svg, html, out, only, first or 0)
    return {**result, "bundle": str(path), "launch": chosen.number, "replay": report}


def way_of(path: Path, launch, console) -> dict:
    from . import way

    return {"way": way.run(replay.choose(path, launch), console)}


def compare_bundle(path: Path, launch, against: str, view, window: str | None, rtl, most: int, console) -> dict:
    """Runs a launch of a bundle on the build's simulator and on another one: which signals part first."""
    from . import parting, search
    from .against import resolve

    chosen = replay.choose(path, launch)
    other = resolve(against, chosen.chip, chosen.config, view, console)
    start, names = time.monotonic(), ("this build", str(other.library if other.rtl is None else against))
    if window:
        span, reports, compared = parse_window(window), [], 0
    else:
        span, reports, compared = search.window(chosen, (None, other.library), names, view, console)
    if span is None:
        console.print(f"{compared} signals agree from the doorbell on", highlight=False)
        result = {"traces": [], "compared": compared, "differing": 0, "first": [], "modules": []}
    else:
        left, right = (path.with_name(f"{path.stem}-{chosen.number}{what}.fst") for what in ("", "-against"))
        text = window or f"{span[0]}:{span[1]}"
        traced = [replay.trace(chosen, left, text, quiet=True), replay.trace(chosen, right, text, other.library, True)]
        result = parting.run(left, right, view, rtl, most, console, span[0] or 0, other.rtl)
        reports = reports or traced
        if result["first"]:
            marks = {"parts": result["first"][0]["cycle"]}
            saved = [show(trace, view, None, marks, None, None, None, (), span[0] or 0) for trace in (left, right)]
            for name, one in zip(names, saved, strict=True):
                files = f"{one['trace']}, {one['written']['gtkwave']}"
                console.print(f"{escape(name)}: {escape(files)}", highlight=False)
    seconds = time.monotonic() - start
    console.print(f"searched and compared in {seconds:.0f} s", highlight=False)
    result |= {"build_seconds": other.seconds, "seconds": seconds}
    return {**result, "bundle": str(path), "launch": chosen.number, "replays": reports}


@click.command()
@click.argument("file", type=click.Path(path_type=Path))
@click.option("--view", default=None, help="The chip's view (TOML). [default: of waveforms/, by the trace's modules]")
@click.option(
    "--launch", type=int, default=None, metavar="N", help="Of a bundle. [default: the first that failed, or 0]"
)
@click.option(
    "--window", default=None, metavar="A:B", help="Cycles since the doorbell: of a picture; of a bundle's waveform."
)
@click.option("--mark", "marks", multiple=True, metavar="NAME=CYCLE", help="A marker; once for each.")
@click.option("--group", "groups", multiple=True, help="Only this group of the view; once for each.")
@click.option("--svg", default=None, metavar="PATH", help="Draw it, without a screen.")
@click.option("--html", default=None, metavar="PATH", help="Draw it in a page of its own.")
@click.option("--out", default=None, metavar="STEM", help="Where save files go. [default: beside FILE]")
@click.option("--open", "viewer", is_flag=True, help="Open it in GTKWave, or where that is not installed in Surfer.")
@click.option(
    "--against",
    default=None,
    metavar="OTHER",
    help="Another trace; with a bundle a simulator library, a folder of RTL or a commit, whose simulator is built: "
    "which signals part first, and which lines of the RTL drive them.",
)
@click.option(
    "--way",
    is_flag=True,
    help="Of a bundle's launch that the model finds wrong: the first wrong command, the first wrong bytes of each of "
    "the chip's memories, beat on the bus.",
)
@click.option("--rtl", multiple=True, help="Files or folders of the RTL, instead of the view's. With --against.")
@click.option("--top-n", default=20, show_default=True, help="Signals that are listed. With --against.")
@click.option("--json", "json_path", default=None, help="Write the result as JSON.")
def waves(
    file, view, launch, window, marks, groups, svg, html, out, viewer, against, way, rtl, top_n, json_path
) -> None:
    """Save files for GTKWave and Surfer, or a picture, of the waveform FILE (FST, VCD), or of a launch of the bundle
    FILE (.presil), which presil-replay runs again with a waveform beside FILE."""
    console = Console(width=max(Console().width, 120))
    try:
        bundle = replay.is_bundle(file)
        if launch is not None and not bundle:
            raise WavesError(f"--launch is of a bundle, {file} is none")
        if way and (against or not bundle):
            raise WavesError("--way is of a bundle's launch against the model: a .presil, and no --against, expected")
        if viewer and (svg or html or against):
            raise WavesError("--open is of save files: no --svg, --html or --against with it")
        if against and bundle and not is_waveform(against):
            result = compare_bundle(file, launch, against, view, window, rtl, top_n, console)
        elif against:
            from . import parting

            for path in (file, Path(against)):
                if path.is_dir() or replay.is_bundle(path) or replay.is_library(path):
                    raise WavesError(
                        f"{path}: --against: two waveforms, or a bundle and a simulator library, folder of RTL or "
                        "commit, expected"
                    )
            result = parting.run(file, Path(against), view, rtl, top_n, console)
        else:
            wanted = parse_marks(marks), svg, html, out, groups
            if bundle:
                found = way_of(file, launch, console) if way else {}
                result = show_bundle(file, launch, view, window, *wanted) | found
            else:
                result = show(file, view, parse_window(window) if window else None, *wanted)
            for note in result["notes"]:
                console.print(escape(note), highlight=False, soft_wrap=True)
            if bundle:
                console.print(f"waveform  {escape(result['trace'])}", highlight=False)
            for kind, path in result["written"].items():
                console.print(f"{kind:>8}  {escape(path)}", highlight=False)
            if viewer:
                console.print(f"opened in {viewers.start(result['written'], Path(result['trace']))}", highlight=False)
    except (WavesError, OSError) as error:
        console.print(f"[red]presil waves: {escape(str(error))}[/red]", highlight=False)
        sys.exit(EXIT_USAGE)
    except KeyboardInterrupt:
        console.print("presil waves: interrupted; what was built stays", highlight=False)
        sys.exit(EXIT_INTERRUPTED)
    except Exception:
        console.print_exception()
        sys.exit(EXIT_INTERNAL)
    if json_path:
        Path(json_path).write_text(json.dumps(result, indent=1) + "\n")
    if (against and result["differing"]) or (way and result["way"]["command"] is not None):
        sys.exit(EXIT_DIFFERENT)
