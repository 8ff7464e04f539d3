#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Plants each fault of faults.toml in rtl/ and tells which case of `presil regress` suites finds it.

usage: kills.py [SUITE...] [--chip tiny,odd] [--only REGEX] [--sample N] [-j N] [--json FILE] [--least PERCENT]
                [--table] [--fresh]
       Runs what `presil regress SUITE...` (smoke ops) runs, of one fault after the other, until a case does not pass;
       the cases that have found most come first. What has been run is kept, so that a run goes on where the last one
       was ended, and a case that is new in a suite is asked about survivors alone; an edit of rtl/, sim/, driver/,
       torch_ext/ or of the tests that look at the chip begins anew. Exit status 1 if fewer than --least
       percent are found, or a fault that is said to be equivalent is.
"""

import argparse
import collections
import hashlib
import json
import os
import re
import shutil
import statistics
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent), str(HERE)]
import sheets  # noqa: E402
from bench import built  # noqa: E402
from torch_presil.regress.baseline import Baselines  # noqa: E402
from torch_presil.regress.run_list import Choice, Job, expand  # noqa: E402
from torch_presil.regress.records import Run  # noqa: E402
from torch_presil.regress.here import Here  # noqa: E402
from torch_presil.regress.runner import Runner  # noqa: E402
from torch_presil.regress.suite import Loader, search_path  # noqa: E402

SOUND = sheets.Fault(0, "", "none", "", "")
SECONDS = 600  # wall clock for one case; what it ends has told nothing
CHIPS, BUILDS = ("tiny", "odd", "base", "wide"), ("fast", "check")
KINDS = ("programs", "command", "sweep")  # those that find most in a second first
FOUND = ("failed", "hung", "crashed", "error", "cycles")
# What decides beside the chip: a fault that an older test found is not one that today's finds.
CHECKS = ("driver", "tests/bench", "tests/bits", "tests/oracle", "tests/programs", "tests/regress", "torch_ext")


class Silent:
    """Events of a Runner that nobody looks at."""

    def started(self, running):
        pass

    def ended(self, record):
        pass

    def tick(self, runner):
        pass


@dataclass
class Book:
    """What has been run, on disk: a line a case and fault."""

    path: Path
    lines: dict = field(default_factory=dict)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def read(self) -> "Book":
        for text in self.path.read_text().splitlines() if self.path.exists() else []:
            try:
                line = json.loads(text)
                self.lines[line["digest"]] = line
            except (ValueError, KeyError):
                continue  # torn: that case is run again
        return self

    def add(self, line: dict) -> None:
        with self.lock:
            self.lines[line["digest"]] = line
            self.path.parent.mkdir(parents=True, exist_ok=True)
            with self.path.open("a") as file:
                file.write(json.dumps(line) + "\n")


@dataclass
class Outcome:
    """of a fault: the line of the case that found it, or None; the seconds of all cases until then."""

    fault: sheets.Fault
    line: dict | None
    seconds: float
    cases: int


def checks(root: Path = sheets.ROOT) -> str:
    """A hash of the tests that look at the chip, and of what they run on."""
    files = [p for folder in CHECKS for p in (root / folder).rglob("*") if p.suffix in (".c", ".cpp", ".h", ".py")]
    total = hashlib.sha256()
    for path in sorted(files):
        total.update(f"{path.relative_to(root)} {hashlib.sha256(path.read_bytes()).hexdigest()}\n".encode())
    return total.hexdigest()


def rank(job: Job) -> tuple:
    kind = KINDS.index(job.kind) if job.kind in KINDS else len(KINDS)
    return BUILDS.index(job.build), CHIPS.index(job.chip), kind, job.index


class Campaign:
    def __init__(self, jobs: list[Job], planted: list, book: Book, build: Path, checked_by: str):
        self.jobs, self.book, self.build, self.checked_by = sorted(jobs, key=rank), book, build, checked_by
        self.texts = {f.file: (sheets.ROOT / "rtl" / f.file).read_text() for f in planted}
        self.sheets = sheets.split(planted, self.texts)
        self.sheet_of = {f.number: n for n, sheet in enumerate(self.sheets) for f in sheet}
        self.kills = collections.Counter()
        self.making = threading.Lock()
        self.libraries = {}

    def library(self, number: int, chip: str, build: str) -> Path:
        with self.making:
            key = (number, chip, build)
            if key not in self.libraries:
                folder = self.build / (f"{chip}{number}" if build == "fast" else f"{chip}{number}-{build}")
                self.libraries[key] = sheets.build(self.sheets[number], self.texts, chip, folder, build)
            return self.libraries[key]

    def run(self, job: Job, fault, number: int) -> dict:
        """One case with a fault of a sheet, or SOUND; from the book if it stands there."""
        library = self.library(number, job.chip, job.build)
        case = json.dumps([job.as_dict(), fault.number], sort_keys=True)
        digest = hashlib.sha256((library_stamp(library) + self.checked_by + case).encode()).hexdigest()
        if digest in self.book.lines:
            return self.book.lines[digest]
        planted = replace(job, library=str(library), env={**job.env, "PRESIL_MUTANT": str(fault.number)})
        planted.timeout_seconds = min(job.timeout_seconds, SECONDS)
        place = self.build / "runs" / f"{fault.number}-{os.getpid()}-{threading.get_ident()}"
        shutil.rmtree(place, ignore_errors=True)
        place.mkdir(parents=True)
        runner = Runner(Run(place), [planted], Here(1), Baselines(None, place), Silent())
        runner.go()
        (record,) = runner.records
        shutil.rmtree(place, ignore_errors=True)
        line = {"digest": digest, "fault": fault.number, "sheet": number, "key": job.key, "case": job.name}
        line |= {name: record[name] for name in ("status", "seconds", "message")}
        self.book.add(line)
        return line

    def sound(self, job: Job, number: int) -> None:
        """The chip without a fault passes, else the case would find everything."""
        line = self.run(job, SOUND, number)
        if line["status"] != "passed":
            raise SystemExit(f"{job.key}: the sound chip of sheet {number}: {line['status']}: {line['message']}")

    def order(self, fault) -> list[Job]:
        mine = [job for job in self.jobs if not fault.check or job.build == "check"]
        return sorted(mine, key=lambda job: (-self.kills[job.key], rank(job)))

    def find(self, fault) -> Outcome:
        number, seconds = self.sheet_of[fault.number], 0.0
        left = self.order(fault)
        for count, job in enumerate(left, 1):
            line = self.run(job, fault, number)
            seconds += line["seconds"]
            if line["status"] in FOUND:
                self.sound(job, number)
                self.kills[job.key] += 1
                return Outcome(fault, line, seconds, count)
            if line["status"] != "passed":
                print(f"told nothing: {job.key}: {line['status']}: {line['message']}", flush=True)
        return Outcome(fault, None, seconds, len(left))


def library_stamp(library: Path) -> str:
    """Of the sources that it was made of (sheets.build)."""
    return next(p for p in library.parents if (p / "stamp").exists()).joinpath("stamp").read_text()


def told(outcome: Outcome) -> str:
    f, line = outcome.fault, outcome.line
    word = "found   " if line else "EQUIVALENT" if f.equivalent else "SURVIVED"
    how = f"{line['key']}: {line['status']}: {line['message']}"[:200] if line else f"{outcome.cases} runs"
    return f"{word} {outcome.seconds:6.1f} s {f.file}: {f.name}: {how}"


def share(outcomes: list) -> str:
    found = sum(o.line is not None for o in outcomes)
    return f"{found} of {len(outcomes)} ({100 * found / max(1, len(outcomes)):.1f} %)"


def table(outcomes: list) -> str:
    """By case: how many it was the first to find, and the median of the seconds of all cases until then."""
    rows = ["| case | chip, build | finds first | seconds |", "|---|---|---|---|"]
    by = collections.defaultdict(list)
    for o in outcomes:
        if o.line:
            by[o.line["case"], o.line["key"].partition("[")[2].partition("]")[0]].append(o.seconds)
    for (case, where), some in sorted(by.items(), key=lambda item: -len(item[1])):
        rows.append(f"| {case} | {where.replace(',', ', ')} | {len(some)} | {statistics.median(some):.1f} |")
    every = [s for some in by.values() for s in some]
    rows.append(f"| all | | {len(every)} | {statistics.median(every) if every else 0:.1f} |")
    return "\n".join(rows)


def campaign(args) -> list[Outcome]:
    planted = sheets.load()
    wanted = [f for f in planted if re.search(args.only, f"{f.file} {f.name}")]
    wanted = wanted[:: max(1, len(wanted) // args.sample)][: args.sample] if args.sample else wanted
    jobs = expand(Loader(search_path()).load(args.suites), Choice(default_chip="base"))
    jobs = [job for job in jobs if job.chip in args.chip.split(",")]
    build = built.build_directory() / "mutants"
    book = Book(build / "kills.jsonl")
    if args.fresh:
        book.path.unlink(missing_ok=True)
    work = Campaign(jobs, planted, book.read(), build, checks())
    known = {line["fault"]: line["key"] for line in book.lines.values() if line["status"] in FOUND}
    work.kills.update(known.values())
    print(f"{len(wanted)} faults, {len(jobs)} runs of cases on {args.chip}", flush=True)
    outcomes = []
    with ThreadPoolExecutor(args.jobs) as pool:
        for outcome in pool.map(work.find, wanted):
            outcomes.append(outcome)
            print(f"{len(outcomes)}/{len(wanted)} {told(outcome)}", flush=True)
    return outcomes


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("suites", nargs="*", default=["smoke", "ops"])
    parser.add_argument("--chip", default="tiny,odd", help="cases on other chips are left out: they could find more")
    parser.add_argument("--only", default=".", help="faults whose file and name match this expression")
    parser.add_argument("--sample", type=int, default=0, metavar="N", help="N of them, evenly spread")
    parser.add_argument("-j", "--jobs", type=int, default=1, metavar="N")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--least", type=float, default=95)
    parser.add_argument("--fresh", action="store_true", help="forget what earlier runs found")
    args = parser.parse_args()
    outcomes = campaign(args)
    faults = [o for o in outcomes if not o.fault.equivalent]
    wrong = [o for o in outcomes if o.fault.equivalent and o.line]
    print(table(faults))
    for o in wrong:
        print(f"said to be equivalent, but found: {told(o)}")
    print(f"untuned: {share([o for o in faults if o.fault.untuned])}")
    survived = [f"{o.fault.file} {o.fault.name}" for o in faults if not o.line]
    print(f"found: {share(faults)}; survived: {', '.join(survived) or 'none'}")
    if args.json:
        rows = [
            {"file": o.fault.file, "name": o.fault.name, "untuned": o.fault.untuned, "seconds": o.seconds}
            | ({name: o.line[name] for name in ("key", "status", "message")} if o.line else {})
            for o in faults
        ]
        score = {"found": len(faults) - len(survived), "of": len(faults), "survived": survived}
        args.json.write_text(json.dumps({**score, "faults": rows}, indent=1) + "\n")
    percent = 100 * (len(faults) - len(survived)) / max(1, len(faults))
    return 0 if faults and not wrong and percent >= args.least else 1


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        print("interrupted; the same command goes on", flush=True)
        os._exit(130)  # what runs ends with its thread
