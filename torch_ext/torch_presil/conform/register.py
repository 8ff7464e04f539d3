# SPDX-License-Identifier: Apache-2.0
"""Fills the list of checks, in the order in which they run."""


def load() -> None:
    from . import transport_checks, register_checks, job_checks  # noqa: F401, I001
    from . import chip_checks, process_checks, step_checks, layout_checks, scratch_checks  # noqa: F401, I001
    from . import queue_checks, timing_checks, work_checks  # noqa: F401, I001
    from . import torch_checks  # noqa: F401, I001
