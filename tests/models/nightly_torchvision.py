# SPDX-License-Identifier: Apache-2.0
"""All of torchvision's 80 classification models, forward, against the CPU; writes docs/torchvision.md with the times under PRESIL_UPDATE_DOCS=1. Stage `nightly`."""

import os
import time
from pathlib import Path

import pytest
import torch
from compare import assert_close, evaluate, moved
from torchvision import models

PAGE = Path(__file__).resolve().parents[2] / "docs" / "torchvision.md"
HEADER = """# torchvision's classification models on the device

Forward of one image in float32, mode `model` (the twin), against PyTorch on the CPU; every output is as close to float64 as the CPU's own within a factor of 4
(tests/models/compare.py). Seconds on two cores; written by `PRESIL_UPDATE_DOCS=1 ./presil test --nightly --stage nightly`.

| model | input | device, s | CPU, s |
|---|---|---|---|
"""


def input_size(name: str) -> int:
    """What the model's weights were trained for, by torchvision's own record."""
    crop = models.get_model_weights(name).DEFAULT.transforms().crop_size
    return crop[0] if isinstance(crop, (list, tuple)) else crop


@pytest.fixture(scope="module")
def rows():
    collected = {}
    yield collected
    if os.environ.get("PRESIL_UPDATE_DOCS") and len(collected) == 80:
        PAGE.write_text(HEADER + "".join(f"| {n} | {s} | {d:.1f} | {c:.1f} |\n" for n, (s, d, c) in sorted(collected.items())))


@pytest.mark.parametrize("name", models.list_models(module=models))
def test_forward(name, rows):
    model = models.get_model(name, **({"init_weights": True} if name in ("googlenet", "inception_v3") else {})).eval()
    size = input_size(name)
    inputs = (torch.randn(1, 3, size, size),)
    start = time.perf_counter()
    cpu = evaluate(model, inputs).outputs
    middle = time.perf_counter()
    device = evaluate(model.to("presil"), moved(inputs, "presil")).outputs
    torch.presil.synchronize()
    rows[name] = (size, time.perf_counter() - middle, middle - start)
    exact = evaluate(model.to("cpu").double(), moved(inputs, dtype=torch.float64)).outputs
    assert_close("outputs", device, cpu, exact)
