# SPDX-License-Identifier: Apache-2.0
"""./presil why: whether a bundle's launch hangs, and what waits for what."""

import json
import sys
from pathlib import Path

import click
from rich.console import Console
from rich.markup import escape

from . import replay
from .trace import WavesError


def _hang(text: str) -> list:
    """The answer in lines: the verdict, then who waits for what."""
    return text.split("; ")


def _not_hung(launch: dict) -> str:
    if launch["status"] != "OK":
        return f"not hung: it fails: {launch['error'] or launch['status']}"
    cycles, recorded = launch["cycles"], launch["recorded_cycles"]
    text = f"not hung: {cycles} cycles"
    if launch["recorded_status"] != "OK":
        text += f"; when it was captured: {launch['recorded_status']}"
    elif recorded is not None:
        text += ", as recorded" if cycles == recorded else f", {recorded} recorded"
    return text if launch["outcome"] != "mismatch" else f"{text}; other bits than expected"


@click.command()
@click.argument("file", type=click.Path(path_type=Path))
@click.option(
    "--launch", type=int, default=None, metavar="N", help="Of the bundle. [default: the first that failed, else 0]"
)
@click.option(
    "--library",
    type=click.Path(path_type=Path, exists=True, dir_okay=False),
    metavar="SO",
    help="This simulator, of an edited RTL say.",
)
@click.option("--json", "json_path", default=None, help="Write what presil-replay --json says.")
def why(file, launch, library, json_path) -> None:
    """Why a launch of the bundle FILE hangs: it runs again on the RTL, and each engine says what it waits for.

    Exit codes: 3 it hangs; 0 it does not, and is as recorded; 1 other bits or another failure; 5 other cycles;
    2 usage, 4 internal."""
    console = Console(width=max(Console().width, 120))
    try:
        if not replay.is_bundle(file):
            raise WavesError(f"{file}: a bundle was expected (.presil; docs/replay.md says how one is made)")
        chosen = replay.choose(file, launch)
        options = ["--library", library.absolute()] if library else []
        report = replay.run(chosen, "--mode", "rtl", *options, quiet=True)
        found = report["launches"][0]
        hung = found["outcome"] == "hung"
        head, *rows = _hang(found["error"]) if hung else [_not_hung(found)]
        console.print(f"launch {chosen.number}: {escape(head)}", highlight=False)
        for row in rows:
            console.print(f"  {escape(row)}", highlight=False, soft_wrap=True)
        if json_path:
            Path(json_path).write_text(json.dumps(report, indent=1) + "\n")
    except (WavesError, OSError) as error:
        console.print(f"[red]presil why: {escape(str(error))}[/red]", highlight=False)
        sys.exit(replay.EXIT_USAGE)
    except Exception:
        console.print_exception()
        sys.exit(replay.EXIT_INTERNAL)
    sys.exit(report["exit"])
