# SPDX-License-Identifier: Apache-2.0
import os

os.environ["PRESIL_CHIP"] = "tiny"
