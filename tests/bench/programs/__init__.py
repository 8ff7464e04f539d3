# SPDX-License-Identifier: Apache-2.0
"""Random descriptor programs, valid and broken, for RTL, twin and oracle: docs/programs.md."""

from .program import BATCH, Program, program

__all__ = ["BATCH", "Program", "program"]
