# SPDX-License-Identifier: Apache-2.0
"""The last good simulators, and which failures of a run are compared with them."""

import os
import shutil
from pathlib import Path

from .examine import apply, examine, trace_library
from .run_list import Job
from .results import buckets

MOST = 8  # signatures that are examined


class Good:
    """The last good simulators: --good, or those of the last run that passed, which are kept beside the runs."""

    def __init__(self, runs: Path, given: str | None):
        self.folder, self.given = runs / "good", Path(given) if given else None

    def of(self, chip: str) -> Path | None:
        path = self.given or self.folder / f"libpresil_sim_{chip}_trace.so"
        return path if path.is_file() else None

    def keep(self, jobs: list[Job]) -> None:
        """After a run in which everything passed."""
        for job in {job.chip: job for job in jobs if not job.library}.values():
            path = trace_library(job)
            if path:
                self.folder.mkdir(parents=True, exist_ok=True)
                temporary = self.folder / f".{path.name}-{os.getpid()}"
                shutil.copyfile(path, temporary)
                os.replace(temporary, self.folder / path.name)


def examine_all(run, records: list[dict], good: Good, tell) -> list[dict]:
    """Of each signature the first failure that can be examined; the records that changed."""
    jobs, changed = {job.key: job for job in run.jobs()}, []
    for some in list(buckets(records).values())[:MOST]:
        record = some[0]
        job = jobs[record["key"]]
        if record["status"] not in ("failed", "hung", "cycles") or record.get("examined") is not None:
            continue
        if job.kind not in ("layers", "bundle") and not record["bundles"]:
            continue
        tell(f"looking into {record['key']}: {record['message'][:120]}")
        told = apply(record, examine(job, record, run.path, good.of(job.chip)), run.path)
        for other in some:  # what has the same signature is held to be the same
            shared = {name: told[name] for name in ("unit", "command", "signature") if name in told}
            changed.append(told if other is record else {**other, **shared})
    return changed


def examined(run, given: str | None, runs: Path, interrupted: bool, console) -> list[dict]:
    """The run's records, those of failures with what their bundles tell. given: --good."""
    found, known = run.records(), Good(runs, given)
    whole = found and len(found) == len(run.plan["jobs"])
    if whole and not interrupted and all(record["status"] in ("passed", "skipped") for record in found):
        known.keep(run.jobs())
    if interrupted:
        return found
    try:
        for record in examine_all(run, found, known, lambda text: console.print(text, style="dim", markup=False)):
            run.append(record)
    except KeyboardInterrupt:
        console.print("interrupted: the other failures are not looked into", highlight=False)
    return run.records()
