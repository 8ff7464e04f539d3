# SPDX-License-Identifier: Apache-2.0
"""torch.presil.amp: autocast and GradScaler with the device filled in."""

import torch

__all__ = ["autocast", "GradScaler"]


class autocast(torch.amp.autocast_mode.autocast):
    def __init__(self, enabled: bool = True, dtype: torch.dtype = torch.bfloat16, cache_enabled: bool = True):
        super().__init__("presil", enabled=enabled, dtype=dtype, cache_enabled=cache_enabled)


class GradScaler(torch.amp.GradScaler):
    def __init__(
        self,
        init_scale: float = 2.0**16,
        growth_factor: float = 2.0,
        backoff_factor: float = 0.5,
        growth_interval: int = 2000,
        enabled: bool = True,
    ):
        super().__init__("presil", init_scale, growth_factor, backoff_factor, growth_interval, enabled)
