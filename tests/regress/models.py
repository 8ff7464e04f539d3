# SPDX-License-Identifier: Apache-2.0
"""Small models for the suites."""

import torch
from torch import nn


def small_cnn() -> tuple:
    """Convolutions of every kind that a chip treats differently: 3×3, strided, 1×1, depthwise, and a linear layer."""
    model = nn.Sequential(
        nn.Conv2d(3, 24, 3, padding=1),
        nn.BatchNorm2d(24),
        nn.ReLU(),
        nn.Conv2d(24, 24, 3, 2, 1, groups=24),
        nn.ReLU6(),
        nn.Conv2d(24, 40, 1),
        nn.ReLU(),
        nn.AdaptiveAvgPool2d(2),
        nn.Flatten(),
        nn.Linear(160, 10),
    )
    return model, torch.randn(1, 3, 20, 20, generator=torch.Generator().manual_seed(0))
