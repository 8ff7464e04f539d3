# SPDX-License-Identifier: Apache-2.0
"""Cycles against a baseline, tolerance 0: what changed, and the stall cause of each change.

A baseline is the reviewed file baseline.json beside a suite, or the records of another run:
{cycles_key: {"seed": S, "launches": {label: [cycles, {engine: {cause: cycles}}]}}}, causes of 0 left out.
"""

import json
import time
from pathlib import Path

from .exit_codes import UsageError
from .run_list import Job
from .records import PLAN, Run, find, write_whole
from .versions import git

FILE = "baseline.json"
NOTICE = (
    "SPDX-License-Identifier: Apache-2.0. Cycles of regressions; reviewed, written by presil regress --accept-cycles"
)


def compact(launches: dict) -> dict:
    """label -> {"cycles", "stalls"} as a baseline has it."""
    out = {}
    for label, launch in launches.items():
        stalls = {e: {c: n for c, n in causes.items() if n} for e, causes in launch.get("stalls", {}).items()}
        out[label] = [launch["cycles"], {e: causes for e, causes in stalls.items() if causes}]
    return out


def cases_of(records: list[dict]) -> dict:
    found = {}
    for record in records:
        if record.get("launches") and record["status"] in ("passed", "cycles"):
            found[record["cycles_key"]] = {"seed": record["seed"], "launches": compact(record["launches"])}
    return found


def read(path: Path) -> dict:
    try:
        return json.loads(path.read_text())["cases"]
    except FileNotFoundError:
        return {}
    except (OSError, ValueError, KeyError) as error:
        raise UsageError(f"{path} is not a baseline of cycles: {error!r}") from error


class Baselines:
    """--against: nothing (each suite's own baseline.json), none, a file, or a run by its name or path."""

    def __init__(self, against: str | None, folder: Path):
        self.fixed, self.files, self.name = None, {}, against or FILE
        self.again = against or ""  # as --against, from anywhere
        if against == "none":
            self.fixed = {}
        elif against and Path(against).is_file():
            self.fixed, self.again = read(Path(against)), str(Path(against).resolve())
        elif against and (against.endswith(".json") or "/" in against) and not (Path(against) / PLAN).exists():
            raise UsageError(f"--against {against}: there is neither such a file nor a run in it")
        elif against:
            run = find(folder, against)
            self.fixed, self.name, self.again = cases_of(run.records()), run.name, str(run.path)

    def of(self, job: Job) -> dict | None:
        """Launches that are to be compared with; None where the baseline has none of this case and seed."""
        cases = self.fixed
        if cases is None:
            cases = self.files.setdefault(job.folder, None)
            if cases is None:
                cases = self.files[job.folder] = read(Path(job.folder) / FILE)
        entry = cases.get(job.cycles_key)
        return entry["launches"] if entry and entry["seed"] == job.seed else None


def _causes(old: dict, new: dict) -> list[dict]:
    """What moved between two {engine: {cause: cycles}}, the largest first."""
    moved = []
    for engine in {**old, **new}:
        a, b = old.get(engine, {}), new.get(engine, {})
        for cause in {**a, **b}:
            if a.get(cause, 0) != b.get(cause, 0):
                moved.append({"engine": engine, "cause": cause, "before": a.get(cause, 0), "after": b.get(cause, 0)})
    return sorted(moved, key=lambda m: -abs(m["after"] - m["before"]))


def changes(old: dict, new: dict) -> list[dict]:
    """Of launches in a baseline's form: those that are gone, new, slower, faster, or as long with other causes."""
    found = []
    for label in {**old, **new}:
        before, after = old.get(label), new.get(label)
        if before == after:
            continue
        entry = {"launch": label, "before": before and before[0], "after": after and after[0]}
        entry["causes"] = _causes(before[1] if before else {}, after[1] if after else {}) if before and after else []
        found.append(entry)
    return sorted(found, key=lambda c: -abs((c["after"] or 0) - (c["before"] or 0)))


def describe(change: dict) -> str:
    if change["after"] is None:
        return f"{change['launch']}: no longer launched ({change['before']:,} cycles before)"
    if change["before"] is None:
        return f"{change['launch']}: new, {change['after']:,} cycles"
    why = "; ".join(
        f"{c['engine']} {c['cause']} {c['before']:,} -> {c['after']:,} ({c['after'] - c['before']:+,})"
        for c in change["causes"][:4]
    )
    delta = change["after"] - change["before"]
    return f"{change['launch']}: {change['before']:,} -> {change['after']:,} cycles ({delta:+,}): {why or 'no cause'}"


def accept(run: Run, reason: str) -> dict[Path, int]:
    """Writes what the run measured into the baselines of its suites, with the reason. File -> cases that changed."""
    if not reason.strip():
        raise UsageError("--accept-cycles: say why, such as --accept-cycles 'weights are prefetched'")
    if run.plan.get("mode") == "soak":
        raise UsageError(f"--accept-cycles: {run.name} had fresh seeds; a baseline needs those of --mode regression")
    folders = {job.cycles_key: job.folder for job in run.jobs()}
    by_folder = {}
    for key, entry in cases_of(run.records()).items():
        by_folder.setdefault(Path(folders[key]), {})[key] = entry
    if not by_folder:
        raise UsageError(
            f"--accept-cycles: no case of {run.name} passed and reported cycles of its launches ('launches' of its "
            "result; 'cycles' alone is shown, not compared)"
        )
    written = {}
    for folder, cases in by_folder.items():
        path = folder / FILE
        whole = json.loads(path.read_text()) if path.exists() else {"cases": {}, "reasons": []}
        changed = [key for key, entry in cases.items() if whole["cases"].get(key) != entry]
        if changed:
            when = time.strftime("%Y-%m-%d", time.gmtime())
            note = {
                "date": when,
                "reason": reason,
                "commit": git(folder, "rev-parse", "--short", "HEAD"),
                "cases": len(changed),
            }
            _write(path, {**whole["cases"], **cases}, [*whole["reasons"], note])
        written[path] = len(changed)
    return written


def _write(path: Path, cases: dict, reasons: list) -> None:
    """A line a launch, so that a change reads as one."""
    bodies = []
    for key in sorted(cases):
        rows = ",\n".join(f"    {json.dumps(k)}: {json.dumps(v)}" for k, v in cases[key]["launches"].items())
        bodies.append(f'  {json.dumps(key)}: {{"seed": {cases[key]["seed"]}, "launches": {{\n{rows}\n  }}}}')
    notes = ",\n".join(f"  {json.dumps(note)}" for note in reasons)
    text = (
        f'{{\n "_": {json.dumps(NOTICE)},\n "reasons": [\n{notes}\n ],\n "cases": {{\n'
        + ",\n".join(bodies)
        + "\n }\n}\n"
    )
    write_whole(path, text)
