# SPDX-License-Identifier: Apache-2.0
"""Models small enough for the RTL of `tiny`."""

import torch
from torch import nn


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.one, self.two = nn.Conv2d(8, 8, 3, padding=1), nn.Conv2d(8, 8, 1)

    def forward(self, x):
        return torch.relu(self.two(self.one(x).relu()) + x)


class Traceable(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem, self.body, self.pool = nn.Conv2d(3, 8, 3), Block(), nn.MaxPool2d(2)
        self.head = nn.Linear(8 * 9, 5)

    def forward(self, x):
        x = self.pool(self.body(self.stem(x)))
        return self.head(x.flatten(1))


class Eager(nn.Module):
    """Its control flow depends on data: torch.fx can't trace it."""

    def __init__(self):
        super().__init__()
        self.query, self.key = nn.Linear(16, 16), nn.Linear(16, 16)

    def forward(self, x):
        if x.sum() > 1e9:
            return x
        scores = self.query(x) @ self.key(x).transpose(1, 2)
        return scores.softmax(-1) @ x


class HostAlone(nn.Module):
    def forward(self, x):
        return x.softmax(-1)


def host_alone():
    return HostAlone(), torch.ones(2, 16)


def bracketed():
    model = nn.Sequential()
    model.add_module("[bold]layer[red]", nn.Linear(16, 8))
    return model, torch.ones(2, 16)


def traceable():
    return Traceable(), torch.randn(1, 3, 8, 8, generator=torch.Generator().manual_seed(1))


def eager():
    return Eager(), torch.randn(2, 8, 16, generator=torch.Generator().manual_seed(1))
