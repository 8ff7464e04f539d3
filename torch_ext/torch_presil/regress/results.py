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


def _tests(records: list[dict], clock_mhz: float | None) -> dict:
    """By case: all its seeds, chips and builds are runs of one test."""
    by_name = {}
    for record in records:
        by_name.setdefault(record["name"], []).append(record)
    out = {}
    for name, some in by_name.items():
        cycles = [r["cycles"] for r in some if r.get("cycles")]
        simulated = max(cycles) / clock_mhz if cycles and clock_mhz else None  # microseconds
        out[name] = {"max_time": max(r["seconds"] for r in some), "sim_time": simulated, **_counted(some)}
    return out


def _stages(points: list, records: list[dict], clock_mhz: float | None) -> dict:
    stages, mapped = {}, set()
    for result in testplan.results(points, records):
        some = result["records"]
        mapped |= {r["key"] for r in some}
        entry = {"tests": _tests(some, clock_mhz), **_counted(some)}
        stages.setdefault(result["point"].stage, {})[result["point"].name] = (entry, some)
    rest = [r for r in records if r["key"] not in mapped and r["status"] != "skipped"]
    if rest:
        stages.setdefault(NO_STAGE, {})[NO_TESTPOINT] = ({"tests": _tests(rest, clock_mhz), **_counted(rest)}, rest)
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


def of_dvsim(run, records: list[dict], points: list) -> dict:
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
        "testplan_ref": None,
        "stages": _stages(points, records, run.plan.get("clock_mhz")),
        "coverage": None,
        "cov_report_page": None,
        "vplan_report_page": None,
        "vplan_coverage": None,
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
    return {**of_dvsim(run, records, points), "presil": ours}


def now() -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())


def text(value: dict) -> str:
    return json.dumps(value, indent=1) + "\n"
