# SPDX-License-Identifier: Apache-2.0
"""How many cycles a launch that hung may take in each replay that looks into it."""

from pathlib import Path

import pytest
from torch_presil.regress import failing_launch
from torch_presil.regress.run_list import Job

GRANTED = 400_000_000  # what the suite grants a case


def limit(monkeypatch, label="conv1", estimate=0, granted=GRANTED, status="hung", before=None) -> int:
    launches = [{"label": label, "estimate": estimate}]
    monkeypatch.setattr(failing_launch, "_launches", lambda _: launches)
    job = Job("one", "two", "cosim", ".", {}, "tiny", "fast", timeout_cycles=granted)
    record = {"status": status, "log": "x/log", "bundles": ["x.presil"], "changes": [], "before": before or {}}
    return failing_launch.limited(job, record, Path("/nowhere")).timeout_cycles


@pytest.mark.parametrize(
    ("cycles", "facts"),
    [
        (500_000, {}),
        (500_000, {"estimate": 1000}),
        (16_000_000, {"estimate": 1_000_000}),
        (6_000_000, {"estimate": 1_000_000, "before": {"conv1": 3_000_000}}),
        (16_000_000, {"estimate": 1_000_000, "before": {"all launches": 3_000_000}}),
        (60_000, {"estimate": 1_000_000, "granted": 60_000}),
        (500_000, {"granted": 0}),
        (GRANTED, {"status": "failed"}),  # it ends by itself
    ],
)
def test_it_follows_from_what_the_launch_took_or_should_take(cycles, facts, monkeypatch):
    assert limit(monkeypatch, **facts) == cycles


def test_a_record_of_a_hang_says_what_its_launches_took_before(place):
    more = 'timeout_cycles = 500\nenv = { FAKE_CYCLES = "100" }'
    place.suite("one", {"x": ("cycles", more)})
    assert place.go("one", run="sound") == 0
    place.suite("one", {"x": ("timeout", more)})
    assert place.go("one", against="sound") == 3
    assert place.found()["x"]["before"] == {"conv1": 100}
