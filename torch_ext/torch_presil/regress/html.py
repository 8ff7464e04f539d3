# SPDX-License-Identifier: Apache-2.0
"""A run as one HTML file that needs no network: report.html with the run's data in it."""

import json
import os
from pathlib import Path
from urllib.parse import quote

from . import testplan
from .exit_codes import BAD
from .history import load, point

TEMPLATE = Path(__file__).with_name("report.html")
FIELDS = (
    "key name cycles_key chip build seed status seconds cycles unit message signature compared changes log bundles "
    "waveforms pictures tags again evidence store_hits sampled"
).split()


def _prefix(run_folder: Path, html: Path) -> str:
    """From the report to the run's folder, as a link; "" beside it."""
    relative = os.path.relpath(run_folder.resolve(), html.resolve().parent)
    return "" if relative == "." else quote(relative) + "/"


def data(run, records: list[dict], points: list, code: int, html: Path, against: str, coverage=None) -> dict:
    versions = run.plan.get("versions", {})
    counts = {}
    for record in records:
        counts[record["status"]] = counts.get(record["status"], 0) + 1
    left = len(run.plan["jobs"]) - len(records)
    facts = {"started": run.plan.get("started"), "mode": run.plan.get("mode"), "seed": run.plan.get("seed")}
    facts |= {name: value for name, value in versions.items() if value} | {"exit code": code}
    facts |= {"not run": left} if left else {}
    tested = []
    for result in testplan.results(points, records):
        shown = {key: getattr(result["point"], key) for key in ("name", "stage", "goal", "stimulus", "check")}
        tested.append({**shown, **{key: result[key] for key in ("passed", "total", "status")}})
    own = point(run, records)
    return {
        "run": run.name,
        "suites": run.plan.get("suites", []),
        "facts": ", ".join(f"{name} {value}" for name, value in facts.items()),
        "counts": counts,
        "passed": own["passed"],
        "total": own["total"],
        "against": against,
        "bad": BAD,
        "prefix": _prefix(run.path, html),
        "records": [{name: r[name] for name in FIELDS if name in r} for r in records],
        "testpoints": tested,
        "coverage": coverage,
        "history": [point(r, r.records()) for r in load(run.path.parent, run.name)] + [own],
    }


def render(value: dict) -> str:
    # In a script element nothing but "</" and "<!--" ends or changes the text.
    text = json.dumps(value, ensure_ascii=False).replace("<", "\\u003c").replace("\u2028", "\\u2028")
    return TEMPLATE.read_text().replace("@DATA@", text)
