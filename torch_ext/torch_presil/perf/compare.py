# SPDX-License-Identifier: Apache-2.0
"""Two documents of `presil perf`: what changed, layer by layer and cause by cause."""

import csv
import json
from pathlib import Path

from rich.console import Console
from rich.table import Table
from rich.text import Text

from torch_presil.perf.document import FORM, array_of

__all__ = ["changes", "load", "print_changes", "render", "write_csv"]

FACTS = ("model", "chip", "dtype", "mode", "batch", "input", "seed", "traced", "clock", "bus", "memory")
COUNTED = ("cycles", "macs", "read_bytes", "write_bytes", "launches")
SHOWN = 3  # causes in a line


COUNTS = {"cycles": int, "macs": int, "read_bytes": int, "write_bytes": int, "launches": int, "stalls": dict}
PARTS = {"layers": list, "total": dict, "names": dict, "problems": list, "launches": list, "chip": str}


def _wrong(row, wanted: dict) -> str | None:
    """What is missing of a part, or is of another kind."""
    if not isinstance(row, dict):
        return "an object"
    return next((name for name, kind in wanted.items() if not isinstance(row.get(name), kind)), None)


def _misses(found) -> str | None:
    """Where it has not the form of document.build."""
    if wrong := _wrong(found, PARTS):
        return wrong
    if wrong := _wrong(found["names"], {"engines": list, "causes": list}):
        return f"names.{wrong}"
    for where in ("engines", "causes"):
        if any(_wrong(row, {"name": str}) for row in found["names"][where]):
            return f"names.{where}[].name"
    rows = [("total", found["total"]), *((f"layers[{i}]", row) for i, row in enumerate(found["layers"]))]
    for where, row in rows:
        kinds = COUNTS if where == "total" else {"name": str, **COUNTS}
        if wrong := _wrong(row, kinds) or next((key for key in ("utilization", "bound") if key not in row), None):
            return f"{where}.{wrong}"
        for engine, causes in row["stalls"].items():
            if not isinstance(causes, dict) or not all(isinstance(n, int) for n in causes.values()):
                return f"{where}.stalls.{engine}"
    return None


def load(path: str) -> dict:
    """A document; ValueError says what else the file is."""
    try:
        found = json.loads(Path(path).read_text())
    except OSError as error:
        raise ValueError(f"{path} can't be read: {error.strerror}") from error
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{path} is no JSON: {error}") from error
    if not isinstance(found, dict) or "layers" not in found or "perf" not in found:
        raise ValueError(f"{path} is not of presil perf --json")
    if found["perf"] != FORM:
        raise ValueError(f"{path} has form {found['perf']}, this presil reads {FORM}: make it again")
    if missing := _misses(found):
        raise ValueError(f"{path} is not whole, or not of presil perf --json: {missing} is missing or wrong")
    if found["total"].get("estimated"):
        raise ValueError(f"{path} has estimates, which are compared with nothing: measure it with --unseen simulate")
    return found


def _keyed(rows: list) -> dict:
    """By name, and of equal names by their order."""
    out, seen = {}, {}
    for row in rows:
        number = seen[row["name"]] = seen.get(row["name"], 0) + 1
        out[row["name"], number] = row
    return out


def _causes(before: dict | None, after: dict | None) -> dict:
    """Engine -> cause -> cycles that came (or went); where both have the engine they add up to the change."""
    out = {}
    sides = [row["stalls"] if row else {} for row in (before, after)]
    for engine in dict.fromkeys([*sides[0], *sides[1]]):
        a, b = (side.get(engine, {}) for side in sides)
        found = {c: b.get(c, 0) - a.get(c, 0) for c in dict.fromkeys([*a, *b])}
        out[engine] = {c: n for c, n in found.items() if n}
    return {engine: causes for engine, causes in out.items() if causes}


def _pair(name: str, before: dict | None, after: dict | None) -> dict:
    row = {"name": name, "only": "second" if before is None else "first" if after is None else None}
    for key in (*COUNTED, "utilization", "bound"):
        row[key] = [before and before[key], after and after[key]]
    row["change"] = (after["cycles"] if after else 0) - (before["cycles"] if before else 0)
    row["causes"] = _causes(before, after)
    row["changed"] = bool(row["only"] or row["causes"] or any(row[key][0] != row[key][1] for key in COUNTED))
    return row


def _facts(a: dict, b: dict) -> dict:
    found = {key: [a.get(key), b.get(key)] for key in FACTS}
    properties = [x.get("properties", {}) for x in (a, b)]
    found |= {key: [p.get(key) for p in properties] for key in dict.fromkeys([*properties[0], *properties[1]])
              if key not in ("chip", "transport")}  # fmt: skip
    found["RTL"] = [x.get("rtl") or "not known" for x in (a, b)]
    return {key: pair for key, pair in found.items() if pair[0] != pair[1]}


def changes(a: dict, b: dict) -> dict:
    """{"facts", "total", "layers" (all, those with the greatest change first), "host", "problems", "array"}: pairs are
    [first, second]."""
    first, second = _keyed(a["layers"]), _keyed(b["layers"])
    keys = list(dict.fromkeys([*first, *second]))
    label = lambda key: key[0] if key[1] == 1 else f"{key[0]} ({key[1]})"
    rows = [_pair(label(key), first.get(key), second.get(key)) for key in keys]
    total = _pair("all", a["total"], b["total"])
    left = sum(row["change"] for row in rows) - total["change"]
    problems = [f"first: {text}" for text in a["problems"]] + [f"second: {text}" for text in b["problems"]]
    if left:
        problems.append(f"the layers' changes are {left:+,} cycles off the whole's")
    for key in ("seconds", "images_per_second", "images_per_second_with_host", "host_least_cycles", "bus_share"):
        total[key] = [x["total"].get(key) for x in (a, b)]
    return {
        "facts": _facts(a, b),
        "total": total,
        "layers": sorted(rows, key=lambda row: (-abs(row["change"]), not row["changed"])),
        "problems": problems,
        "array": array_of(b["names"]) or array_of(a["names"]),
        "names": {"causes": {c["name"]: c.get("meaning") for x in (a, b) for c in x["names"]["causes"]}},
    }


def why(row: dict, array: str | None) -> str:
    """In which causes of the array (or of the first engine) the change lies, the greatest first."""
    engine = array if array in row["causes"] else next(iter(row["causes"]), None)
    if row["only"]:
        return f"only in the {row['only']}"
    causes = sorted(row["causes"].get(engine, {}).items(), key=lambda item: -abs(item[1]))
    told = ", ".join(f"{cause.replace('_', ' ')} {n:+,}" for cause, n in causes[:SHOWN])
    return f"{engine}: {told}" if told else ""


def _text(value) -> str:
    return "–" if value is None else f"{value:,}" if isinstance(value, int) else str(value)


def print_changes(found: dict, names: tuple, console: Console) -> None:
    for key, (a, b) in found["facts"].items():
        known = key == "RTL" and "not known" not in (a, b)
        console.print(f"RTL differs: {a} / {b}" if known else f"{key}: {a} → {b}", highlight=False)
    rows = [row for row in found["layers"] if row["changed"]]
    table = Table(title=f"{names[0]} → {names[1]}", title_justify="left")
    table.add_column("layer", overflow="fold")
    for name in ("before", "after", "change", "%"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("cause of the change", overflow="fold")
    for row in [*rows, found["total"]]:
        if row is found["total"]:
            table.add_section()
        before, after = row["cycles"]
        part = f"{100 * row['change'] / before:+.2f}" if before else ""
        table.add_row(row["name"], _text(before), _text(after), f"{row['change']:+,}", part, why(row, found["array"]))
    console.print(table)
    console.print(f"{len(rows)} of {len(found['layers'])} layers changed", highlight=False)
    for text in found["problems"]:
        console.print(Text.assemble(("doesn't add up:", "bold red"), f" {text}"))


def render(found: dict, names: tuple) -> str:
    """One HTML file, as page.render."""
    from torch_presil.perf.page import filled

    rows = [{**row, "why": why(row, found["array"])} for row in found["layers"]]
    return filled("compare.html", "compare.js", {**found, "layers": rows, "files": list(names)})


def write_csv(found: dict, path: Path) -> None:
    """A line a layer, those with the greatest change first; the causes are the array's."""
    pairs = (*COUNTED, "utilization", "bound")
    sides = [f"{key}_{side}" for key in pairs for side in ("before", "after")]
    with open(path, "w", newline="") as f:
        out = csv.writer(f)
        out.writerow(["name", "only", "changed", "change", *sides, "why"])
        for row in found["layers"]:
            values = [value for key in pairs for value in row[key]]
            out.writerow([row["name"], row["only"], row["changed"], row["change"], *values, why(row, found["array"])])
