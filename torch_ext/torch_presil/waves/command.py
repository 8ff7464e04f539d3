# SPDX-License-Identifier: Apache-2.0
"""./presil waves: save files for viewers, pictures, and what differs between two traces."""

import json
import sys
from pathlib import Path

import click
from rich.console import Console
from rich.markup import escape

from . import draw, viewers
from .trace import Trace, WavesError
from .view import find

EXIT_DIFFERENT, EXIT_USAGE, EXIT_INTERNAL = 1, 2, 4


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


def _open(path: Path, view):
    trace = Trace(path)
    found = find(trace, view)
    return trace, found, found.cycles(trace)


def show(path: Path, view, window, marks: dict, svg, html, out, only) -> dict:
    """Writes what was asked for; {what: path}."""
    trace, found, cycles = _open(path, view)
    end = found.end(trace, cycles)
    marks = {"doorbell": 0, **marks}
    written = {}
    if svg or html:
        first, last = window or (None, None)
        part = draw.window(cycles, -10 if first is None else first, end + 10 if last is None else last)
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
    return {"trace": str(path), "view": str(found.path), "cycles": end, "marks": marks, "written": written}


@click.command()
@click.argument("file", type=click.Path(path_type=Path))
@click.option("--view", default=None, help="The chip's view (TOML). [default: of waveforms/, by the trace's modules]")
@click.option("--window", default=None, metavar="A:B", help="Cycles since the doorbell that a picture shows.")
@click.option("--mark", "marks", multiple=True, metavar="NAME=CYCLE", help="A marker; once for each.")
@click.option("--group", "groups", multiple=True, help="Only this group of the view; once for each.")
@click.option("--svg", default=None, metavar="PATH", help="Draw it, without a screen.")
@click.option("--html", default=None, metavar="PATH", help="Draw it in a page of its own.")
@click.option("--out", default=None, metavar="STEM", help="Where save files go. [default: beside FILE]")
@click.option(
    "--against",
    default=None,
    type=click.Path(path_type=Path),
    help="Another trace: which signals part first, and where in the RTL.",
)
@click.option("--rtl", multiple=True, help="Files or folders of the RTL, instead of the view's. With --against.")
@click.option("--top-n", default=20, show_default=True, help="Signals that are listed. With --against.")
@click.option("--json", "json_path", default=None, help="Write the result as JSON.")
def waves(file, view, window, marks, groups, svg, html, out, against, rtl, top_n, json_path) -> None:
    """Save files for GTKWave and Surfer, or a picture, of the waveform FILE (FST, VCD)."""
    console = Console(width=max(Console().width, 120))
    try:
        if against:
            from . import parting

            result = parting.run(file, against, view, rtl, top_n, console)
        else:
            result = show(
                file, view, parse_window(window) if window else None, parse_marks(marks), svg, html, out, groups
            )
            for kind, path in result["written"].items():
                console.print(f"{kind:>8}  {escape(path)}", highlight=False)
    except (WavesError, OSError) as error:
        console.print(f"[red]presil waves: {escape(str(error))}[/red]", highlight=False)
        sys.exit(EXIT_USAGE)
    except Exception:
        console.print_exception()
        sys.exit(EXIT_INTERNAL)
    if json_path:
        Path(json_path).write_text(json.dumps(result, indent=1) + "\n")
    if against and result["differing"]:
        sys.exit(EXIT_DIFFERENT)
