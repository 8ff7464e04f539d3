# SPDX-License-Identifier: Apache-2.0
"""Which programs a run has: the first ones, the same in every run, and as many of the day (PRESIL_SEED, else the
date). PRESIL_PROGRAMS scales how many."""

import datetime
import os

QUICK = os.environ.get("PRESIL_QUICK") == "1"
SCALE = float(os.environ.get("PRESIL_PROGRAMS", "0.12" if QUICK else "1"))
SEED = int(os.environ.get("PRESIL_SEED") or os.environ.get("PRESIL_DAY") or f"{datetime.date.today():%Y%m%d}")
FIRST_OF_DAY = SEED * (1 << 20)  # a multiple of a batch
