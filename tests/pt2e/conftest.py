# SPDX-License-Identifier: Apache-2.0
"""On the twin unless a test asks for the RTL: same bits."""

import os
import sys
import warnings
from pathlib import Path

os.environ.setdefault("PRESIL_MODE", "model")
os.environ.setdefault("PRESIL_MEMORY", str(8 << 30))
sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).parents[1] / "torch")]

import pytest  # noqa: E402
import torch  # noqa: E402
import torch_presil  # noqa: E402

warnings.filterwarnings("ignore")


@pytest.fixture(autouse=True)
def clean():
    torch.manual_seed(0)
    yield
    torch.presil.synchronize()
    torch_presil._C.clear_weights_cache()


@pytest.fixture
def rtl():
    """The RTL for one test."""
    with torch.backends.presil.flags(mode="rtl"):
        yield
