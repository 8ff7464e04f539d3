# SPDX-License-Identifier: Apache-2.0
"""Runs the stages of tests/stages.toml, shows what they do, and ends with one line: 'N passed, M failed, K skipped'.

Exit status: 0 if tests ran and all passed, 1 if any failed or none ran, 2 for a wrong call, 130 if interrupted (with
the sum of what had run until then).
"""

import argparse
import os
import shutil
import signal
import sys
import time
from pathlib import Path

from runner.jobs import run_stages
from runner.results import conclude, print_outcome, write_junit
from runner.stages import ROOT, build_directory, load_stages, select, upstream_stage

HERE = Path(__file__).resolve().parent


def parse(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="presil test", description="Runs the tests. Arguments after -- go to pytest or ctest."
    )
    add = parser.add_argument
    add("--quick", action="store_true", help="only the stages marked quick; tests see PRESIL_QUICK=1")
    add("--nightly", action="store_true", help="also the stages marked nightly, which take long")
    add("--stage", action="append", default=[], metavar="NAME", help="only this stage; may be given several times")
    add("--stages", type=Path, default=HERE / "stages.toml", metavar="FILE", help="another list than tests/stages.toml")
    add("--jobs", type=int, metavar="N", help="cores to use (default: all that this process may use)")
    add("--list", action="store_true", help="name the stages and end")
    add(
        "--pytorch-source",
        type=Path,
        metavar="DIR",
        help="instead: PyTorch's own test files from its source tree of the same version, with our list of exceptions",
    )
    add("--json", type=Path, metavar="FILE", help="write the outcome as JSON")
    add("--junit", type=Path, metavar="FILE", help="write all stages' tests as one JUnit file")
    own, extra = arguments, []
    if "--" in arguments:
        cut = arguments.index("--")
        own, extra = arguments[:cut], arguments[cut + 1 :]
    options = parser.parse_args(own)
    options.extra = extra
    options.jobs = options.jobs or len(os.sched_getaffinity(0))
    if options.jobs < 1:
        parser.error(f"--jobs {options.jobs}: expected 1 or more")
    return options


def list_stages(stages: list) -> None:
    for stage in stages:
        when = "quick  " if stage.quick else "nightly" if stage.nightly else "       "
        what = " ".join(stage.path) or stage.label
        print(f"{stage.name:<12} {stage.kind:<7} {when} ≤ {stage.timeout:.0f} s  {what}")


def test_environment(options: argparse.Namespace) -> dict:
    environment = {**os.environ, "PRESIL_BUILD_DIR": str(build_directory()), "PYTHONUNBUFFERED": "1"}
    if options.pytorch_source:
        places = [str(ROOT / "tests" / "pytorch_source"), environment.get("PYTHONPATH", "")]
        environment["PYTHONPATH"] = os.pathsep.join(places)
    if options.quick:
        environment["PRESIL_QUICK"] = "1"
    if ccache := shutil.which("ccache"):  # projects that tests build are much the same
        for name in ("CMAKE_C_COMPILER_LAUNCHER", "CMAKE_CXX_COMPILER_LAUNCHER"):
            environment.setdefault(name, ccache)
        # As in CMakeLists.txt: without these it refuses what is compiled with a precompiled header.
        environment.setdefault("CCACHE_SLOPPINESS", "pch_defines,time_macros,include_file_mtime,include_file_ctime")
        environment.setdefault("CCACHE_BASEDIR", str(ROOT))
    # Compiled Python is kept, wherever the machine says not to: .venv is installed without (./presil), and without it
    # each process that imports transformers spends 7 s on compiling it, torch._dynamo or torchvision 4 s.
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    environment.setdefault("PYTHONPYCACHEPREFIX", str(ROOT / "build" / "pycache"))
    # PyTorch's idle threads sleep instead of spinning: where two stages share two cores, 20,000 small operators in a
    # row took 32 s of processor time, and so 3. How many threads there are, and so every bit, is as before.
    environment.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    # The seed of the day, one for the whole run; this process needs it for the replay lines.
    day = os.environ.get("PRESIL_DAY") or time.strftime("%Y%m%d")
    environment["PRESIL_DAY"] = os.environ["PRESIL_DAY"] = day
    print(f"seed of the day: PRESIL_DAY={day}")
    return environment


def main(arguments: list[str]) -> int:
    options = parse(arguments)
    stages = load_stages(options.stages)
    try:
        if options.pytorch_source:
            chosen = [upstream_stage(options.pytorch_source)]
        else:
            chosen = select(stages, options.stage, options.quick, options.nightly)
    except SystemExit as error:
        print(f"presil test: {error}", file=sys.stderr)
        return 2
    if options.list:
        list_stages(stages)
        return 0
    logs = ROOT / "build" / "logs" / "test"
    logs.mkdir(parents=True, exist_ok=True)
    start, outcomes, status = time.monotonic(), [], 0
    try:
        for outcome in run_stages(chosen, logs, test_environment(options), options.extra, options.jobs):
            outcomes.append(outcome)
            print_outcome(outcome)
    except KeyboardInterrupt:
        status = 130
    good = conclude(outcomes, time.monotonic() - start, options.json)
    if options.junit:
        write_junit(outcomes, logs, options.junit)
    if status:
        missing = [stage.name for stage in chosen if stage.name not in {o.name for o in outcomes if not o.interrupted}]
        print(f"presil test: interrupted; not done: {', '.join(missing)}", file=sys.stderr)
        return status
    return 0 if good else 1


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda *_: (_ for _ in ()).throw(KeyboardInterrupt()))
    try:
        sys.exit(main(sys.argv[1:]))
    except KeyboardInterrupt:
        print("\npresil test: interrupted", file=sys.stderr)
        sys.exit(130)
