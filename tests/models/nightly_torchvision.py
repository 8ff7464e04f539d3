# SPDX-License-Identifier: Apache-2.0
"""All of torchvision's 80 classification models, forward, against the CPU; writes docs/torchvision.md with the times
under PRESIL_UPDATE_DOCS=1, under PRESIL_UPDATE_DOCS=cpu only the CPU's (ten minutes). Stage `nightly`."""

import os
import re
import time
from pathlib import Path

import pytest
import torch
from compare import assert_close, evaluate, moved
from torchvision import models

UPDATE = os.environ.get("PRESIL_UPDATE_DOCS")
RUNS = 5
PAGE = Path(__file__).resolve().parents[2] / "docs" / "torchvision.md"
HEADER = """<!-- SPDX-License-Identifier: Apache-2.0 -->
# torchvision's classification models on the device

Forward of one image in float32, mode `model` (the twin), against PyTorch on the CPU; every output
is as close to float64 as the CPU's own within a factor of 4 (tests/models/compare.py). Seconds on
two cores. Device: the first forward, with the packing of the weights. CPU: PyTorch on {threads}
threads, `inference_mode`, the best of {runs} forwards after a first one. Written by
`PRESIL_UPDATE_DOCS=1 ./presil test --stage nightly`; `PRESIL_UPDATE_DOCS=cpu` measures the CPU again.

| model | input | device, s | CPU, s |
|---|---|---|---|
"""


def input_size(name: str, model: torch.nn.Module) -> int:
    """What the model was built for, or its weights were trained for by torchvision's own record."""
    if hasattr(model, "image_size"):  # vision transformers take no other
        return model.image_size
    crop = models.get_model_weights(name).DEFAULT.transforms().crop_size
    return crop[0] if isinstance(crop, (list, tuple)) else crop


def cpu_seconds(model: torch.nn.Module, inputs: tuple) -> float:
    """The best of RUNS forwards; the first, which prepares, is not among them."""
    times = []
    with torch.inference_mode():
        for _ in range(RUNS + 1):
            start = time.perf_counter()
            model(*inputs)
            times.append(time.perf_counter() - start)
    return min(times[1:])


def measured() -> dict:
    """The rows of the page as it is: {model: "size | device | CPU"}."""
    return dict(re.findall(r"^\| (\w+) \| (\d.*) \|$", PAGE.read_text(), re.M)) if PAGE.exists() else {}


@pytest.fixture(scope="module")
def rows():
    """Those of this run; they take the place of the page's."""
    collected = {}
    yield collected
    if UPDATE:
        PAGE.write_text(
            HEADER.format(threads=torch.get_num_threads(), runs=RUNS)
            + "".join(f"| {name} | {row} |\n" for name, row in sorted((measured() | collected).items()))
        )


@pytest.mark.parametrize("name", models.list_models(module=models))
def test_forward(name, rows):
    model = models.get_model(name, **({"init_weights": True} if name in ("googlenet", "inception_v3") else {})).eval()
    size = input_size(name, model)
    inputs = (torch.randn(1, 3, size, size),)
    on_cpu = cpu_seconds(model, inputs) if UPDATE else 0
    if UPDATE == "cpu":
        row = measured().get(name)
        assert row, f"{PAGE}: no row of {name}, expected its time on the device: PRESIL_UPDATE_DOCS=1 measures both"
        page_size, seconds, _ = row.split(" | ")
        assert int(page_size) == size, f"{PAGE}: {name} has inputs of {page_size}, expected {size}"
        rows[name] = f"{size} | {seconds} | {on_cpu:.3f}"
        return
    cpu = evaluate(model, inputs).outputs
    middle = time.perf_counter()
    device = evaluate(model.to("presil"), moved(inputs, "presil")).outputs
    torch.presil.synchronize()
    seconds = time.perf_counter() - middle
    exact = evaluate(model.to("cpu").double(), moved(inputs, dtype=torch.float64)).outputs
    assert_close("outputs", device, cpu, exact)
    rows[name] = f"{size} | {seconds:.1f} | {on_cpu:.3f}"
