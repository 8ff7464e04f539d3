# SPDX-License-Identifier: Apache-2.0
"""Earlier runs: how long cases took (for the order and the time left), and how they ended (for the report)."""

from pathlib import Path

from .exit_codes import BAD, UsageError
from .run_list import Job
from .records import Run, runs

MOST_RUNS = 20
LOAD_PYTORCH = ("cosim", "layers")  # kinds of case


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


def longest_first(jobs: list[Job], earlier: dict[str, float]) -> list[Job]:
    """In the order in which they are begun, so that none of the long ones runs alone at the end. One that never ran
    takes as long as the same case did on another chip or build; where that is unknown too it comes before all others,
    what loads PyTorch and a model first."""
    of_case = {}
    for key, seconds in earlier.items():
        name = key.partition("[")[0]
        of_case[name] = max(seconds, of_case.get(name, 0.0))

    def rank(job: Job) -> tuple:
        seconds = earlier.get(job.key, of_case.get(job.name))
        return (0, job.kind not in LOAD_PYTORCH) if seconds is None else (1, -seconds)

    return sorted(jobs, key=rank)


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
