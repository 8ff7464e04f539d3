#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""How much code a simulated cycle runs through: instructions, and lines of 64 bytes.

usage: code_lines.py CALLGRIND_OUT --cycles N [--library TEXT]

CALLGRIND_OUT is of `valgrind --tool=callgrind --dump-instr=yes python sim/speed.py LIBRARY ... --once`, N the cycles
that speed.py printed. A model's code runs about once a cycle from end to end, so what counts beside the instructions
is how many lines they fill: the processor's first cache for instructions holds 512 (32 KiB), and each line beyond it
comes out of the second cache in every cycle.
"""

import argparse
import collections
import re
import sys
from pathlib import Path

LINE = 64  # bytes
OBJECT = re.compile(r"c?ob=\((\d+)\)(?: (.*))?")


def executions(lines, library):
    """How often each instruction of a library ran, by its address; `library`: a part of the library's path."""
    names, counts = {}, collections.Counter()
    current, call, address = "", False, 0
    for line in lines:
        if found := OBJECT.match(line):
            if found[2]:
                names[found[1]] = found[2].strip()
            if not line.startswith("c"):
                current = names[found[1]]
        elif line.startswith("calls="):
            call = True  # the next line is what the called function cost, not an instruction
        elif line[:1] in "0+-*" and line.strip():
            place, cost = line.split()[0], int(line.split()[-1])
            if place != "*":
                address = (address if place[0] in "+-" else 0) + int(place, 0)
            if not call and library in current:
                counts[address] += cost
            call = False
    return counts


def summary(counts, cycles):
    """(instructions a cycle, distinct ones run in most cycles, lines a cycle)."""
    lines = collections.defaultdict(float)
    for address, count in counts.items():
        lines[address // LINE] = max(lines[address // LINE], min(1, count / cycles))
    return sum(counts.values()) / cycles, sum(c > cycles / 2 for c in counts.values()), sum(lines.values())


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("profile", type=Path)
    parser.add_argument("--cycles", type=int, required=True)
    parser.add_argument("--library", default="libpresil_sim")
    args = parser.parse_args()
    with args.profile.open() as lines:
        counts = executions(lines, args.library)
    if not counts:
        sys.exit(
            f"{args.profile}: no instruction of a library with {args.library!r} in its path; was it written by "
            "valgrind --tool=callgrind --dump-instr=yes?"
        )
    ran, distinct, lines = summary(counts, args.cycles)
    print(
        f"{ran:.0f} instructions a cycle, {distinct} of them in most cycles; {lines:.0f} lines of {LINE} bytes a cycle"
    )


if __name__ == "__main__":
    main()
