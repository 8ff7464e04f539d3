# SPDX-License-Identifier: Apache-2.0
"""What a failure is called, so that those with one cause come together: its class, its unit, the first wrong command
where that was looked for, and its first line without what differs from run to run (numbers, addresses, times,
folders)."""

import re
from pathlib import Path

TAIL_BYTES = 1 << 20

# The first line of a log that says what went wrong, the more telling kinds first.
_TELLING = [
    re.compile(p)
    for p in (
        r"%Error|%Fatal|\$fatal|[Aa]ssertion .*(failed|violated)|\bassert(ion)?\b.*\bfail",
        r"ERROR: (Address|Thread|Leak|Memory)Sanitizer|runtime error:",
        r"\bE(HUNG|MISMATCH|BUS|DESC|STOPPED|DEAD)\b|\bhung\b|no progress|deadlock",
        r"differ|mismatch|expected .* (found|got)",
        r"^\w*(\.\w+)*(Error|Exception)\b.*",
        r"\bFAIL(ED)?\b|\b[Ee]rror\b|\bfatal\b",
    )
]
_STARS = [
    (re.compile(r"\x1b\[[0-9;]*m"), ""),
    (re.compile(r"(/[\w.+@-]+)+/(?=[\w.+@-])"), ""),  # folders
    (re.compile(r"\b0x[0-9a-fA-F_]+"), "*"),
    (re.compile(r"\b\d*'[hbdo][0-9a-fA-FxXzZ_]+"), "*"),
    (re.compile(r"\[\s*\d[\d., ]*\s*(fs|ps|ns|us|ms|s)?\s*\]"), "[*]"),
    (re.compile(r"\b[0-9a-f]{8,}\b(?=.*)"), "*"),
    (re.compile(r"(?<![A-Za-z_0-9])[-+]?\d[\d_]*(,\d{3})*(\.\d+)?([eE][-+]?\d+)?(?![A-Za-z_])"), "*"),
    (re.compile(r"(?<![A-Za-z_0-9])\d+(\.\d+)?(?=(ns|ps|us|ms|fs|s|KiB|MiB|GiB|B)\b)"), "*"),
    (re.compile(r"(\*[x×, ]+)+\*"), "*"),
    (re.compile(r"\s+"), " "),
]
MOST_CHARACTERS = 160


def normalised(text: str) -> str:
    for pattern, by in _STARS:
        text = pattern.sub(by, text)
    return text.strip()[:MOST_CHARACTERS]


def signature(status: str, unit: str, message: str, command: str = "") -> str:
    """command: the first wrong one, as the chip calls it."""
    where = f" in {unit}" if unit else ""
    where += f", first wrong command {normalised(command)}" if command else ""
    return f"{status}{where}: {normalised(message)}" if message else f"{status}{where}"


def tail(log: Path, count: int = TAIL_BYTES) -> str:
    try:
        with log.open("rb") as file:
            file.seek(max(0, log.stat().st_size - count))
            return file.read().decode(errors="replace")
    except OSError:
        return ""


def first_wrong_line(log: Path) -> tuple[str, int | None]:
    """(the line, its number if the log was short enough to count) that says what went wrong; the last one if none
    does."""
    text = tail(log)
    lines = text.splitlines()
    whole = log.exists() and log.stat().st_size <= TAIL_BYTES
    for pattern in _TELLING:
        for number, line in enumerate(lines, 1):
            if pattern.search(line):
                return line.strip()[:400], number if whole else None
    said = [(number, line.strip()) for number, line in enumerate(lines, 1) if line.strip()]
    return (said[-1][1][:400], said[-1][0] if whole else None) if said else ("", None)


def last_line(log: Path) -> str:
    """What a running case says now."""
    lines = [line for line in re.split(r"[\r\n]+", tail(log, 600)) if line.strip()]
    return "".join(c for c in lines[-1] if c.isprintable()).strip() if lines else ""
