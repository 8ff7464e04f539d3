#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Benches of one module each (leaf/*_bench.py): builds the module alone and runs its bench (docs/testing.md).

usage: leaf.py [NAME…] [--config tiny|odd] [--seed N] [--scale F]
       NAME: load, store, matrix, epilogue, command, tokens, scratchpad, counters, record, weights, agen, load_columns,
             check, load_walk, epilogue_pipe, array, functions (default: all)
       --scale: of the number of descriptors
"""

import argparse
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
from simulator import BUILD, ROOT, Simulator  # noqa: E402

NAMES = "load store matrix epilogue command tokens scratchpad counters record weights agen".split()
NAMES += "load_columns check load_walk epilogue_pipe array functions".split()
# Python takes the time, not the module: what compiles fast is good enough.
FLAGS = "OPT_FAST=-O1 OPT_SLOW=-O0 OPT_GLOBAL=-O0"


def simulators(config: str, names=NAMES, rtl: Path = ROOT / "rtl", out: Path | None = None):
    """{name: Simulator}; Verilator's runtime is compiled once."""
    found, runtime = {}, None
    for name in names:
        folder = (out or BUILD / config / "leaf") / name
        runtime = found[name] = Simulator.build(f"presil_{name}", config, folder, rtl, FLAGS, runtime)
    return found


def bench(simulator: Simulator, **variables) -> tuple[list[str], list[str]]:
    """Tests that ran and those that failed. variables: PRESIL_SEED, PRESIL_LEAF."""
    return simulator.run(f"{simulator.top.removeprefix('presil_')}_bench", **variables)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("names", nargs="*", metavar="NAME")
    parser.add_argument("--config", default="tiny")
    parser.add_argument("--seed", default="1")
    parser.add_argument("--scale", default="1")
    parser.add_argument("--built", action="store_true", help="run what was built before")
    args = parser.parse_args()
    if unknown := set(args.names) - set(NAMES):
        parser.error(f"no bench {', '.join(sorted(unknown))}; there are {', '.join(NAMES)}")
    bad = 0
    for name, simulator in simulators(args.config, args.names or NAMES).items():
        ran, failed = bench(simulator, PRESIL_SEED=args.seed, PRESIL_LEAF=args.scale)
        print(f"{name}: {len(ran)} ran, failed: {', '.join(failed) or 'none'}", flush=True)
        bad += bool(failed) or not ran
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
