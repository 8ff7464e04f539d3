# SPDX-License-Identifier: Apache-2.0
"""Earlier runs: how long cases took (for the order and the time left), and how they ended (for the report)."""

from pathlib import Path

from .errors import BAD, UsageError
from .records import Run, runs

MOST_RUNS = 20


def load(folder: Path, without: str = "", most: int = MOST_RUNS) -> list[Run]:
    """The last runs that can be read, oldest first."""
    found = []
    for path in runs(folder)[-most - 1 :]:
        if path.name != without:
            try:
                found.append(Run.load(path))
            except UsageError:
                continue
    return found[-most:]


def durations(earlier: list[Run]) -> dict[str, float]:
    """Job's key -> seconds, as it took last."""
    return {r["key"]: r["seconds"] for run in earlier for r in run.records() if r["status"] != "skipped"}


def point(run: Run, records: list[dict]) -> dict:
    """A run as one point of the history."""
    counted = [r for r in records if r["status"] != "skipped"]
    return {
        "run": run.name,
        "started": run.plan.get("started"),
        "commit": run.plan.get("versions", {}).get("commit", ""),
        "passed": sum(r["status"] == "passed" for r in counted),
        "total": len(counted),
        "cycles": sum(r.get("cycles") or 0 for r in counted),
        "bad": {r["key"]: r["status"] for r in counted if r["status"] in BAD},
        "ran": [r["key"] for r in counted],
    }
