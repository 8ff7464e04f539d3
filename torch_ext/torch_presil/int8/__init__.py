# SPDX-License-Identifier: Apache-2.0
"""Where int8 loses: calibration data, observers, noise layer by layer, and what bf16 layers buy (docs/int8.md)."""
