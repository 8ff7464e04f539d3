# SPDX-License-Identifier: Apache-2.0
"""The `presil` command: demo, cosim, perf, regress, conform, new-chip, vp, waves, why, bench, info."""

import json
import sys
from pathlib import Path

import click
from rich.console import Console
from rich.markup import escape

try:
    from .commands import cosimulate
    from .commands import parts
    from .perf.command import perf
    from .waves.command import waves
    from .waves.why import why
except ImportError:  # run as a file
    from commands import cosimulate
    from commands import parts
    from perf.command import perf
    from waves.command import waves
    from waves.why import why


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
def main() -> None:
    """Presil: PyTorch models on your accelerator's RTL, before tape-out."""


@main.command()
@click.argument("suites", nargs=-1)
@click.option("-j", "--jobs", type=int, default=None, metavar="N", help="Cases at once. [default: the cores]")
@click.option(
    "--chip", default=None, metavar="A,B", help="Configurations. [default: what each case names, or the chip's own]"
)
@click.option("--library", default=None, metavar="SO", help="This simulator library instead of the build's.")
@click.option("--build", default=None, metavar="A,B", help="Builds: fast, check, … [default: what each case names]")
@click.option(
    "--memory", default=None, metavar="A,B", help="Memory models: default, ideal, ddr4-3200, … (docs/simulation.md)."
)
@click.option(
    "--stress", default=None, metavar="A,B", help="Back pressure: none, sparse, heavy, aw=starved+reorder=1, …"
)
@click.option(
    "--mode",
    type=click.Choice(["regression", "soak", "hybrid"]),
    default="regression",
    show_default=True,
    help="regression: fixed seeds, the same in every run; soak: fresh ones; hybrid: fixed ones, and whole models "
    "have the cycles of launches that ran before from the timing store (docs/hybrid.md).",
)
@click.option("--seed", type=int, default=None, metavar="S", help="The run's seed, of which each case's is a hash.")
@click.option("--seeds", type=int, default=None, metavar="K", help="So many seeds for each case.")
@click.option("--case-seed", type=int, default=None, metavar="S", help="A case's own seed, as a report names it.")
@click.option("--case-index", type=int, default=None, metavar="K", help="The run #K of the case that has --case-seed.")
@click.option(
    "--filter", "expression", default=None, metavar="EXPR", help="'resnet* and not (build:check or tag:slow)'"
)
@click.option("--suites", "folders", multiple=True, metavar="DIR", help="Further folders of suites, looked at first.")
@click.option("--rerun-failed", is_flag=True, help="What failed in the last run (or --run), with the same seeds.")
@click.option("--resume", is_flag=True, help="Go on with the last run (or --run).")
@click.option("--run", default=None, metavar="NAME", help="The run to go on with or to repeat; or a new one's name.")
@click.option("--runs", default=None, metavar="DIR", help="Where runs are kept. [default: build/regress]")
@click.option("--max-failures", type=int, default=0, metavar="N", help="Start nothing more after N failures.")
@click.option("--junit", default=None, metavar="FILE", help="Write JUnit XML.")
@click.option("--json", "json_path", default=None, metavar="FILE", help="Write the results as JSON.")
@click.option("--html", default=None, metavar="FILE", help="Write the report; it is also in the run's folder.")
@click.option(
    "--testplan-json", default=None, metavar="FILE", help="Write the testplan as dvsim has it; also with --list."
)
@click.option("--against", default=None, metavar="RUN|FILE", help="Compare cycles with a run, a baseline, or none.")
@click.option("--coverage", is_flag=True, help="The build that records coverage: --build coverage.")
@click.option("--rank-seeds", is_flag=True, help="Seeds by the coverage that they add: this run's, or the last one's.")
@click.option("--accept-cycles", default=None, metavar="REASON", help="Write the cycles as the new baseline, and why.")
@click.option(
    "--good",
    default=None,
    metavar="SO",
    help="Failures are compared with this simulator (build trace), signal by signal.",
)
@click.option(
    "--farm",
    default=None,
    metavar="FARM",
    help="Run cases on other machines: dask://HOST:PORT, slurm, lsf, sge, pbs, htcondor, oar, moab; or local, by the "
    "same way here (docs/farm.md).",
)
@click.option("--list", "list_only", is_flag=True, help="Name the suites, or the runs of a suite, and end.")
def regress(
    suites, jobs, chip, library, build, memory, stress, mode, seed, seeds, case_seed, expression, **more
) -> None:
    """Run suites of cases, each in a process of its own, and report what failed, by cause (docs/regress.md). SUITES:
    names, SUITE/CASE, or files. [default: smoke]"""
    if __package__:
        from torch_presil.regress import command
    else:  # run as a file, which spares importing torch
        from regress import command

    options = command.Options(suites, jobs, *map(command.split, (chip, build, memory, stress)), library, mode)
    options.seed, options.seeds, options.case_seed, options.filter = seed, seeds, case_seed, expression
    renamed = {"json_path": "json", "accept_cycles": "accept", "list_only": "list", "rank_seeds": "rank"}
    renamed["testplan_json"] = "testplan"
    if more.pop("coverage") and not options.builds:
        options.builds = ["coverage"]
    for name, value in more.items():
        setattr(options, renamed.get(name, name), value)
    sys.exit(command.main(options))


@main.command("new-chip")
@click.argument("name", required=False)
@click.argument("directory", required=False, type=click.Path(path_type=Path))
@click.option(
    "--top",
    "files",
    multiple=True,
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="No project: read the ports of this SystemVerilog (packages first, once for each file), write their map.",
)
@click.option("--module", default=None, help="With --top: the module. [default: the last file's name]")
@click.option(
    "--out", default=None, type=click.Path(path_type=Path), help="With --top: the map. [default: MODULE.toml]"
)
@click.option(
    "--verilator-argument", "more", multiple=True, metavar="ARG", help="With --top: such as -DNAME or -Ifolder."
)
def new_chip(name, directory, files, module, out, more) -> None:
    """A small complete project for the chip NAME in DIRECTORY (default: NAME): RTL, CMake, the chip's C, tests, CI;
    or, with --top, the port map of a top that exists. docs/own-chip.md goes on from there."""
    if __package__:
        from torch_presil.newchip import command
    else:  # run as a file, which spares importing torch
        from newchip import command

    if bool(files) == bool(name):
        parts.wide_console().print(
            "[red]presil new-chip: a NAME, or --top FILE, was expected (presil new-chip --help)[/red]"
        )
        sys.exit(parts.EXIT_USAGE)
    run = (
        (lambda c: command.port_map(files, module, out, more, c))
        if files
        else (lambda c: command.project(name, directory, c))
    )
    sys.exit(run(parts.wide_console()))


@main.command()
@click.argument("library", required=False, type=click.Path(path_type=Path))
@click.option(
    "--chip",
    default=None,
    metavar="SO",
    type=click.Path(path_type=Path),
    help="The chip's library, behind presil_chip.h.",
)
@click.option("--level", default=None, metavar="A,B", help="Of transport, chip, pytorch. [default: all]")
@click.option("--only", default=None, metavar="PATTERN", help="Checks whose name matches, such as 'register-*'.")
@click.option(
    "--description",
    "described",
    default=None,
    metavar="TOML",
    type=click.Path(path_type=Path),
    help="What the chip says of its registers. [default: CHIP.conform.toml beside LIBRARY]",
)
@click.option("--junit", default=None, metavar="FILE", type=click.Path(path_type=Path), help="Write JUnit XML.")
@click.option(
    "--json", default=None, metavar="FILE", type=click.Path(path_type=Path), help="Write the results as JSON."
)
@click.option("--html", default=None, metavar="FILE", type=click.Path(path_type=Path), help="Write the report.")
@click.option("--list", "list_only", is_flag=True, help="Name the checks, and what each holds to, and end.")
def conform(library, level, list_only, **more) -> None:
    """Does the chip behind LIBRARY, libpresil_sim_NAME_BUILD.so, do what the headers promise? docs/conform.md.

    Exit codes: 0 every check passed or was skipped, and one passed at least; 1 a check failed; 2 usage."""
    if __package__:
        from torch_presil.conform import command, report
    else:  # run as a file, which spares importing torch
        from conform import command, report

    if list_only:
        report.show_list(parts.wide_console())
        return
    if library is None:
        parts.wide_console().print("[red]presil conform: name the simulator library (presil conform --help)[/red]")
        sys.exit(parts.EXIT_USAGE)
    levels = tuple(level.split(",")) if level else command.LEVELS
    sys.exit(command.main(command.Options(library, levels=levels, **more)))


@main.command()
@click.argument("config", required=False)
@click.option(
    "--chip",
    default=None,
    help="Configuration of the platform that is made without CONFIG. [default: PRESIL_CHIP, or the chip's own]",
)
@click.option("--dtype", type=click.Choice(["bf16", "int8", "fp32"]), default="bf16", show_default=True)
@click.option(
    "--model",
    default="torchvision.models:resnet18",
    show_default=True,
    help="package.module:callable or path/to/file.py:callable.",
)
@click.option("--input", "shape", default="1,3,224,224", show_default=True, help="Shape of the input.")
@click.option("--json", "json_path", default="build/vp.json", show_default=True, help="Where the table goes as JSON.")
def vp(config: str | None, chip: str | None, dtype: str, model: str, shape: str, json_path: str) -> None:
    """A model on the chip in a SystemC platform: starts presil-vp with CONFIG (docs/systemc.md; without: the plain
    platform), drives it through its socket, each layer compared
    byte for byte with the C twin, and ends it."""
    from torch_presil import _C
    from torch_presil.cosim import Options
    from torch_presil.models import ModelError, parse_shape
    from torch_presil.vp import Platform

    console = parts.wide_console()
    try:
        platform = Platform(
            config, chip or _C.get_chip(), lambda line: console.print(line, style="dim", highlight=False)
        )
        with platform:
            result = cosimulate.run_cosim(
                Options(model, parse_shape(shape), dtype=dtype, mode="verify", transport=platform.transport), console
            )
    except (FileNotFoundError, ModelError) as error:
        console.print(f"[red]presil: {escape(str(error))}[/red]")
        sys.exit(parts.EXIT_USAGE)
    except RuntimeError as error:
        console.print(f"[red]presil: {escape(str(error))}[/red]", highlight=False)
        sys.exit(parts.EXIT_FAILURE)
    cosimulate.finish(result, json_path, console)


@main.command()
@click.option("--json", "json_path", default=None, help="Write the figures as JSON.")
@click.option(
    "--only",
    default=None,
    help="Only parts whose name matches one of these patterns (a,b); tests_build, jobs, hybrid and farm, minutes, "
    "run only so.",
)
@parts.transport_option
def bench(json_path, only, transport) -> None:
    """The figures of docs/performance.md, measured side by side in one run."""
    from torch_presil import bench as figures

    parts.own_simulator(None, transport)
    parts.use(transport)
    console = parts.wide_console()
    try:
        result = figures.run(only, console)
    except (ValueError, RuntimeError) as error:
        console.print(f"[red]presil: {escape(str(error))}[/red]", highlight=False)
        sys.exit(parts.EXIT_USAGE if isinstance(error, ValueError) else parts.EXIT_FAILURE)
    figures.print_result(result, console)
    parts.write_json(json_path, result)
    if not all(f.get("ok", True) for f in result["checks"].values()):
        sys.exit(parts.EXIT_MISMATCH)


@main.command()
@click.option("--json", "as_json", is_flag=True)
@parts.transport_option
def info(as_json, transport) -> None:
    """The device, its configuration, simulator and memory."""
    import torch_presil  # noqa: F401
    from torch_presil import _C

    parts.use(transport)
    values = {**_C.properties(0), "mode": _C.get_mode()}
    if as_json:
        print(json.dumps(values, indent=1))
        return
    console = Console()
    for name, value in values.items():
        console.print(f"{name:>14}  {value}", highlight=False)


main.add_command(cosimulate.demo)
main.add_command(cosimulate.cosim)
main.add_command(perf)
main.add_command(waves)
main.add_command(why)


if __name__ == "__main__":
    main(prog_name="presil")
