# SPDX-License-Identifier: Apache-2.0
"""`presil cosim MODEL` and `presil demo`: their options, the run, and what is written."""

import sys
from pathlib import Path

import click
from rich.console import Console
from rich.markup import escape

from .parts import (
    EXIT_MISMATCH,
    EXIT_USAGE,
    farm_option,
    interrupted,
    own_simulator,
    transport_option,
    wide_console,
    write_json,
)

__all__ = ["cosim", "demo", "finish", "run_cosim"]


def run_cosim(options, console: Console) -> dict:
    from torch_presil import cosim, cosim_report
    from torch_presil.models import ModelError
    from torch_presil.regress import exit_codes

    if options.mode != "model" and not options.trace:
        own_simulator(options.chip, options.transport)
    try:
        with cosim_report.LiveProgress(console) as live:
            options.progress, options.announce = live.stage, live.layers
            return cosim.run(options)
    except (ModelError, ValueError) as error:
        console.print(f"[red]presil: {escape(str(error))}[/red]")
        sys.exit(EXIT_USAGE)
    except KeyboardInterrupt:
        interrupted(console)
    except RuntimeError as error:
        if "ECANCELLED" in str(error):
            interrupted(console)
        console.print(f"[red]{escape(str(error))}[/red]", highlight=False)
        sys.exit(exit_codes.of_error(error)[0])


def finish(result: dict, json_path: str | None, console: Console, plot: str | None = None) -> None:
    from torch_presil import cosim_report

    cosim_report.print_result(result, console)
    write_json(json_path, result)
    if json_path:
        console.print(f"JSON: {json_path}")
    if plot:
        from torch_presil.int8 import losses_picture

        losses_picture.draw(result, Path(plot))
        console.print(f"Picture: {plot}")
    if "trace" in result:
        console.print(f"Waveform: {result['trace']}")
    if "bundle" in result:
        console.print(f"Bundle: {result['bundle']} (presil-replay runs it again)")
    mixtures = result.get("int8", {}).get("mixed", [])
    exact = [result["total"].get("bit_exact"), *(row["bit_exact"] for row in mixtures)]
    if result["mode"] == "verify" and not all(exact):
        sys.exit(EXIT_MISMATCH)


@click.command()
@click.option("--json", "json_path", default="build/demo.json", show_default=True, help="Where the table goes as JSON.")
@transport_option
def demo(json_path: str, transport: str | None) -> None:
    """ResNet-18, 224x224, bf16: every convolution and the linear layer on the RTL, each compared byte for byte with
    the C twin."""
    from torch_presil.cosim import Options

    console = wide_console()
    result = run_cosim(Options("torchvision.models:resnet18", mode="verify", transport=transport), console)
    finish(result, json_path, console)


def _int8_options(command):
    """Where int8 loses."""
    for option in reversed(
        (
            click.option(
                "--calibrate",
                metavar="DATA",
                help="Of int8: ranges come from this file (torch.save) or what package.module:callable returns: a "
                "tensor or dictionary of rows, or an iterable of inputs (docs/int8.md). [default: 8 drawn inputs]",
            ),
            click.option(
                "--observer",
                default="minmax",
                show_default=True,
                metavar="NAME",
                help="Of int8: how a range follows from the values: minmax, histogram, percentile[:PERCENT], mse.",
            ),
            click.option(
                "--mixed",
                metavar="N",
                help="Of int8: the N layers that cost most stay in bf16; 0:8, 0:50:10 or 0,2,5 shows the trade of "
                "accuracy against cycles.",
            ),
            click.option(
                "--evaluate",
                metavar="DATA",
                help="Of int8: noise is measured on these inputs. [default: the first 8 of --calibrate, else drawn]",
            ),
            click.option(
                "--samples",
                type=click.IntRange(1),
                default=512,
                show_default=True,
                metavar="N",
                help="Inputs of --calibrate and --evaluate that are taken, at most.",
            ),
            click.option("--losses", is_flag=True, help="Of int8: the noise of each layer; each option above does so."),
            click.option(
                "--plot", metavar="FILE", help="Of int8: the noise, and with --mixed the trade, as .png or .svg."
            ),
        )
    ):
        command = option(command)
    return command


def _check_plot(path: str, console: Console) -> None:
    """Before what takes long."""
    from torch_presil.perf import outputs

    try:
        outputs.check([outputs.Output("--plot", path, None, (".png", ".svg"), "matplotlib")])
    except ValueError as error:
        console.print(f"[red]presil: {escape(str(error))}[/red]")
        sys.exit(EXIT_USAGE)


@click.command()
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
    help="Configuration (rtl/configs.json). [default: PRESIL_CHIP, or the chip's own; with --transport the server's]",
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
@_int8_options
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
    mixed,
    plot,
    **int8,
) -> None:
    """Co-simulate MODEL: package.module:callable or path/to/file.py:callable, returning a torch.nn.Module, or the
    module
    and its inputs (a tensor, tuple or dictionary); or a class of transformers, such as transformers:BertModel."""
    from torch_presil.cosim import Options
    from torch_presil.inputs import parse_input
    from torch_presil.int8.mixed import counts
    from torch_presil.models import ModelError, parse_batches, parse_config

    console = wide_console()
    try:
        inputs, sizes, config = tuple(map(parse_input, shapes)), parse_batches(batches), parse_config(settings)
        mixtures = tuple(counts(mixed)) if mixed else ()
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
        mixed=mixtures,
        **int8,
    )
    if plot:
        options.losses = True
        _check_plot(plot, console)
    if capture:
        options.capture, _, options.capture_path = capture.partition("=")
    finish(run_cosim(options, console), json_path, console, plot)
