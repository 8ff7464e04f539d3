# SPDX-License-Identifier: Apache-2.0
"""Where int8 loses, for people: a table of layers, a table of mixtures, and what to do."""

from rich.console import Console
from rich.table import Table
from rich.text import Text

__all__ = ["print_losses"]


def db(value: float | None) -> str:
    return "none" if value is None else f"{value:.1f}"


def _share(value: float) -> str:
    return "0" if not value else f"{100 * value:.3f} %" if value < 0.1 else f"{100 * value:.1f} %"


def _source(said: dict) -> str:
    if said["samples"] is None:
        return "drawn inputs" if said["source"] == "drawn" else said["source"]
    return f"{said['samples']} samples ({said['source']})"


def layers_table(found: dict) -> Table:
    table = Table(
        title=f"Where int8 loses: SQNR against fp32 in dB, observer {found['observer']}, calibrated on "
        f"{_source(found['calibration'])}, measured on {_source(found['evaluation'])}",
        title_justify="left",
    )
    table.add_column("layer", overflow="fold")
    for name in ("costs\nthe output", "alone", "end to end", "cut off", "of inputs", "codes used"):
        table.add_column(name, justify="right", no_wrap=True)
    first = found["worst"][0] if found["worst"] else None
    for row in found["layers"]:
        name = Text(row["name"], style="bold red" if row["name"] == first else "")
        if row["name"] in found["kept"]:
            name.append(" (bf16)", style="green")
        numbers = (db(row[key]) for key in ("output_sqnr_db", "alone_sqnr_db", "sqnr_db"))
        table.add_row(
            name, *numbers, _share(row["saturation"]), _share(row["input_saturation"]), f"{row['codes']} of 255"
        )
    return table


def mixed_table(found: dict) -> Table:
    sources = sorted({row["cycles_from"] for row in found["mixed"]} - {None})
    table = Table(
        title="The layers that cost most in bf16: cycles of a forward "
        + (f"from {', '.join(sources)}" if sources else "unknown: mode model has no clock"),
        title_justify="left",
    )
    for name in ("in bf16", "SQNR of output, dB", "top-1 as fp32", "cycles", "front"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("added", overflow="fold")
    before = set()
    for row in found["mixed"]:
        top1 = "-" if row["top1"] is None else f"{100 * row['top1']:.1f} %"
        cycles = f"{row['cycles']:,}" if row["cycles"] else "no clock"
        front = "" if row["front"] is None else "yes" if row["front"] else "no"
        added = ", ".join(name for name in row["kept"] if name not in before)
        table.add_row(str(row["bf16_layers"]), db(row["sqnr_db"]), top1, cycles, front, added)
        before = set(row["kept"])
    return table


def advice(found: dict) -> str:
    """One line: the output, the layer that costs most, and what to try."""
    out = found["output"]
    top1 = "" if out["top1"] is None else f", top-1 as in fp32 in {100 * out['top1']:.1f} % of {out['rows']} rows"
    text = f"All in int8: the output has {db(out['sqnr_db'])} dB{top1}."
    if not found["worst"]:
        return text
    name = found["worst"][0]
    row = next(row for row in found["layers"] if row["name"] == name)
    text += f" {name} costs most: with it alone in int8 the output has {db(row['output_sqnr_db'])} dB."
    if not found["mixed"]:
        text += " --mixed 0:4 shows what bf16 would buy."
    return text


def print_losses(found: dict, console: Console) -> None:
    """found: the member `int8` of a result."""
    console.print(layers_table(found))
    if found["mixed"]:
        console.print(mixed_table(found))
    console.print(advice(found), highlight=False)
