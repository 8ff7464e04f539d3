# SPDX-License-Identifier: Apache-2.0
"""Tasks for the pool, and what their answers amount to."""

import fnmatch
from collections import Counter

from .worker import DTYPES, declared, entries


def tasks(
    dtypes: list[str],
    patterns: list[str] = (),
    checks: list[str] = (),
    every: int = 1,
    seed: int = 0,
    first: int = 0,
) -> list[dict]:
    """One task an entry and dtype that the entry declares on the CPU."""
    known = entries()
    unknown = [p for p in patterns if not fnmatch.filter(known, p)]
    if unknown:
        raise SystemExit(f"no entry {', '.join(unknown)} in PyTorch's operator database")
    return [
        {"entry": name, "dtype": dtype, "only": list(checks), "first": first, "every": every, "seed": seed}
        for dtype in dtypes
        for name, op in known.items()
        if declared(op, DTYPES[dtype]) and (not patterns or any(fnmatch.fnmatch(name, p) for p in patterns))
    ]


def percentages(answers: list[dict]) -> dict:
    """dtype -> entries, samples, checks, forward and all (percent of samples whose forward, whose every check,
    passes), by_check (percent), crashes."""
    table = {}
    for dtype in dict.fromkeys(a["dtype"] for a in answers):
        mine = [a for a in answers if a["dtype"] == dtype]
        ran, failed = Counter(), Counter()
        total = good_forward = good = 0
        for a in mine:
            ran.update(a["ran"])
            failed.update({check: len(cases) for check, cases in a["failed"].items()})
            units = max([a["ran"].get(c, 0) for c in a["ran"] if c != "error"], default=0)
            bad = (
                set().union(*(cases for check, cases in a["failed"].items() if check != "error"))
                if a["failed"]
                else set()
            )
            total += units
            good += units - len(bad)
            good_forward += a["ran"].get("forward", 0) - len(a["failed"].get("forward", ()))
        forward = max(ran["forward"], 1)
        table[dtype] = {
            "entries": len(mine),
            "samples": sum(a["samples"] for a in mine),
            "checks": sum(ran.values()),
            "forward": 100 * good_forward / forward,
            "all": 100 * good / max(total, 1),
            "by_check": {c: 100 * (1 - failed[c] / n) for c, n in ran.items()},
            "crashes": [f"{a['entry']}: {a['crash']}" for a in mine if "crash" in a],
            "seconds": round(sum(a["seconds"] for a in mine), 1),
        }
    return table


def summary(answers: list[dict]) -> list[str]:
    lines = []
    for dtype, t in percentages(answers).items():
        checks = ", ".join(f"{c} {p:.2f} %" for c, p in t["by_check"].items())
        lines.append(
            f"{dtype:9} {t['entries']} entries, {t['samples']} samples, {t['checks']} checks: forward "
            f"{t['forward']:.2f} %, samples with all checks {t['all']:.2f} % ({checks}); "
            f"{len(t['crashes'])} crash(es), {t['seconds']} s"
        )
    return lines


def failures(answers: list[dict]) -> list[str]:
    lines = []
    for a in answers:
        if "crash" in a:
            lines.append(f"{a['dtype']} {a['entry']}: CRASH {a['crash']}")
        for check, cases in a["failed"].items():
            first = min(cases, key=int)
            lines.append(
                f"{a['dtype']} {a['entry']} {check}: {len(cases)} of {a['ran'][check]}, first {first}: {cases[first]}"
            )
    return lines
