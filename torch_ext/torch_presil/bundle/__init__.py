# SPDX-License-Identifier: Apache-2.0
"""Bundles (.presil): files of launches with everything that they read and should give (docs/bundle.md).

    from torch_presil.bundle import Bundle

    with Bundle("resnet18.presil") as bundle:
        for launch in bundle.launches():
            print(launch.label, launch.reads.bytes, [r.cycles for r in bundle.results_of(launch)])

Reading needs neither a chip nor the driver; the same rules hold, and the same is refused, as in presil_bundle.h.
"""

from .reader import Bundle, Limits, Summary
from .values import BundleError, Memory, NewerVersion

__all__ = ["Bundle", "BundleError", "Limits", "Memory", "NewerVersion", "Summary"]
