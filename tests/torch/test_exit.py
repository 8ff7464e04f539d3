# SPDX-License-Identifier: Apache-2.0
"""The process ends cleanly at any moment (tests/torch/exits.py runs the same 1,000 times)."""

import importlib.util
from pathlib import Path

import pytest

spec = importlib.util.spec_from_file_location("exits", Path(__file__).with_name("exits.py"))
exits = importlib.util.module_from_spec(spec)
spec.loader.exec_module(exits)


@pytest.mark.parametrize("case", exits.CASES)
def test_it_ends(case):
    problems = exits.run_many(
        case, 16 if case in ("backward", "python_nodes") else 4 if case == "preempted" else 2, workers=2
    )
    assert not problems


@pytest.mark.nightly
def test_the_race_shows_where_nobody_waits_for_autograd():
    """The control: without it the test above could be blind. On a busy machine the two threads may not be parted."""
    for _ in range(8):
        problems = exits.run_many("preempted", 6, workers=2, drain=False)
        if any("terminate called without an active exception" in text for text in problems):
            return
    pytest.fail(f"48 ends without the race: {problems}")
