#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs one random program again, as a failure names it: the programs of its batch before it, then it.

usage: replay.py CHIP NUMBER [--build fast|check] [--library FILE] [--alone] [--show] [--hazards]
       PRESIL_BUILD_DIR is the build (default build/check)
"""

import argparse
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from bench.compare import Difference, Pair  # noqa: E402
from bench.hazards import hazards  # noqa: E402
from bench.programs import BATCH, program  # noqa: E402


def show(p):
    for i, op in enumerate(p.operations):
        tokens = [f"{'LMESV'[t // 4]}{t % 4}" for t in range(20) if op.wait >> t & 1]
        signals = [s for s in range(4) if op.signal >> s & 1]
        print(f"{i:3} {op.kind:8} wait {' '.join(tokens) or '-'} signal {signals} {op.fields}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("chip")
    parser.add_argument("number", type=int)
    parser.add_argument("--build", default="fast")
    parser.add_argument("--library", type=Path)
    parser.add_argument("--alone", action="store_true", help="without those before it")
    parser.add_argument("--show", action="store_true", help="its descriptors")
    parser.add_argument("--hazards", action="store_true", help="what docs/hazards.md says of it, without running it")
    args = parser.parse_args()
    p = program(args.chip, args.number)
    print(p)
    if args.show:
        show(p)
    if args.hazards:
        found = hazards(args.chip, b"".join(p.raw(broken=True) if p.expected else p.raw()))
        print("\n".join(h.text for h in found) or "no hazard")
        return
    pair = Pair(args.chip, args.build, path=args.library)
    pair.start_batch()
    try:
        pair.batch(range(args.number if args.alone else args.number // BATCH * BATCH, args.number + 1))
    except Difference as error:
        raise SystemExit(f"differs: {error}") from None
    print("equal")


if __name__ == "__main__":
    main()
