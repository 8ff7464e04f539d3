# SPDX-License-Identifier: Apache-2.0
"""Device arguments: None, an index, "presil:1", torch.device."""

import torch

from torch_presil import _C


def index_of(device=None) -> int:
    """Index of a presil device; None or no index: the current one. ValueError for another type of device."""
    if device is None:
        return _C.current_device()
    if isinstance(device, int):
        return device
    device = torch.device(device)
    if device.type != "presil":
        raise ValueError(f"expected a presil device, got {device}")
    return _C.current_device() if device.index is None else device.index
