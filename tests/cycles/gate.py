# SPDX-License-Identifier: Apache-2.0
"""The baseline of cycles and their causes: reading, writing, and saying what moved.

baseline.json: chip -> case -> launch -> [cycles, {engine: {cause: cycles}}], causes of 0 left out.
"""

import json
import os
from pathlib import Path

BASELINE = Path(__file__).parent / "baseline.json"
ACCEPT = "PRESIL_UPDATE_BASELINE=1 ./presil test --stage cycles"
NOTICE = f"SPDX-License-Identifier: Apache-2.0. Cycles and causes of tests/cycles; accept a change with: {ACCEPT}"


def compact(launches: dict) -> dict:
    """launch -> {"cycles", "stalls"} as the baseline has it."""
    return {
        name: [m["cycles"], {e: {c: n for c, n in causes.items() if n} for e, causes in m["stalls"].items()}]
        for name, m in launches.items()
    }


def operators(measured: dict) -> dict:
    """What measure.py prints (operator -> {"cycles", "stalls": a list of launches}) as the baseline has it."""
    cases = {}
    for name, m in measured.items():
        launches = {
            str(i): {"cycles": sum(next(iter(s.values())).values()), "stalls": s} for i, s in enumerate(m["stalls"])
        }
        assert sum(launch["cycles"] for launch in launches.values()) == m["cycles"], name
        cases[name] = compact(launches)
    return cases


def recorded() -> dict:
    return {k: v for k, v in json.loads(BASELINE.read_text()).items() if k != "_"} if BASELINE.exists() else {}


def write(chip: str, cases: dict) -> None:
    """Replaces these cases of the chip. A line a launch, so that a change reads as one."""
    everything = recorded()
    everything[chip] = {**everything.get(chip, {}), **cases}
    lines = []
    for name, some in everything.items():
        body = []
        for case, launches in some.items():
            rows = ",\n".join(f"   {json.dumps(k)}: {json.dumps(v)}" for k, v in launches.items())
            body.append(f"  {json.dumps(case)}: {{\n{rows}\n  }}")
        lines.append(f" {json.dumps(name)}: {{\n" + ",\n".join(body) + "\n }")
    BASELINE.write_text("{\n" + f' "_": {json.dumps(NOTICE)},\n' + ",\n".join(lines) + "\n}\n")


def moved(before: dict, now: dict) -> list:
    """What differs between two cases, worst first: a line a launch with engine and cause."""
    lines = []
    for name in [*before, *(n for n in now if n not in before)]:
        if name not in now or name not in before:
            lines.append((0, f"{name}: {'no longer launched' if name in before else 'a new launch'}"))
            continue
        (old, old_stalls), (new, new_stalls) = before[name], now[name]
        causes = []
        for engine in [*old_stalls, *(e for e in new_stalls if e not in old_stalls)]:
            a, b = old_stalls.get(engine, {}), new_stalls.get(engine, {})
            changed = {c: b.get(c, 0) - a.get(c, 0) for c in {**a, **b} if a.get(c, 0) != b.get(c, 0)}
            causes += [
                (abs(d), f"{engine} {c} {a.get(c, 0):,} -> {b.get(c, 0):,} ({d:+,})") for c, d in changed.items()
            ]
        if old != new or causes:
            why = "; ".join(text for _, text in sorted(causes, key=lambda x: -x[0]))
            lines.append((abs(new - old), f"{name}: {old:,} -> {new:,} cycles ({new - old:+,}): {why}"))
    return [text for _, text in sorted(lines, key=lambda x: -x[0])]


def check(chip: str, cases: dict) -> None:
    """The gate, tolerance 0; with PRESIL_UPDATE_BASELINE=1 it takes the cases as they are."""
    if os.environ.get("PRESIL_UPDATE_BASELINE") == "1":
        write(chip, cases)
        return
    known = recorded().get(chip, {})
    text = []
    for case, launches in cases.items():
        lines = moved(known[case], launches) if case in known else ["not in the baseline"]
        if lines:
            before, now = (sum(v[0] for v in x.values()) for x in (known.get(case, {}), launches))
            text.append(
                f"{chip} {case}: {before:,} -> {now:,} cycles\n" + "\n".join(f"    {line}" for line in lines[:12])
            )
    assert not text, (
        "cycles or their causes changed:\n"
        + "\n".join(text)
        + f"\nIf that is meant: {ACCEPT}\nand say in the commit why."
    )
