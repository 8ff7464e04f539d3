# SPDX-License-Identifier: Apache-2.0
"""The rows of stages.toml and the commands that they stand for."""

import os
import shlex
import sys
import tomllib
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
UPSTREAM = ("test/test_torch.py", "test/test_view_ops.py", "test/nn/test_convolution.py", "test/test_linalg.py")


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
    parallel: bool = False
    alone: bool = False
    skips: int = 0
    each: float = 300
    args: list[str] = field(default_factory=list)
    prepare: list[str] = field(default_factory=list)
    env: dict[str, str] = field(default_factory=dict)

    def slots(self, jobs: int) -> int:
        """Of room(jobs), what the stage takes."""
        return room(jobs) if self.alone else jobs if self.parallel else 1


def room(jobs: int) -> int:
    """How many stages of one core run at once on so many cores: farm takes 390 s, of them 220 of processor."""
    return jobs + 1 if jobs > 1 else 1


def load_stages(path: Path) -> list[Stage]:
    with path.open("rb") as file:
        return [Stage(name=name, **row) for name, row in tomllib.load(file).items()]


def select(stages: list[Stage], names: list[str], quick: bool, nightly: bool) -> list[Stage]:
    unknown = set(names) - {stage.name for stage in stages}
    if unknown:
        known = ", ".join(stage.name for stage in stages)
        raise SystemExit(f"no stage {', '.join(sorted(unknown))}; there are {known}")
    if names:
        return [stage for stage in stages if stage.name in names]
    return [stage for stage in stages if (stage.quick or not quick) and (nightly or not stage.nightly)]


def upstream_stage(source: Path) -> Stage:
    """PyTorch's own files; tests/pytorch_source holds the plugin and the exceptions."""
    missing = [name for name in UPSTREAM if not (source / name).is_file()]
    if missing:
        raise SystemExit(
            f"--pytorch-source {source}: no {', '.join(missing)} there; "
            "expected the root of PyTorch's source tree, version 2.13.0"
        )
    rootdir = [f"--rootdir={source.resolve()}", "-c", str(ROOT / "pyproject.toml")]
    return Stage(
        "pytorch",
        "pytest",
        7200,
        path=[str((source / name).resolve()) for name in UPSTREAM],
        skips=1 << 30,
        args=["-p", "plugin", "--import-mode=importlib", *rootdir],
    )


def build_directory(preset: str = "") -> Path:
    if preset:
        return ROOT / "build" / preset
    return Path(os.environ.get("PRESIL_BUILD_DIR", ROOT / "build" / "check"))


def environment_of(stage: Stage, environment: dict) -> dict:
    """What the stage's tests run with: its variables, and its build's package of Python if it names a preset."""
    if not stage.preset or stage.kind != "pytest":
        return {**environment, **stage.env}
    folder = build_directory(stage.preset)
    python = os.pathsep.join(filter(None, (str(folder / "python"), environment.get("PYTHONPATH"))))
    return {**environment, "PRESIL_BUILD_DIR": str(folder), "PYTHONPATH": python, **stage.env}


def commands(stage: Stage, report: Path, extra: list[str], jobs: int) -> list[list[str]]:
    """What the stage runs; the last command writes a JUnit report. Tests named in `extra` (FILE::TEST) run alone."""
    before = [shlex.split(line) for line in stage.prepare]
    if stage.kind == "pytest":
        run = [sys.executable, "-m", "pytest", "-v", "--tb=short", f"--junitxml={report}", "-o", "junit_family=xunit1"]
        run += [f"--timeout={stage.each:g}"]
        named = any("::" in word for word in extra)
        run += [] if named else stage.path
        run += [] if named or "-m" in stage.args else ["-m", "not nightly"]
        run += (["-n", str(jobs)] if stage.parallel else []) + stage.args
    elif stage.kind == "ctest":
        run = ["ctest", "--test-dir", str(build_directory(stage.preset)), "-L", f"^{stage.label}$", "--no-tests=error"]
        run += ["--output-on-failure", "--output-junit", str(report), "--timeout", f"{stage.each:g}"]
        run += (["-j", str(jobs)] if stage.parallel else []) + stage.args
    else:
        raise SystemExit(f"tests/stages.toml: {stage.name}: unknown kind {stage.kind!r} (pytest, ctest)")
    return [*before, [*run, *extra]]
