# SPDX-License-Identifier: Apache-2.0
"""presil conform at its full length: every level on our larger chips, and faults that only PyTorch shows."""

import pytest
from conform_runs import OF_CHOICE, conform, library
from test_template import faulty

OF_NO_OPERATOR = {"pool"} | OF_CHOICE - {"timing", "usage", "weight-gradient", "work"}  # what our chip has nothing of
FAULTS = {
    "networks": (".b_stride = (uint32_t)b_row", ".b_stride = (uint32_t)b_row + 16"),
    "same-again": ("out->cycles += cycles;", "static int n; out->cycles += cycles + (n++ == 3);"),
}


@pytest.mark.parametrize("name", ["tiny_check", "odd_check", "base_fast"])
def test_every_level_of_our_chips(name):
    run = conform(library(name))
    skipped = {row["check"] for row in run["checks"] if row["status"] == "skipped"}
    assert skipped == OF_NO_OPERATOR and not run["counts"]["failed"], run["output"]


@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_that_pytorch_shows_is_found(name, project, tmp_path):
    found = faulty(name, *FAULTS[name], project, tmp_path)
    assert found["status"] == "failed" and found["text"], found
