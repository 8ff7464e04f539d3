# SPDX-License-Identifier: Apache-2.0
"""python -m parity [--dtype D ...] [--entry NAME ...] [--check C ...] [--quick] [--json FILE]: runs entries and shows
what differs; no expectations."""

import argparse
import json
import sys
from pathlib import Path

from . import pool, report
from .worker import DTYPES


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m parity", description="PyTorch's operator database on the device beside the CPU."
    )
    parser.add_argument("--dtype", action="append", choices=list(DTYPES), help="default: all five")
    parser.add_argument("--entry", action="append", default=[], help="an entry's name; a trailing * matches more")
    parser.add_argument(
        "--check",
        action="append",
        default=[],
        help="only this check beside forward (view, noncontiguous, inplace, out, grad, error)",
    )
    parser.add_argument("--quick", action="store_true", help="every 8th sample")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--workers", type=int, default=pool.cores(), help="processes; default: one a processor")
    parser.add_argument("--json", type=Path, metavar="FILE", help="all answers as JSON")
    options = parser.parse_args()
    tasks = report.tasks(
        options.dtype or list(DTYPES), options.entry, options.check, 8 if options.quick else 1, options.seed
    )

    def told(done, of, answer):
        if sys.stderr.isatty() or done % 200 == 0:
            print(
                f"\r{done} of {of}: {answer['dtype']} {answer['entry']}\033[K",
                end="" if sys.stderr.isatty() else "\n",
                file=sys.stderr,
                flush=True,
            )

    answers = pool.run(tasks, workers=options.workers, told=told)
    if options.json:
        options.json.write_text(json.dumps(answers, indent=1) + "\n")
    for line in report.failures(answers):
        print(line)
    for line in report.summary(answers):
        print(line)
    return 0


if __name__ == "__main__":
    sys.exit(main())
