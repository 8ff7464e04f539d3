# SPDX-License-Identifier: Apache-2.0
"""Makes files.py importable from the tests beside it."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
