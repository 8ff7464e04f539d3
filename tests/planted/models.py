# SPDX-License-Identifier: Apache-2.0
"""A model of which rows end at odd bytes."""

import torch
from torch import nn


def odd_cnn() -> tuple:
    """Rows of an odd number of bytes in int8: 13 and 7 channels."""
    model = nn.Sequential(nn.Conv2d(5, 13, 3, padding=1), nn.ReLU(), nn.Conv2d(13, 7, 1), nn.ReLU())
    return model, torch.randn(1, 5, 9, 9, generator=torch.Generator().manual_seed(0))
