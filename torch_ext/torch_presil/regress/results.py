# SPDX-License-Identifier: Apache-2.0
"""A run as JSON. What OpenTitan's dvsim has in its results (block, tool, stages, testpoints, failures by bucket) has
the same names and meaning here, so that a dashboard for them reads ours: dvsim.json is that and nothing else;
results.json adds the member "presil" with what they have no place for."""

import json
import time

from . import testplan
from .exit_codes import BAD
from .signatures import tail

CONTEXT_LINES = 10
NO_TESTPOINT, NO_STAGE = "unmapped", "unmapped"


def percent(passed: int, total: int) -> float:
    return round(100.0 * passed / total, 2) if total else 0.0


def _counted(records: list[dict]) -> dict:
    total = sum(r["status"] != "skipped" for r in records)
    passed = sum(r["status"] == "passed" for r in records)
    return {"passed": passed, "total": total, "percent": percent(passed, total)}


def _simulated(record: dict) -> float | None:
    """Microseconds; None where the case did not tell its cycles, or its chip has no clock."""
    cycles, clock = record.get("cycles"), record.get("clock_mhz")
    return cycles / clock if cycles and clock else None


def _tests(records: list[dict]) -> dict:
    """By case: all its seeds, chips and builds are runs of one test. Times are of the one that took longest."""
    by_name = {}
    for record in records:
        by_name.setdefault(record["name"], []).append(record)
    out = {}
    for name, some in by_name.items():
        longest = max(some, key=lambda r: r["seconds"])
        out[name] = {"max_time": longest["seconds"], "sim_time": _simulated(longest), **_counted(some)}
    return out


def _stages(points: list, records: list[dict]) -> dict:
    stages, mapped = {}, set()
    for result in testplan.results(points, records):
        some = result["records"]
        mapped |= {r["key"] for r in some}
        entry = {"tests": _tests(some), **_counted(some)}
        stages.setdefault(result["point"].stage, {})[result["point"].name] = (entry, some)
    rest = [r for r in records if r["key"] not in mapped and r["status"] != "skipped"]
    if rest:
        stages.setdefault(NO_STAGE, {})[NO_TESTPOINT] = ({"tests": _tests(rest), **_counted(rest)}, rest)
    out = {}
    for stage, entries in stages.items():
        once = {r["key"]: r for _, some in entries.values() for r in some}
        out[stage] = {
            "testpoints": {name: entry for name, (entry, _) in entries.items()},
            **_counted(list(once.values())),
        }
    return out


def buckets(records: list[dict]) -> dict[str, list[dict]]:
    """Failures by signature, the most frequent first; in each the oldest first."""
    found = {}
    for record in sorted(records, key=lambda r: r["started"]):
        if record["status"] in BAD:
            found.setdefault(record["signature"], []).append(record)
    return dict(sorted(found.items(), key=lambda item: -len(item[1])))


def _failure(run, record: dict) -> dict:
    log = run.path / record["log"]
    lines = tail(log, 1 << 16).splitlines()
    return {
        "name": record["case_name"],
        "qual_name": record["key"],
        "seed": record["seed"],
        "line": record["line"],
        "log_path": str(log),
        "log_context": lines[-CONTEXT_LINES:],
    }


def _coverage(reached: dict | None) -> dict | None:
    """Percent. Cover properties are counted where assertions are; there are no covergroups."""
    if not reached:
        return None
    total = {kind: ratio["percent"] for kind, ratio in reached["total"].items()}
    code = {"block": None, "line_statement": total["line"], "branch": total["branch"]}
    code |= {"condition_expression": total["expr"], "toggle": total["toggle"], "fsm": None}
    return {"code": code, "assertion": total["cover"], "functional": None}


def _planned(reached: dict | None) -> float | None:
    """Of the cover points that testpoints name: each testpoint's percentage, on average."""
    percents = [point["percent"] for point in (reached or {}).get("testpoints", [])]
    return round(sum(percents) / len(percents), 2) if percents else None


def of_dvsim(run, records: list[dict], points: list, reached: dict | None = None) -> dict:
    planned, page = _planned(reached), str(run.path / "report.html")
    versions = run.plan.get("versions", {})
    commit, _, dirty = versions.get("commit", "").partition("+")
    chips = sorted({r["chip"] for r in records})
    return {
        "block": {
            "name": "+".join(run.plan.get("suites", [])) or "regress",
            "variant": "+".join(chips) or None,
            "commit": commit,
            "commit_short": commit[:10],
            "dirty": bool(dirty),
            "branch": versions.get("branch", ""),
            "url": None,
            "revision_info": None,
        },
        "tool": {"name": "presil", "version": versions.get("presil", "")},
        "timestamp": run.plan.get("started"),
        "build_seed": None,
        "testplan_ref": str(run.path / testplan.FILE) if points else None,
        "stages": _stages(points, records),
        "coverage": _coverage(reached),
        "cov_report_page": page if reached else None,
        "vplan_report_page": page if planned is not None else None,
        "vplan_coverage": planned,
        "failed_jobs": {"buckets": {s: [_failure(run, r) for r in some] for s, some in buckets(records).items()}},
        **_counted(records),
    }


def whole(run, records: list[dict], points: list, code: int, coverage: dict | None = None) -> dict:
    counts = {}
    for record in records:
        counts[record["status"]] = counts.get(record["status"], 0) + 1
    planned = run.plan.get("jobs", [])
    ours = {
        "run": run.name,
        "folder": str(run.path),
        "exit_code": code,
        "mode": run.plan.get("mode"),
        "seed": run.plan.get("seed"),
        "versions": run.plan.get("versions", {}),
        "against": run.plan.get("against"),
        "planned": len(planned),
        "not_run": len(planned) - len(records),
        "counts": counts,
        "testpoints": [
            {"name": r["point"].name, "stage": r["point"].stage, **{k: r[k] for k in ("passed", "total", "status")}}
            for r in testplan.results(points, records)
        ],
        "coverage": coverage,
        "records": records,
    }
    return {**of_dvsim(run, records, points, coverage), "presil": ours}


def now() -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())


def text(value: dict) -> str:
    return json.dumps(value, indent=1) + "\n"
