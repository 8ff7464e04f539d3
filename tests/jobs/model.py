# SPDX-License-Identifier: Apache-2.0
import torch


def small():
    layers = [torch.nn.Conv2d(16, 24, 3, padding=1), torch.nn.ReLU(), torch.nn.Conv2d(24, 16, 1), torch.nn.Flatten()]
    return torch.nn.Sequential(*layers, torch.nn.Linear(16 * 64, 10)), torch.randn(1, 16, 8, 8)
