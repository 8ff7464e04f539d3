# SPDX-License-Identifier: Apache-2.0
"""Scale and zero point of a tensor of int8 codes."""

from dataclasses import dataclass

import torch

__all__ = ["SMALLEST_SCALE", "QuantizationParameters"]

SMALLEST_SCALE = 2.0**-60  # of a range of nothing but zeros


@dataclass(frozen=True)
class QuantizationParameters:
    """scale > 0 (fp32), zero_point in [-128, 127] (of int8 codes): value = (code − zero_point)·scale."""

    scale: float
    zero_point: int

    @staticmethod
    def from_range(low: float, high: float) -> "QuantizationParameters":
        low, high = min(low, 0.0), max(high, 0.0)
        scale = float(torch.tensor(max((high - low) / 255.0, SMALLEST_SCALE), dtype=torch.float32))
        return QuantizationParameters(scale, int(max(0, min(255, round(-low / scale)))) - 128)

    def of(self, value: torch.Tensor) -> torch.Tensor:
        """fp32 → int8 codes: clamp(rint(value·(1/scale) + zero_point), −128, 127)."""
        return value.float().mul(1.0 / self.scale).add_(self.zero_point).round_().clamp_(-128, 127).to(torch.int8)

    def value(self, codes: torch.Tensor) -> torch.Tensor:
        """int8 codes → fp32."""
        return codes.float().sub_(self.zero_point).mul_(self.scale)

    @property
    def limits(self) -> tuple[float, float]:
        """The values that round to a code lie from the first to the second; what lies beyond is cut."""
        return (-128.5 - self.zero_point) * self.scale, (127.5 - self.zero_point) * self.scale
