# SPDX-License-Identifier: Apache-2.0
"""`presil perf MODEL --sweep '...'`: the same forward at every point of a grid of settings, each in a process of its
own, with a document a point that --resume takes up again."""

import csv
import itertools
import json
import os
import subprocess
import sys
import threading
import time
from concurrent import futures
from dataclasses import dataclass, field
from pathlib import Path

from rich.console import Console
from rich.table import Table

from torch_presil.perf import configured
from torch_presil.perf.compare import load

__all__ = ["Sweep", "parse", "parse_area", "pareto", "points", "print_table", "run", "write_csv"]

MEMORY = ("latency", "response", "bytes", "bursts", "stall")  # of docs/simulation.md
OPTIONS = ("chip", "dtype", "batch", "clock")
BUILDING = threading.Lock()
OWN = {"model", "memory", "sweep_dir", "area", "resume", "jobs"}  # of the sweep itself, not of each point
FIGURES = ("cycles", "seconds", "images_per_second", "images_per_second_with_host", "utilization", "bus_share",
           "read_bytes", "write_bytes", "energy")  # fmt: skip


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
        known = (*MEMORY, "memory", *OPTIONS, "seq", *configured.parameters())
        if name not in known:
            raise ValueError(
                f"--sweep {name}: one of {', '.join(known)} was expected; other RTL is another chip: build it "
                f"(docs/own-chip.md) and name it by chip=A,B"
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


def arguments(point: dict, memory: str | None, by_length: dict | None = None) -> list:
    """Options of `presil perf`. memory: what the point's parameters are added to; by_length: seq -> --input each."""
    parts = [point.get("memory", memory or ""), *(f"{key}={point[key]}" for key in MEMORY if key in point)]
    model = ",".join(filter(None, parts))
    out = [f"--{name}={point[name]}" for name in OPTIONS if name in point]
    out += [f"--input={text}" for text in by_length[point["seq"]]] if "seq" in point else []
    return [*out, f"--memory={model}"] if model else out


@dataclass
class Sweep:
    """arguments: options of every point; memory: what a point's memory parameters are added to; at_once: points that
    run side by side, each with `jobs` processes; made_by: what the figures of every point follow from."""

    axes: dict
    model: str
    arguments: list
    memory: str | None
    folder: Path
    area: dict
    resume: bool
    at_once: int
    jobs: int
    options: object  # cosim.Options: of the model
    chip: str = ""  # of points that name none: what RTL parameters are changed of
    made_by: dict = field(default_factory=dict)
    by_length: dict = field(default_factory=dict)  # sequence.inputs_of() of each seq

    @staticmethod
    def of(axes: str, given: dict) -> "Sweep":
        """given: the command's options by name. ValueError, ModelError."""
        from torch_presil import _C
        from torch_presil.cosim import Options
        from torch_presil.inputs import parse_input
        from torch_presil.models import parse_config

        along, sizes = parse(axes), parse_area(given["area"])
        twice = [name for name in along if name in ("chip", "batch", "clock") and given.get(name) is not None]
        if twice:
            raise ValueError(f"--sweep has {twice[0]} already, and so has --{twice[0]}: one of them was expected")
        total = given["jobs"] or int(os.environ.get("PRESIL_JOBS") or 0) or len(os.sched_getaffinity(0))
        at_once = min(total, len(points(along)))
        listed = {name: value if isinstance(value, (tuple, list)) else [value] for name, value in given.items()
                  if name not in OWN}  # fmt: skip
        common = [f"--{name}={one}" for name, values in listed.items() for one in values if one is not None]
        chip = given.get("chip") or _C.get_chip()
        rtl = [name for name in along if name in configured.parameters()]
        if rtl and (given.get("transport") or os.environ.get("PRESIL_TRANSPORT", "inproc")) != "inproc":
            raise ValueError(
                f"--sweep {', '.join(rtl)}: RTL is built for simulators of this process, --transport inproc"
            )
        if rtl and not chip and "chip" not in along:
            raise ValueError(f"--sweep {', '.join(rtl)}: no chip has a default configuration: name one with --chip")
        options = Options(given["model"], inputs=tuple(map(parse_input, given["input"])), seed=given["seed"],
                          config=parse_config(given["config"]))  # fmt: skip
        return Sweep(along, given["model"], common, given["memory"], Path(given["sweep_dir"]), sizes,
                     given["resume"], at_once, total // at_once, options, chip)  # fmt: skip

    def identify(self) -> None:
        """Loads the model once: what can't be is found out here, and its files are known."""
        from torch_presil.models import build_model
        from torch_presil.perf import identity, sequence

        loaded = build_model(self.options.model, self.options.seed, self.options.specs(), self.options.config)
        self.by_length = {length: sequence.inputs_of(loaded.inputs, length) for length in self.axes.get("seq", ())}
        if self.by_length:
            self.arguments = [a for a in self.arguments if not a.startswith("--input=")]
        weights = next((a.partition("=")[2] for a in self.arguments if a.startswith("--weights=")), None)
        self.made_by = {
            "model": identity.of_model(loaded, self.options.seed),
            "options": [self.model, *self.arguments],
            "weights": weights and identity.file_hash(weights),
            "environment": identity.settings(),
            "versions": identity.versions(),
            "sources": identity.sources(),
        }

    def rtl(self, point: dict) -> configured.Configured | None:
        """None: a chip that is built. configured.NotBuilt."""
        values = {name: value for name, value in point.items() if name in configured.parameters()}
        return configured.of(point.get("chip", self.chip), values) if values else None

    def asked(self, point: dict) -> list:
        return arguments(point, self.memory, self.by_length)

    def of_point(self, point: dict) -> dict:
        rtl = self.rtl(point)
        return {**self.made_by, "point": self.asked(point), "RTL": rtl and rtl.key}


def _stale(sweep: Sweep, point: dict, file: Path) -> str | None:
    """Why what is kept of a point can't be taken up again; None: it can."""
    from torch_presil.perf import identity

    try:
        kept = load(str(file))
    except ValueError as error:
        return str(error)
    if kept.get("properties", {}).get("transport") != "inproc":
        return "the chip of a server or board can't be told by its file"
    return identity.differs(kept.get("made_by"), json.loads(json.dumps(sweep.of_point(point))))


def _note(sweep: Sweep, point: dict, file: Path) -> None:
    """Writes into a point's document what made it; not where that changed meanwhile."""
    from torch_presil.perf import identity

    document = json.loads(file.read_text())
    if all(identity.file_hash(path) == digest for path, digest in sweep.made_by["sources"].items()):
        document["made_by"] = {**sweep.of_point(point), "libraries": document["libraries"]}
        file.write_text(json.dumps(document, indent=1) + "\n")


def _measure(sweep: Sweep, point: dict, file: Path, running: list, tell) -> str | None:
    """None, or why there is no document. tell(text): what is being built."""
    file.unlink(missing_ok=True)
    environment, more = dict(os.environ), []
    if rtl := sweep.rtl(point):
        with BUILDING:  # one at a time: each has a compiler for every processor
            configured.build(rtl, tell)
        paths = [str(rtl.folder), *filter(None, environment.get("PRESIL_LIBRARY_PATH", "").split(os.pathsep))]
        environment["PRESIL_LIBRARY_PATH"], more = os.pathsep.join(paths), [f"--chip={rtl.name}"]
    command = [sys.executable, "-m", "torch_presil.cli", "perf", sweep.model, *sweep.arguments,
               *sweep.asked(point), *more, f"--jobs={sweep.jobs}", "--html", "", "--json",
               str(file)]  # fmt: skip
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment)
    running.append(process)
    out, err = process.communicate()
    running.remove(process)
    if process.returncode:
        file.unlink(missing_ok=True)  # what doesn't add up is no result
        told = [" ".join(text.split()) for text in (err, out)]
        marks = ((text, word) for text in told for word in ("presil perf:", "doesn't add up") if word in text)
        return next((text[text.index(word) :] for text, word in marks), " ".join(told))
    _note(sweep, point, file)
    return None


def _row(point: dict, file: Path, area: dict, rtl: configured.Configured | None = None) -> dict:
    document = load(str(file))
    known = (
        rtl.area() if rtl else document["area"] and document["area"]["total"]
    )  # the proxy, unless the user says what a chip costs
    size = area.get(document["chip"]) if area else known
    energy = document["total"]["energy"]
    figures = {**document["total"], "energy": energy and sum(energy.values())}
    return {"point": point, "chip": document["chip"], "json": file.name, "area": size, "error": None,
            **{key: figures[key] for key in FIGURES}}  # fmt: skip


def pareto(rows: list) -> None:
    """Sets `front`: no other row has both less area and fewer cycles (or one of them equal). None without an area."""
    for row in rows:
        known = [o for o in rows if o["area"] is not None and o["cycles"] is not None and o is not row]
        mine = row["area"], row["cycles"]
        beaten = lambda o: o["area"] <= mine[0] and o["cycles"] <= mine[1] and (o["area"], o["cycles"]) != mine
        row["front"] = None if None in mine else not any(map(beaten, known))


def run(sweep: Sweep, console: Console) -> dict:
    """{"axes", "points"}; a point that failed has `error`, and no figures."""
    sweep.folder.mkdir(parents=True, exist_ok=True)
    sweep.identify()
    todo, running, done = points(sweep.axes), [], itertools.count(1)
    started = time.monotonic()

    def tell(text: str) -> None:
        console.print(f"  [{time.monotonic() - started:6.1f} s] {text}", highlight=False)

    def one(point: dict) -> dict:
        file = sweep.folder / f"{name_of(point)}.json"
        try:
            rtl = sweep.rtl(point)
            stale = _stale(sweep, point, file) if sweep.resume and file.exists() else "not measured"
        except configured.NotBuilt as error:
            return failed(point, str(error))
        why = {None: ": known", "not measured": ""}.get(stale, f": measured again, {stale}")
        tell(f"{name_of(point)}{why}")
        try:
            error = _measure(sweep, point, file, running, tell) if stale else None
        except configured.NotBuilt as refused:
            error = f"{rtl.name} can't be built: {refused}"
        number = next(done)
        left = f", {(time.monotonic() - started) / number * (len(todo) - number):.0f} s left" if stale else ""
        tell(f"{number}/{len(todo)} done{left}")
        return _row(point, file, sweep.area, rtl) if error is None else failed(point, error)

    def failed(point: dict, error: str) -> dict:
        console.print(f"    {error}", style="red", highlight=False)
        return {"point": point, "chip": point.get("chip"), "json": None, "area": None, "error": error,
                **dict.fromkeys(FIGURES)}  # fmt: skip

    console.print(f"{len(todo)} points, {sweep.at_once} at once", highlight=False)
    with futures.ThreadPoolExecutor(sweep.at_once) as pool:
        waiting = [pool.submit(one, point) for point in todo]
        try:
            rows = [future.result() for future in waiting]
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            for process in list(running):
                process.terminate()
            raise
    pareto(rows)
    return {"sweep": 1, "axes": sweep.axes, "points": rows}


def print_table(found: dict, console: Console) -> None:
    sized = any(row["area"] is not None for row in found["points"])
    table = Table(title="The fewest cycles first", title_justify="left")
    for name in found["axes"]:
        table.add_column(name, justify="right")
    for name in ("cycles", "a second", "≤ with host", "use", "bus", "energy", *(("area", "front") if sized else ())):
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
                      "" if row["energy"] is None else f"{1e-9 * row['energy']:,.4f} mJ", *more)  # fmt: skip
    console.print(table)


def write_csv(found: dict, path: Path) -> None:
    with open(path, "w", newline="") as f:
        out = csv.writer(f)
        out.writerow([*found["axes"], *FIGURES, "area", "front", "error"])
        for row in found["points"]:
            out.writerow([*row["point"].values(), *(row[key] for key in (*FIGURES, "area", "front", "error"))])
