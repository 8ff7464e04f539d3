# SPDX-License-Identifier: Apache-2.0
"""A network with everything that quantize() treats in its own way, and its calibration data."""

import torch
from torch import nn


class Net(nn.Module):
    """ReLU6, max-pooling, a residual, depthwise, a layer whose result the host takes, average pooling, linear."""

    def __init__(self):
        super().__init__()
        self.first = nn.Conv2d(3, 12, 3, padding=1)
        self.six = nn.ReLU6()
        self.pool = nn.MaxPool2d(2)
        self.depthwise = nn.Conv2d(12, 12, 3, padding=1, groups=12)
        self.second = nn.Conv2d(12, 12, 3, padding=1)
        self.relu = nn.ReLU()
        self.third = nn.Conv2d(12, 16, 1)
        self.plane = nn.AdaptiveAvgPool2d(1)
        self.last = nn.Linear(16, 10)

    def forward(self, x):
        x = self.pool(self.six(self.first(x)))
        x = self.relu(self.second(self.relu(self.depthwise(x))) + x)
        x = self.third(torch.sigmoid(x))
        return self.last(torch.flatten(self.plane(x), 1))


def make() -> nn.Module:
    return Net().eval()


def network(seed: int) -> nn.Module:
    torch.manual_seed(seed)
    return make()


def data(seed: int, count: int = 4) -> list:
    """Inputs with outliers, so that observers differ."""
    generator = torch.Generator().manual_seed(seed)
    return [torch.randn(2, 3, 12, 12, generator=generator) ** 3 for _ in range(count)]


def train():
    """As a DataLoader gives them: (images, labels)."""
    return [(x, torch.zeros(2, dtype=torch.long)) for x in data(7)]


def narrow():
    """Not what the network takes."""
    return torch.zeros(4, 2, 12, 12)


def with_input():
    return make(), data(5)[0]
