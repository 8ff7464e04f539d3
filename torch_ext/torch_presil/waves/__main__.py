# SPDX-License-Identifier: Apache-2.0
"""./presil waves runs this folder as a program, so that neither torch nor the device is loaded."""

import sys
from pathlib import Path

if __package__:
    from .command import waves
else:
    sys.path[0] = str(Path(__file__).resolve().parents[1])
    from waves.command import waves

waves(prog_name="presil waves")
