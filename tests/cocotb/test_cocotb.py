# SPDX-License-Identifier: Apache-2.0
"""presil_top with Verilator for cocotb, once a configuration: chip_tests.py, window_tests.py; the counts of cocotb's
own report are asserted."""

import pytest
from simulator import BUILD, Simulator


@pytest.fixture(scope="module")
def simulator(request):
    return Simulator.build("presil_top", request.param, BUILD / request.param / "sim")


@pytest.mark.parametrize("module, least", [("chip_tests", 11), ("window_tests", 9)])
@pytest.mark.parametrize("simulator", ["tiny", "odd"], indirect=True)
def test_chip(simulator, module, least):
    ran, failed = simulator.run(module)
    assert len(ran) >= least, "cocotb ran too few tests"
    assert not failed, failed
