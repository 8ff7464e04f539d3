# SPDX-License-Identifier: Apache-2.0
"""For all tests in Python."""

import gc


def pytest_collection_finish(session):
    """What is there by now stays: collections needn't look at it. A graph's capture begins with one, and half a second
    each of PyTorch's and pytest's objects made a third of the time of tests/torch/test_weights.py."""
    gc.collect()
    gc.freeze()
