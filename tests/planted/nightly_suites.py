# SPDX-License-Identifier: Apache-2.0
"""The twelve bugs, found by the suites that a team runs: `presil regress smoke ops` fails and names the module."""

import pytest

from . import bench

CONFIG = "tiny"


@pytest.fixture(scope="module")
def suite(tmp_path_factory):
    return bench.Suite(tmp_path_factory.mktemp("suites"), CONFIG)


@pytest.fixture(scope="module")
def sound(suite):
    """The run without a bug: its cycles are what the others are compared with."""
    outcome = suite.run("smoke", 0, "ops", "--chip", CONFIG, "--run", "sound")
    assert outcome.returncode == 0, outcome.printed
    return "sound"


@pytest.mark.parametrize("bug", [bug for bug, _ in bench.bugs()], ids=lambda bug: bug.name.replace(" ", "-"))
def test_smoke_and_ops_name_it(suite, sound, bug):
    words = ("ops", "--chip", CONFIG, "--good", suite.sound, "--against", sound, "--max-failures", "1")
    found = suite.run("smoke", bug.number, *words)
    print(f"{bug.name}: {found.record.get('name')}, {found.seconds:.0f} s, {found.unit}\n{found.printed}")
    assert found.returncode in (1, 3, 5), found.printed
    assert found.unit in bug.units, found.printed
    assert found.record["bundles"] and found.record["waveforms"], found.printed
