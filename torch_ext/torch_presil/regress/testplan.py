# SPDX-License-Identifier: Apache-2.0
"""Testplans: testplan.toml in a folder of suites. A testpoint says what has to be shown, when, and by which cases.

[testpoint.NAME]
stage = "V1"            # V1, V2, V2S, V3 as a team uses them
goal, stimulus, check   # texts
tests = ["suite/case", "random-*"]    # shell patterns for cases' names; cases may also name the testpoint themselves
covers = ["module.c_full"]            # cover properties that have to be reached (docs/coverage.md); may be left out
"""

import fnmatch
from dataclasses import dataclass, field
from pathlib import Path

from .exit_codes import BAD, UsageError
from .suite import _read, _typed

TEXTS = ("stage", "goal", "stimulus", "check")
FILE = "testplan.json"  # of a run, in dvsim's form
STAGES = ("V1", "V2", "V2S", "V3")  # that dvsim knows; it refuses a plan with any other but this one
NO_STAGE = "N.A."


@dataclass
class Testpoint:
    name: str
    stage: str
    goal: str
    stimulus: str
    check: str
    tests: list
    covers: list = field(default_factory=list)


def load(folders) -> list[Testpoint]:
    found = {}
    for folder in folders:
        path = Path(folder) / "testplan.toml"
        for name, body in (_read(path).get("testpoint", {}) if path.exists() else {}).items():
            where = f"{path}: [testpoint.{name}]"
            unknown = set(body) - {*TEXTS, "tests", "covers"}
            missing = [key for key in (*TEXTS, "tests") if key not in body]
            if unknown or missing:
                raise UsageError(f"{where}: expected {', '.join(TEXTS)}, tests; {sorted(unknown) or missing} is wrong")
            for key in TEXTS:
                _typed(where, key, body[key], str)
            for key in ("tests", "covers"):
                _typed(where, key, body.get(key, []), list)
            point = Testpoint(name, *(body[key] for key in TEXTS), body["tests"], body.get("covers", []))
            found.setdefault(name, point)
    return list(found.values())


def covers(point: Testpoint, fact) -> bool:
    """fact: a record or a job as a dict."""
    names = (fact["name"], fact["case_name"])
    return point.name in fact["testpoints"] or any(fnmatch.fnmatchcase(n, p) for n in names for p in point.tests)


def of_dvsim(points: list[Testpoint], name: str, facts: list[dict]) -> dict:
    """As OpenTitan's dvsim has testplans, in Hjson, of which JSON is a part. facts: the runs (records, jobs as dicts)
    whose cases stand for the patterns, since dvsim looks for equal names; what no case has stands as it is, not run."""
    entries = []
    for point in points:
        names = sorted({fact["name"] for fact in facts if covers(point, fact)})
        known = {name for fact in facts for name in (fact["name"], fact["case_name"])}
        names += [pattern for pattern in point.tests if not fnmatch.filter(known, pattern)]
        stage = point.stage if point.stage in STAGES else NO_STAGE
        desc = f"{point.goal}\n\nStimulus: {point.stimulus}\n\nCheck: {point.check}"
        desc += "" if stage == point.stage else f"\n\nStage: {point.stage}"
        entries.append({"name": point.name, "desc": desc, "stage": stage, "tests": names})
    return {"name": name, "testpoints": entries}


def unmapped(points: list[Testpoint], cases) -> list[str]:
    """Testpoints that name a case that there is not, and cases that name a testpoint that there is not."""
    names = {n for case in cases for n in (case.full_name, case.name)}
    known = {point.name for point in points}
    lost = [f"testpoint {p.name}: no case {t}" for p in points for t in p.tests if not fnmatch.filter(list(names), t)]
    for case in cases:
        for name in case.common.get("testpoints", []):
            if name not in known:
                lost.append(f"case {case.full_name}: no testpoint {name}")
    return lost


def results(points: list[Testpoint], records: list[dict]) -> list[dict]:
    """Each testpoint with its records: passed, total, status (passed, failing, not run)."""
    out = []
    for point in points:
        some = [r for r in records if covers(point, r) and r["status"] != "skipped"]
        bad = sum(r["status"] in BAD for r in some)
        status = "not run" if not some else "failing" if bad else "passed"
        out.append({"point": point, "records": some, "passed": len(some) - bad, "total": len(some), "status": status})
    return out
