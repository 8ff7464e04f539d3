# SPDX-License-Identifier: Apache-2.0
"""One run under `jobs`, and what has to be the same in another."""

import torch
import torch_presil  # noqa: F401

SAME = (
    "label",
    "mode",
    "macs",
    "cycles",
    "stalls",
    "read_bytes",
    "write_bytes",
    "read_beats",
    "write_beats",
    "descriptors",
    "verified",
    "status",
    "fill",
    "drain",
    "conversions",
    "conversion_bytes",
    "counters",
)


def measured(reports: list) -> list:
    return [{name: row[name] for name in SAME if name in row} for row in reports]


def run_with(jobs: int, order: int | None, once, monkeypatch) -> tuple:
    """(results on the CPU, reports) of once()."""
    if order is None:
        monkeypatch.delenv("PRESIL_JOBS_ORDER", raising=False)
    else:
        monkeypatch.setenv("PRESIL_JOBS_ORDER", str(order))
    with torch.backends.presil.flags(mode="verify", jobs=jobs), torch.presil.reports() as collected:
        results = [t.cpu() for t in once()]
        return results, collected.take()
