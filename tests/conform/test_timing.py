# SPDX-License-Identifier: Apache-2.0
"""The check of what a chip declares its cycles to depend on: ours passes it, and a chip that lies does not."""

import pytest
from conform_runs import BUILD, check, library

# "nan": the first contents, random, have some; zeros have none.
LIES = {
    "zeros": "cycles on zeros",
    "nan": "cycles on zeros",
    "bytes": "read_bytes on zeros",
    "address": "cycles at other addresses",
}


def asked(compiled, fault: str = "") -> dict:
    sound = BUILD / "lib" / "libpresil_chip_presil.so"
    environment = {"PRESIL_SOUND_CHIP": str(sound), "PRESIL_FAULT": fault}
    return check("timing", library("tiny_fast"), "-", chip=compiled("lying_chip.c"), **environment)


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
