# SPDX-License-Identifier: Apache-2.0
"""presil_top with Verilator for cocotb, once a configuration: chip_tests.py; the counts of cocotb's own report are
asserted."""

import pytest
from simulator import BUILD, Simulator


@pytest.mark.parametrize("config", ["tiny", "odd"])
def test_chip(config):
    ran, failed = Simulator.build("presil_top", config, BUILD / config / "sim").run("chip_tests")
    assert len(ran) >= 11, "cocotb ran too few tests"
    assert not failed, failed
