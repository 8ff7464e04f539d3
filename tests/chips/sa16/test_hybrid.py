# SPDX-License-Identifier: Apache-2.0
"""Mode hybrid on a chip that is not ours: a network that the store knows has the RTL's cycles without the RTL; layers
that it doesn't know are estimated (presil_chip_ops.work, usage)."""

import os

import pytest

os.environ["PRESIL_CHIP"] = "sa16"
os.environ.setdefault("PRESIL_MEMORY", str(1 << 30))

torch = pytest.importorskip("torch")
from networks import network  # noqa: E402
from torch_presil import _C, bench_estimate  # noqa: E402
from torch_presil.fuse import fuse  # noqa: E402
from torch_presil.quantize import quantize  # noqa: E402

P, B = torch.presil, torch.backends.presil
MEASURED = ("label", "cycles", "read_bytes", "write_bytes", "stalls")

COUNTED = ("known", "sampled", "unknown", "never", "estimated")


def forward(model, x, **settings) -> tuple:
    """(result, what the reports say, how many launches were known, sampled, unknown, can't be known, estimated)"""
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
    assert again[2] == [launches, 0, 0, 0, 0] and sampled[2] == [0, launches, 0, 0, 0]
    assert rtl[1] == first[1] == again[1] == sampled[1]
    assert all(torch.equal(rtl[0], found[0]) for found in (first, again, sampled))


def test_kept_out_layers_are_near():
    """Convolutions of all shapes, those of one operation and of many; their bytes are the memory's own count."""
    size = bench_estimate.Size(120, 60, channels=64, pixels=28, rows=1, macs=4e6, types=(torch.int8,))
    found = bench_estimate.measure(size, 5, lambda text: None)
    assert found["hybrid_estimate_launches"] >= 55 and found["hybrid_estimate_simulated_launches"] <= 5, found
    assert found["hybrid_estimate_median"] < 1 and found["hybrid_estimate_95th"] <= 5, found
    assert found["hybrid_estimate_launches_of_other_bytes"] == 0, found
    assert 0 < found["hybrid_estimate_told_percent"] < 5, found


def test_a_network_is_estimated_from_random_layers(tmp_path):
    """Pooling, residuals and linear layers: what no launch of the store is like."""
    settings = {"store": str(tmp_path / "timings.sqlite"), "store_seed": 1, "store_sample": 0.0, "mode": "hybrid"}
    size = bench_estimate.Size(60, 0, channels=64, pixels=28, rows=1, macs=4e6, types=(torch.int8,))
    with B.flags(**settings):
        bench_estimate._run(bench_estimate._layers(size.known, 5, size, set()))
    model, x = network("resnet8")
    model = quantize(fuse(model, x), [x]).to("presil")
    rtl = forward(model, x, mode="rtl")
    guessed = forward(model, x, **settings, jobs=1, unseen="estimate")
    assert torch.equal(rtl[0], guessed[0]) and guessed[2][4] == len(rtl[1]) > 8, guessed[2]
    for guess, truth in zip(guessed[1], rtl[1], strict=True):
        assert guess["cycles"] == pytest.approx(truth["cycles"], rel=0.05), truth["label"]
        assert [guess[way] for way in MEASURED[2:4]] == [truth[way] for way in MEASURED[2:4]], truth["label"]
