# SPDX-License-Identifier: Apache-2.0
"""Timeline, stalls and roofline of a document as one picture (PNG or SVG), by matplotlib."""

import json
from pathlib import Path

from torch_presil.estimates import cycles_text
from torch_presil.perf.document import array_of

__all__ = ["draw", "summary"]

WORKS, BUS, HOST, REST = (
    "#2a78b8",
    "#1f9a84",
    "#c9761f",
    "#e0a030 #c8503c #8a63b8 #4d9a4d #b0607c #7f8c3a #3c8f9c #9c7a5a",
)
SHOWN = 24  # layers in the stack of stalls: those with the most cycles


def summary(document: dict) -> dict:
    """What the picture shows, in numbers: kept in the file, so that a test can tell whether it is of today."""
    total = document["total"]
    kept = {key: document[key] for key in ("model", "dtype", "chip", "batch")}
    kept["layers"] = {row["name"]: row["cycles"] for row in document["layers"]}
    return {**kept, **{key: total[key] for key in ("cycles", "macs", "read_bytes", "write_bytes", "launches")}}


def draw(document: dict, path: Path) -> None:
    import matplotlib

    matplotlib.use("agg")
    from matplotlib import pyplot as plot

    suffix = path.suffix.lstrip(".").lower()
    if suffix not in ("png", "svg"):
        raise OSError(f"{path}: a name that ends in .png or .svg was expected")
    style = {"font.size": 9, "axes.spines.top": False, "axes.spines.right": False, "svg.hashsalt": "presil",
             "font.family": "DejaVu Sans", "svg.fonttype": "path"}  # fmt: skip
    with plot.rc_context(style):
        figure = plot.figure(figsize=(12.8, 9.6), dpi=110, layout="constrained")
        upper, lower = figure.subfigures(2, 1, height_ratios=[1, 1.9])
        _timeline(document, upper.subplots())
        left, right = lower.subplots(1, 2, width_ratios=[1, 1.15])
        _stalls(document, left)
        _roofline(document, right)
        total, clock = document["total"], document["clock"]
        rate = f", {1e3 * total['seconds']:.2f} ms at {clock['mhz']:g} MHz" if clock else ""
        use = f", {100 * total['utilization']:.1f} % of the array's peak" if total["utilization"] is not None else ""
        figure.suptitle(
            f"{document['model']} {document['dtype']} on {document['chip']}, batch {document['batch']}: "
            f"{cycles_text(total)} cycles{rate}{use}", fontsize=11, x=0.01, ha="left",
        )  # fmt: skip
        kept = json.dumps(summary(document))
        figure.savefig(
            path, format=suffix, metadata={"Description": kept, **({"Date": None} if suffix == "svg" else {})}
        )
        plot.close(figure)


def _working(document: dict) -> set:
    return {c["name"] for c in document["names"]["causes"] if c.get("works")}


def _engines(document: dict) -> list:
    """Those that ever worked, in the chip's order."""
    stalls, works = document["total"]["stalls"], _working(document)
    return [e["name"] for e in document["names"]["engines"] if any(stalls.get(e["name"], {}).get(c) for c in works)]


def _timeline(document: dict, axes) -> None:
    bus, works = document["bus"], _working(document)
    rows = ["launches", *_engines(document), *(["bus"] if bus else [])]
    for launch in document["launches"]:
        width, parts = launch["cycles"], {"launches": 1.0}
        if not width:
            continue
        for engine, causes in launch["stalls"].items():
            parts[engine] = sum(n for c, n in causes.items() if c in works) / width
        if bus:
            parts["bus"] = launch["beats"] * bus["beat_bytes"] / width / bus["bytes_per_cycle"]
        for row, name in enumerate(rows):
            axes.bar(launch["start"], 0.8 * min(1, parts.get(name, 0)), width, bottom=len(rows) - 1 - row, align="edge",
                     color=BUS if name == "bus" else WORKS, edgecolor="white", linewidth=0.3)  # fmt: skip
    axes.set_yticks([len(rows) - 0.6 - row for row in range(len(rows))], rows)
    axes.set_xlim(0, max(1, document["total"]["cycles"]))
    axes.tick_params(axis="y", length=0)
    axes.xaxis.set_major_formatter(lambda value, _: f"{value:,.0f}")
    axes.set_xlabel("cycles; an engine's bar is as high as its share of working cycles, the bus's as that of its beats")


def _stalls(document: dict, axes) -> None:
    array, works = array_of(document["names"]) or next(iter(_engines(document)), None), _working(document)
    rows = sorted(document["layers"], key=lambda row: -row["cycles"])[:SHOWN]
    rows = [row for row in document["layers"] if row in rows][::-1]
    causes = [c["name"] for c in document["names"]["causes"]]
    causes = sorted(
        (c for c in causes if document["total"]["stalls"].get(array, {}).get(c)), key=lambda c: c not in works
    )
    colours = iter(REST.split() * 4)
    left = [0] * len(rows)
    for cause in causes:
        sizes = [100 * row["stalls"].get(array, {}).get(cause, 0) / max(row["cycles"], 1) for row in rows]
        colour = WORKS if cause in works else next(colours)
        axes.barh(range(len(rows)), sizes, left=left, height=0.8, color=colour, label=cause.replace("_", " "))
        left = [a + b for a, b in zip(left, sizes)]
    axes.set_yticks(range(len(rows)), [row["name"][-28:] for row in rows], fontsize=7)
    axes.set_xlim(0, 100)
    marked = ", estimates among them" if document["total"].get("estimated") else ""
    axes.set_xlabel(f"% of the layer's cycles, engine {array}{marked}")
    title = "all layers" if len(rows) == len(document["layers"]) else f"the {len(rows)} layers with the most cycles"
    axes.set_title(title, loc="left", fontsize=9, pad=18)
    if not causes:
        return
    axes.legend(fontsize=7, loc="lower left", bbox_to_anchor=(0, 1), ncols=6, frameon=False, borderaxespad=0.1,
                handlelength=1, handleheight=0.8, columnspacing=1.2)  # fmt: skip


def _roofline(document: dict, axes) -> None:
    rows = [r for r in document["layers"] if r["macs"] and r["cycles"] and r["read_bytes"] + r["write_bytes"]]
    if not rows:
        axes.set_axis_off()
        return
    peaks, bus = document["roof"]["peaks"], document["roof"]["bus"]
    xs = [row["macs"] / (row["read_bytes"] + row["write_bytes"]) for row in rows]
    ys = [row["macs"] / row["cycles"] for row in rows]
    low, high = min(xs) / 2, max(*xs, *((p / bus for p in peaks) if bus else ()), 1) * 2.5
    for peak in peaks:
        edge = peak / bus if bus else low
        axes.plot(
            [*([low] if bus else []), edge, high], [*([low * bus] if bus else []), peak, peak], color="#5c6670", lw=1.4
        )
        axes.annotate(f"{peak:,.0f} MACs a cycle", (high, peak), (0, 8), textcoords="offset points", ha="right",
                      fontsize=8)  # fmt: skip
    if bus:
        axes.annotate(f"{bus} bytes a cycle", (low * 1.6, low * 1.6 * bus), (10, -4), textcoords="offset points",
                      fontsize=8)  # fmt: skip
    most = max(row["cycles"] for row in rows)
    ridge = max(peaks) / bus if bus and peaks else 0
    axes.scatter(xs, ys, s=[12 + 160 * row["cycles"] / most for row in rows], alpha=0.55, edgecolor="white",
                 color=[BUS if x < ridge else WORKS for x in xs])  # fmt: skip
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_xlim(low, high)
    axes.set_ylim(min(ys) / 2, max(*ys, *peaks) * 1.8)
    axes.grid(True, which="major", alpha=0.25)
    axes.set_xlabel("MACs a byte of memory traffic")
    axes.set_ylabel("MACs a cycle")
    axes.set_title("a spot a layer, its area the cycles; left of the ridge the bus is the limit", loc="left",
                   fontsize=9, pad=18)  # fmt: skip
