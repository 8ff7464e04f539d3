# SPDX-License-Identifier: Apache-2.0
"""A U-Net for the suites: four levels, 32 to 256 channels, transposed convolutions on the way up."""

import torch
from torch import nn

LEVELS = (32, 64, 128, 256)


def _block(inputs: int, outputs: int) -> nn.Sequential:
    layers = []
    for channels in (inputs, outputs):
        layers += [nn.Conv2d(channels, outputs, 3, padding=1, bias=False), nn.BatchNorm2d(outputs), nn.ReLU()]
    return nn.Sequential(*layers)


class UNet(nn.Module):
    def __init__(self, classes: int = 2):
        super().__init__()
        sizes = (3, *LEVELS)
        self.down = nn.ModuleList(_block(a, b) for a, b in zip(sizes, sizes[1:]))
        self.pool = nn.MaxPool2d(2)
        ups = list(zip(LEVELS[::-1], LEVELS[-2::-1]))
        self.up = nn.ModuleList(nn.ConvTranspose2d(a, b, 2, 2) for a, b in ups)
        self.joined = nn.ModuleList(_block(a, b) for a, b in ups)
        self.head = nn.Conv2d(LEVELS[0], classes, 1)

    def forward(self, x):
        kept = []
        for block in self.down:
            kept.append(block(x if not kept else self.pool(kept[-1])))
        x = kept.pop()
        for up, block in zip(self.up, self.joined):
            x = block(torch.cat((up(x), kept.pop()), 1))
        return self.head(x)


def unet() -> tuple:
    return UNet(), torch.randn(1, 3, 64, 64, generator=torch.Generator().manual_seed(0))
