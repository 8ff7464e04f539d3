# SPDX-License-Identifier: Apache-2.0
"""Each check of presil conform fails for the fault that it is there to find."""

import pytest
from conform_runs import ROOT, conform, library
from conform.checks import CHECKS
from conform.register import load

load()
TRANSPORT = [check.name for check in CHECKS.values() if check.level == "transport"]


@pytest.fixture(scope="module")
def faulty(compiled):
    """run(fault, *arguments, status): presil conform of the stub chip behind a transport with that fault."""
    described = ROOT / "tests/chip_stub/stub.conform.toml"

    def run(fault, *arguments, status):
        place = {"PRESIL_SOUND": str(library("stub_fast")), "PRESIL_FAULT": fault}
        made = compiled("faulty_transport.c")
        return conform(made, "--level", "transport", "--description", described, *arguments, status=status, **place)

    return run


def test_without_a_fault_all_is_well(faulty):
    assert faulty("none", status=0)["counts"]["passed"] == len(TRANSPORT)


@pytest.mark.parametrize("name", TRANSPORT)
def test_a_fault_of_the_transport_is_found(name, faulty):
    found = faulty(name, "--only", name, status=1)["checks"]
    assert [row["status"] for row in found] == ["failed"]
    assert not found[0]["text"].startswith("the process ended"), found[0]["text"]
