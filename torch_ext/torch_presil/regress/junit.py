# SPDX-License-Identifier: Apache-2.0
"""A run as JUnit XML. The format has properties only for a suite, so each run of a case is a suite of one test: its
seed, the command that repeats it and the unit that failed are properties in every reader."""

import re
import time
import xml.etree.ElementTree as ElementTree

from .signatures import tail

_NOT_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
ERRORS = ("infrastructure", "error", "crashed", "unusable")  # of the machinery; the others are the chip's
TAIL_BYTES = 8192


def clean(text: str) -> str:
    return _NOT_XML.sub("�", text)


def properties(record: dict) -> dict:
    names = (
        "seed",
        "chip",
        "build",
        "memory",
        "stress",
        "unit",
        "command",
        "signature",
        "cycles",
        "checks",
        "log",
        "host",
    )
    found = {name: record[name] for name in names if record.get(name) not in (None, "")}
    found |= {name: record[name] for name in ("store_hits", "sampled") if name in record}
    found |= {"status": record["status"], "replay": record["again"]}
    for name, values in (("bundle", record["bundles"]), ("testpoint", record["testpoints"])):
        if values:
            found[name] = " ".join(values)
    return found


def _suite(run, record: dict) -> ElementTree.Element:
    status = record["status"]
    error, failure = status in ERRORS, status in ("failed", "hung", "cycles")
    suite = ElementTree.Element(
        "testsuite",
        name=record["key"],
        tests="1",
        failures=str(int(failure)),
        errors=str(int(error)),
        skipped=str(int(status == "skipped")),
        time=f"{record['seconds']:.3f}",
        timestamp=time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record["started"])),
    )
    listed = ElementTree.SubElement(suite, "properties")
    for name, value in properties(record).items():
        ElementTree.SubElement(listed, "property", name=name, value=clean(str(value)))
    case = ElementTree.SubElement(
        suite,
        "testcase",
        classname=record["name"].replace("/", "."),
        name=record["key"],
        time=f"{record['seconds']:.3f}",
    )
    if status == "skipped":
        ElementTree.SubElement(case, "skipped", message=clean(record["message"]))
    elif error or failure:
        told = ElementTree.SubElement(
            case, "error" if error else "failure", type=status, message=clean(record["message"])
        )
        told.text = clean(f"{record['signature']}\nagain: {record['again']}\n")
        ElementTree.SubElement(case, "system-out").text = clean(tail(run.path / record["log"], TAIL_BYTES))
    return suite


def junit(run, records: list[dict]) -> str:
    whole = ElementTree.Element("testsuites", name=f"presil regress {run.name}", tests=str(len(records)))
    for record in records:
        whole.append(_suite(run, record))
    for name in ("failures", "errors"):
        whole.set(name, str(sum(int(suite.get(name)) for suite in whole)))
    ElementTree.indent(whole)
    return '<?xml version="1.0" encoding="utf-8"?>\n' + ElementTree.tostring(whole, encoding="unicode") + "\n"
