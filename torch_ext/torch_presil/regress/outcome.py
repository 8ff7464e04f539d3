# SPDX-License-Identifier: Apache-2.0
"""From a process that has ended to a record."""

import json
from dataclasses import dataclass
from pathlib import Path

from . import baseline, exit_codes
from .run_list import Job
from .signatures import first_wrong_line, signature
from .versions import library_hash

FULL = ("No space left on device", "ENOSPC", "Disk quota exceeded", "Cannot allocate memory")
KEPT = (
    "cycles",
    "clock_mhz",
    "checks",
    "unit",
    "message",
    "launches",
    "bundles",
    "pictures",
    "captures",
    "evidence",
    "coverage",
    "store_hits",
    "sampled",
)


@dataclass
class Ended:
    """How a job's process ended. wall: ended by the runner, after timeout_seconds; lost: why the farm has no result
    of it."""

    job: Job
    folder: Path
    log: Path
    started: float
    seconds: float
    returncode: int | None
    wall: bool = False
    reason: str = ""  # why it was never started (skipped, unusable)
    lost: str = ""
    differs: str = ""  # how what it measured differs from what the timing store has
    host: str = ""  # of a farm, where it ran


def told_by(folder: Path) -> dict:
    """What the case wrote as its result; {} if nothing that can be read."""
    try:
        told = json.loads((folder / "result.json").read_text())
    except (OSError, ValueError):
        return {}
    if not isinstance(told, dict):
        return {}
    if isinstance(told.get("launches"), list):
        told = {**_of_replay([row for row in told["launches"] if isinstance(row, dict)]), **told}
    told["launches"] = _launches(told.get("launches"))
    if not isinstance(told.get("cycles"), int):
        told["cycles"] = sum(launch["cycles"] for launch in told["launches"].values()) or None
    return told


def _of_replay(rows: list[dict]) -> dict:
    """checks, unit and message out of the launches of presil-replay --json: of the first of the gravest, as its exit
    status is of. Of several that hang only the first is told of: those behind it may be its doing."""
    if not any("compared_bytes" in row for row in rows):
        return {}
    told = {"checks": sum(row.get("compared_bytes") or 0 for row in rows)}
    bad = [row for row in rows if row.get("outcome") not in (None, "pass")]
    for row in sorted(bad, key=lambda row: _gravity(row["outcome"]))[:1]:
        difference, text = row.get("difference"), row.get("error") or row.get("outcome")
        if isinstance(difference, dict):
            text = "{where}, at 0x{address:x}: found 0x{found:02x}, expected 0x{expected:02x}".format_map(difference)
        elif row.get("cycles") and row.get("recorded_cycles") and row["cycles"] != row["recorded_cycles"]:
            text = f"{row['recorded_cycles']:,} -> {row['cycles']:,} cycles"
        return {**told, "unit": row.get("module") or row.get("label"), "message": f"{row.get('label')}: {text}"}
    return told


def _gravity(outcome: str) -> int:
    """0: the gravest, as presil-replay has them."""
    order = ("mismatch", "hung", "cycles changed")
    return order.index(outcome) + 1 if outcome in order else 0


def _launches(given) -> dict:
    """label -> {"cycles", "stalls"}, also from a list of objects with a label; one that comes again gets a number."""
    rows = (
        given.items() if isinstance(given, dict) else [(r.get("label"), r) for r in given or [] if isinstance(r, dict)]
    )
    out = {}
    for number, (label, row) in enumerate(rows):
        if not isinstance(row, dict) or not isinstance(row.get("cycles"), int):
            continue
        name = str(label or number)
        count, plain = 1, name
        while name in out:
            count += 1
            name = f"{plain}#{count}"
        stalls = row.get("stalls")
        out[name] = {"cycles": row["cycles"], "stalls": stalls if isinstance(stalls, dict) else {}}
    return out


def _status(ended: Ended, told: dict) -> tuple[str, str]:
    """(status, text)."""
    job = ended.job
    if ended.lost:
        return "infrastructure", ended.lost
    if ended.differs:
        return "failed", ended.differs
    if ended.wall:
        return "infrastructure", f"wall clock: not done after {job.timeout_seconds:g} s (timeout_seconds)"
    verdict = exit_codes.verdict(ended.returncode)
    text = verdict.text or str(told.get("message") or "")
    if verdict.status in ("failed", "error", "crashed") and _disk_full(ended, text):
        return "infrastructure", _disk_full(ended, text)
    cycles = told.get("cycles")
    if verdict.status == "passed" and job.timeout_cycles and cycles and cycles > job.timeout_cycles:
        return "hung", f"time-out: {cycles:,} simulated cycles, timeout_cycles = {job.timeout_cycles:,}"
    if verdict.status == "passed" and told.get("checks") == 0:
        return "failed", "it compared nothing (checks = 0)"
    return verdict.status, text


def _disk_full(ended: Ended, text: str) -> str:
    line, _ = first_wrong_line(ended.log)
    for words in FULL:
        if words in text or words in line:
            return f"out of disk or memory: {text or line}"
    return ""


def record(ended: Ended, run_folder: Path, versions: dict, known: baseline.Baselines) -> dict:
    job, told = ended.job, told_by(ended.folder)
    if ended.returncode is None and not ended.wall and not ended.lost:
        status, message, line = ("skipped" if ended.reason.startswith("needs") else "unusable"), ended.reason, None
        if "is not built" in ended.reason:
            status = "skipped"
    else:
        status, message = _status(ended, told)
        line = None
        if status not in ("passed", "cycles"):
            found, line = first_wrong_line(ended.log)
            message = message if status == "infrastructure" or told.get("message") else _joined(message, found)
    changes, compared = _compare(job, status, told, known)
    if changes:
        status = "cycles"
        message = baseline.describe(changes[0])
    library = library_hash(job.chip, job.build, job.library)
    out = {
        **{name: getattr(job, name) for name in ("key", "cycles_key", "name", "suite", "case_name", "kind", "chip")},
        **{name: getattr(job, name) for name in ("build", "memory", "stress", "index", "seed", "tags", "testpoints")},
        "status": status,
        "returncode": ended.returncode,
        "started": round(ended.started, 3),
        "seconds": round(ended.seconds, 3),
        **{name: told[name] for name in KEPT if told.get(name) is not None},
        **({"host": ended.host} if ended.host else {}),
        "message": message,
        "line": line,
        "signature": signature(status, str(told.get("unit") or ""), message) if status in exit_codes.BAD else "",
        "compared": compared,
        "changes": changes,
        **({"before": _before(job, known)} if status == "hung" else {}),
        "log": str(ended.log.relative_to(run_folder)),
        "bundles": _bundles(ended.folder, run_folder, told),
        "library": library,
        "again": job.again({**versions, "library": library}, known.again),
    }
    return out


def _joined(text: str, found: str) -> str:
    return f"{text}; {found}" if text and found and text not in found else found or text


def _compare(job: Job, status: str, told: dict, known: baseline.Baselines) -> tuple[list, bool]:
    if status not in ("passed", "cycles") or not told.get("launches"):
        return [], False
    old = known.of(job)
    return (baseline.changes(old, baseline.compact(told["launches"])), True) if old is not None else ([], False)


def _before(job: Job, known: baseline.Baselines) -> dict:
    """What its launches took, as far as they are known."""
    return {label: launch[0] for label, launch in (known.of(job) or {}).items()}


def _bundles(folder: Path, run_folder: Path, told: dict) -> list[str]:
    """Links, relative to the run's folder where they are inside it."""
    found = [Path(folder, path) for path in told.get("bundles") or [] if isinstance(path, str)]
    found += sorted(folder.rglob("*.presil"))
    out = []
    for path in found:
        path = path.resolve()
        inside = path.is_relative_to(run_folder.resolve())
        text = str(path.relative_to(run_folder.resolve()) if inside else path)
        if path.exists() and text not in out:
            out.append(text)
    return out
