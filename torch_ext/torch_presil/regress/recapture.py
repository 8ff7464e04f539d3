# SPDX-License-Identifier: Apache-2.0
"""A case of which cycles alone changed has left no bundle: it runs once more, on the model where there is one, and
keeps its launches. Which of them takes other cycles, the last good simulator and the new one say."""

import json
import os
import subprocess
from pathlib import Path

from .baseline import describe
from .failing_launch import CHANGED, Unclear, replay
from .kinds import resolve
from .process import python_path
from .run_list import Job

CAPTURE, ONLY, GOOD = (f"PRESIL_REGRESS_{what}" for what in ("CAPTURE", "CAPTURE_LAUNCHES", "GOOD"))
ALL = "launches.presil"
MOST = 8  # changed launches that are kept, the shortest: a network may have hundreds


def wanted(record: dict) -> bool:
    """Whether that is so, and the case can."""
    return record["status"] == "cycles" and bool(record.get("captures")) and not record["bundles"]


def _changed(record: dict, known: bool = False) -> list[str]:
    """What the baseline calls them, the shortest first. known: without those of which it has nothing."""
    there = [c for c in record["changes"] if c["after"] is not None and (c["before"] is not None or not known)]
    there.sort(key=lambda change: change["before"] or change["after"])
    return list(dict.fromkeys(change["launch"].partition("#")[0] for change in there))[:MOST]


def _is(name: str, label: str) -> bool:
    """A launch has the end of a long name."""
    return name == label or (len(label) >= 60 and name.endswith(label))


def _captured(job: Job, record: dict, folder: Path, good: Path | None) -> Path:
    bundle, again = folder / "changed.presil", folder / "again"
    again.mkdir(exist_ok=True)
    command = resolve(job, again)
    told = {CAPTURE: str(bundle), ONLY: "\n".join(_changed(record)), GOOD: str(good.resolve()) if good else ""}
    environment, log = {**os.environ, **python_path(), **command.environment, **told}, again / "log"
    with log.open("w") as output:
        where = {"cwd": command.directory, "env": environment, "stdin": subprocess.DEVNULL}
        try:
            subprocess.run(command.argv, stdout=output, stderr=output, timeout=job.timeout_seconds or None, **where)
        except subprocess.TimeoutExpired as error:
            raise Unclear(f"to keep its launches it took more than {job.timeout_seconds:g} s") from error
    if not bundle.is_file():
        raise Unclear(f"run again, it kept no launches ({log})")
    return bundle


def _marked(now: list[dict], good: list[dict] | None, names: list) -> list[dict]:
    """The launches as they are now; those that took other cycles, or spent them otherwise, have that outcome. good:
    on the last good simulator; None: there is none, and the names tell."""
    rows = []
    for number, row in enumerate(now):
        before = good[number] if good and number < len(good) else None
        other = before and any(before[what] != row[what] for what in ("cycles", "stalls"))
        named = good is None and any(_is(name, row["label"]) for name in names)
        if row["outcome"] == "pass" and (other or named):
            row = {**row, "outcome": "cycles changed", "recorded_cycles": before and before["cycles"]}
        rows.append(row)
    return rows


def recapture(job: Job, record: dict, run_path: Path, good: Path | None) -> tuple[dict, str]:
    """(the record with the bundle, beside which is told what each launch came to; what is to be said of it). The bundle
    has all that were kept where neither a good simulator nor the baseline tells which take other cycles. Raises
    Unclear."""
    folder = run_path / Path(record["log"]).parent
    bundle = _captured(job, record, folder, good)
    now = replay(job, bundle, folder / "now.json")["launches"]
    before = replay(job, bundle, folder / "before.json", good)["launches"] if good else None
    rows = _marked(now, before, _changed(record, known=True))
    for name in ("now.json", "before.json"):
        (folder / name).unlink(missing_ok=True)
    said, count = "", f"its {len(rows)} launches"
    if any(row["outcome"] != "pass" for row in rows):
        (folder / CHANGED).write_text(json.dumps({"launches": rows}) + "\n")
    elif good:
        raise Unclear(f"none of {count}, run again, takes other cycles than on the last good simulator")
    else:
        bundle = bundle.rename(folder / ALL)
        told = "; ".join(map(describe, record["changes"][:MOST]))
        said = f"the baseline tells of none of {count} in the bundle that it takes other cycles ({told})"
    return {**record, "bundles": [str(bundle.relative_to(run_path))], "changes": []}, said  # of launches, not of layers
