# SPDX-License-Identifier: Apache-2.0
"""Coverage files of simulator libraries (docs/coverage.md) and what they come to: sets of items that were reached.

An item is a tuple: ("line", file, line), ("branch", file, line, column, which), ("expr", file, line, column, term),
("toggle", file, name, bit, edge), ("cover", name, instance). Instances of a module are merged but for covers. What
another configuration of the same sources reaches adds up, because items have no counters' numbers in them.
"""

import re
import struct
from dataclasses import dataclass, field
from pathlib import Path

from .exit_codes import UsageError

VERSION = 1
HEADER = struct.Struct("<8sII32s16x")
MAGIC = b"PRESILCV"
PREFIX = "coverage"  # of a case's files, in its folder
KINDS = ("line", "branch", "expr", "toggle", "cover")
_RANGE = re.compile(r"^(.*)\[(\d+):(\d+)\]$")


def _lines(text: str):
    for part in filter(None, text.split(",")):
        low, _, high = part.partition("-")
        yield from range(int(low), int(high or low) + 1)


def _toggles(file: str, what: str, count: int):
    """The items of a signal's counters: falling and rising, from the lowest bit on."""
    found = _RANGE.match(what)
    name, low = (found[1], int(found[3])) if found else (what, 0)
    for number in range(count):
        yield ("toggle", file, name, low + number // 2, "rise" if number % 2 else "fall")


class Points:
    """What a library's counters mean: items[n] are those of counter n."""

    def __init__(self, path: Path):
        self.items = {}
        for text in path.read_text().splitlines():
            first, count, kind, file, line, column, instance, what, lines = text.split("\t")
            first, place = int(first), (file, int(line), int(column))
            if kind == "toggle":
                for number, item in enumerate(_toggles(file, what, int(count))):
                    self.items.setdefault(first + number, []).append(item)
                continue
            some = self.items.setdefault(first, [])
            if kind in ("line", "branch"):
                some += [("line", file, n) for n in _lines(lines)]
            if kind in ("branch", "expr"):
                some.append((kind, *place, what))
            elif kind == "user":
                some.append(("cover", f"{Path(file).stem}.{what}", instance))
        self.all = frozenset(item for some in self.items.values() for item in some)

    def reached(self, counters) -> set:
        return {item for number in counters for item in self.items.get(number, ())}


@dataclass
class File:
    """One coverage file: what its process reached; of each launch, where it was asked for."""

    items: set
    launches: list = field(default_factory=list)
    points: Points | None = None


def _bits(record: bytes):
    value = int.from_bytes(record, "little")
    while value:
        low = value & -value
        yield low.bit_length() - 1
        value ^= low


class Reader:
    """Reads coverage files; each table of points once."""

    def __init__(self):
        self.tables = {}

    def points(self, path: Path, name: str) -> Points:
        if name not in self.tables:
            table = path.with_name(f"{path.name.rpartition('.')[0]}.points-{name}")
            if not table.exists():
                raise UsageError(f"{path}: its table {table.name} is not beside it")
            self.tables[name] = Points(table)
        return self.tables[name]

    def read(self, path: Path) -> File:
        data = path.read_bytes()
        if len(data) < HEADER.size or data[:8] != MAGIC:
            raise UsageError(f"{path}: not a coverage file")
        _, version, count, name = HEADER.unpack_from(data)
        if version != VERSION:
            raise UsageError(f"{path}: version {version}, {VERSION} expected")
        points, at = self.points(path, name.decode()), HEADER.size + 4 * count
        if len(data) < at:
            raise UsageError(f"{path}: {len(data)} bytes, at least {at} expected (a full disk?)")
        counts = struct.unpack_from(f"<{count}I", data, HEADER.size)
        size = 8 + (count + 7) // 8
        found = File(points.reached(n for n, c in enumerate(counts) if c), [], points)
        for start in range(at, len(data) - size + 1, size):
            found.launches.append(points.reached(_bits(data[start + 8 : start + size])))
        return found


def files(folder: Path) -> list[Path]:
    """The coverage files of a case."""
    found = [p for p in folder.glob(f"{PREFIX}.*") if p.suffix[1:].isdigit()]
    return sorted(found, key=lambda p: int(p.suffix[1:]))


@dataclass
class Reached:
    """What a run of regress reached. all: what there is; by_suite, by_label: items by suite and by "case: layer"."""

    all: set = field(default_factory=set)
    items: set = field(default_factory=set)
    by_suite: dict = field(default_factory=dict)
    by_label: dict = field(default_factory=dict)
    problems: list = field(default_factory=list)

    def add(self, suite: str, case: str, folder: Path, labels: list) -> None:
        """labels: [name, launches] in the order of launches, of a case that knows; [] for others."""
        for path in files(folder):
            try:
                found = self.reader.read(path)
            except (UsageError, OSError) as error:
                self.problems.append(str(error))
                continue
            self.all |= found.points.all
            self.items |= found.items
            self.by_suite.setdefault(suite, set()).update(found.items)
            if found.launches and labels:
                self._label(case, path, found.launches, labels)

    def _label(self, case: str, path: Path, launches: list, labels: list) -> None:
        if sum(count for _, count in labels) != len(launches):
            self.problems.append(
                f"{path}: {len(launches)} launches, {sum(c for _, c in labels)} told by the case: no layer is known"
            )
            return
        at = 0
        for name, count in labels:
            into = self.by_label.setdefault(f"{case}: {name}", set())
            into.update(*launches[at : at + count])
            at += count

    def __post_init__(self):
        self.reader = Reader()


def of_kind(items, kind: str) -> set:
    return {item for item in items if item[0] == kind}


def covers(items) -> set:
    """Names of covers, whatever their instance."""
    return {item[1] for item in items if item[0] == "cover"}
