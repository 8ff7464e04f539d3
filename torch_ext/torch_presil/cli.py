# SPDX-License-Identifier: Apache-2.0
"""The `presil` command: demo, cosim, perf, regress, conform, new-chip, vp, waves, why, bench, info."""

import json
import sys
from pathlib import Path

import click
from rich.console import Console
from rich.markup import escape

try:
    from .perf.command import perf
    from .waves.command import waves
    from .waves.why import why
except ImportError:  # run as a file
    from perf.command import perf
    from waves.command import waves
    from waves.why import why

EXIT_MISMATCH, EXIT_USAGE, EXIT_FAILURE = 1, 2, 4


def _console() -> Console:
    """Of the terminal's width, but never so narrow that the table is cut."""
    console = Console()
    return console if console.width >= 120 else Console(width=120)


def _write_json(path: str | None, value: dict) -> None:
    if path:
        Path(path).parent.mkdir(parents=True, exist_ok=True)
        Path(path).write_text(json.dumps(value, indent=1) + "\n")


transport_option = click.option(
    "--transport",
    default=None,
    metavar="TRANSPORT",
    help="inproc, or socket:PATH[,copy][,timeout=SECONDS]: the chip is in another process. [default: "
    "PRESIL_TRANSPORT, or inproc]",
)


farm_option = click.option(
    "--farm",
    default=None,
    metavar="FARM",
    help="The RTL runs on many machines: dask://HOST:PORT, slurm,queue=NAME,..., local; the twin is always compared "
    "(docs/farm.md).",
)


def _own_simulator(chip: str | None, transport: str | None) -> None:
    """Before the first run of an installed package: the simulator built for this machine, if it can be; none where
    the chip is in another process."""
    from torch_presil import _C, simulators

    if (transport or _C.get_transport()) != "inproc":
        return
    name = chip or _C.get_chip()
    if name and simulators.ensure(name):
        simulators.use()


def _use(transport: str | None) -> None:
    from torch_presil import _C

    if transport:
        _C.set_transport(transport)


def _run_cosim(options, console: Console) -> dict:
    from torch_presil import cosim, cosim_report
    from torch_presil.models import ModelError
    from torch_presil.regress import exit_codes

    if options.mode != "model" and not options.trace:
        _own_simulator(options.chip, options.transport)
    try:
        with cosim_report.LiveProgress(console) as live:
            options.progress, options.announce = live.stage, live.layers
            return cosim.run(options)
    except (ModelError, ValueError) as error:
        console.print(f"[red]presil: {escape(str(error))}[/red]")
        sys.exit(EXIT_USAGE)
    except KeyboardInterrupt:
        _interrupted(console)
    except RuntimeError as error:
        if "ECANCELLED" in str(error):
            _interrupted(console)
        console.print(f"[red]{escape(str(error))}[/red]", highlight=False)
        sys.exit(exit_codes.of_error(error)[0])


def _interrupted(console: Console) -> None:
    console.print("interrupted; nothing was written", style="yellow")
    sys.exit(130)


def _finish(result: dict, json_path: str | None, console: Console) -> None:
    from torch_presil import cosim_report

    cosim_report.print_result(result, console)
    _write_json(json_path, result)
    if json_path:
        console.print(f"JSON: {json_path}")
    if "trace" in result:
        console.print(f"Waveform: {result['trace']}")
    if "bundle" in result:
        console.print(f"Bundle: {result['bundle']} (presil-replay runs it again)")
    if result["mode"] == "verify" and not result["total"].get("bit_exact"):
        sys.exit(EXIT_MISMATCH)


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
def main() -> None:
    """Presil: PyTorch models on your accelerator's RTL, before tape-out."""


@main.command()
@click.option("--json", "json_path", default="build/demo.json", show_default=True, help="Where the table goes as JSON.")
@transport_option
def demo(json_path: str, transport: str | None) -> None:
    """ResNet-18, 224x224, bf16: every convolution and the linear layer on the RTL, each compared byte for byte with
    the C twin."""
    from torch_presil.cosim import Options

    console = _console()
    result = _run_cosim(Options("torchvision.models:resnet18", mode="verify", transport=transport), console)
    _finish(result, json_path, console)


@main.command()
@click.argument("model")
@click.option(
    "--input",
    "shapes",
    multiple=True,
    metavar="[NAME=]SIZES[:DTYPE[:BELOW]]",
    help="An input, such as 1,3,224,224 or input_ids=1,16:int64:30522 (0 to 30521); once for each. "
    "[default: what the factory returns beside the model, what the class of transformers takes, else 1,3,224,224]",
)
@click.option(
    "--config",
    "settings",
    multiple=True,
    metavar="NAME=VALUE,...",
    help="Settings of the configuration of a class of transformers, such as num_hidden_layers=2.",
)
@click.option("--dtype", type=click.Choice(["bf16", "int8", "fp32"]), default="bf16", show_default=True)
@click.option(
    "--chip",
    default=None,
    help="Configuration (rtl/configs.json). [default: PRESIL_CHIP, or base; what the server of --transport has]",
)
@transport_option
@click.option(
    "--mode",
    type=click.Choice(["rtl", "model", "verify", "hybrid"]),
    default="rtl",
    show_default=True,
    help="RTL, its C twin, both compared byte for byte, or the twin with the cycles that the RTL took for the same "
    "commands before (docs/hybrid.md).",
)
@click.option(
    "--unseen",
    type=click.Choice(["simulate", "estimate"]),
    default=None,
    help="Of mode hybrid: what is done with commands that did not run before; estimates say so, with their error "
    "(docs/hybrid.md). [default: PRESIL_UNSEEN, or simulate]",
)
@click.option(
    "--jobs",
    type=click.IntRange(0),
    default=None,
    metavar="N",
    help="Processes that run the RTL side by side, with the same cycles (docs/jobs.md); 0: the processors. With more "
    "than one the twin is always compared. [default: PRESIL_JOBS, or the processors, for a whole forward on a chip "
    "that several processes can have; else 1]",
)
@farm_option
@click.option(
    "--layers", default=None, help="Run only layers whose name matches this pattern, each fed its fp32 input."
)
@click.option("--json", "json_path", default=None, help="Write the result as JSON.")
@click.option("--trace", default=None, help="Run this layer alone and write its waveform (FST).")
@click.option("--trace-file", default=None, help="Where the waveform goes (default: waveforms/LAYER.fst).")
@click.option(
    "--capture",
    default=None,
    metavar="LAYER[=FILE]",
    help="Run this layer alone and keep its launches as a bundle (default: LAYER.presil), for presil-replay.",
)
@click.option("--weights", default=None, help="State dict (torch.save), loaded with weights_only=True.")
@click.option("--seed", default=0, show_default=True, help="Of initialisation, calibration and input.")
@click.option(
    "--batches",
    default=None,
    help="Also run these batch sizes, such as 1,2,4,8,16,32: latency and throughput in simulated time.",
)
@click.option("--no-check", is_flag=True, help="Skip the per-layer comparison with fp32.")
def cosim(
    model,
    shapes,
    settings,
    dtype,
    chip,
    transport,
    mode,
    unseen,
    jobs,
    farm,
    layers,
    json_path,
    trace,
    trace_file,
    capture,
    weights,
    seed,
    batches,
    no_check,
) -> None:
    """Co-simulate MODEL: package.module:callable or path/to/file.py:callable, returning a torch.nn.Module, or the
    module
    and its inputs (a tensor, tuple or dictionary); or a class of transformers, such as transformers:BertModel."""
    from torch_presil.cosim import Options
    from torch_presil.inputs import parse_input
    from torch_presil.models import ModelError, parse_batches, parse_config

    console = _console()
    try:
        inputs, sizes, config = tuple(map(parse_input, shapes)), parse_batches(batches), parse_config(settings)
    except ModelError as error:
        console.print(f"[red]presil: {escape(str(error))}[/red]")
        sys.exit(EXIT_USAGE)
    options = Options(
        model,
        dtype=dtype,
        chip=chip,
        mode=mode,
        unseen=unseen,
        jobs=jobs,
        farm=farm,
        layers=layers,
        weights=weights,
        trace=trace,
        trace_path=trace_file,
        seed=seed,
        check_layers=not no_check,
        batches=sizes,
        inputs=inputs,
        config=config,
        transport=transport,
    )
    if capture:
        options.capture, _, options.capture_path = capture.partition("=")
    _finish(_run_cosim(options, console), json_path, console)


@main.command()
@click.argument("suites", nargs=-1)
@click.option("-j", "--jobs", type=int, default=None, metavar="N", help="Cases at once. [default: the cores]")
@click.option("--chip", default=None, metavar="A,B", help="Configurations. [default: what each case names, else base]")
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
        _console().print("[red]presil new-chip: a NAME, or --top FILE, was expected (presil new-chip --help)[/red]")
        sys.exit(EXIT_USAGE)
    run = (
        (lambda c: command.port_map(files, module, out, more, c))
        if files
        else (lambda c: command.project(name, directory, c))
    )
    sys.exit(run(_console()))


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
        report.show_list(_console())
        return
    if library is None:
        _console().print("[red]presil conform: name the simulator library (presil conform --help)[/red]")
        sys.exit(EXIT_USAGE)
    levels = tuple(level.split(",")) if level else command.LEVELS
    sys.exit(command.main(command.Options(library, levels=levels, **more)))


@main.command()
@click.argument("config", required=False)
@click.option(
    "--chip",
    default="base",
    show_default=True,
    help="Configuration (rtl/configs.json) of the platform that is made without CONFIG.",
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
def vp(config: str | None, chip: str, dtype: str, model: str, shape: str, json_path: str) -> None:
    """A model on the chip in a SystemC platform: starts presil-vp with CONFIG (docs/systemc.md; without: the plain
    platform), drives it through its socket, each layer compared
    byte for byte with the C twin, and ends it."""
    from torch_presil.cosim import Options
    from torch_presil.models import ModelError, parse_shape
    from torch_presil.vp import Platform

    console = _console()
    try:
        platform = Platform(config, chip, lambda line: console.print(line, style="dim", highlight=False))
        with platform:
            result = _run_cosim(
                Options(model, parse_shape(shape), dtype=dtype, mode="verify", transport=platform.transport), console
            )
    except (FileNotFoundError, ModelError) as error:
        console.print(f"[red]presil: {escape(str(error))}[/red]")
        sys.exit(EXIT_USAGE)
    except RuntimeError as error:
        console.print(f"[red]presil: {escape(str(error))}[/red]", highlight=False)
        sys.exit(EXIT_FAILURE)
    _finish(result, json_path, console)


@main.command()
@click.option("--json", "json_path", default=None, help="Write the figures as JSON.")
@click.option(
    "--only",
    default=None,
    help="Only parts whose name matches one of these patterns (a,b); tests_build, jobs, hybrid and farm, minutes, "
    "run only so.",
)
@transport_option
def bench(json_path, only, transport) -> None:
    """The figures of docs/performance.md, measured side by side in one run."""
    from torch_presil import bench as figures

    _own_simulator("base", transport)
    _use(transport)
    console = _console()
    try:
        result = figures.run(only, console)
    except (ValueError, RuntimeError) as error:
        console.print(f"[red]presil: {escape(str(error))}[/red]", highlight=False)
        sys.exit(EXIT_USAGE if isinstance(error, ValueError) else EXIT_FAILURE)
    figures.print_result(result, console)
    _write_json(json_path, result)
    if not all(f.get("ok", True) for f in result["checks"].values()):
        sys.exit(EXIT_MISMATCH)


@main.command()
@click.option("--json", "as_json", is_flag=True)
@transport_option
def info(as_json, transport) -> None:
    """The device, its configuration, simulator and memory."""
    import torch_presil  # noqa: F401
    from torch_presil import _C

    _use(transport)
    values = {**_C.properties(0), "mode": _C.get_mode()}
    if as_json:
        print(json.dumps(values, indent=1))
        return
    console = Console()
    for name, value in values.items():
        console.print(f"{name:>14}  {value}", highlight=False)


main.add_command(perf)
main.add_command(waves)
main.add_command(why)


if __name__ == "__main__":
    main(prog_name="presil")
