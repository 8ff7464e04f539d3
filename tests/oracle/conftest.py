# SPDX-License-Identifier: Apache-2.0
"""One seed for everything random here, hypothesis included: PRESIL_SEED, shown in the header."""

import hypothesis
from hypothesis import core

from oracle.support import SEED

hypothesis.settings.register_profile("presil", database=None, print_blob=True)
hypothesis.settings.load_profile("presil")
core.global_force_seed = SEED


def pytest_report_header(config):
    return f"oracle: PRESIL_SEED={SEED}"
