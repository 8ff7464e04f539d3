# SPDX-License-Identifier: Apache-2.0
"""A test that fails under `presil regress` leaves its last launch as a bundle."""

from bench.failing_test import pytest_runtest_makereport

__all__ = ["pytest_runtest_makereport"]
