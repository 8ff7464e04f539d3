# SPDX-License-Identifier: Apache-2.0
"""Chunked linear_cross_entropy on the device: in what torch accumulates it and how many rows make a chunk.

torch decides both from the device's name. A device that it doesn't know sums the loss of bfloat16 and float16 in that
type, 1 % off; ours is treated as the CPU is: float32.
"""

import functools

import torch
from torch.nn.modules.linear_cross_entropy_options import LinearCrossEntropyOptions

__all__ = ["install"]


def install() -> None:
    """Called once, at import."""
    original = LinearCrossEntropyOptions._adjust

    @functools.wraps(original)
    def adjust(self, num_batches, in_features, num_classes, dtype, device=None):
        if device is not None and device.type == "presil":
            device = torch.device("cpu")
        return original(self, num_batches, in_features, num_classes, dtype, device)

    LinearCrossEntropyOptions._adjust = adjust
