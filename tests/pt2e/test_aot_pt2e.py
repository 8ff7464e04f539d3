# SPDX-License-Identifier: Apache-2.0
"""Networks quantized by PT2E ahead of time: presil-run, which is C, gives the device's bits."""

import json
import os
import subprocess
from pathlib import Path

import numpy as np
import pytest
import torch
import torchvision
from flow import converted, settled
from test_networks import small_mobilenet
from torch_presil.fuse import fuse
from torch_presil.pt2e import lower
from torch_presil.quantize import quantize

RUN = Path(os.environ.get("PRESIL_BUILD_DIR", Path(__file__).parents[2] / "build" / "fast")) / "bin" / "presil-run"


def ahead_of_time(tmp_path, int8, x, mode="model", where="presil"):
    """(summary, what --json says, result)."""
    path, given, result, run = (tmp_path / n for n in ("model.paot", "in.npy", "out.npy", "run.json"))
    with torch.no_grad():
        summary = torch.presil.aot_save(torch.export.export(int8, (x.to(where),)), path)
    np.save(given, (x.view(torch.uint16) if x.dtype == torch.bfloat16 else x).numpy())
    done = subprocess.run(
        [RUN, "--mode", mode, "--json", run, path, given, result], capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr
    got = torch.from_numpy(np.load(result))
    return summary, json.loads(run.read_text()), got.view(torch.bfloat16) if got.dtype == torch.uint16 else got


# The mean of planes; two operators for each table of codes, which clamps become that the quantizer does not fuse.
ON_HOST = {"presil": 1, "x86": 3, "xnnpack": 21}


@pytest.mark.parametrize("quantizer", list(ON_HOST))
def test_mobilenet(tmp_path, quantizer):
    x = torch.randn(2, 3, 33, 33)
    int8 = lower(converted(settled(small_mobilenet(), x), (x,), quantizer)).to("presil")
    with torch.no_grad():
        expected = int8(x.to("presil")).cpu()
    summary, _, got = ahead_of_time(tmp_path, int8, x)
    assert torch.equal(got, expected) and summary["host_operators"] == ON_HOST[quantizer]


def test_slopes_of_channels(tmp_path):
    """Three operators for each PReLU: codes as places, the channel's first, the table."""
    torch.manual_seed(1)
    model = torch.nn.Sequential(
        torch.nn.Conv2d(3, 6, 3),
        torch.nn.PReLU(6),
        torch.nn.Conv2d(6, 4, 3),
        torch.nn.PReLU(4),
        torch.nn.Conv2d(4, 2, 1),
    )
    x = torch.randn(2, 3, 9, 8)
    for slopes in (model[1], model[3]):
        torch.nn.init.normal_(slopes.weight)
    int8 = lower(converted(model, (x,))).to("presil")
    with torch.no_grad():
        expected = int8(x.to("presil")).cpu()
    summary, _, got = ahead_of_time(tmp_path, int8, x)
    assert torch.equal(got, expected) and summary["host_operators"] == 6


def test_resnet50(tmp_path, rtl):
    """Of 224 × 224, on the RTL; its launches take the cycles of torch_presil.quantize's."""
    x = torch.randn(1, 3, 224, 224)
    model = settled(torchvision.models.resnet50(), torch.randn(2, 3, 224, 224))
    int8 = lower(converted(model, (x,))).to("presil")
    own = quantize(fuse(model, x), [x]).to("presil")
    with torch.no_grad(), torch.presil.reports() as reports:
        expected, launches = int8(x.to("presil")).cpu(), reports.take()
        own(x.to("presil")).cpu()
        others = reports.take()
    assert not int8.report().floats_between
    cycles, own_cycles = (sum(r["cycles"] for r in taken) for taken in (launches, others))
    assert len(launches) == 54 and cycles <= 1.01 * own_cycles, f"{cycles} cycles, torch_presil.quantize {own_cycles}"
    summary, ran, got = ahead_of_time(tmp_path, int8, x, "rtl")
    assert torch.equal(got, expected)
    assert (summary["host_operators"], summary["launches"], summary["operators"]) == (2, 3, 54)
    assert 0 < ran["cycles"] <= cycles
