# SPDX-License-Identifier: Apache-2.0
"""The device runs on the twin here unless a test asks for the RTL (same bits, no clock)."""

import gc
import os

import pytest

os.environ.setdefault("PRESIL_MODE", "model")
os.environ.setdefault("PRESIL_MEMORY", str(8 << 30))

import torch  # noqa: E402
import torch_presil  # noqa: E402,F401
from verified import all_verified  # noqa: E402


def pytest_collection_finish(session):
    """What is there by now stays: collections needn't look at it. A graph's capture begins with one, and half a second
    each of PyTorch's and pytest's objects made most of the time of test_weights.py."""
    gc.collect()
    gc.freeze()


@pytest.fixture(autouse=True)
def seeded():
    torch.manual_seed(0)
    yield
    torch.presil.synchronize()


@pytest.fixture
def fresh_graphs():
    """Nothing is compiled, before and after."""
    from torch_presil.compiler import backend

    torch._dynamo.reset()
    backend.reset()
    yield
    torch._dynamo.reset()


@pytest.fixture
def rtl():
    """The RTL for one test."""
    with torch.backends.presil.flags(mode="rtl"):
        yield


@pytest.fixture
def verify():
    """RTL against twin for one test: a difference raises, and so does a test that verified nothing."""
    with all_verified():
        yield
