# SPDX-License-Identifier: Apache-2.0
"""A waveform file (FST or VCD): signals by name, their changes, and cycles of a clock."""

import bisect
import importlib
import difflib
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

BUNDLE = b"PRESILB\n"  # docs/bundle.md
PER_SECOND = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9, "ps": 10**12, "fs": 10**15}


class WavesError(Exception):
    """What the user can put right; the text says what was expected, what was found, what to do."""


def needs(module: str):
    """A library that only this command needs, and an installed package may lack."""
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError:
        raise WavesError(f"the Python package of {module} is missing: pip install 'torch-presil[waves]'") from None


@dataclass(frozen=True)
class Signal:
    """Its changes, oldest first. A value is an integer, or a text with x or z."""

    name: str
    width: int
    times: list
    values: list

    def at(self, time):
        """The value from `time` on; None before the first change."""
        index = bisect.bisect_right(self.times, time) - 1
        return None if index < 0 else self.values[index]

    def between(self, first, last):
        """(from, to, value) of the pieces of [first, last), cut to it."""
        index = max(bisect.bisect_right(self.times, first) - 1, 0)
        while index < len(self.times) and self.times[index] < last:
            end = self.times[index + 1] if index + 1 < len(self.times) else last
            yield max(self.times[index], first), min(end, last), self.values[index]
            index += 1

    def rises(self):
        """Times at which bit 0 goes to 1."""
        before = 1
        for time, value in zip(self.times, self.values, strict=True):
            now = value & 1 if isinstance(value, int) else 0
            if now and not before:
                yield time
            before = now


def plain(name: str) -> str:
    """Names as in the RTL: an element of an array is a scope of its own in the file."""
    return name.replace(".[", "[")


class Trace:
    def __init__(self, path):
        pywellen = needs("pywellen")
        self.path = Path(path)
        if not self.path.is_file():
            raise WavesError(f"{path}: no such file; ./presil cosim MODEL --trace LAYER writes a waveform")
        with open(path, "rb") as file:
            if file.read(len(BUNDLE)) == BUNDLE:
                raise WavesError(f"{path} is a bundle, a waveform was expected: ./presil waves {path} makes its own")
        try:
            self._file = pywellen.Waveform(str(path))
        except BaseException as error:  # its panics are not Exceptions
            if isinstance(error, KeyboardInterrupt):
                raise
            raise WavesError(f"{path} can't be read as FST or VCD: {error}") from None
        self.variables = {}
        for variable in self._file.all_vars():
            self.variables.setdefault(plain(variable.full_name), variable)
        self.scopes = [s.full_name for s in self._file.all_scopes()]
        self._read = {}

    @cached_property
    def ticks_per_second(self) -> int:
        scale = self._file.timescale
        return PER_SECOND[str(scale.unit)] // scale.factor

    def scope(self, name: str) -> str:
        """The full name of the outermost scope of that name."""
        found = [s for s in self.scopes if s.split(".")[-1] == name]
        if not found:
            outer = ", ".join(s for s in self.scopes if "." not in s)
            raise WavesError(f"{self.path} has no module {name}; its outermost ones: {outer}")
        return min(found, key=lambda s: s.count("."))

    def signal(self, name: str) -> Signal:
        if name not in self._read:
            if name not in self.variables:
                near = difflib.get_close_matches(name, self.variables, 3)
                raise WavesError(f"{self.path} has no signal {name}" + (f"; near: {', '.join(near)}" if near else ""))
            variable = self.variables[name]
            changes = list(variable.signal)
            self._read[name] = Signal(
                name,
                variable.bitwidth or 1,
                [t for t, _ in changes],
                [int(v) if v in (True, False) else v for _, v in changes],
            )
        return self._read[name]


class Cycles:
    """Cycles of a clock, counted from a rising edge: 0 is the edge at `zero`. None: the trace's first, or what makes
    that one cycle `first`."""

    def __init__(self, clock: Signal, zero: int | None, first: int = 0):
        rises = list(clock.rises())
        if len(rises) < 2:
            raise WavesError(f"{clock.name} has {len(rises)} rising edges: a clock was expected")
        self.period = min(b - a for a, b in zip(rises, rises[1:], strict=False))
        self.first = clock.times[0] if zero is None and clock.values[0] == 1 else rises[0]
        self.zero = self.first - first * self.period if zero is None else zero
        self.last = rises[-1] + self.period

    def time(self, cycle) -> int:
        return self.zero + round(cycle * self.period)

    def at(self, time) -> int:
        """The cycle that `time` is in."""
        return (time - self.zero) // self.period
