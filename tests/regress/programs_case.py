#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Kind "programs" of presil regress: batches of random descriptor programs, RTL against twin (docs/programs.md)."""

import argparse
import os
import re
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from bench.compare import Difference, Pair  # noqa: E402
from bench.kept import KEPT  # noqa: E402
from bench.programs import BATCH, program  # noqa: E402
from regress import reporting  # noqa: E402


def unit_of(text: str) -> str | None:
    """Sums that are wrong are the counters' doing, whatever engine they are of; a cause that can't be is its engine's.
    Looking into the bundle says more."""
    if re.search(r": counter \w+ \d+,|'s causes (don't )?add up to", text):
        return "register COUNTER"
    engine = re.search(r"(\w+) has cycles of causes", text)
    return engine.group(1).lower() if engine else None


def label(number: int) -> str:
    """Of a program, in the baseline of cycles and in its bundle."""
    return f"program-{number}"


def keep(args, path: str, good: str, changed: list[str]) -> None:
    """Instead of the case: the first program that takes other cycles than on the last good simulator (docs/regress.md,
    PRESIL_REGRESS_CAPTURE); without one the first of `changed`, which are the baseline's, the shortest first."""
    libraries = [args.library, good] if good else [args.library]
    pairs = [Pair(args.chip, args.build, path=library or None) for library in libraries]
    first = args.seed * BATCH * 64
    for number in range(first, first + args.batches * BATCH) if good or changed else ():
        if number % BATCH == 0:
            for pair in pairs:
                pair.start_batch()
        p, taken_before = program(args.chip, number), [pair.statistics["cycles"] for pair in pairs]
        for pair in pairs:
            pair.run(p)
        cycles = [pair.statistics["cycles"] - before for pair, before in zip(pairs, taken_before)]
        print(f"{label(number)}: {' -> '.join(map(str, reversed(cycles)))} cycles", flush=True)
        if cycles[0] != cycles[1] if good else label(number) == changed[0]:
            text = pairs[0].keep(p)
            if text.startswith(KEPT):
                os.replace(text.removeprefix(KEPT), path)
            return


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    for name in ("--chip", "--build", "--memory"):
        parser.add_argument(name, required=True)
    parser.add_argument("--library", default="")
    parser.add_argument("--seed", type=int, required=True)
    parser.add_argument("--batches", type=int, default=2)
    args = parser.parse_args()
    if path := os.environ.get("PRESIL_REGRESS_CAPTURE"):
        changed = os.environ["PRESIL_REGRESS_CAPTURE_LAUNCHES"].splitlines()
        keep(args, path, os.environ["PRESIL_REGRESS_GOOD"], changed)
        reporting.finish(0)
    pair = Counting(args.chip, args.build, path=args.library or None)
    first = args.seed * BATCH * 64
    for batch in range(args.batches):
        at = first + batch * BATCH
        print(f"batch {batch + 1}/{args.batches}: programs {at} to {at + BATCH - 1}", flush=True)
        try:
            pair.batch(range(at, at + BATCH))
        except Difference as error:
            text = str(error)
            what = reporting.first_line(error).partition("): ")[2]  # without the program's own description
            told = {"unit": unit_of(text), "message": what or reporting.first_line(error)}
            print(text)
            hung = "no interrupt" in text
            reporting.finish(reporting.HANG if hung else reporting.MISMATCH, **told, **taken(pair))
        if text := reporting.over(pair.statistics["cycles"]):
            reporting.finish(reporting.HANG, message=text, **taken(pair))
    reporting.finish(0, **taken(pair))


class Counting(Pair):
    """taken: label -> the cycles of a program that ended as it should; of the others they are not compared."""

    def __init__(self, *arguments, **more):
        super().__init__(*arguments, **more)
        self.taken = {}

    def run(self, p) -> None:
        before = self.statistics["cycles"]
        super().run(p)
        if cycles := self.statistics["cycles"] - before:
            self.taken[label(p.number)] = {"cycles": cycles, "stalls": {}}


def taken(pair: Counting) -> dict:
    s = pair.statistics
    told = {"cycles": s["cycles"], "clock_mhz": pair.config.clock_mhz}
    return {**told, "launches": pair.taken, "checks": s["programs"], "captures": True}


if __name__ == "__main__":
    main()
