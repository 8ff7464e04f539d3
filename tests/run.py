# SPDX-License-Identifier: Apache-2.0
"""Runs the stages of tests/stages.toml, shows what they do, and ends with one line: 'N passed, M failed, K skipped'.

Exit status: 0 if tests ran and all passed, 1 if any failed or none ran, 2 for a wrong call, 130 if interrupted.
"""

import argparse
import contextlib
import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import time
import tomllib
import xml.etree.ElementTree as ElementTree
from dataclasses import asdict, dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
SPINNER = "|/-\\"
TAIL_LINES = 60


@dataclass
class Stage:
    """One row of stages.toml; its comments say what the fields mean."""

    name: str
    kind: str
    timeout: float
    path: list[str] = field(default_factory=list)
    label: str = ""
    preset: str = ""
    quick: bool = False
    nightly: bool = False
    skips: int = 0
    args: list[str] = field(default_factory=list)
    prepare: list[str] = field(default_factory=list)


@dataclass
class Outcome:
    name: str
    passed: int = 0
    failed: int = 0
    skipped: int = 0
    seconds: float = 0.0
    timed_out: bool = False
    failures: list[str] = field(default_factory=list)
    skip_reasons: list[str] = field(default_factory=list)
    log: str = ""

    def fail(self, reason: str) -> None:
        self.failed += 1
        self.failures.append(reason)


def load_stages(path: Path) -> list[Stage]:
    with path.open("rb") as file:
        return [Stage(name=name, **row) for name, row in tomllib.load(file).items()]


def build_directory(stage: Stage) -> Path:
    if stage.preset:
        return ROOT / "build" / stage.preset
    return Path(os.environ.get("PRESIL_BUILD_DIR", ROOT / "build" / "check"))


def commands(stage: Stage, report: Path, extra: list[str]) -> list[list[str]]:
    """What the stage runs; the last one writes a JUnit report."""
    before = [shlex.split(line) for line in stage.prepare]
    if stage.kind == "pytest":
        run = [
            sys.executable,
            "-m",
            "pytest",
            "-v",
            "--tb=short",
            f"--junitxml={report}",
            *stage.path,
            *stage.args,
            *extra,
        ]
    elif stage.kind == "ctest":
        run = [
            "ctest",
            "--test-dir",
            str(build_directory(stage)),
            "-L",
            f"^{stage.label}$",
            "--output-on-failure",
            "--no-tests=error",
            "--output-junit",
            str(report),
            *stage.args,
            *extra,
        ]
    else:
        raise SystemExit(f"tests/stages.toml: {stage.name}: unknown kind {stage.kind!r} (pytest, ctest)")
    return [*before, run]


class Progress:
    """A live line on a terminal, a line every ten seconds elsewhere."""

    def __init__(self, name: str):
        self.name, self.start, self.beat, self.told = name, time.monotonic(), 0, 0.0
        self.live = sys.stdout.isatty()

    def show(self, log: Path) -> None:
        elapsed = time.monotonic() - self.start
        if self.live:
            line = f"{SPINNER[self.beat % 4]} {self.name:<12} {elapsed:6.1f} s  {self._activity(log)}"
            sys.stdout.write("\r\033[K" + line[: shutil.get_terminal_size().columns - 1])
            self.beat += 1
        elif elapsed - self.told >= (10 if self.told else 2):
            self.told = elapsed
            sys.stdout.write(f"  {self.name:<12} {elapsed:6.1f} s  {self._activity(log)}"[:150] + "\n")
        sys.stdout.flush()

    def clear(self) -> None:
        if self.live:
            sys.stdout.write("\r\033[K")

    @staticmethod
    def _activity(log: Path) -> str:
        with log.open("rb") as file:
            file.seek(max(0, log.stat().st_size - 600))
            lines = [line for line in re.split(r"[\r\n]+", file.read().decode(errors="replace")) if line.strip()]
        return "".join(c for c in lines[-1] if c.isprintable()) if lines else ""


def end_group(process: subprocess.Popen) -> None:
    """Ends a command with everything that it started."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, number)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(5)


def default_interrupt() -> None:
    """A shell starts its background jobs with SIGINT ignored, and tests of Ctrl-C would inherit that."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def execute(command: list[str], log: Path, deadline: float, progress: Progress, environment: dict) -> int | None:
    """Exit status, or None when the time ran out."""
    with log.open("ab") as output:
        output.write(f"$ {shlex.join(command)}\n".encode())
        output.flush()
        process = subprocess.Popen(
            command,
            cwd=ROOT,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            env=environment,
            start_new_session=True,
            preexec_fn=default_interrupt,
        )
        try:
            while process.poll() is None:
                if time.monotonic() > deadline:
                    return None
                progress.show(log)
                with contextlib.suppress(subprocess.TimeoutExpired):
                    process.wait(0.25)
            return process.returncode
        finally:
            end_group(process)


def count(report: Path, outcome: Outcome) -> None:
    """Adds up the test cases of a JUnit report."""
    for case in ElementTree.parse(report).iter("testcase"):
        name = ".".join(filter(None, (case.get("classname"), case.get("name"))))
        bad = case.find("failure") if case.find("failure") is not None else case.find("error")
        skip = case.find("skipped")
        if bad is not None:
            outcome.fail(
                f"{name}: {(bad.get('message') or '').splitlines()[0][:200] if bad.get('message') else 'failed'}"
            )
        elif skip is not None or case.get("status") in ("notrun", "disabled"):
            outcome.skipped += 1
            outcome.skip_reasons.append(f"{name}: {(skip.get('message') if skip is not None else '') or 'not run'}")
        else:
            outcome.passed += 1


def run_stage(stage: Stage, logs: Path, environment: dict, extra: list[str]) -> Outcome:
    log, report = logs / f"{stage.name}.log", logs / f"{stage.name}.xml"
    log.write_bytes(b"")
    report.unlink(missing_ok=True)
    outcome = Outcome(stage.name, log=str(log.relative_to(ROOT)))
    progress = Progress(stage.name)
    status: int | None = 0
    for command in commands(stage, report, extra):
        status = execute(command, log, progress.start + stage.timeout, progress, environment)
        if status != 0:
            break
    outcome.seconds = round(time.monotonic() - progress.start, 1)
    progress.clear()
    if report.exists():
        count(report, outcome)
    if status is None:
        outcome.timed_out = True
        outcome.fail(f"{stage.name}: not done after {stage.timeout:.0f} s")
    elif status != 0 and not outcome.failed:
        outcome.fail(f"{stage.name}: ended with status {status} ({outcome.log})")
    elif outcome.passed + outcome.failed + outcome.skipped == 0:
        outcome.fail(f"{stage.name}: no test ran")
    if outcome.skipped > stage.skips:
        outcome.fail(f"{stage.name}: {outcome.skipped} skipped, {stage.skips} allowed (tests/stages.toml)")
    return outcome


def print_outcome(outcome: Outcome) -> None:
    word = "FAILED" if outcome.failed else "passed"
    print(
        f"{word}  {outcome.name:<12} {outcome.seconds:6.1f} s  {outcome.passed} passed, {outcome.failed} failed, {outcome.skipped} skipped"
    )
    for reason in outcome.failures:
        print(f"        {reason}")
    if outcome.failed:
        lines = (ROOT / outcome.log).read_text(errors="replace").splitlines()
        print("\n".join(f"    | {line[:240]}" for line in lines[-TAIL_LINES:]))
        print(f"        whole log: {outcome.log}")
    sys.stdout.flush()


def select(stages: list[Stage], options: argparse.Namespace) -> list[Stage]:
    unknown = set(options.stage) - {stage.name for stage in stages}
    if unknown:
        raise SystemExit(
            f"no stage {', '.join(sorted(unknown))}; there are {', '.join(stage.name for stage in stages)}"
        )
    if options.stage:
        return [stage for stage in stages if stage.name in options.stage]
    return [stage for stage in stages if (stage.quick or not options.quick) and (options.nightly or not stage.nightly)]


UPSTREAM = ("test/test_torch.py", "test/test_view_ops.py", "test/nn/test_convolution.py", "test/test_linalg.py")


def upstream_stage(source: Path) -> Stage:
    """PyTorch's own files; tests/pytorch_source holds the plugin and the exceptions."""
    missing = [name for name in UPSTREAM if not (source / name).is_file()]
    if missing:
        raise SystemExit(
            f"--pytorch-source {source}: no {', '.join(missing)} there; expected the root of PyTorch's source tree, version 2.13.0"
        )
    plugin = [
        "-p",
        "plugin",
        "--import-mode=importlib",
        f"--rootdir={source.resolve()}",
        "-c",
        str(ROOT / "pyproject.toml"),
    ]
    return Stage(
        "pytorch",
        "pytest",
        7200,
        path=[str((source / name).resolve()) for name in UPSTREAM],
        skips=1 << 30,
        args=plugin,
    )


def parse(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="presil test", description="Runs the tests. Arguments after -- go to pytest or ctest."
    )
    parser.add_argument("--quick", action="store_true", help="only the stages marked quick; tests see PRESIL_QUICK=1")
    parser.add_argument("--nightly", action="store_true", help="also the stages marked nightly, which take long")
    parser.add_argument(
        "--stage", action="append", default=[], metavar="NAME", help="only this stage; may be given several times"
    )
    parser.add_argument("--list", action="store_true", help="name the stages and end")
    parser.add_argument(
        "--pytorch-source",
        type=Path,
        metavar="DIR",
        help="instead: PyTorch's own test files from its source tree of the same version, with our list of exceptions",
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the outcome as JSON")
    own, extra = arguments, []
    if "--" in arguments:
        cut = arguments.index("--")
        own, extra = arguments[:cut], arguments[cut + 1 :]
    options = parser.parse_args(own)
    options.extra = extra
    return options


def main(arguments: list[str]) -> int:
    options = parse(arguments)
    stages = load_stages(Path(__file__).with_name("stages.toml"))
    try:
        chosen = [upstream_stage(options.pytorch_source)] if options.pytorch_source else select(stages, options)
    except SystemExit as error:
        print(f"presil test: {error}", file=sys.stderr)
        return 2
    if options.list:
        for stage in stages:
            print(
                f"{stage.name:<12} {stage.kind:<7} {'quick  ' if stage.quick else 'nightly' if stage.nightly else '       '} ≤ {stage.timeout:.0f} s  {' '.join(stage.path) or stage.label}"
            )
        return 0
    logs = ROOT / "build" / "logs" / "test"
    logs.mkdir(parents=True, exist_ok=True)
    environment = {**os.environ, "PRESIL_BUILD_DIR": str(build_directory(Stage("", "", 0))), "PYTHONUNBUFFERED": "1"}
    if options.pytorch_source:
        environment["PYTHONPATH"] = os.pathsep.join(
            [str(ROOT / "tests" / "pytorch_source"), environment.get("PYTHONPATH", "")]
        )
    if options.quick:
        environment["PRESIL_QUICK"] = "1"
    start = time.monotonic()
    outcomes = []
    for stage in chosen:
        outcomes.append(run_stage(stage, logs, environment, options.extra))
        print_outcome(outcomes[-1])
    return conclude(outcomes, time.monotonic() - start, options.json)


def conclude(outcomes: list[Outcome], seconds: float, path: Path | None) -> int:
    passed, failed, skipped = (sum(getattr(o, key) for o in outcomes) for key in ("passed", "failed", "skipped"))
    if path:
        total = {"passed": passed, "failed": failed, "skipped": skipped, "seconds": round(seconds, 1)}
        path.write_text(json.dumps({**total, "stages": [asdict(o) for o in outcomes]}, indent=1) + "\n")
    reasons = [reason for outcome in outcomes for reason in outcome.skip_reasons]
    if reasons:
        print("\nskipped:\n" + "\n".join(f"  {reason}" for reason in reasons))
    print(f"\n{seconds:.0f} s")
    print(f"{passed} passed, {failed} failed, {skipped} skipped")
    return 0 if passed and not failed else 1


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda *_: (_ for _ in ()).throw(KeyboardInterrupt()))
    try:
        sys.exit(main(sys.argv[1:]))
    except KeyboardInterrupt:
        print("\npresil test: interrupted", file=sys.stderr)
        sys.exit(130)
