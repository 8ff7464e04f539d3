# SPDX-License-Identifier: Apache-2.0
"""Mode hybrid on a chip that is not ours: a network that the store knows has the RTL's cycles without the RTL."""

import os

import pytest

os.environ["PRESIL_CHIP"] = "sa16"
os.environ.setdefault("PRESIL_MEMORY", str(1 << 30))

torch = pytest.importorskip("torch")
from networks import network  # noqa: E402
from torch_presil import _C  # noqa: E402
from torch_presil.fuse import fuse  # noqa: E402
from torch_presil.quantize import quantize  # noqa: E402

P, B = torch.presil, torch.backends.presil
MEASURED = ("label", "cycles", "read_bytes", "write_bytes", "stalls")

COUNTED = ("known", "sampled", "unknown", "never")


def forward(model, x, **settings) -> tuple:
    """(result, what the reports say, how many launches were known, sampled, unknown, can't be known)"""
    with B.flags(**settings), P.reports() as collected, torch.inference_mode():
        result = model(x.to("presil")).cpu()
        P.synchronize()
        reports = collected.take()
        known = [_C.jobs_stats(0)[name] for name in COUNTED] if "jobs" in settings else []
    return result, [{name: r[name] for name in MEASURED} for r in reports], known


def test_the_second_time_nothing_is_simulated(tmp_path):
    model, x = network("ds_cnn")
    model = quantize(fuse(model, x), [x]).to("presil")
    settings = {"store": str(tmp_path / "timings.sqlite"), "store_seed": 1, "jobs": 1, "mode": "hybrid"}
    rtl = forward(model, x, mode="rtl")
    first, again, sampled = (forward(model, x, store_sample=share, **settings) for share in (0.0, 0.0, 1.0))
    launches = len(rtl[1])
    assert launches > 5 and first[2][3] == 0 and sum(first[2]) == launches, first[2]
    assert again[2] == [launches, 0, 0, 0] and sampled[2] == [0, launches, 0, 0]
    assert rtl[1] == first[1] == again[1] == sampled[1]
    assert all(torch.equal(rtl[0], found[0]) for found in (first, again, sampled))
