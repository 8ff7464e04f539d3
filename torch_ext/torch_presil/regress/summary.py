# SPDX-License-Identifier: Apache-2.0
"""The end of a run for people: what failed by signature, cycles that changed, testpoints, counts."""

from rich.console import Console
from rich.table import Table
from rich.text import Text

from . import baseline, testplan
from .live import clock, style
from .results import buckets

MOST_ROWS = 30


def by_case(records: list[dict]) -> Table:
    table = Table(title="Cases", title_justify="left")
    table.add_column("case", overflow="fold")
    for name in ("passed", "runs", "cycles", "time"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("outcome")
    cases = {}
    for record in records:
        cases.setdefault(record["name"], []).append(record)
    for name, some in cases.items():
        passed = sum(r["status"] == "passed" for r in some)
        others = sorted({r["status"] for r in some if r["status"] != "passed"}) or ["passed"]
        cycles = {r["cycles"] for r in some if r.get("cycles")}
        shown = f"{min(cycles):,}" if len(cycles) == 1 else f"{min(cycles):,} … {max(cycles):,}" if cycles else ""
        time = f"{sum(r['seconds'] for r in some):.1f} s"
        outcome = Text(", ").join(Text(word, style(word)) for word in others)
        table.add_row(name, str(passed), str(len(some)), shown, time, outcome)
    return table


def show(console: Console, run, records: list[dict], points: list, seconds: float, baselines: str) -> None:
    """baselines: the name of what cycles were compared with."""
    console.print(by_case(records))
    _failures(console, records)
    _cycles(console, records, baselines)
    if points:
        found = testplan.results(points, records)
        counts = {s: sum(r["status"] == s for r in found) for s in ("passed", "failing", "not run")}
        words = ", ".join(f"{count} {status}" for status, count in counts.items() if count)
        console.print(f"testpoints: {words}", highlight=False)
    reasons = {}
    for record in records:
        if record["status"] == "skipped":
            reasons.setdefault(record["message"], []).append(record["key"])
    for reason, keys in reasons.items():
        console.print(f"skipped ({len(keys)}): {reason}", highlight=False, soft_wrap=True, markup=False)
    known = [record for record in records if "store_hits" in record]
    if known:
        hits, again = (sum(record[name] for record in known) for name in ("store_hits", "sampled"))
        text = f"timing store: {hits:,} launches were known, {again:,} of them simulated again; {len(known)} runs asked"
        console.print(text, highlight=False)
    counts = {}
    for record in records:
        counts[record["status"]] = counts.get(record["status"], 0) + 1
    left = len(run.plan["jobs"]) - len(records)
    words = [f"{count} {status}" for status, count in counts.items()] + ([f"{left} not run"] if left else [])
    console.print(
        f"{', '.join(words) or 'nothing was run'}; {clock(seconds)}; {run.path}", highlight=False, soft_wrap=True
    )


def _failures(console: Console, records: list[dict]) -> None:
    groups = buckets(records)
    for signature, some in list(groups.items())[:MOST_ROWS]:
        first = some[0]
        console.print(Text(f"\n{len(some)} × {signature}", style(first["status"])), soft_wrap=True)
        console.print(f"  first: {first['key']} seed {first['seed']}", highlight=False, soft_wrap=True, markup=False)
        console.print(f"  {first['message'][:300]}", highlight=False, soft_wrap=True, markup=False)
        if first.get("evidence"):
            console.print(f"  {first['evidence']}", highlight=False, soft_wrap=True, markup=False)
        console.print(f"  again: {first['again']}", highlight=False, soft_wrap=True, markup=False)
        for bundle in first["bundles"][:3]:
            console.print(f"  bundle: {bundle}", highlight=False, soft_wrap=True, markup=False)
        for name in ("waveforms", "pictures"):
            for path in (first.get(name) or [])[:1]:
                console.print(f"  {name[:-1]}: {path}", highlight=False, soft_wrap=True, markup=False)
    if len(groups) > MOST_ROWS:
        console.print(f"… and {len(groups) - MOST_ROWS} other signatures", highlight=False)
    if groups:
        console.print()


def _cycles(console: Console, records: list[dict], baselines: str) -> None:
    timed = [r for r in records if r.get("launches") and r["status"] in ("passed", "cycles")]
    without = sum(not r["compared"] for r in timed)
    if without and baselines != "none":
        has = "has nothing of their chip, memory and seed"
        text = f"cycles: {without} of {len(timed)} runs not compared: {baselines} {has}"
        console.print(text, highlight=False, soft_wrap=True, markup=False)
    changed = [(r, c) for r in records for c in r["changes"]]
    for record, change in changed[:MOST_ROWS]:
        text = f"{record['cycles_key']} {baseline.describe(change)}"
        console.print(Text(text, "yellow"), soft_wrap=True)
    if changed:
        console.print('If that is meant: presil regress --accept-cycles "why"', highlight=False)
