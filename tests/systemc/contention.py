# SPDX-License-Identifier: Apache-2.0
"""ResNet-18's layers with a second master on the bus: docs/contention.md's table, its plot, and whether the chip's
counters account for the cycles.

usage: contention.py [--chip base] [--loads 0,25,50,75] [--json] [--plot FILE.svg]
"""

import argparse
import json
import sys
import tempfile
from pathlib import Path

from test_vp import BUS, RESNET, Platform


def measure(chip: str, loads: list[int]) -> dict[int, list[dict]]:
    found = {}
    for load in loads:
        print(f"traffic {load} %", file=sys.stderr)
        with (
            tempfile.TemporaryDirectory() as folder,
            Platform(Path(folder), f"[chip]\nconfig = {chip}\n[traffic]\nload = {load}\n") as vp,
        ):
            found[load] = vp.run(RESNET, chip=chip, timeout=900)["launches"]
    return found


def explain(quiet: dict, busy: dict) -> dict:
    """How many cycles a layer gained, and what the matrix engine's counters say they went to."""
    causes = {c: busy["stalls"]["matrix"][c] - quiet["stalls"]["matrix"][c] for c in quiet["stalls"]["matrix"]}
    load = {c: busy["stalls"]["load"][c] - quiet["stalls"]["load"][c] for c in ("bus_request", "bus_data")}
    return {
        "gained": busy["cycles"] - quiet["cycles"],
        "explained": sum(causes[c] for c in BUS),
        "matrix": {c: n for c, n in causes.items() if n},
        "load": load,
    }


def table(found: dict[int, list[dict]]) -> str:
    loads = list(found)
    lines = [
        "| layer | "
        + " | ".join(f"{p} %" for p in loads)
        + f" | gained at {loads[-1]} % | of it explained | wait_load | wait_store, wait_epilogue | weights |",
        "|---|" + "---:|" * (len(loads) + 5),
    ]
    total = {"gained": 0, "explained": 0}
    for i, first in enumerate(found[loads[0]]):
        why = explain(first, found[loads[-1]][i])
        for key in total:
            total[key] += why[key]
        m = why["matrix"]
        cells = [
            f"{i} {first['label']}",
            *(f"{found[p][i]['cycles']:,}" for p in loads),
            f"{why['gained']:,}",
            f"{why['explained']:,}",
            f"{m.get('wait_load', 0):,}",
            f"{m.get('wait_store', 0) + m.get('wait_epilogue', 0):,}",
            f"{m.get('weights', 0):,}",
        ]
        lines.append("| " + " | ".join(cells) + " |")
    sums = [sum(r["cycles"] for r in found[p]) for p in loads]
    lines.append(
        "| all | " + " | ".join(f"{s:,}" for s in sums) + f" | {total['gained']:,} | {total['explained']:,} | | | |"
    )
    return "\n".join(lines)


def plot(found: dict[int, list[dict]], path: Path) -> None:
    """Cycles of each layer over those without traffic, a line for each load."""
    loads = [p for p in found if p]
    quiet = [r["cycles"] for r in found[0]]
    ratios = {p: [r["cycles"] / q for r, q in zip(found[p], quiet, strict=True)] for p in loads}
    top = max(max(r) for r in ratios.values())
    width, height, left, below = 720, 300, 50, 40

    def at(i: int, ratio: float) -> str:
        x = left + i * (width - left - 90) / (len(quiet) - 1)
        y = height - below - (ratio - 1) / max(top - 1, 1e-9) * (height - below - 20)
        return f"{x:.1f},{y:.1f}"

    out = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" font-family="sans-serif" '
        f'font-size="11">',
        "<!-- SPDX-License-Identifier: Apache-2.0 -->",
        f'<rect width="{width}" height="{height}" fill="white"/>',
        f'<text x="{left}" y="{height - 8}">layer 0 to {len(quiet) - 1}: cycles relative to an idle bus</text>',
    ]
    for ratio in (1, 1 + (top - 1) / 2, top):
        x, y = at(0, ratio).split(",")
        out.append(
            f'<line x1="{x}" y1="{y}" x2="{width - 90}" y2="{y}" stroke="#ddd"/><text x="8" '
            f'y="{float(y) + 4:.1f}">{ratio:.2f}</text>'
        )
    for p, colour in zip(loads, ("#4a90d9", "#e0a030", "#c0392b", "#555555"), strict=False):
        points = [at(i, r) for i, r in enumerate(ratios[p])]
        x, y = points[-1].split(",")
        out.append(
            f'<polyline points="{" ".join(points)}" fill="none" stroke="{colour}" stroke-width="2"/><text '
            f'x="{float(x) + 6:.1f}" y="{float(y) + 4:.1f}" fill="{colour}">{p} %</text>'
        )
    path.write_text("\n".join([*out, "</svg>", ""]))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--chip", default="base")
    parser.add_argument("--loads", default="0,25,50,75")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--plot", type=Path)
    args = parser.parse_args()
    loads = [int(p) for p in args.loads.split(",")]
    found = measure(args.chip, loads)
    if args.plot:
        plot(found, args.plot)
    if args.json:
        print(
            json.dumps(
                {
                    p: [{**r, "why": explain(q, r)} for q, r in zip(found[loads[0]], found[p], strict=True)]
                    for p in loads
                }
            )
        )
    else:
        print(table(found))


if __name__ == "__main__":
    main()
