# SPDX-License-Identifier: Apache-2.0
"""What a test that fails under `presil regress` leaves: its own words, and a bundle of the last launch of its chip."""

import json
import os
from pathlib import Path

import pytest

from . import kept


def tell(item, call, unit: str, kept_where: list[str]) -> None:
    """The test and the first line of what it says, as the result of the case: pytest's log has many like it. unit: the
    registers that it had looked at; kept_where: each chip's launch, or why there is none."""
    if path := os.environ.get("PRESIL_REGRESS_RESULT"):
        said = (str(call.excinfo.value).strip() or call.excinfo.typename).splitlines()[0]
        why = [text for text in kept_where if text.startswith("no bundle")]
        told = {"message": f"{item.name}: {said}", "unit": unit, "evidence": "; ".join(why)}
        Path(path).write_text(json.dumps({key: value for key, value in told.items() if value}) + "\n")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item, call):
    """For a conftest.py: a test that fails says so, and leaves the last launch of its chip."""
    report = yield
    if report.when == "call" and report.failed and kept.folder():
        chips = list(kept.OPEN)
        units = [chip.given.unit for chip in chips]  # before keeping reads memory
        where = [chip.given.keep(item.name) for chip in chips] or ["no bundle: no chip of the test is open any more"]
        tell(item, call, next(filter(None, units), ""), where)
    return report
