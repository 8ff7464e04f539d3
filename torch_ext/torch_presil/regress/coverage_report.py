# SPDX-License-Identifier: Apache-2.0
"""A run's coverage as numbers: by suite, by file, by model and layer, by testpoint; what no model and what nothing
reaches; justified holes."""

import json
import tomllib
from collections import Counter
from dataclasses import asdict, dataclass
from pathlib import Path

from rich.console import Console
from rich.table import Table

from .coverage import KINDS, Reached, covers, of_kind
from .exit_codes import UsageError
from .records import write_whole
from .testplan import _typed

FILE = "coverage.json"
MOST_ROWS = 20


@dataclass(frozen=True)
class Hole:
    """A line that nothing has to reach: file, the line's text, the reason."""

    file: str
    text: str
    reason: str


def holes(folders) -> list[Hole]:
    """holes.toml of folders of suites: [[hole]] with file (relative to the root of the sources), text, reason."""
    found = []
    for folder in folders:
        path = Path(folder) / "holes.toml"
        for body in tomllib.loads(path.read_text()).get("hole", []) if path.exists() else []:
            if set(body) != {"file", "text", "reason"}:
                raise UsageError(f"{path}: a [[hole]] has file, text and reason; found {sorted(body)}")
            for key, value in body.items():
                _typed(f"{path}: [[hole]]", key, value, str)
            found.append(Hole(**body))
    return found


def located(known: list[Hole], root: Path) -> dict:
    """Hole -> its lines, numbers from 1; none where the text is not in the file any more."""
    out = {}
    for hole in known:
        path = root / hole.file
        texts = path.read_text().splitlines() if path.is_file() else []
        out[hole] = [n for n, text in enumerate(texts, 1) if text.strip() == hole.text.strip()]
    return out


def _ratio(reached: int, total: int) -> dict:
    return {"reached": reached, "total": total, "percent": round(100.0 * reached / total, 2) if total else None}


def _numbers(items: set, everything: set) -> dict:
    """By kind. A cover counts once, whatever its instances."""
    some, every = Counter(i[0] for i in items), Counter(i[0] for i in everything)
    out = {kind: _ratio(some[kind], every[kind]) for kind in KINDS if kind != "cover"}
    names = covers(everything)
    return {**out, "cover": _ratio(len(covers(items) & names), len(names))}


def _by_file(reached: Reached) -> dict:
    every, some = {}, {}
    for into, items in ((every, reached.all), (some, reached.items)):
        for item in items:
            if item[0] != "cover":
                into.setdefault(item[1], set()).add(item)
    return {
        file: {k: v for k, v in _numbers(some.get(file, set()), items).items() if k != "cover"}
        for file, items in sorted(every.items())
    }


def _layers(reached: Reached) -> dict:
    """Each model's layers: their covers, and those that no other layer reaches."""
    names = {label: covers(items) for label, items in reached.by_label.items()}
    times = Counter(name for some in names.values() for name in some)
    lines = len(of_kind(reached.all, "line"))
    return {
        label: {
            "line": _ratio(len(of_kind(items, "line")), lines),
            "covers": sorted(names[label]),
            "only_here": sorted(name for name in names[label] if times[name] == 1),
        }
        for label, items in reached.by_label.items()
    }


def _testpoints(points: list, reached: Reached) -> list[dict]:
    found = covers(reached.items)
    out = []
    for point in points:
        if point.covers:
            missing = sorted(set(point.covers) - found)
            out.append(
                {"name": point.name, **_ratio(len(point.covers) - len(missing), len(point.covers)), "missing": missing}
            )
    return out


def summary(reached: Reached, points: list, known: list[Hole], root: Path) -> dict:
    """All of it, ready for JSON."""
    lines, got = of_kind(reached.all, "line"), of_kind(reached.items, "line")
    justified, stale = set(), []
    for hole, numbers in located(known, root).items():
        here = {("line", hole.file, n) for n in numbers} & lines
        if not here or here & got:
            stale.append({**asdict(hole), "why": "it is reached" if here else "there is no such line to reach"})
        justified |= here - got
    left = sorted((i[1], i[2]) for i in lines - got - justified)
    models = set().union(*reached.by_label.values()) if reached.by_label else set()
    tested = _testpoints(points, reached)
    return {
        "total": _numbers(reached.items, reached.all),
        "line_with_holes": _ratio(len(got | justified), len(lines)),
        "testpoints": tested,
        "testpoints_reached": _ratio(sum(not t["missing"] for t in tested), len(tested)),
        "suites": {name: _numbers(items, reached.all) for name, items in sorted(reached.by_suite.items())},
        "files": _by_file(reached),
        "layers": _layers(reached),
        "covers_missing": sorted(covers(reached.all) - covers(reached.items)),
        "covers_of_no_model": sorted(covers(reached.all) - covers(models)) if models else [],
        "lines_of_no_model": sorted([i[1], i[2]] for i in got - models) if models else [],
        "lines_missing": [list(place) for place in left],
        "stale_holes": stale,
        "holes": len(known),
        "problems": reached.problems,
    }


def of_run(run, records: list[dict], points: list, folders, root: Path) -> dict | None:
    """None where no case left coverage. Written to the run's folder too."""
    reached = Reached()
    for record in records:
        folder = run.path / Path(record["log"]).parent
        reached.add(record["suite"], record["name"], folder, _labels(folder))
    if not reached.all and not reached.problems:
        return None
    value = summary(reached, points, holes(folders), root)
    write_whole(run.path / FILE, json.dumps(value, indent=1) + "\n")
    return value


def _labels(folder: Path) -> list:
    try:
        told = json.loads((folder / "result.json").read_text())
        return [(str(name), int(count)) for name, count in told.get("labels", [])]
    except (OSError, ValueError, TypeError, AttributeError):
        return []


def _shown(ratio: dict) -> str:
    return "" if ratio["percent"] is None else f"{ratio['percent']:.1f} %"


def show(console: Console, value: dict) -> None:
    table = Table(title="Coverage", title_justify="left")
    table.add_column("of", overflow="fold")
    for name in KINDS:
        table.add_column(name, justify="right", no_wrap=True)
    rows = [*value["suites"].items(), ("all suites", value["total"])]
    for name, numbers in rows:
        table.add_row(name, *(_shown(numbers[kind]) for kind in KINDS))
    console.print(table)
    line, points = value["line_with_holes"], value["testpoints_reached"]
    text = f"lines {line['reached']} of {line['total']} ({_shown(line)}), {value['holes']} justified holes"
    if points["total"]:
        text += f"; testpoints {points['reached']} of {points['total']} ({_shown(points)})"
    console.print(text, highlight=False)
    layers = value["layers"]
    if layers:
        alone = {label: row["only_here"] for label, row in layers.items() if row["only_here"]}
        text = f"{len(layers)} layers; {len(value['covers_of_no_model'])} covers that no model reaches"
        console.print(f"{text}; covers that one layer alone reaches:" if alone else text, highlight=False)
        for label, names in list(alone.items())[:MOST_ROWS]:
            console.print(f"  {label}: {', '.join(names)}", highlight=False, soft_wrap=True, markup=False)
    for name in value["covers_missing"][:MOST_ROWS]:
        console.print(f"  not reached: {name}", highlight=False)
    for hole in value["stale_holes"]:
        console.print(f"hole {hole['file']}: {hole['text']}: {hole['why']}: take it out", highlight=False, markup=False)
    for problem in value["problems"]:
        console.print(f"coverage: {problem}", highlight=False, soft_wrap=True, markup=False)
