# SPDX-License-Identifier: Apache-2.0
"""presil_top with Verilator for cocotb, once a configuration: chip_tests.py, window_tests.py; the counts of cocotb's
own report are asserted."""

import pytest
from simulator import BUILD, Simulator


@pytest.mark.parametrize("module, least", [("chip_tests", 11), ("window_tests", 9)])
@pytest.mark.parametrize("config", ["tiny", "odd"])
def test_chip(config, module, least):
    ran, failed = Simulator.build("presil_top", config, BUILD / config / "sim").run(module)
    assert len(ran) >= least, "cocotb ran too few tests"
    assert not failed, failed
