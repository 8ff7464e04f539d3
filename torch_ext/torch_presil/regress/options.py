# SPDX-License-Identifier: Apache-2.0
"""What `presil regress` is asked."""

import os
from dataclasses import dataclass, field
from pathlib import Path

from .exit_codes import UsageError


@dataclass
class Options:
    suites: tuple = ()
    jobs: int | None = None
    chips: list = field(default_factory=list)
    builds: list = field(default_factory=list)
    memory: list = field(default_factory=list)
    stress: list = field(default_factory=list)
    library: str | None = None
    mode: str = "regression"
    seed: int | None = None
    seeds: int | None = None
    case_seed: int | None = None
    case_index: int | None = None
    filter: str | None = None
    folders: tuple = ()
    rerun_failed: bool = False
    resume: bool = False
    run: str | None = None
    runs: str | None = None
    max_failures: int = 0
    junit: str | None = None
    json: str | None = None
    html: str | None = None
    testplan: str | None = None
    against: str | None = None
    accept: str | None = None
    good: str | None = None
    rank: bool = False
    farm: str | None = None
    list: bool = False


def split(text: str | None) -> list[str]:
    return [part.strip() for part in (text or "").split(",") if part.strip()]


def check(options: Options) -> None:
    """Combinations that have no meaning."""
    o = options
    if o.resume and (o.suites or o.rerun_failed or o.filter):
        raise UsageError("--resume goes on with a run as it was planned: no suite, --filter or --rerun-failed with it")
    if o.rerun_failed and o.suites:
        raise UsageError("--rerun-failed takes the cases from the last run: no suite with it")
    if o.mode == "soak" and (o.seed is not None or o.case_seed is not None):
        raise UsageError("--mode soak draws a fresh seed; --seed and --case-seed are for repeating")
    if os.environ.get("PRESIL_UNSEEN", "simulate") != "simulate":
        raise UsageError("PRESIL_UNSEEN: a regression compares cycles with a baseline, so estimates are no part of it")
    if o.mode == "hybrid" and "coverage" in o.builds:
        raise UsageError("--mode hybrid simulates what is not known yet; --coverage wants all of it simulated")
    if o.case_seed is not None and (o.seeds or o.seed is not None):
        raise UsageError("--case-seed is the seed of one case itself: no --seed or --seeds with it")
    if o.case_index is not None and (o.case_seed is None or o.case_index < 0):
        raise UsageError("--case-index is the number behind # of a run of a case, and goes with its --case-seed")
    if o.good and not Path(o.good).is_file():
        raise UsageError(f"--good {o.good}: a simulator library in the build trace expected, there is no such file")
    for name, value in (("-j", o.jobs), ("--seeds", o.seeds)):
        if value is not None and value < 1:
            raise UsageError(f"{name} {value}: expected 1 or more")
