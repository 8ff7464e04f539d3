# SPDX-License-Identifier: Apache-2.0
"""Eager inference and one training step of a ResNet are correct."""

import copy

import torch
from torch import nn
from torchvision import models


def train(model, x, y, steps=2):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    losses = []
    for _ in range(steps):
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


def errors(parameters, exact):
    return {
        n: float((p.detach().cpu().double() - e.detach()).norm() / e.detach().norm().clamp_min(1e-9))
        for (n, p), e in zip(parameters, exact)
    }


def test_resnet18_trains_like_on_the_cpu():
    """Two SGD steps: as close to float64 as the CPU's float32 is, within a factor of four."""
    torch.manual_seed(3)
    host = models.resnet18(num_classes=10)
    exact, device = copy.deepcopy(host).double(), copy.deepcopy(host).to("presil")
    x, y = torch.randn(4, 3, 64, 64), torch.tensor([3, 7, 1, 0])
    expected = train(exact, x.double(), y)
    got_host, got = train(host, x, y), train(device, x.to("presil"), y.to("presil"))
    assert abs(got[-1] - expected[-1]) <= 4 * abs(got_host[-1] - expected[-1]) + 1e-5
    cpu, chip = (
        errors(host.named_parameters(), exact.parameters()),
        errors(device.named_parameters(), exact.parameters()),
    )
    for name in cpu:
        assert chip[name] <= 4 * cpu[name] + 1e-6, (name, chip[name], cpu[name])
    host.load_state_dict({k: v.cpu() for k, v in device.state_dict().items()})
    host.eval(), device.eval()
    with torch.inference_mode():
        torch.testing.assert_close(device(x.to("presil")).cpu(), host(x), rtol=1e-4, atol=1e-4)
