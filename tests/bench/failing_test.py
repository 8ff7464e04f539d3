# SPDX-License-Identifier: Apache-2.0
"""What a test that fails under `presil regress` leaves: its own words, and a bundle of the last launch of its chip."""

import json
import os
from pathlib import Path

import pytest

from . import kept


def tell(item, call) -> None:
    """The test and the first line of what it says, as the result of the case: pytest's log has many like it."""
    if path := os.environ.get("PRESIL_REGRESS_RESULT"):
        said = (str(call.excinfo.value).strip() or call.excinfo.typename).splitlines()[0]
        Path(path).write_text(json.dumps({"message": f"{item.name}: {said}"}) + "\n")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item, call):
    """For a conftest.py: a test that fails says so, and leaves the last launch of its chip."""
    report = yield
    if report.when == "call" and report.failed and kept.folder():
        tell(item, call)
        for chip in list(kept.OPEN):
            chip.given.keep(item.name)
    return report
