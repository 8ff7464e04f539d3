#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Kind "programs" of presil regress: batches of random descriptor programs, RTL against twin (docs/programs.md)."""

import argparse
import re
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from bench.compare import Difference, Pair  # noqa: E402
from bench.programs import BATCH  # noqa: E402
from regress import reporting  # noqa: E402


def unit_of(text: str) -> str | None:
    """Sums that are wrong are the counters' doing, whatever engine they are of; a cause that can't be is its engine's.
    Looking into the bundle says more."""
    if re.search(r": counter \w+ \d+,|'s causes (don't )?add up to", text):
        return "register COUNTER"
    engine = re.search(r"(\w+) has cycles of causes", text)
    return engine.group(1).lower() if engine else None


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    for name in ("--chip", "--build", "--memory"):
        parser.add_argument(name, required=True)
    parser.add_argument("--library", default="")
    parser.add_argument("--seed", type=int, required=True)
    parser.add_argument("--batches", type=int, default=2)
    args = parser.parse_args()
    pair = Pair(args.chip, args.build, path=args.library or None)
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


def taken(pair: Pair) -> dict:
    s = pair.statistics
    whole = {"all programs": {"cycles": s["cycles"], "stalls": {}}}
    told = {"cycles": s["cycles"], "clock_mhz": pair.config.clock_mhz}
    return {**told, "launches": whole, "checks": s["programs"]}


if __name__ == "__main__":
    main()
