# SPDX-License-Identifier: Apache-2.0
"""The check of activation layouts, at a library that has nothing else: right it passes, and each fault is found."""

import pytest
from conform_runs import check, library

FAULTS = {
    "status": "0 or EUNSUPPORTED expected",
    "again": "a second time",
    "failed": "pack_activation() of",
    "beside": "writes beside the",
    "source": "changes what it packs",
    "fill": "leaves some of the",
    "strides": "not what was packed",
    "order": "not what was packed",
    "between": "bytes between are written",
    "lossy": "not what was packed",
    "wide": "not what was packed",
}


def asked(compiled, fault: str = "") -> dict:
    chip = compiled("faulty_layout.c")
    return check("activations", library("stub_fast"), "-", chip=chip, PRESIL_FAULT=fault)


def test_a_layout_that_is_right_passes(compiled):
    found = asked(compiled)
    assert found["status"] == "passed" and found["comparisons"] > 1000, found


def test_a_chip_that_wants_none_is_skipped(compiled):
    found = asked(compiled, "none")
    assert found["status"] == "skipped" and "wants none of the tensors" in found["text"], found


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_of_the_layout_is_found(fault, compiled):
    found = asked(compiled, fault)
    assert found["status"] == "failed" and FAULTS[fault] in found["text"], found
