# SPDX-License-Identifier: Apache-2.0
"""Estimates (docs/hybrid.md): near the RTL's cycles for layers that the timing store doesn't have, said wherever a
figure is, never kept, never part of a comparison."""

import io
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
import torch_presil  # noqa: F401
from networks import convolutions, forward
from rich.console import Console
from timing_store import rows
from torch_presil import _C, bench_estimate, cosim, cosim_report

P, B = torch.presil, torch.backends.presil
ROOT = Path(__file__).parents[2]
BUILD = Path(os.environ["PRESIL_BUILD_DIR"])
MODEL = f"{ROOT}/tests/regress/models.py:small_cnn"
SMALL = bench_estimate.Size(60, 25, channels=24, pixels=14, rows=40, macs=4e5)
HYBRID = 3
REPEATED = 1  # launches of the network whose commands are those of one before


@pytest.fixture(scope="module")
def known(tmp_path_factory):
    """A store that has random layers."""
    path = tmp_path_factory.mktemp("estimate") / "timings.sqlite"
    with B.flags(store=str(path), store_sample=0.0, store_seed=1, jobs=2, mode="hybrid"):
        bench_estimate._run(bench_estimate._layers(SMALL.known, 1, SMALL, set()))
    assert len(rows(path)) >= 50
    return path


def run(store, unseen):
    """(result, reports, how many launches were known, unknown, estimated)"""
    torch.manual_seed(3)
    network = convolutions(torch.bfloat16)
    with B.flags(store=str(store), store_sample=0.0, store_seed=1, jobs=2, mode="hybrid", unseen=unseen):
        with P.reports() as collected:
            results = forward(*network)
            P.synchronize()
            reports = collected.take()
        stats = _C.jobs_stats(0)
    return results[0].cpu(), reports, [stats[name] for name in ("known", "unknown", "estimated")]


def test_kept_out_layers_are_near():
    found = bench_estimate.measure(SMALL, 5, lambda text: None)
    assert found["hybrid_estimate_launches"] >= 20 and found["hybrid_estimate_simulated_launches"] <= 5
    assert found["hybrid_estimate_median"] < 1 and found["hybrid_estimate_95th"] < 5
    assert 0 < found["hybrid_estimate_told_percent"] < 10
    assert found["hybrid_estimate_launches_of_other_bytes"] == 0
    assert found["hybrid_estimate_stalls_95th_percent"] < 5 and found["hybrid_estimate_stalls_told_percent"] < 10


def test_a_report_says_so_and_nothing_is_kept(known):
    before = rows(known)
    result, reports, counts = run(known, "estimate")
    launches = len(reports)
    assert counts == [0, 0, launches] and launches >= 5
    assert [(r["mode"], r["estimated"], r["verified"]) for r in reports] == [(HYBRID, True, -1)] * launches
    assert all(0 < r["cycles_error"] < 0.25 for r in reports)
    assert len(rows(known)) == len(before)
    with B.flags(mode="rtl", jobs=1):
        torch.manual_seed(3)
        with P.reports() as collected:
            exact = forward(*convolutions(torch.bfloat16))
            P.synchronize()
            simulated = collected.take()
    assert torch.equal(result, exact[0].cpu())
    assert not any(r["estimated"] or r["cycles_error"] for r in simulated)
    for guess, truth in zip(reports, simulated, strict=True):
        assert guess["cycles"] == pytest.approx(truth["cycles"], rel=0.05), guess["label"]
        assert guess["bytes_known"] and 0 < guess["stalls_error"] < 0.1, guess
        assert guess["beats_known"]
        for way in ("read_bytes", "write_bytes", "read_beats", "write_beats"):
            assert guess[way] == truth[way] > 0, guess["label"]
        for engine, causes in guess["stalls"].items():
            assert sum(causes.values()) == (guess["cycles"] if any(truth["stalls"][engine].values()) else 0), engine
            for cause, n in causes.items():
                share = truth["stalls"][engine][cause] / truth["cycles"]
                assert abs(n / guess["cycles"] - share) < 0.1, (guess["label"], engine, cause)


def test_too_few_are_known(tmp_path):
    _, reports, counts = run(tmp_path / "new.sqlite", "estimate")
    assert counts == [REPEATED, len(reports) - REPEATED, 0] and not any(r["estimated"] for r in reports)


def test_by_default_they_are_simulated(known, tmp_path):
    copy = tmp_path / "copy.sqlite"
    tool = [str(BUILD / "bin" / "presil-store"), "--store", str(known)]
    subprocess.run([*tool, "export", str(copy)], check=True, capture_output=True)
    assert B.unseen == "simulate"
    _, reports, counts = run(copy, "simulate")
    assert counts == [REPEATED, len(reports) - REPEATED, 0] and not any(r["estimated"] for r in reports)
    _, reports, counts = run(copy, "estimate")  # what is known stays exact
    assert counts == [len(reports), 0, 0] and not any(r["estimated"] for r in reports)


def test_another_memory_has_no_neighbours(known):
    with B.flags(memory_model="latency=300"):
        _, reports, counts = run(known, "estimate")
    assert counts[2] == 0 and not any(r["estimated"] for r in reports)


def test_what_the_store_would_estimate(known):
    tool = [str(BUILD / "bin" / "presil-store"), "--store", str(known)]
    text = subprocess.run([*tool, "estimates"], check=True, capture_output=True, text=True).stdout
    found = json.loads(subprocess.run([*tool, "--json", "estimates"], check=True, capture_output=True).stdout)
    one = max(found["simulators"], key=lambda s: s["launches"])
    estimates = [x for x in found["launches"] if x["estimate"]]
    assert one["launches"] == one["estimated"] == len(estimates) >= 50
    off = sorted(abs(x["estimate"] / x["cycles"] - 1) for x in estimates)
    assert one["median_error"] == pytest.approx(off[len(off) // 2], abs=2e-3)
    assert one["median_error"] <= one["error"] <= off[-1] + 1e-3
    assert f"95 of 100 nearer than {100 * one['error']:.2f} %" in text
    assert 0 < one["stalls_median"] <= one["stalls_error"] < 0.1
    assert f"95 of 100 nearer than {100 * one['stalls_error']:.2f} %" in text


def test_cosim_says_so(known):
    with B.flags(store=str(known), store_sample=0.0, store_seed=1):
        options = cosim.Options(MODEL, mode="hybrid", unseen="estimate", jobs=2, baseline=False, check_layers=False)
        found = cosim.run(options)
    assert B.unseen == "simulate"
    total, layers = found["total"], [row for row in found["layers"] if row["where"] == "chip"]
    assert total["estimated"] == total["launches"] == sum(row["estimated"] for row in layers)
    off = sum(row["cycles"] * row["cycles_error"] for row in layers) / total["cycles"]
    assert 0 < off < 0.25 and total["cycles_error"] == pytest.approx(off)
    assert total["bytes_known"] and total["dram_bytes"] == sum(row["dram_bytes"] for row in layers) > 0
    assert 0 < total["stalls_error"] < 0.1 and total["bound"] and total["stalls"]
    for row in layers:
        assert all(sum(n.values()) in (0, row["cycles"]) for n in row["stalls"].values()), row
    out = io.StringIO()
    cosim_report.print_result(found, Console(file=out, width=250))
    text = out.getvalue()
    assert text.count("estimate ") >= 1 + len(layers)
    assert f"estimate {total['cycles']:,} ± {100 * off:.1f} %" in text and f"{total['launches']} are estimates" in text
    assert f"estimate {total['bound']}" in text and "stalls and bounds are estimates, too" in text


def test_mixtures_of_int8_and_bf16_say_so(known):
    """cosim --mixed: what a layer in bf16 costs, without the RTL."""
    wanted = {"dtype": "int8", "mixed": (0, 2), "baseline": False, "check_layers": False}
    with B.flags(store=str(known), store_sample=0.0, store_seed=1):
        found = cosim.run(cosim.Options(MODEL, mode="hybrid", unseen="estimate", jobs=2, **wanted))["int8"]["mixed"]
    assert [row["cycles_from"] for row in found] == ["estimate"] * 2
    exact = cosim.run(cosim.Options(MODEL, mode="rtl", jobs=2, **wanted))["int8"]["mixed"]
    for row, right in zip(found, exact, strict=True):
        assert right["cycles_from"] == "RTL" and row["cycles"] == pytest.approx(right["cycles"], rel=0.1)
        assert all(row[name] == right[name] for name in ("bf16_layers", "kept", "sqnr_db", "top1"))


def test_wrong_settings():
    with pytest.raises(ValueError, match="unseen"):
        B.unseen = "guess"
    with pytest.raises(ValueError, match="--unseen"):
        cosim.run(cosim.Options(MODEL, mode="verify", unseen="estimate"))
    text = "import torch_presil; from torch_presil import _C; _C.get_mode()"
    wrong = subprocess.run(
        [sys.executable, "-c", text], env={**os.environ, "PRESIL_UNSEEN": "guess"}, capture_output=True, text=True
    )
    assert wrong.returncode and "PRESIL_UNSEEN" in wrong.stderr


def test_a_regression_refuses(tmp_path):
    command = [sys.executable, str(ROOT / "torch_ext/torch_presil/cli.py"), "regress", "smoke", "--list"]
    environment = {**os.environ, "PRESIL_UNSEEN": "estimate"}
    found = subprocess.run(command, env=environment, capture_output=True, text=True, cwd=ROOT)
    assert found.returncode == 2 and "PRESIL_UNSEEN" in found.stdout + found.stderr
