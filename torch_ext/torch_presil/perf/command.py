# SPDX-License-Identifier: Apache-2.0
"""`presil perf MODEL`: its options, and what is written."""

import json
import sys
import tempfile
from pathlib import Path

import click
from click.core import ParameterSource
from rich.console import Console

__all__ = ["perf"]

EXIT_WRONG, EXIT_USAGE, EXIT_FAILURE = 1, 2, 4
PAGE = "build/perf.html"
# Beside MODEL and --sweep or the two files: what is not named here would have no effect, and is refused.
OF_COMPARISON = {"models", "html", "json_path", "csv"}
NOT_OF_SWEEP = {"html", "png", "perfetto", "explorer", "unseen", "farm"}
OF_SWEEP = {"sweep_dir", "resume", "area"}


def _fail(text: str, status: int) -> None:
    Console(stderr=True, markup=False).print(f"presil perf: {text}", style="red", highlight=False)
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
    from torch_presil import cosim_report
    from torch_presil.commands import parts
    from torch_presil.models import ModelError
    from torch_presil.perf import measure
    from torch_presil.regress import exit_codes

    options = wanted.options
    parts.own_simulator(options.chip, options.transport)
    try:
        with cosim_report.LiveProgress(console) as live:
            options.progress, options.announce = live.stage, live.layers
            return measure.run(wanted)
    except (ModelError, ValueError) as error:
        _fail(str(error), EXIT_USAGE)
    except KeyboardInterrupt:
        parts.interrupted(console)
    except RuntimeError as error:
        if "ECANCELLED" in str(error):
            parts.interrupted(console)
        _fail(str(error), exit_codes.of_error(error)[0])


def _checked(files: list) -> list:
    from torch_presil.perf import outputs

    try:
        outputs.check(files)
    except ValueError as error:
        _fail(str(error), EXIT_USAGE)
    return files


def _written(files: list, value: dict, console: Console) -> None:
    """All of them that can be; ends with 4 if one can't, and what was measured is in some file all the same."""
    from torch_presil.perf import outputs

    failed = outputs.write(files, lambda text: console.print(text, highlight=False))
    if not failed:
        return
    if any(text.startswith("JSON") for text in failed):
        with tempfile.NamedTemporaryFile("w", prefix="presil-perf-", suffix=".json", delete=False) as file:
            json.dump(value, file)
        failed.append(f"the JSON is in {file.name} instead")
    _fail("; ".join(failed), EXIT_FAILURE)


def _json(path: str | None, value):
    """value(): what is written."""
    from torch_presil.perf.outputs import Output

    return Output("JSON", path, lambda to: to.write_text(json.dumps(value(), indent=1) + "\n"))


def _files(given: dict, document) -> list:
    """Of a run; document(): its document."""
    from torch_presil.perf import page, perfetto_trace, picture, table
    from torch_presil.perf.outputs import Output

    return [
        _json(given["json"], document),
        Output("Page", given["html"], lambda path: path.write_text(page.render(document()))),
        Output("CSV", given["csv"], lambda path: table.write_csv(document(), path)),
        Output("Picture", given["png"], lambda path: picture.draw(document(), path), (".png", ".svg"), "matplotlib"),
        Output("Trace", given["perfetto"], lambda path: perfetto_trace.write(document(), path), (), "perfetto"),
    ]


def _check_explorer(folder: str | None) -> None:
    from torch_presil.perf import outputs

    try:
        if folder:
            outputs.check_folder(Path(folder))
    except OSError as error:
        _fail(f"--explorer {folder} can't be written: {error.strerror or error}", EXIT_USAGE)


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


def _explicit() -> set:
    """Names of parameters that the call has."""
    context = click.get_current_context()
    return {name for name in context.params if context.get_parameter_source(name) != ParameterSource.DEFAULT}


def _refuse(names: set, why: str) -> None:
    options = {option.name: option.opts[0] for option in click.get_current_context().command.params}
    if names:
        _fail(f"{', '.join(sorted(options[name] for name in names))} {why}", EXIT_USAGE)


def _compare(names: tuple, files: dict, console: Console) -> None:
    from torch_presil.perf import compare
    from torch_presil.perf.outputs import Output

    _refuse(_explicit() - OF_COMPARISON, "can't be had of two files that are compared: --html, --json, --csv can")
    wanted = _checked([
        _json(files["json"], lambda: found),
        Output("Page", files["html"], lambda path: path.write_text(compare.render(found, names))),
        Output("CSV", files["csv"], lambda path: compare.write_csv(found, path)),
    ])  # fmt: skip
    try:
        found = compare.changes(*map(compare.load, names))
    except ValueError as error:
        _fail(str(error), EXIT_USAGE)
    compare.print_changes(found, names, console)
    _written(wanted, found, console)
    if found["problems"]:
        sys.exit(EXIT_WRONG)


def _sweep(axes: str, given: dict, files: dict, console: Console) -> None:
    """given: the options by name; model, sweep_dir, resume, area among them."""
    from torch_presil.models import ModelError
    from torch_presil.perf import grid, outputs
    from torch_presil.perf.outputs import Output

    if given["mode"] == "hybrid":
        _fail("--mode hybrid is of one model: each point of a --sweep is another chip or memory", EXIT_USAGE)
    _refuse(_explicit() & NOT_OF_SWEEP, "can't be had of a --sweep: --json and --csv can, and --sweep-dir has the "
            "JSON of each point, of which `presil perf` compares two")  # fmt: skip
    wanted = _checked([
        _json(files["json"], lambda: found),
        Output("CSV", files["csv"], lambda path: grid.write_csv(found, path)),
    ])  # fmt: skip
    folder = Path(given["sweep_dir"])
    try:
        outputs.check_folder(folder)
        found = grid.run(grid.Sweep.of(axes, given), console)
    except (ValueError, ModelError) as error:
        _fail(str(error), EXIT_USAGE)
    except OSError as error:
        _fail(f"--sweep-dir {folder} can't be written: {error.strerror or error}", EXIT_USAGE)
    except KeyboardInterrupt:
        console.print(f"interrupted; --resume goes on with what is in {folder}", style="yellow")
        sys.exit(130)
    grid.print_table(found, console)
    _written(wanted, found, console)
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
@click.option(
    "--chip", default=None, help="Configuration. [default: PRESIL_CHIP, or the chip's own; what the server has]"
)
@click.option(
    "--transport",
    default=None,
    metavar="TRANSPORT",
    help="inproc, socket:PATH[,...], board:FILE. [default: PRESIL_TRANSPORT, or inproc]",
)
@click.option(
    "--mode",
    type=click.Choice(["rtl", "verify", "hybrid"]),
    default="rtl",
    show_default=True,
    help="verify: each launch compared with the chip's model, as always with several jobs; hybrid: cycles of launches "
    "that ran before are from the timing store.",
)
@click.option(
    "--unseen",
    type=click.Choice(["simulate", "estimate"]),
    default=None,
    help="Of mode hybrid: what is done with launches that did not run before. [default: PRESIL_UNSEEN, or simulate]",
)
@click.option("--jobs", type=click.IntRange(0), default=None, metavar="N", help="Processes, as for presil cosim.")
@click.option("--farm", default=None, metavar="FARM", help="Where the RTL runs, as for presil cosim (docs/farm.md).")
@click.option(
    "--memory", default=None, metavar="MODEL", help="Memory model: ddr4-3200, latency=200, … (docs/simulation.md)."
)
@click.option("--clock", type=float, default=None, metavar="MHZ", help="Instead of the clock that the chip names.")
@click.option("--weights", default=None, help="State dict (torch.save), loaded with weights_only=True.")
@click.option("--seed", default=0, show_default=True, help="Of initialisation, calibration and input.")
@click.option("--html", default=PAGE, show_default=True, metavar="FILE", help="The page; '' for none.")
@click.option("--json", "json_path", default=None, metavar="FILE", help="All of it, for programs and comparison.")
@click.option("--csv", default=None, metavar="FILE", help="A line a layer.")
@click.option("--png", default=None, metavar="FILE", help="Timeline, stalls and roofline as a picture (.png or .svg).")
@click.option("--perfetto", default=None, metavar="FILE", help="The timeline as a trace for ui.perfetto.dev.")
@click.option("--explorer", default=None, metavar="DIR", help="The exported model with node data for Model Explorer.")
@click.option("--sweep", default=None, metavar="'NAME=A,B ...'", help="The same at every point of a grid: latency, "
              "response, bytes, bursts, stall, memory; chip, dtype, batch, seq, clock; lanes, cells and what else "
              "a configuration has, whose RTL is built.")  # fmt: skip
@click.option(
    "--sweep-dir", default="build/perf-sweep", show_default=True, metavar="DIR", help="A JSON for each point."
)
@click.option("--resume", is_flag=True, help="With --sweep: points that are in its folder are not measured again.")
@click.option("--area", default=None, metavar="CHIP=N,...", help="With --sweep: what a chip costs; marks the front.")
def perf(models, shapes, settings, batch, memory, clock, html, json_path, explorer, sweep, **more) -> None:
    """Where do the cycles of MODEL go? MODEL as for presil cosim. Writes one HTML page that needs no network: latency
    and throughput, timeline, stalls, roofline, memory traffic, what the host does (docs/perf.md).

    Of two files that --json wrote: what changed, by layer and cause; --html, --json and --csv then have that. With
    --sweep --json and --csv have a row a point.

    Exit codes: 0; 1 the figures don't add up (the report says how), or RTL and model differ; 2 usage, a file that
    can't be written among it; 3 a launch hangs; 4 a launch failed, or a file can't be written after all."""
    from torch_presil.models import ModelError, parse_batches
    from torch_presil.perf import measure, table

    console = Console(markup=False)  # names may have brackets
    console = console if console.width >= 120 else Console(width=120, markup=False)
    files = {"html": html, "json": json_path, **{kind: more.pop(kind) for kind in ("csv", "png", "perfetto")}}
    if len(models) == 2 and all(name.endswith(".json") for name in models):
        return _compare(models, files, console)
    if len(models) != 1:
        _fail(f"one MODEL, or two files of --json were expected, not {' '.join(models)}", EXIT_USAGE)
    if sweep:
        given = {"input": shapes, "config": settings, "batch": batch, "memory": memory, "clock": clock, **more}
        return _sweep(sweep, {"model": models[0], **given}, files, console)
    _refuse(_explicit() & OF_SWEEP, "is of a --sweep, which is not asked for")
    for name in OF_SWEEP:
        del more[name]
    try:
        options = _options(models[0], shapes, settings, **more)
        batches = parse_batches(batch)
    except ModelError as error:
        _fail(str(error), EXIT_USAGE)
    if clock is not None and clock <= 0:
        _fail(f"--clock {clock}: megahertz above 0 were expected", EXIT_USAGE)
    wanted = measure.Wanted(options, batches, clock, memory)
    written = _checked(_files(files, lambda: document))
    _check_explorer(explorer)
    document = _measure(wanted, console)
    table.print_document(document, console)
    _written(written, document, console)
    _write_explorer(document, wanted.prepared, explorer, console)
    if document["problems"]:
        sys.exit(EXIT_WRONG)
