# SPDX-License-Identifier: Apache-2.0
"""Where int8 loses as one picture (PNG or SVG), by matplotlib: noise and saturation of each layer, and the trade."""

import json
from pathlib import Path

__all__ = ["draw", "summary"]

OUTPUT, ALONE, CHAINED, CUT, REST = "#c8503c", "#2a78b8", "#1f9a84", "#e0a030", "#999999"
LABELS = 70  # layers that have room for their names


def summary(result: dict) -> dict:
    """What the picture shows, in numbers: kept in the file, so that a test can tell whether it is of today."""
    found = result["int8"]
    return {
        "model": result["model"],
        "observer": found["observer"],
        "layers": {row["name"]: row["output_sqnr_db"] for row in found["layers"]},
        "mixed": [[row["bf16_layers"], row["sqnr_db"], row["cycles"]] for row in found["mixed"]],
    }


def draw(result: dict, path: Path) -> None:
    """result: of a co-simulation with the member `int8`."""
    import matplotlib

    matplotlib.use("agg")
    from matplotlib import pyplot as plot

    suffix, found = path.suffix.lstrip(".").lower(), result["int8"]
    if suffix not in ("png", "svg"):
        raise OSError(f"{path}: a name that ends in .png or .svg was expected")
    style = {"font.size": 9, "axes.spines.top": False, "axes.spines.right": False, "svg.hashsalt": "presil",
             "font.family": "DejaVu Sans", "svg.fonttype": "path"}  # fmt: skip
    trade = any(row["cycles"] for row in found["mixed"])
    with plot.rc_context(style):
        figure = plot.figure(figsize=(12.8, 9.6 if trade else 6.4), dpi=110, layout="constrained")
        parts = figure.subplots(3 if trade else 2, 1, height_ratios=[2, 1, 2][: 3 if trade else 2])
        _noise(found, parts[0])
        _cut_off(found, parts[1])
        if trade:
            _trade(found, parts[2])
        figure.suptitle(
            f"Where int8 loses: {result['model']} on {result['chip']}, observer {found['observer']}, measured on "
            f"{found['evaluation']['samples']} samples ({found['evaluation']['source']})",
            fontsize=11, x=0.01, ha="left",
        )  # fmt: skip
        kept = json.dumps(summary(result))
        metadata = {"Description": kept, **({"Date": None} if suffix == "svg" else {})}
        figure.savefig(path, format=suffix, metadata=metadata)
        plot.close(figure)


def _noise(found: dict, axes) -> None:
    rows = found["layers"]
    for key, color, what in (
        ("alone_sqnr_db", ALONE, "the layer alone, fed what it gets in fp32"),
        ("sqnr_db", CHAINED, "end to end: all before it in int8"),
        ("output_sqnr_db", OUTPUT, "the network's output, with only this layer in int8"),
    ):
        values = [float("nan") if row[key] is None else row[key] for row in rows]
        axes.plot(range(len(rows)), values, "o-", color=color, markersize=3, linewidth=1, label=what)
    if found["worst"]:
        at = [row["name"] for row in rows].index(found["worst"][0])
        axes.annotate(
            f"costs most: {found['worst'][0]}", (at, rows[at]["output_sqnr_db"]), xytext=(6, -14),
            textcoords="offset points", color=OUTPUT,
        )  # fmt: skip
    axes.set_ylabel("SQNR in dB")
    axes.set_xticks([])
    axes.set_xlim(-0.7, len(rows) - 0.3)
    axes.legend(frameon=False, ncols=3, loc="lower left", bbox_to_anchor=(0, 1.0))
    axes.grid(axis="y", alpha=0.3)


def _cut_off(found: dict, axes) -> None:
    rows = found["layers"]
    axes.bar(range(len(rows)), [100 * row["saturation"] for row in rows], color=CUT)
    axes.set_ylabel("values cut off, %")
    axes.set_xlim(-0.7, len(rows) - 0.3)
    axes.set_ylim(0, max([100 * row["saturation"] for row in rows] + [0.001]) * 1.1)
    if len(rows) <= LABELS:
        axes.set_xticks(range(len(rows)), [row["name"] for row in rows], rotation=90, fontsize=6)
    else:
        axes.set_xlabel("layers in the order of the network")


def _trade(found: dict, axes) -> None:
    rows = [row for row in found["mixed"] if row["cycles"] and row["sqnr_db"] is not None]
    front = sorted((row for row in rows if row["front"]), key=lambda row: row["cycles"])
    axes.plot([r["cycles"] / 1e6 for r in front], [r["sqnr_db"] for r in front], "-", color=OUTPUT, linewidth=1,
              label="front: nothing is both faster and nearer to fp32")  # fmt: skip
    for number, row in enumerate(rows):
        at = row["cycles"] / 1e6, row["sqnr_db"]
        axes.plot(*at, "o", color=OUTPUT if row["front"] else REST)
        top1 = "" if row["top1"] is None else f", top-1 {100 * row['top1']:.0f} %"
        axes.annotate(f"{row['bf16_layers']} in bf16{top1}", at, textcoords="offset points",
                      xytext=(5, -10) if number % 2 else (-5, 8), ha="left" if number % 2 else "right")  # fmt: skip
    sources = ", ".join(sorted({row["cycles_from"] for row in rows}))
    axes.set_xlabel(f"million cycles of a forward, from {sources}")
    axes.set_ylabel("SQNR of the output in dB")
    axes.margins(x=0.15, y=0.15)
    axes.legend(frameon=False, loc="lower right")
    axes.grid(alpha=0.3)
