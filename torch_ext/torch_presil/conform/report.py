# SPDX-License-Identifier: Apache-2.0
"""A run of presil conform as a table, JUnit XML, JSON and one HTML file."""

import html as escaping
import json
import re
import xml.etree.ElementTree as ElementTree

from rich.console import Console
from rich.markup import escape
from rich.table import Table

COLOURS = {"passed": "green", "failed": "red", "skipped": "yellow"}
_NOT_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-�\U00010000-\U0010ffff]")
_STYLE = """body{font:14px sans-serif;margin:2em}td,th{padding:.2em .8em;text-align:left;vertical-align:top}
table{border-collapse:collapse}tr{border-top:1px solid #ccc}.failed{color:#b00020;font-weight:bold}
.passed{color:#0a6d0a}.skipped{color:#8a6d00}"""


def summary(run) -> str:
    counts = ", ".join(f"{run.count(status)} {status}" for status in COLOURS)
    return f"{counts}; {sum(result.comparisons for result in run.results):,} comparisons"


def title(run) -> str:
    return f"{run.facts['chip']} {run.facts['config']}, build {run.facts['build']}"


def show(run, console: Console) -> None:
    table = Table(title=f"presil conform: {title(run)}", title_justify="left")
    for name in ("level", "check", "what it asks", "", "of", "s"):
        table.add_column(name, justify="right" if name in ("of", "s") else "left")
    for result in run.results:
        check, colour = result.check, COLOURS[result.status]
        table.add_row(
            check.level,
            check.name,
            escape(check.asks),
            f"[{colour}]{result.status}[/{colour}]",
            f"{result.comparisons:,}",
            f"{result.seconds:.1f}",
        )
    console.print(table)
    for (status, text), results in _alike(run).items():
        names = ", ".join(result.check.name for result in results)
        console.print(f"[{COLOURS[status]}]{status} {names}[/{COLOURS[status]}]: {escape(text)}", highlight=False)
        if status == "failed" and len(results) == 1:
            check = results[0].check
            console.print(f"  held to {escape(f'{check.document}: {check.paragraph!r}')}", highlight=False)
    console.print(summary(run), highlight=False)


def _alike(run) -> dict:
    """What did not pass, by its status and text: a chip that doesn't open says so once, not for every check."""
    found: dict = {}
    for result in run.results:
        if result.status != "passed":
            found.setdefault((result.status, result.text), []).append(result)
    return found


def show_list(console: Console) -> None:
    """The checks, without a run."""
    from .checks import CHECKS
    from .register import load

    load()
    table = Table()
    for name in ("level", "check", "what it asks", "held to"):
        table.add_column(name)
    for check in CHECKS.values():
        table.add_row(check.level, check.name, escape(check.asks), escape(f"{check.document}: {check.paragraph}"))
    console.print(table)


def rows(run) -> list:
    return [
        {
            "level": result.check.level,
            "check": result.check.name,
            "asks": result.check.asks,
            "document": result.check.document,
            "paragraph": result.check.paragraph,
            "status": result.status,
            "comparisons": result.comparisons,
            "seconds": round(result.seconds, 3),
            "text": result.text,
        }
        for result in run.results
    ]


def as_json(run) -> str:
    counts = {status: run.count(status) for status in COLOURS}
    return json.dumps({"facts": run.facts, "counts": counts, "checks": rows(run)}, indent=1) + "\n"


def _xml(text: str) -> str:
    return _NOT_XML.sub("�", text)


def junit(run) -> str:
    suite = ElementTree.Element("testsuite", name=f"presil conform {title(run)}", tests=str(len(run.results)))
    suite.set("failures", str(run.count("failed")))
    suite.set("skipped", str(run.count("skipped")))
    suite.set("errors", "0")
    for row in rows(run):
        case = ElementTree.SubElement(
            suite, "testcase", classname=f"conform.{row['level']}", name=row["check"], time=f"{row['seconds']:.3f}"
        )
        if row["status"] == "failed":
            told = ElementTree.SubElement(case, "failure", type="failed", message=_xml(row["text"]))
            told.text = _xml(f"held to {row['document']}: {row['paragraph']}")
        elif row["status"] == "skipped":
            ElementTree.SubElement(case, "skipped", message=_xml(row["text"]))
    whole = ElementTree.Element("testsuites", name="presil conform")
    for name in ("tests", "failures", "errors"):
        whole.set(name, suite.get(name))
    whole.append(suite)
    ElementTree.indent(whole)
    return '<?xml version="1.0" encoding="utf-8"?>\n' + ElementTree.tostring(whole, encoding="unicode") + "\n"


def html(run) -> str:
    safe = escaping.escape
    lines = [
        f"<tr><td>{row['level']}<td>{row['check']}<td>{safe(row['asks'])}<td class={row['status']}>{row['status']}"
        f"<td>{row['comparisons']:,}<td>{row['seconds']:.1f}<td>{safe(row['document'])}: {safe(row['paragraph'])}"
        f"<td>{safe(row['text'])}</tr>"
        for row in rows(run)
    ]
    facts = "".join(f"<tr><th>{safe(name)}<td>{safe(value)}</tr>" for name, value in run.facts.items())
    head = "<tr><th>level<th>check<th>what it asks<th><th>comparisons<th>s<th>held to<th></tr>"
    return (
        f'<!doctype html><html lang="en"><meta charset="utf-8"><title>presil conform: {safe(title(run))}</title>'
        f"<style>{_STYLE}</style><h1>presil conform: {safe(title(run))}</h1><p>{summary(run)}</p>"
        f"<table>{facts}</table><br><table>{head}{''.join(lines)}</table></html>\n"
    )
