# SPDX-License-Identifier: Apache-2.0
import os

os.environ.setdefault("PRESIL_CHIP", "tiny")
