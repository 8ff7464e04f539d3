# SPDX-License-Identifier: Apache-2.0
"""Models run on the twin here (same bits as the RTL, no clock) unless a test says otherwise; nothing may be fetched."""

import os
import sys
from pathlib import Path

os.environ.setdefault("PRESIL_MODE", "model")
os.environ.setdefault("PRESIL_MEMORY", str(16 << 30))
os.environ["HF_HUB_OFFLINE"] = "1"
sys.path.insert(0, str(Path(__file__).parent))

import pytest  # noqa: E402
import torch  # noqa: E402
import torch_presil  # noqa: E402


@pytest.fixture(autouse=True)
def clean():
    """Each test starts from seed 0 and leaves no packed weights behind."""
    torch.manual_seed(0)
    yield
    torch.presil.synchronize()
    torch_presil._C.clear_weights_cache()
