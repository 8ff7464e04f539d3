# SPDX-License-Identifier: Apache-2.0
"""Which failures of a run are looked into."""

from pathlib import Path

from .examine import apply, examine
from .recapture import wanted
from .results import buckets
from .traced import Simulators

MOST = 8  # signatures that are examined


def examine_all(run, records: list[dict], simulators: Simulators, tell) -> list[dict]:
    """Of each signature the first failure that can be examined; the records that changed."""
    jobs, changed = {job.key: job for job in run.jobs()}, []
    for some in list(buckets(records).values())[:MOST]:
        record = some[0]
        job = jobs[record["key"]]
        if record["status"] not in ("failed", "hung", "cycles") or record.get("examined") is not None:
            continue
        if job.kind not in ("layers", "bundle") and not record["bundles"] and not wanted(record):
            continue
        tell(f"looking into {record['key']}: {record['message'][:120]}")
        told = apply(record, examine(job, record, run.path, simulators), run.path)
        for other in some:  # what has the same signature is held to be the same
            shared = {name: told[name] for name in ("unit", "command", "signature") if name in told}
            changed.append(told if other is record else {**other, **shared})
    return changed


def examined(run, given: str | None, runs: Path, interrupted: bool, console) -> list[dict]:
    """The run's records, those of failures with what their bundles tell. given: --good."""
    found, known = run.records(), Simulators(runs, given, console)
    passed = {record["key"] for record in found if record["status"] == "passed"}
    try:
        if not interrupted:
            for record in examine_all(run, found, known, lambda text: console.print(text, style="dim", markup=False)):
                run.append(record)
    except KeyboardInterrupt:
        console.print("interrupted: the other failures are not looked into", highlight=False)
    known.keep([job for job in run.jobs() if job.key in passed])  # behind it: not what it is compared with
    return run.records()
