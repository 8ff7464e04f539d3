# SPDX-License-Identifier: Apache-2.0
"""Whole networks on `base`: parallel is sequential, as test_equal.py has it in small. Stage nightly-jobs."""

import pytest
import torch
import torch_presil  # noqa: F401  before torchvision, whose own operators not every wheel can load
import torchvision
from same import measured, run_with

NETWORKS = (
    "alexnet",
    "densenet121",
    "efficientnet_b0",
    "googlenet",
    "mnasnet1_0",
    "mobilenet_v2",
    "mobilenet_v3_small",
    "regnet_y_400mf",
    "resnet18",
    "resnet50",
    "shufflenet_v2_x1_0",
    "squeezenet1_1",
    "vit_b_16",
)


@pytest.mark.parametrize("name", NETWORKS)
def test_whole_network(name, monkeypatch):
    torch.manual_seed(0)
    more = {"init_weights": True} if name == "googlenet" else {}
    model = torchvision.models.get_model(name, **more).eval().to(torch.bfloat16).to("presil")
    x = torch.randn(1, 3, 224, 224).to(torch.bfloat16).to(memory_format=torch.channels_last).to("presil")

    def once():
        with torch.inference_mode():
            return [model(x)]

    (a, one), (b, two), (c, seven) = (run_with(*way, once, monkeypatch) for way in ((1, None), (2, None), (7, 3)))
    assert torch.equal(a[0], b[0]) and torch.equal(a[0], c[0])
    assert all(row["verified"] == 1 for row in one) and measured(one) == measured(two) == measured(seven)
