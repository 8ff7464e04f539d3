# SPDX-License-Identifier: Apache-2.0
"""What came of the stages: counts out of JUnit reports, what is printed, one JSON file, one JUnit file."""

import json
import os
import shlex
import sys
import xml.etree.ElementTree as ElementTree
from dataclasses import asdict, dataclass, field
from pathlib import Path

from runner.stages import ROOT, Stage

TAIL_LINES = 60


@dataclass
class Outcome:
    name: str
    passed: int = 0
    failed: int = 0
    skipped: int = 0
    seconds: float = 0.0
    processor: float = 0.0  # seconds of processor time; under time-outs and interrupts, of what had ended
    timed_out: bool = False
    interrupted: bool = False
    failures: list[str] = field(default_factory=list)
    skip_reasons: list[str] = field(default_factory=list)
    log: str = ""

    def fail(self, reason: str) -> None:
        self.failed += 1
        self.failures.append(reason)


def replay_line(stage: Stage, case: ElementTree.Element) -> str:
    """The command that runs one failed test alone, with the variables that this run was given."""
    name, file = case.get("name", ""), case.get("file")
    if stage.kind == "ctest":
        what = ["-R", f"^{name}$"]
    elif file:
        # A class stands between the module and the test.
        inner = (case.get("classname") or "").removeprefix(file.removesuffix(".py").replace("/", ".")).strip(".")
        what = ["::".join(filter(None, (file, inner.replace(".", "::"), name)))]
    else:
        what = ["-k", name]
    given = [f"{key}={shlex.quote(os.environ[key])}" for key in sorted(os.environ) if key in GIVEN]
    return " ".join([*given, "./presil", "test", "--stage", stage.name, "--", shlex.join(what)])


# Variables that change what a test does (docs/testing.md). The day is always among them: run.py sets it.
GIVEN = (
    "PRESIL_SEED",
    "PRESIL_DAY",
    "PRESIL_PROGRAMS",
    "PRESIL_FUZZ_SEED",
    "PRESIL_FUZZ_CASES",
    "PRESIL_CHIP",
    "PRESIL_MODE",
    "PRESIL_TRANSPORT",
    "PRESIL_MARCH",
    "ATEN_CPU_CAPABILITY",
)


def count(stage: Stage, report: Path, outcome: Outcome) -> None:
    """Adds up the test cases of a JUnit report."""
    for case in ElementTree.parse(report).iter("testcase"):
        name = ".".join(filter(None, (case.get("classname"), case.get("name"))))
        bad = case.find("failure") if case.find("failure") is not None else case.find("error")
        skip = case.find("skipped")
        if bad is not None:
            said = (bad.get("message") or "").splitlines()
            outcome.fail(f"{name}: {said[0][:200] if said else 'failed'}\n        replay: {replay_line(stage, case)}")
        elif skip is not None or case.get("status") in ("notrun", "disabled"):
            outcome.skipped += 1
            outcome.skip_reasons.append(f"{name}: {(skip.get('message') if skip is not None else '') or 'not run'}")
        else:
            outcome.passed += 1


def judge(stage: Stage, outcome: Outcome, status: int | None) -> None:
    """Failures that no test case stands for."""
    if outcome.interrupted:
        return
    if status is None:
        outcome.timed_out = True
        outcome.fail(f"{stage.name}: not done after {stage.timeout:.0f} s")
    elif status != 0 and not outcome.failed:
        outcome.fail(f"{stage.name}: ended with status {status} ({outcome.log})")
    elif outcome.passed + outcome.failed + outcome.skipped == 0:
        outcome.fail(f"{stage.name}: no test ran")
    if outcome.skipped > stage.skips:
        outcome.fail(f"{stage.name}: {outcome.skipped} skipped, {stage.skips} allowed (tests/stages.toml)")


def print_outcome(outcome: Outcome) -> None:
    word = "FAILED" if outcome.failed else "ended " if outcome.interrupted else "passed"
    counts = f"{outcome.passed} passed, {outcome.failed} failed, {outcome.skipped} skipped"
    print(f"{word}  {outcome.name:<12} {outcome.seconds:6.1f} s  {outcome.processor:6.1f} s of processor  {counts}")
    for reason in outcome.failures:
        print(f"        {reason}")
    if outcome.failed:
        lines = (ROOT / outcome.log).read_text(errors="replace").splitlines()
        print("\n".join(f"    | {line[:240]}" for line in lines[-TAIL_LINES:]))
        print(f"        whole log: {outcome.log}")
    sys.stdout.flush()


def write_junit(outcomes: list[Outcome], logs: Path, path: Path) -> None:
    """All stages' reports as one; each suite says what it ran with."""
    whole = ElementTree.Element("testsuites", name="presil")
    for outcome in outcomes:
        report = logs / f"{outcome.name}.xml"
        suites = list(ElementTree.parse(report).iter("testsuite")) if report.exists() else []
        for suite in suites or [ElementTree.Element("testsuite", tests="0")]:
            suite.set("name", outcome.name)
            properties = suite.find("properties")
            if properties is None:
                properties = ElementTree.Element("properties")
                suite.insert(0, properties)
            for key in sorted(key for key in os.environ if key.startswith("PRESIL_")):
                ElementTree.SubElement(properties, "property", name=key, value=os.environ[key])
            whole.append(suite)
        if outcome.failed and not any(suite.find(".//failure") is not None for suite in suites):
            case = ElementTree.SubElement(whole[-1], "testcase", classname=outcome.name, name="stage")
            ElementTree.SubElement(case, "failure", message=outcome.failures[-1])
    ElementTree.ElementTree(whole).write(path, encoding="utf-8", xml_declaration=True)


def conclude(outcomes: list[Outcome], seconds: float, json_file: Path | None) -> bool:
    """Prints the sum; true if tests ran and none failed."""
    passed, failed, skipped = (sum(getattr(o, key) for o in outcomes) for key in ("passed", "failed", "skipped"))
    if json_file:
        total = {"passed": passed, "failed": failed, "skipped": skipped, "seconds": round(seconds, 1)}
        json_file.write_text(json.dumps({**total, "stages": [asdict(o) for o in outcomes]}, indent=1) + "\n")
    reasons = [reason for outcome in outcomes for reason in outcome.skip_reasons]
    if reasons:
        print("\nskipped:\n" + "\n".join(f"  {reason}" for reason in reasons))
    bad = [outcome for outcome in outcomes if outcome.failed]
    if bad and len(outcomes) > 1:
        print(
            "\nfailed:\n" + "\n".join(f"  {outcome.name}: {reason}" for outcome in bad for reason in outcome.failures)
        )
    if len(outcomes) > 1:
        dearest = sorted(outcomes, key=lambda outcome: -outcome.processor)[:12]
        parts = [f"{outcome.name} {outcome.processor:.0f} of {outcome.seconds:.0f} s" for outcome in dearest]
        print("\nmost of processor time: " + ", ".join(parts))
    print(f"\n{seconds:.0f} s, {sum(outcome.processor for outcome in outcomes):.0f} s of processor")
    print(f"{passed} passed, {failed} failed, {skipped} skipped")
    return bool(passed) and not failed
