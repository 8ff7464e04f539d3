# SPDX-License-Identifier: Apache-2.0
"""`presil perf MODEL`: its options, and what is written."""

import json
import sys
from pathlib import Path

import click
from rich.console import Console
from rich.markup import escape

__all__ = ["perf"]

EXIT_WRONG, EXIT_USAGE, EXIT_FAILURE = 1, 2, 4


def _fail(text: str, status: int) -> None:
    Console(stderr=True).print(f"[red]presil perf: {escape(text)}[/red]", highlight=False)
    sys.exit(status)


def _options(model: str, shapes, settings, jobs, mode, **more):
    from torch_presil.cosim import Options
    from torch_presil.inputs import parse_input
    from torch_presil.models import parse_config

    return Options(
        model,
        inputs=tuple(map(parse_input, shapes)),
        config=parse_config(settings),
        mode=mode,
        jobs=jobs,
        baseline=False,
        check_layers=False,
        **more,
    )


def _measure(wanted, console: Console) -> dict:
    from torch_presil import cli, cosim_report
    from torch_presil.models import ModelError
    from torch_presil.perf import measure

    options = wanted.options
    cli._own_simulator(options.chip, options.transport)
    try:
        with cosim_report.LiveProgress(console) as live:
            options.progress, options.announce = live.stage, live.layers
            return measure.run(wanted)
    except (ModelError, ValueError) as error:
        _fail(str(error), EXIT_USAGE)
    except KeyboardInterrupt:
        cli._interrupted(console)
    except RuntimeError as error:
        if "ECANCELLED" in str(error):
            cli._interrupted(console)
        _fail(str(error), EXIT_FAILURE)


def _write(path: str | None, what: str, function, console: Console) -> None:
    if not path:
        return
    try:
        Path(path).parent.mkdir(parents=True, exist_ok=True)
        function(Path(path))
    except OSError as error:
        _fail(f"{what} can't be written: {error}", EXIT_FAILURE)
    console.print(f"{what}: {path}", highlight=False)


def _write_all(document: dict, files: dict, console: Console) -> None:
    from torch_presil.perf import page, perfetto_trace, picture, table

    as_json = lambda path: path.write_text(json.dumps(document, indent=1) + "\n")  # noqa: E731
    _write(files["html"], "Page", lambda path: path.write_text(page.render(document)), console)
    _write(files["json"], "JSON", as_json, console)
    _write(files["csv"], "CSV", lambda path: table.write_csv(document, path), console)
    _write(files["png"], "Picture", lambda path: picture.draw(document, path), console)
    _write(files["perfetto"], "Trace", lambda path: perfetto_trace.write(document, path), console)


def _write_explorer(document: dict, prepared, folder: str | None, console: Console) -> None:
    from torch_presil.perf import explorer

    if not folder:
        return
    try:
        program = explorer.export(prepared.source, prepared.example)
        missing = explorer.write(document, program, Path(folder))
    except (ValueError, OSError) as error:
        _fail(f"--explorer: {error}", EXIT_FAILURE)
    console.print(f"For Model Explorer: {folder}/model.pt2 and the node data beside it", highlight=False)
    if missing:
        console.print(f"Not on its graph: {', '.join(missing)}", highlight=False)


def _compare(files: tuple, html: str | None, json_path: str | None, console: Console) -> None:
    from torch_presil.perf import compare

    try:
        found = compare.changes(*map(compare.load, files))
    except ValueError as error:
        _fail(str(error), EXIT_USAGE)
    compare.print_changes(found, files, console)
    _write(html, "Page", lambda path: path.write_text(compare.render(found, files)), console)
    _write(json_path, "JSON", lambda path: path.write_text(json.dumps(found, indent=1) + "\n"), console)
    if found["problems"]:
        sys.exit(EXIT_WRONG)


def _sweep(model: str, axes: str, more: dict, files: dict, console: Console) -> None:
    from torch_presil.perf import grid

    folder, area, resume = (more.pop(name) for name in ("sweep_dir", "area", "resume"))
    memory, common = more.pop("memory"), [model]
    for name, value in more.items():
        for one in value if isinstance(value, (tuple, list)) else [value]:
            if one is not None:
                common.append(f"--{name}={one}")
    try:
        along, sizes = grid.parse(axes), grid.parse_area(area)
        twice = [name for name in along if name in ("chip", "batch", "clock") and more.get(name) is not None]
        if twice:
            raise ValueError(f"--sweep has {twice[0]} already, and so has --{twice[0]}: one of them was expected")
        found = grid.run(along, common, memory, Path(folder), sizes, resume, console)
    except ValueError as error:
        _fail(str(error), EXIT_USAGE)
    except KeyboardInterrupt:
        console.print(f"[yellow]interrupted; --resume goes on with what is in {folder}[/yellow]")
        sys.exit(130)
    grid.print_table(found, console)
    _write(files["json"], "JSON", lambda path: path.write_text(grid.as_json(found)), console)
    _write(files["csv"], "CSV", lambda path: grid.write_csv(found, path), console)
    if any(row["error"] for row in found["points"]):
        sys.exit(EXIT_FAILURE)


@click.command()
@click.argument("models", nargs=-1, required=True, metavar="MODEL | A.json B.json")
@click.option(
    "--input",
    "shapes",
    multiple=True,
    metavar="[NAME=]SIZES[:DTYPE[:BELOW]]",
    help="An input, as for presil cosim; once for each.",
)
@click.option("--config", "settings", multiple=True, metavar="NAME=VALUE,...", help="Of a class of transformers.")
@click.option("--dtype", type=click.Choice(["bf16", "int8", "fp32"]), default="bf16", show_default=True)
@click.option(
    "--batch",
    default=None,
    metavar="N,...",
    help="Batch sizes: the first in detail, of the others latency and throughput. [default: that of the input]",
)
@click.option("--chip", default=None, help="Configuration. [default: PRESIL_CHIP, or base; what the server has]")
@click.option(
    "--transport",
    default=None,
    metavar="TRANSPORT",
    help="inproc, socket:PATH[,...], board:FILE. [default: PRESIL_TRANSPORT, or inproc]",
)
@click.option(
    "--mode",
    type=click.Choice(["rtl", "verify"]),
    default="rtl",
    show_default=True,
    help="verify: each launch compared with the chip's model, as always with several jobs.",
)
@click.option("--jobs", type=click.IntRange(0), default=None, metavar="N", help="Processes, as for presil cosim.")
@click.option("--memory", default=None, metavar="MODEL", help="Memory model, such as latency=200 (docs/simulation.md).")
@click.option("--clock", type=float, default=None, metavar="MHZ", help="Instead of the clock that the chip names.")
@click.option("--weights", default=None, help="State dict (torch.save), loaded with weights_only=True.")
@click.option("--seed", default=0, show_default=True, help="Of initialisation, calibration and input.")
@click.option("--html", default="build/perf.html", show_default=True, metavar="FILE", help="The page; '' for none.")
@click.option("--json", "json_path", default=None, metavar="FILE", help="All of it, for programs and comparison.")
@click.option("--csv", default=None, metavar="FILE", help="A line a layer.")
@click.option("--png", default=None, metavar="FILE", help="Timeline, stalls and roofline as a picture (.png or .svg).")
@click.option("--perfetto", default=None, metavar="FILE", help="The timeline as a trace for ui.perfetto.dev.")
@click.option("--explorer", default=None, metavar="DIR", help="The exported model with node data for Model Explorer.")
@click.option("--sweep", default=None, metavar="'NAME=A,B ...'", help="The same at every point of a grid: latency, "
              "response, bytes, bursts, stall, memory; chip, dtype, batch, clock.")  # fmt: skip
@click.option(
    "--sweep-dir", default="build/perf-sweep", show_default=True, metavar="DIR", help="A JSON for each point."
)
@click.option("--resume", is_flag=True, help="With --sweep: points that are in its folder are not measured again.")
@click.option("--area", default=None, metavar="CHIP=N,...", help="With --sweep: what a chip costs; marks the front.")
def perf(models, shapes, settings, batch, memory, clock, html, json_path, explorer, sweep, **more) -> None:
    """Where do the cycles of MODEL go? MODEL as for presil cosim. Writes one HTML page that needs no network: latency
    and throughput, timeline, stalls, roofline, memory traffic, what the host does (docs/perf.md).

    Of two files that --json wrote: what changed, by layer and cause; --html and --json then have that. With --sweep
    --json and --csv have a row a point.

    Exit codes: 0; 1 the figures don't add up (the report says how), or RTL and model differ; 2 usage; 4 a launch
    failed, or a file can't be written."""
    from torch_presil.models import ModelError, parse_batches
    from torch_presil.perf import measure, table

    console = Console()
    console = console if console.width >= 120 else Console(width=120)
    if len(models) == 2 and all(name.endswith(".json") for name in models):
        return _compare(models, html, json_path, console)
    if len(models) != 1:
        _fail(f"one MODEL, or two files of --json were expected, not {' '.join(models)}", EXIT_USAGE)
    files = {"html": html, "json": json_path, **{kind: more.pop(kind) for kind in ("csv", "png", "perfetto")}}
    if sweep:
        given = {"input": shapes, "config": settings, "batch": batch, "memory": memory, "clock": clock, **more}
        return _sweep(models[0], sweep, given, files, console)
    for name in ("sweep_dir", "resume", "area"):
        del more[name]
    try:
        options = _options(models[0], shapes, settings, **more)
        batches = parse_batches(batch)
    except ModelError as error:
        _fail(str(error), EXIT_USAGE)
    if clock is not None and clock <= 0:
        _fail(f"--clock {clock}: megahertz above 0 were expected", EXIT_USAGE)
    wanted = measure.Wanted(options, batches, clock, memory)
    document = _measure(wanted, console)
    table.print_document(document, console)
    _write_all(document, files, console)
    _write_explorer(document, wanted.prepared, explorer, console)
    if document["problems"]:
        sys.exit(EXIT_WRONG)
