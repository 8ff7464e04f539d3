# SPDX-License-Identifier: Apache-2.0
"""Each check of presil conform fails for the fault that it is there to find."""

import pytest
from conform_runs import ROOT, check, conform, library
from conform.checks import CHECKS
from conform.register import load

load()
TRANSPORT = [c.name for c in CHECKS.values() if c.level == "transport"]


DESCRIBED = ROOT / "tests/chip_stub/stub.conform.toml"


def test_without_a_fault_all_is_well(compiled):
    arguments = compiled("faulty_transport.c"), "--level", "transport", "--description", DESCRIBED
    run = conform(*arguments, PRESIL_SOUND=str(library("stub_fast")))
    assert run["counts"]["passed"] == len(TRANSPORT)


@pytest.mark.parametrize("name", TRANSPORT)
def test_a_fault_of_the_transport_is_found(name, compiled):
    place = {"PRESIL_SOUND": str(library("stub_fast")), "PRESIL_FAULT": name}
    found = check(name, compiled("faulty_transport.c"), DESCRIBED, **place)
    assert found["status"] == "failed" and found["text"], found


def test_a_library_that_crashes_behind_its_check_is_found(compiled):
    place = {"PRESIL_SOUND": str(library("stub_fast")), "PRESIL_FAULT": "unload"}
    run = conform(compiled("faulty_transport.c"), "--only", "identity", status=None, **place)
    (row,) = run["checks"]
    assert row["status"] == "failed" and "process ended with -6" in row["text"], row
