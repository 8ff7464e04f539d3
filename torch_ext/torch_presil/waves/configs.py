# SPDX-License-Identifier: Apache-2.0
"""python waves/configs.py BUNDLE: the configurations of its chips, for the start script. Nothing if it can't be read:
`presil waves` says why."""

import sys
from pathlib import Path

sys.path[0] = str(Path(__file__).resolve().parents[1])
from bundle import Bundle  # noqa: E402

try:
    with Bundle(sys.argv[1]) as bundle:
        print(*sorted({chip.config for chip in bundle.chips()}))
except (ValueError, OSError, MemoryError):
    pass
