# SPDX-License-Identifier: Apache-2.0
"""Eager inference and one training step of a ResNet are correct."""

import torch
from torch import nn
from torch_presil.vision import torchvision


def step(model, x, y):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    loss = nn.functional.cross_entropy(model(x), y)
    loss.backward()
    optimizer.step()
    return loss.item()


def test_resnet18_trains_like_on_the_cpu():
    models = torchvision().models
    torch.manual_seed(3)
    host = models.resnet18(num_classes=10)
    device = models.resnet18(num_classes=10)
    device.load_state_dict(host.state_dict())
    device.to("presil")
    x, y = torch.randn(2, 3, 64, 64), torch.tensor([3, 7])
    for _ in range(2):
        a, b = step(host, x, y), step(device, x.to("presil"), y.to("presil"))
        assert abs(a - b) < 1e-3 * max(1, abs(a))
    for (name, p), q in zip(host.named_parameters(), device.parameters()):
        error = (p - q.cpu()).norm() / p.norm().clamp_min(1e-6)
        assert error < 2e-3, name
    host.eval(), device.eval()
    with torch.inference_mode():
        torch.testing.assert_close(device(x.to("presil")).cpu(), host(x), rtol=1e-2, atol=1e-2)
