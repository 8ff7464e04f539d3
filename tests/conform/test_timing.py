# SPDX-License-Identifier: Apache-2.0
"""The checks of what a chip declares its cycles to depend on, and says of a launch before it runs: ours passes them,
and a chip that lies does not."""

import pytest
from conform_runs import BUILD, check, library

# "nan": the first contents, random, have some; zeros have none.
LIES = {
    "zeros": "cycles on zeros",
    "nan": "cycles on zeros",
    "bytes": "read_bytes on zeros",
    "address": "cycles at other addresses",
}
# check, and what it says
SAID_BEFORE = {
    "page": ("work", "work() of a plan with the same timing()"),
    "again": ("work", "work() of the same plan, asked again"),
    "idle": ("work", "cycles of work() are 0"),
    "stalls": ("work", "an engine's stalls add up to"),
    "far": ("work", "launches are estimated from the others"),
    "row": ("usage", "of usage()'s rows, as counters() counts them"),
    "small": ("usage", "of 1 bytes holds"),
}


def asked(compiled, fault: str = "", name: str = "timing") -> dict:
    sound = BUILD / "lib" / "libpresil_chip_presil.so"
    environment = {"PRESIL_SOUND_CHIP": str(sound), "PRESIL_FAULT": fault}
    return check(name, library("tiny_fast"), "-", chip=compiled("lying_chip.c"), **environment)


def test_ours_tells_the_truth(compiled):
    found = asked(compiled)
    assert found["status"] == "passed" and found["comparisons"] > 150, found


def test_a_chip_that_declares_nothing_is_skipped(compiled):
    found = asked(compiled, "silent")
    assert found["status"] == "skipped" and "does not declare" in found["text"], found


@pytest.mark.parametrize("lie", LIES)
def test_a_chip_that_lies_is_found(lie, compiled):
    found = asked(compiled, lie)
    assert found["status"] == "failed" and LIES[lie] in found["text"], found


@pytest.mark.parametrize("name, least", [("work", 200), ("usage", 100)])
def test_what_ours_says_before_a_launch_is_true(name, least, compiled):
    found = asked(compiled, name=name)
    assert found["status"] == "passed" and found["comparisons"] > least, found


@pytest.mark.parametrize("name", ["work", "usage"])
def test_a_chip_that_says_nothing_before_is_skipped(name, compiled):
    found = asked(compiled, "mute", name)
    assert found["status"] == "skipped" and f"({name})" in found["text"], found


@pytest.mark.parametrize("lie", SAID_BEFORE)
def test_a_chip_that_lies_before_a_launch_is_found(lie, compiled):
    name, said = SAID_BEFORE[lie]
    found = asked(compiled, lie, name)
    assert found["status"] == "failed" and said in found["text"], found
