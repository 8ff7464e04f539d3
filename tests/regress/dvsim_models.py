# SPDX-License-Identifier: Apache-2.0
"""dvsim's published models of results (sim/data.py of version 1.57) and of testplans (testplan.py), by name and type;
"forbid": nothing of ours in it."""

from datetime import datetime
from pathlib import Path
from typing import Literal

import pydantic


class Strict(pydantic.BaseModel):
    model_config = pydantic.ConfigDict(extra="forbid", strict=False)


class Counted(Strict):
    passed: int
    total: int
    percent: float


class OfTest(Counted):
    max_time: float | None
    sim_time: float | None


class OfPoint(Counted):
    tests: dict[str, OfTest]


class OfStage(Counted):
    testpoints: dict[str, OfPoint]


class Failure(Strict):
    name: str
    qual_name: str
    seed: int | None
    line: int | None
    log_path: Path | None
    log_context: list[str]


class Buckets(Strict):
    buckets: dict[str, list[Failure]]


class Block(Strict):
    name: str
    variant: str | None
    commit: str
    commit_short: str
    dirty: bool
    branch: str
    url: str | None
    revision_info: str | None


class Tool(Strict):
    name: str
    version: str


class CodeCoverage(Strict):
    block: float | None
    line_statement: float | None
    branch: float | None
    condition_expression: float | None
    toggle: float | None
    fsm: float | None


class Coverage(Strict):
    code: CodeCoverage | None
    assertion: float | None
    functional: float | None


class Results(Counted):
    block: Block
    tool: Tool
    timestamp: datetime
    build_seed: int | None
    testplan_ref: str | None
    stages: dict[str, OfStage]
    coverage: Coverage | None
    cov_report_page: Path | None
    vplan_report_page: Path | None
    vplan_coverage: float | None
    failed_jobs: Buckets


class Testpoint(Strict):
    name: str = pydantic.Field(min_length=1)
    desc: str
    stage: Literal["N.A.", "V1", "V2", "V2S", "V3"]
    tests: list[str]


class Testplan(Strict):
    name: str = pydantic.Field(min_length=1)
    testpoints: list[Testpoint] = pydantic.Field(min_length=1)
