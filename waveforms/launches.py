# SPDX-License-Identifier: Apache-2.0
"""Small models, one layer each, whose launches the pictures of docs/waveforms.md show."""

from torch import nn


def convolution():
    return nn.Sequential(nn.Conv2d(16, 8, 3, padding=1))


def linear():
    """Each weight is used once: the array waits for the next ones."""
    return nn.Sequential(nn.Linear(64, 32))
