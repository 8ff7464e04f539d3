# SPDX-License-Identifier: Apache-2.0
"""The launch that made a case fail, alone in a bundle, and what presil-replay says of it."""

import json
import os
import subprocess
from dataclasses import replace
from pathlib import Path

from .run_list import Job
from .kinds import arguments_of, find_program, replay_words

SECONDS = 120  # for one replay
LEAST_CYCLES = 500_000  # of a replay of a launch that hung: the watchdog needs 200,000, and a search has ten replays
CHANGED = "changed.json"  # of a case that was run again to keep its launches (recapture.py): what each came to


class Unclear(Exception):
    """No more can be said; the text says why."""


def _run(words: list, seconds: float = SECONDS) -> subprocess.CompletedProcess:
    environment = {k: v for k, v in os.environ.items() if k != "PRESIL_MEMORY_MODEL"}
    try:
        return subprocess.run(
            list(map(str, words)), capture_output=True, text=True, errors="replace", timeout=seconds, env=environment
        )
    except subprocess.TimeoutExpired as error:
        raise Unclear(f"{Path(words[0]).name} was not done after {seconds:g} s") from error


# ---- which launch ----


def _rows(folder: Path) -> list[dict]:
    """The launches that presil-replay told of, as it wrote them."""
    changed = folder / CHANGED
    try:
        told = json.loads((changed if changed.is_file() else folder / "result.json").read_text())
        return [row for row in told["launches"] if isinstance(row, dict)]
    except (OSError, ValueError, KeyError, TypeError):
        return []


def _changed(record: dict) -> set:
    return {change["launch"].partition("#")[0] for change in record["changes"]}


def _failing(record: dict, folder: Path) -> list[dict]:
    changed = _changed(record)
    return [r for r in _rows(folder) if r.get("outcome") not in (None, "pass") or r.get("label") in changed]


def choice(record: dict, folder: Path) -> str:
    """Which of several failing launches is looked at, as the report has it; empty where there is one."""
    bad, number = _failing(record, folder), chosen_launch(record, folder)
    if len(bad) < 2:
        return ""
    return f"looked at in {_label(folder, number)}, the shortest of {len(bad)} launches that are not as they should be"


def chosen_launch(record: dict, folder: Path) -> int | None:
    """Of the launches that are not as they should be the shortest; None: the bundle itself knows."""
    rows, bad = _rows(folder), _failing(record, folder)
    if not bad:
        return None
    # What it took before is more to be believed than what it says now.
    lengths = {change["launch"]: change["before"] for change in record["changes"] if change["before"]}
    taken = {row["launch"]: lengths.get(row.get("label")) or row.get("cycles") or 0 for row in rows}
    hung = {row["launch"] for row in rows if row.get("outcome") == "hung"}
    return min((r["launch"] for r in bad), key=lambda n: (n in hung, taken[n] + taken.get(n - 1, 0)))


def _source(job: Job, record: dict, run_path: Path) -> Path:
    """The bundle that was replayed, or that the failing launch left."""
    if job.kind in ("layers", "bundle"):
        from . import made

        name = made.path_of(job, run_path.parent) if job.kind == "layers" else Path(job.folder) / job.parameters["file"]
        return Path(name)
    left = [run_path / path for path in record["bundles"]]
    if not left:
        raise Unclear("it left no bundle")
    return left[0]


def _extract(source: Path, launches: str, to: Path) -> Path:
    program = find_program("presil-bundle")
    if program is None:
        raise Unclear("presil-bundle is not built")
    done = _run([program, "extract", source, "--launches", launches, "--out", to, "--overwrite"])
    if done.returncode:
        raise Unclear(done.stderr.strip())
    return to


def _launches(bundle: Path) -> list[dict]:
    program = find_program("presil-bundle")
    if program is None:
        raise Unclear("presil-bundle is not built")
    done = _run([program, "info", bundle, "--json"])
    try:
        return json.loads(done.stdout)["launches"]
    except (ValueError, KeyError) as error:
        raise Unclear(done.stderr.strip() or f"{bundle}: presil-bundle does not say what is in it") from error


def limited(job: Job, record: dict, run_path: Path) -> Job:
    """What moves something on the bus for ever runs in each replay until it may take no more cycles. Here that is not
    what the suite grants a whole case: it follows from what the launch took before, or should take by the chip's own
    estimate, which a slow memory exceeds."""
    if record["status"] != "hung":
        return job
    source, number = _source(job, record, run_path), chosen_launch(record, run_path / Path(record["log"]).parent)
    launch = _launches(source)[number or 0]
    before = (record.get("before") or {}).get(launch["label"])
    most = max(LEAST_CYCLES, 2 * before if before else 16 * launch["estimate"])
    return replace(job, timeout_cycles=min(most, job.timeout_cycles or most))


def keep_launch(job: Job, record: dict, run_path: Path) -> tuple[Path, int]:
    """(bundle in the run's folder with the failing launch, launches in it). If the launch is in order alone, that with
    the one before it: something was left over from there."""
    folder = run_path / Path(record["log"]).parent
    source, number = _source(job, record, run_path), chosen_launch(record, folder)
    if number is None:
        return source, 1 if job.kind in ("layers", "bundle") else len(_launches(source))
    stem = "".join(c if c.isalnum() or c in "-_." else "_" for c in _label(folder, number))
    alone = _extract(source, str(number), folder / f"{stem}.presil")
    told = replay(job, alone, folder / "alone.json")
    same = _same_as_before(record, folder, number, told)
    if number and not same:
        alone.unlink()
        return _extract(source, f"{number - 1}:{number + 1}", folder / f"{stem}.presil"), 2
    return alone, 1


def _label(folder: Path, number: int) -> str:
    return next((row["label"] for row in _rows(folder) if row["launch"] == number), "") or f"launch-{number}"


def _same_as_before(record: dict, folder: Path, number: int, told: dict) -> bool:
    before = next(row for row in _rows(folder) if row["launch"] == number)
    now = told["launches"][0]
    if before["outcome"] not in ("pass", "cycles changed"):
        return now["outcome"] == before["outcome"]
    return now["cycles"] == before["cycles"] and now.get("stalls") == before.get("stalls")


def arguments(job: Job) -> list[str]:
    """Those of presil-replay that a case has, but for its choice of launches: here it is made already."""
    words = arguments_of(job, Path())
    if "--launches" in words:
        at = words.index("--launches")
        del words[at : at + 2]
    return words


def replay(job: Job, bundle: Path, result: Path, library: Path | None = None, *more) -> dict:
    """presil-replay's JSON; library: instead of the job's."""
    words = replay_words(job, bundle, result)
    if library:
        at = words.index("--library") if "--library" in words else words.index("--build")
        words[at : at + 2] = ["--library", str(library)]
    result.unlink(missing_ok=True)
    done = _run([*words, *arguments(job), *more])
    try:
        return json.loads(result.read_text(errors="replace"))
    except (OSError, ValueError) as error:
        raise Unclear(done.stderr.strip() or f"presil-replay ended with status {done.returncode}") from error
