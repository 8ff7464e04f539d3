#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Plants each fault of faults.toml in rtl/ and tells which the random programs find.

usage: run.py [--config tiny,odd] [--only REGEX] [--programs N] [--json FILE] [--least PERCENT]
       A fault counts as found if any configuration finds it within its first N programs (default: those that every run
       of CI has). Exit status 1 if fewer than --least percent are found.
"""

import argparse
import json
import multiprocessing
import os
import re
import subprocess
import sys
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))
sys.path.insert(0, str(HERE))
import sheets  # noqa: E402
from bench.compare import Difference, Pair  # noqa: E402
from bench.programs import program  # noqa: E402

PROGRAMS = {"tiny": 3000, "odd": 1600}
FIRST = 256  # of those, before the directed tests
SECONDS = 600  # for one fault on one configuration


def look(fault, library, config, programs, tell) -> None:
    """In a process of its own, since a fault may end it: programs until one differs, the directed tests between."""
    os.environ["PRESIL_MUTANT"] = str(fault.number)
    try:
        pair = Pair(config, path=library)
        pair.batch(range(FIRST))
        if how := directed(library, config):
            return tell.send(how)
        pair.batch(range(FIRST, programs))
        tell.send("")
    except Difference as difference:
        tell.send(str(difference).replace("\n", " ")[:300])
    return None


def directed(library, config) -> str:
    """The first of the directed tests that fails on a library, or an empty text."""
    environment = {**os.environ, "PRESIL_LIBRARY_PATH": str(library.parent), "PRESIL_RTL_BUILD": "fast"}
    names = ("bits/test_decode.py", "programs/test_registers.py", "programs/test_queue.py")
    tests = [HERE.parent / name for name in names]
    command = [sys.executable, "-m", "pytest", "-x", "-q", "-k", config, *tests]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=SECONDS, check=False)
    failed = [line for line in done.stdout.splitlines() if line.startswith(("FAILED", "ERROR"))]
    return failed[0][:200] if failed else "" if done.returncode == 0 else f"status {done.returncode}"


def find(library: Path, fault, config: str, programs: int) -> tuple[bool, str, float]:
    """(found, how, seconds)."""
    start, processes = time.monotonic(), multiprocessing.get_context("fork")
    hear, tell = processes.Pipe(duplex=False)
    process = processes.Process(target=look, args=(fault, library, config, programs, tell))
    process.start()
    tell.close()
    how = "the process ended"
    try:
        how = hear.recv() if hear.poll(SECONDS) else f"no end within {SECONDS} s"
    except EOFError:
        pass
    process.kill()
    process.join()
    return bool(how), how, time.monotonic() - start


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--config", default="tiny,odd")
    parser.add_argument("--only", default=".", help="faults whose file and name match this expression")
    parser.add_argument("--programs", type=int)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--least", type=float, default=98)
    args = parser.parse_args()
    planted = sheets.load()
    faults = [f for f in planted if re.search(args.only, f"{f.file} {f.name}")]
    texts = {f.file: (sheets.ROOT / "rtl" / f.file).read_text() for f in planted}
    build = Path(os.environ.get("PRESIL_BUILD_DIR", sheets.ROOT / "build" / "check")) / "mutants"
    program("tiny", 0)  # what all processes need is there before they part
    found = {}
    for config in args.config.split(","):
        for n, sheet in enumerate(sheets.split(planted, texts)):
            left = [f for f in sheet if f in faults and f.number not in found]
            if not left:
                continue
            library = sheets.build(sheet, texts, config, build / f"{config}{n}")
            if find(library, sheets.Fault(0, "", "", "", ""), config, 64)[0]:
                raise SystemExit(f"{config}, sheet {n}: the sound chip is found faulty")
            for fault in left:
                seen, how, seconds = find(library, fault, config, args.programs or PROGRAMS.get(config, 600))
                print(
                    f"{'found ' if seen else 'SURVIVED'} {seconds:5.1f} s {config} {fault.file}: {fault.name}: {how}",
                    flush=True,
                )
                if seen:
                    found[fault.number] = (config, how)
    missed = [f for f in faults if f.number not in found]
    share = 100 * len(found) / max(1, len(faults))
    print(
        f"{len(found)} of {len(faults)} found, {share:.1f} %; survived: "
        f"{', '.join(f'{f.file} {f.name}' for f in missed) or 'none'}"
    )
    if args.json:
        args.json.write_text(
            json.dumps({"found": len(found), "of": len(faults), "survived": [f.name for f in missed]}) + "\n"
        )
    return 0 if faults and share >= args.least else 1


if __name__ == "__main__":
    sys.exit(main())
