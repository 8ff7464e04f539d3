# SPDX-License-Identifier: Apache-2.0
"""What somebody who waits is shown, and the schedule of bench --only jobs."""

import io

import torch
from torch_presil import _C, bench_jobs
from torch_presil.device.progress import show_while_waiting


def test_who_waits_sees_how_far_it_is():
    x = torch.randn(256, 256, dtype=torch.bfloat16).to("presil")
    with torch.backends.presil.flags(mode="verify", jobs=2):
        for _ in range(24):
            (x @ x).cpu()
        said = io.StringIO()
        show_while_waiting(0, said, patience=0.05)
        assert _C.jobs_ready(0, 0) and _C.jobs_stats(0)["waiting"] == 0
        quiet = io.StringIO()
        show_while_waiting(0, quiet, patience=0.05)
    lines = said.getvalue().split("\r")
    assert "of 24 launches compared on 2 processes" in lines[1] and lines[-1] == "" and not lines[-2].strip(), lines
    assert quiet.getvalue() == ""


def test_schedules():
    run = bench_jobs.schedule
    assert run([1, 1, 1, 3], 2) == 4 and run([1, 1, 1, 3], 2, longest_first=True) == 3
    assert run([2, 2], 8) == 2 and run([2, 2], 8, ready=[0, 5]) == 7
    assert run([4, 1, 1], 1) == 6 and run([1, 5], 1, ready=[0, 0.5], longest_first=True) == 6
