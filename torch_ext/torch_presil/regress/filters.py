# SPDX-License-Identifier: Apache-2.0
"""--filter: `resnet* and not (build:check or tag:slow)`. A word is a shell pattern for the case's name, with or without
its suite; KEY:PATTERN one for another of its facts."""

import fnmatch
import re

from .exit_codes import UsageError

KEYS = {
    "tag": lambda job: job.tags,
    "testpoint": lambda job: job.testpoints,
    "suite": lambda job: [job.suite],
    "kind": lambda job: [job.kind],
    "chip": lambda job: [job.chip],
    "build": lambda job: [job.build],
    "memory": lambda job: [job.memory or "default"],
    "stress": lambda job: [job.stress or "none"],
}
_TOKEN = re.compile(r"\s*([()]|[^\s()]+)")


def compile_filter(text: str):
    """A function of a job."""
    tokens = _TOKEN.findall(text)
    if not tokens:
        raise UsageError("--filter: the expression is empty")
    parser = _Parser(text, tokens)
    rule = parser.either()
    if parser.at < len(tokens):
        parser.fail(f"{tokens[parser.at]!r} is too much")
    return rule


class _Parser:
    def __init__(self, text: str, tokens: list[str]):
        self.text, self.tokens, self.at = text, tokens, 0

    def fail(self, what: str):
        raise UsageError(
            f"--filter {self.text!r}: {what}; expected PATTERN or KEY:PATTERN ({', '.join(KEYS)}) joined by and, or, "
            f"not, ( )"
        )

    def take(self, *words) -> bool:
        if self.at < len(self.tokens) and self.tokens[self.at] in words:
            self.at += 1
            return True
        return False

    def either(self):
        rules = [self.both()]
        while self.take("or"):
            rules.append(self.both())
        return lambda job: any(rule(job) for rule in rules)

    def both(self):
        rules = [self.single()]
        while self.take("and"):
            rules.append(self.single())
        return lambda job: all(rule(job) for rule in rules)

    def single(self):
        if self.take("not"):
            rule = self.single()
            return lambda job: not rule(job)
        if self.take("("):
            rule = self.either()
            if not self.take(")"):
                self.fail("a ) is missing")
            return rule
        if self.at == len(self.tokens) or self.tokens[self.at] in ("and", "or", ")"):
            self.fail("it ends too early" if self.at == len(self.tokens) else f"{self.tokens[self.at]!r} is misplaced")
        self.at += 1
        return self.word(self.tokens[self.at - 1])

    def word(self, word: str):
        key, colon, pattern = word.partition(":")
        if not colon:
            return lambda job: any(fnmatch.fnmatchcase(name, word) for name in (job.name, job.case_name, job.key))
        if key not in KEYS:
            self.fail(f"the key {key!r} is unknown")
        return lambda job: any(fnmatch.fnmatchcase(value, pattern) for value in KEYS[key](job))
