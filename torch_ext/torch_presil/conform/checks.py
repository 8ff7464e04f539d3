# SPDX-License-Identifier: Apache-2.0
"""The list of checks: what each asks, and of which paragraph."""

from dataclasses import dataclass
from typing import Callable

LEVELS = ("transport", "chip", "pytorch")
SECONDS = 300  # for one check; running out of it is a failure
OPENS = "opens"  # the check without which nothing can be asked through the driver


class Failed(AssertionError):
    """The chip does not do what the paragraph says. The text: what was expected, what was found."""


class Skipped(Exception):
    """The check asks for what this chip does not have. The text says what."""


@dataclass(frozen=True)
class Check:
    name: str
    level: str
    asks: str
    document: str  # of this repository
    paragraph: str  # words that stand in it
    run: Callable  # (Context) -> number of comparisons made, which is not 0


CHECKS: dict[str, Check] = {}


def check(name: str, asks: str, document: str, paragraph: str, level: str = "transport"):
    """Registers a function of (Context) as a check of that name."""

    def keep(function):
        assert name not in CHECKS, name
        CHECKS[name] = Check(name, level, asks, document, paragraph, function)
        return function

    return keep


def expect(right: bool, text: str) -> None:
    if not right:
        raise Failed(text)


def expect_equal(found, expected, what: str) -> None:
    if found != expected:
        raise Failed(f"{what}: {shown(expected)} expected, {shown(found)} found")


class Differences:
    """As expect_equal(), but says all of them at the end: who describes a chip mends them at once."""

    MOST = 12

    def __init__(self):
        self.texts = []

    def expect_equal(self, found, expected, what: str) -> None:
        if found != expected:
            self.texts.append(f"{what}: {shown(expected)} expected, {shown(found)} found")

    def end(self) -> None:
        more = len(self.texts) - self.MOST
        if self.texts:
            raise Failed("; ".join(self.texts[: self.MOST]) + (f"; and {more} more" if more > 0 else ""))


def shown(value) -> str:
    return hex(value) if isinstance(value, int) and not isinstance(value, bool) else repr(value)
