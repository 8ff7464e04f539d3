#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Plants each fault of faults.toml in rtl/ and tells which check finds it.

usage: run.py [--config tiny,odd] [--only REGEX] [--programs N] [--json FILE] [--least PERCENT]
       A fault counts as found if any configuration finds it within its first N programs (default: those that every run
       of CI has) or by the directed tests. Exit status 1 if fewer than --least percent are found, or one that is said
       to be equivalent is.
"""

import argparse
import json
import multiprocessing
import os
import re
import statistics
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))
sys.path.insert(0, str(HERE))
import sheets  # noqa: E402
from bench import built  # noqa: E402
from bench.compare import Difference, Pair  # noqa: E402
from bench.programs import program  # noqa: E402

PROGRAMS = {"tiny": 3000, "odd": 1600}
FIRST = 256  # of those, before the directed tests
SECONDS = 600  # for one fault on one configuration
DIRECTED = (
    "bits/test_decode.py",
    "bits/test_windows.py",
    "programs/test_registers.py",
    "programs/test_queue.py",
    "programs/test_records.py",
)
SWEEP = ("bits/test_sweep.py",)  # of operators; the last check, since it takes longest
CHECKS = ("programs", *(Path(name).stem for name in (*DIRECTED, *SWEEP)), "assertion")


@dataclass
class Finding:
    """check: one of CHECKS, or an empty text. how: what it said."""

    config: str
    check: str
    how: str
    seconds: float


def look(fault, library, config, programs, tell) -> None:
    """In a process of its own, since a fault may end it: programs until one differs, the directed tests between."""
    os.environ["PRESIL_MUTANT"] = str(fault.number)
    try:
        pair = Pair(config, path=library)
        pair.batch(range(FIRST))
        if not fault.check and (how := failing(DIRECTED, library, config)):
            return tell.send(how)
        pair.batch(range(FIRST, programs))
        tell.send((not fault.check and failing(SWEEP, library, config)) or ("", ""))
    except Difference as difference:
        tell.send(("programs", str(difference).replace("\n", " ")[:300]))
    return None


def among_others(library: Path) -> Path:
    """A folder with this library and, of the build, all others."""
    folder = library.parent / "among_others"
    folder.mkdir(exist_ok=True)
    for path in (*(built.build_directory() / "lib").iterdir(), library):
        link = folder / path.name
        link.unlink(missing_ok=True)
        link.symlink_to(path)
    return folder


def failing(tests, library: Path, config: str) -> tuple[str, str] | None:
    """The first of these tests that fails on a library, and its line."""
    environment = {**os.environ, "PRESIL_LIBRARY_PATH": str(among_others(library)), "PRESIL_RTL_BUILD": "fast"}
    for name in tests:
        command = [sys.executable, "-m", "pytest", "-x", "-q", "-k", config, HERE.parent / name]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=SECONDS, check=False)
        if done.returncode:
            failed = [line for line in done.stdout.splitlines() if line.startswith(("FAILED", "ERROR"))]
            return Path(name).stem, failed[0][:200] if failed else f"status {done.returncode}"
    return None


def find(library: Path, fault, config: str, programs: int) -> Finding:
    start, processes = time.monotonic(), multiprocessing.get_context("fork")
    hear, tell = processes.Pipe(duplex=False)
    process = processes.Process(target=look, args=(fault, library, config, programs, tell))
    process.start()
    tell.close()
    ends = "assertion" if fault.check else "programs"
    check, how = ends, "the process ended"
    try:
        check, how = hear.recv() if hear.poll(SECONDS) else (ends, f"no end within {SECONDS} s")
    except EOFError:
        pass
    process.kill()
    process.join()
    return Finding(config, check, how, time.monotonic() - start)


def campaign(config: str, planted: list, wanted: list, build: Path, programs: int | None) -> dict:
    """{number: Finding} of those that are found."""
    texts = {f.file: (sheets.ROOT / "rtl" / f.file).read_text() for f in planted}
    found = {}
    for n, sheet in enumerate(sheets.split(planted, texts)):
        left = [f for f in sheet if f in wanted]
        if not left:
            continue
        library = sheets.build(sheet, texts, config, build / f"{config}{n}")
        sound = find(library, sheets.Fault(0, "", "", "", "", check=True), config, 64)
        if sound.check:
            raise SystemExit(f"{config}, sheet {n}: the sound chip is found faulty: {sound.how}")
        for fault in left:
            finding = find(library, fault, config, programs or PROGRAMS.get(config, 600))
            word = "found   " if finding.check else "EQUIVALENT" if fault.equivalent else "SURVIVED"
            print(f"{word} {finding.seconds:5.1f} s {config} {fault.file}: {fault.name}: {finding.how}", flush=True)
            if finding.check:
                found[fault.number] = finding
    return found


def table(faults: list, found: dict) -> str:
    """By file: faults, found, by which check, and the median of the seconds that it took."""
    rows = [f"| file | faults | found | {' | '.join(CHECKS)} | seconds |", "|---" * (4 + len(CHECKS)) + "|"]
    for file in [*sorted({f.file for f in faults}), "all"]:
        mine = [f for f in faults if file in (f.file, "all")]
        seen = [found[f.number] for f in mine if f.number in found]
        by = [sum(s.check == name for s in seen) for name in CHECKS]
        seconds = f"{statistics.median(s.seconds for s in seen):.1f}" if seen else ""
        rows.append(f"| {file} | {len(mine)} | {len(seen)} | {' | '.join(str(n or '') for n in by)} | {seconds} |")
    return "\n".join(rows)


def share(faults: list, found: dict) -> float:
    return 100 * sum(f.number in found for f in faults) / max(1, len(faults))


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--config", default="tiny,odd")
    parser.add_argument("--only", default=".", help="faults whose file and name match this expression")
    parser.add_argument("--programs", type=int)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--least", type=float, default=98)
    args = parser.parse_args()
    planted = sheets.load()
    wanted = [f for f in planted if re.search(args.only, f"{f.file} {f.name}")]
    build = Path(os.environ.get("PRESIL_BUILD_DIR", sheets.ROOT / "build" / "check")) / "mutants"
    program("tiny", 0)  # what all processes need is there before they part
    found = {}
    for config in args.config.split(","):
        left = [f for f in wanted if f.number not in found]
        found |= campaign(config, planted, left, build, args.programs)
    faults = [f for f in wanted if not f.equivalent]
    wrong = [f for f in wanted if f.equivalent and f.number in found]
    missed = [f for f in faults if f.number not in found]
    print(table(faults, found))
    for f in wrong:
        print(f"said to be equivalent, but found: {f.file}: {f.name}")
    untuned = [f for f in faults if f.untuned]
    if untuned:
        print(f"of {len(untuned)} untuned ones {share(untuned, found):.1f} % found")
    print(
        f"{len(faults) - len(missed)} of {len(faults)} found, {share(faults, found):.1f} %; survived: "
        f"{', '.join(f'{f.file} {f.name}' for f in missed) or 'none'}"
    )
    if args.json:
        rows = [
            {
                "file": f.file,
                "name": f.name,
                "untuned": f.untuned,
                **(vars(found[f.number]) if f.number in found else {}),
            }
            for f in faults
        ]
        score = {"found": len(faults) - len(missed), "of": len(faults), "survived": [f.name for f in missed]}
        args.json.write_text(json.dumps({**score, "faults": rows}, indent=1) + "\n")
    return 0 if faults and not wrong and share(faults, found) >= args.least else 1


if __name__ == "__main__":
    sys.exit(main())
