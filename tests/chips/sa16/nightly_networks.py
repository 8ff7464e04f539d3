# SPDX-License-Identifier: Apache-2.0
"""ResNet-18 in int8, 224 x 224, on the RTL of sa16 and on its twin: 9 million cycles."""

import torch
from test_pytorch import check_network, run_on_chip


def test_resnet18_on_the_rtl():
    check_network("resnet18")


def test_model_gives_the_same_bits():
    model, _ = run_on_chip("resnet18", "model")
    rtl, _ = run_on_chip("resnet18", "rtl")
    assert torch.equal(model, rtl)
