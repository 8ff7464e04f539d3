# SPDX-License-Identifier: Apache-2.0
"""`presil perf MODEL --sweep '...'`: the same forward at every point of a grid of settings, each in a process of its
own, with a document a point that --resume takes up again."""

import csv
import itertools
import json
import subprocess
import sys
from pathlib import Path

from rich.console import Console
from rich.table import Table

from torch_presil.perf.compare import load

__all__ = ["parse", "parse_area", "pareto", "points", "print_table", "run", "write_csv"]

MEMORY = ("latency", "response", "bytes", "bursts", "stall")  # of docs/simulation.md
OPTIONS = ("chip", "dtype", "batch", "clock")
FIGURES = ("cycles", "seconds", "images_per_second", "images_per_second_with_host", "utilization", "bus_share",
           "read_bytes", "write_bytes")  # fmt: skip


def parse(text: str) -> dict:
    """'latency=50,100 chip=base' -> {"latency": ["50", "100"], "chip": ["base"]}. ValueError for what it isn't."""
    axes = {}
    for part in text.split():
        name, equals, values = part.partition("=")
        listed = values.split(",")
        if not equals or not all(listed) or len(set(listed)) != len(listed):
            raise ValueError(
                f"--sweep {part}: NAME=VALUE,... with values that differ was expected, e.g. latency=50,100"
            )
        if name in axes:
            raise ValueError(f"--sweep: {name} is given twice")
        if name not in (*MEMORY, "memory", *OPTIONS):
            raise ValueError(
                f"--sweep {name}: one of {', '.join((*MEMORY, 'memory', *OPTIONS))} was expected; other RTL is another "
                f"chip: build it (docs/own-chip.md) and name it by chip=A,B"
            )
        axes[name] = listed
    if not axes:
        raise ValueError("--sweep: NAME=VALUE,... was expected, such as 'latency=50,100,200 bytes=32,64'")
    return axes


def parse_area(text: str | None) -> dict:
    """'tiny=21741,base=157603' -> {"tiny": 21741.0, ...}: what a chip costs, in any unit."""
    out = {}
    for part in filter(None, (text or "").split(",")):
        name, _, value = part.partition("=")
        try:
            out[name] = float(value)
        except ValueError:
            raise ValueError(f"--area {part}: CHIP=NUMBER was expected") from None
    return out


def points(axes: dict) -> list:
    """Every combination, the last axis fastest."""
    return [dict(zip(axes, values, strict=True)) for values in itertools.product(*axes.values())]


def name_of(point: dict) -> str:
    return ",".join(f"{name}={value}" for name, value in point.items())


def arguments(point: dict, memory: str | None) -> list:
    """Options of `presil perf`. memory: what the point's parameters are added to."""
    parts = [point.get("memory", memory or ""), *(f"{key}={point[key]}" for key in MEMORY if key in point)]
    model = ",".join(filter(None, parts))
    out = [f"--{name}={point[name]}" for name in OPTIONS if name in point]
    return [*out, f"--memory={model}"] if model else out


def _measure(point: dict, command: list, file: Path) -> str | None:
    """None, or why there is no document."""
    done = subprocess.run([*command, "--html", "", "--json", str(file)], capture_output=True, text=True)
    if done.returncode:
        file.unlink(missing_ok=True)  # what doesn't add up is no result
        told = [" ".join(text.split()) for text in (done.stderr, done.stdout)]
        marks = ((text, word) for text in told for word in ("presil perf:", "doesn't add up") if word in text)
        return next((text[text.index(word) :] for text, word in marks), " ".join(told))
    return None


def _row(point: dict, file: Path, area: dict) -> dict:
    document = load(str(file))
    size = area.get(document["chip"])
    return {"point": point, "chip": document["chip"], "json": file.name, "area": size, "error": None,
            **{key: document["total"][key] for key in FIGURES}}  # fmt: skip


def pareto(rows: list) -> None:
    """Sets `front`: no other row has both less area and fewer cycles (or one of them equal). None without an area."""
    for row in rows:
        known = [o for o in rows if o["area"] is not None and o["cycles"] is not None and o is not row]
        mine = row["area"], row["cycles"]
        beaten = lambda o: o["area"] <= mine[0] and o["cycles"] <= mine[1] and (o["area"], o["cycles"]) != mine
        row["front"] = None if None in mine else not any(map(beaten, known))


def run(axes: dict, arguments_of_all: list, memory: str | None, folder: Path, area: dict, resume: bool,
        console: Console) -> dict:  # fmt: skip
    """{"axes", "points"}; a point that failed has `error`, and no figures."""
    folder.mkdir(parents=True, exist_ok=True)
    rows, todo = [], points(axes)
    for number, point in enumerate(todo, 1):
        file, error = folder / f"{name_of(point)}.json", None
        known = resume and file.exists()
        console.print(f"  {number}/{len(todo)} {name_of(point)}{': known' if known else ''}", highlight=False)
        if not known:
            command = [sys.executable, "-m", "torch_presil.cli", "perf", *arguments_of_all, *arguments(point, memory)]
            error = _measure(point, command, file)
        if error is None:
            rows.append(_row(point, file, area))
        else:
            console.print(f"    [red]{error}[/red]", highlight=False)
            rows.append({"point": point, "chip": point.get("chip"), "json": None, "area": None, "error": error,
                         **dict.fromkeys(FIGURES)})  # fmt: skip
    pareto(rows)
    return {"sweep": 1, "axes": axes, "points": rows}


def print_table(found: dict, console: Console) -> None:
    sized = any(row["area"] is not None for row in found["points"])
    table = Table(title="The fewest cycles first", title_justify="left")
    for name in found["axes"]:
        table.add_column(name, justify="right")
    for name in ("cycles", "a second", "≤ with host", "use", "bus", *(("area", "front") if sized else ())):
        table.add_column(name, justify="right", no_wrap=True)
    share = lambda v: "" if v is None else f"{100 * v:.1f} %"
    count = lambda v: "" if v is None else f"{v:,.1f}"
    for row in sorted(found["points"], key=lambda row: (row["cycles"] is None, row["cycles"])):
        cycles = "failed" if row["error"] else f"{row['cycles']:,}"
        more = (
            (f"{row['area']:,.0f}" if row["area"] is not None else "", "yes" if row["front"] else "") if sized else ()
        )
        table.add_row(*row["point"].values(), cycles, count(row["images_per_second"]),
                      count(row["images_per_second_with_host"]), share(row["utilization"]), share(row["bus_share"]),
                      *more)  # fmt: skip
    console.print(table)


def write_csv(found: dict, path: Path) -> None:
    with open(path, "w", newline="") as f:
        out = csv.writer(f)
        out.writerow([*found["axes"], *FIGURES, "area", "front", "error"])
        for row in found["points"]:
            out.writerow([*row["point"].values(), *(row[key] for key in (*FIGURES, "area", "front", "error"))])


def as_json(found: dict) -> str:
    return json.dumps(found, indent=1) + "\n"
