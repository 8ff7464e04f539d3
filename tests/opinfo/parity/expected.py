# SPDX-License-Identifier: Apache-2.0
"""expectations.toml: what does not pass, and why. A failure that it doesn't name is an error, and so is a pass of
what it names, and a name of nothing that runs.

    [[case]]
    entries = ["sparse.mm.reduce"]         names in the operator database; `*` matches more
    dtypes = ["float32"]
    checks = ["forward", "view"]
    samples = [0, 3]                       numbers of the samples; left out: all that run
    reason = "the result is sparse"
"""

import fnmatch
import tomllib
from dataclasses import dataclass
from pathlib import Path


@dataclass
class Case:
    entries: list[str]
    dtypes: list[str]
    checks: list[str]
    reason: str
    samples: list[int] | None = None

    def covers(self, entry: str, dtype: str, check: str) -> bool:
        return (
            dtype in self.dtypes and check in self.checks and any(fnmatch.fnmatchcase(entry, e) for e in self.entries)
        )


def load(path: Path) -> list[Case]:
    with path.open("rb") as file:
        cases = [Case(**row) for row in tomllib.load(file).get("case", [])]
    unexplained = [c.entries for c in cases if not c.reason.strip()]
    if unexplained:
        raise ValueError(f"{path}: no reason given for {unexplained}")
    return cases


def judge(answers: list[dict], cases: list[Case]) -> list[str]:
    """What is not as expected, one line each; empty: all as written."""
    lines = [line for case in cases for line in _names_nothing(case, answers)]
    for answer in answers:
        for check in answer["ran"]:
            lines += _judge_check(
                answer, check, [c for c in cases if c.covers(answer["entry"], answer["dtype"], check)]
            )
    return lines


def _names_nothing(case: Case, answers: list[dict]) -> list[str]:
    """The names of the case, of dtypes that the answers have, of which nothing ran: misspelt, or gone."""
    return [
        f"{dtype} {entry} {check}: expected to fail ({case.reason}), and nothing of this name ran"
        for dtype in sorted({a["dtype"] for a in answers} & set(case.dtypes))
        for entry in case.entries
        for check in case.checks
        # A share of the samples may be without the few that have this check.
        if not any(
            a["dtype"] == dtype and (check in a["ran"] or a["every"] > 1) and fnmatch.fnmatchcase(a["entry"], entry)
            for a in answers
        )
    ]


def _judge_check(answer: dict, check: str, cases: list[Case]) -> list[str]:
    name = f"{answer['dtype']} {answer['entry']} {check}"
    failed = {int(i): text for i, text in answer["failed"].get(check, {}).items()}
    lines = []
    whole = any(c.samples is None for c in cases)
    wanted = {
        i
        for c in cases
        for i in c.samples or ()
        if i >= answer["first"] and (i - answer["first"]) % answer["every"] == 0
    }
    if not whole:
        lines += [f"{name}, sample {i}: {text}" for i, text in failed.items() if i not in wanted]
    elif len(failed) < answer["ran"][check]:
        lines.append(
            f"{name}: passes in {answer['ran'][check] - len(failed)} of {answer['ran'][check]} samples, expected "
            f"to fail in all ({cases[0].reason})"
        )
    lines += [f"{name}, sample {i}: passes, expected to fail ({cases[0].reason})" for i in sorted(wanted - set(failed))]
    return lines
