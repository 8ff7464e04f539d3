# SPDX-License-Identifier: Apache-2.0
"""A network of keyword-spotting size, and words made of noise."""

import torch
from torch import nn


class DSCNN(nn.Module):
    """MLPerf Tiny's keyword spotting: 49 × 10 coefficients, 12 words."""

    def __init__(self, channels=64, blocks=4, words=12):
        super().__init__()

        def layer(*args, **more):
            return [nn.Conv2d(*args, **more, bias=False), nn.BatchNorm2d(channels), nn.ReLU()]

        body = layer(1, channels, (10, 4), stride=2, padding=(5, 1))
        for _ in range(blocks):
            body += layer(channels, channels, 3, padding=1, groups=channels) + layer(channels, channels, 1)
        self.body = nn.Sequential(*body, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Dropout(0.2))
        self.words = nn.Linear(channels, words)

    def forward(self, x):
        return self.words(self.body(x))


def spoken(count: int, seed: int):
    """Each word a pattern of its own, in noise, at a time of its own."""
    make = torch.Generator().manual_seed(7)
    patterns = torch.randn(12, 1, 20, 10, generator=make)
    make.manual_seed(seed)
    y = torch.randint(0, 12, (count,), generator=make)
    x = torch.randn(count, 1, 49, 10, generator=make) * 0.4
    for i, start in enumerate(torch.randint(0, 29, (count,), generator=make)):
        x[i, :, start : start + 20] += patterns[y[i]]
    return x, y
