# SPDX-License-Identifier: Apache-2.0
"""A small ResNet learns scikit-learn's digits on the device as it does on the CPU; one batch of it on the RTL equals
the twin bit for bit."""

import pytest
import torch
from sklearn.datasets import load_digits
from torch import nn

EPOCHS, BATCH = 10, 64


class Block(nn.Module):
    def __init__(self, channels: int):
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(channels, channels, 3, padding=1, bias=False),
            nn.BatchNorm2d(channels),
            nn.ReLU(),
            nn.Conv2d(channels, channels, 3, padding=1, bias=False),
            nn.BatchNorm2d(channels),
        )

    def forward(self, x):
        return torch.relu(x + self.body(x))


def small_resnet() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(1, 16, 3, stride=2, padding=1),
        nn.ReLU(),
        Block(16),
        nn.Conv2d(16, 32, 3, stride=2, padding=1),
        nn.ReLU(),
        Block(32),
        nn.Flatten(),
        nn.Linear(128, 10),
    )


def digits():
    """Training and test halves, pixels in [0, 1]: (images, labels) each."""
    data = load_digits()
    x, y = torch.tensor(data.images, dtype=torch.float32).unsqueeze(1) / 16, torch.tensor(data.target)
    order = torch.randperm(len(x), generator=torch.Generator().manual_seed(0))
    x, y = x[order], y[order]
    return (x[:1437], y[:1437]), (x[1437:], y[1437:])


def trained_accuracy(device: str, seed: int) -> float:
    """Per cent of the test images, after EPOCHS of Adam."""
    (x, y), (test_x, test_y) = digits()
    torch.manual_seed(seed)
    model = small_resnet().to(device)
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, EPOCHS)
    x, y, order = x.to(device), y.to(device), torch.Generator().manual_seed(seed)
    for _ in range(EPOCHS):
        for batch in torch.randperm(len(x), generator=order).split(BATCH):
            optimizer.zero_grad()
            nn.functional.cross_entropy(model(x[batch.to(device)]), y[batch.to(device)]).backward()
            optimizer.step()
        schedule.step()
    with torch.inference_mode():
        return 100.0 * float((model.eval()(test_x.to(device)).argmax(1).cpu() == test_y).float().mean())


@pytest.mark.parametrize("seed", [1, *(pytest.param(n, marks=pytest.mark.nightly) for n in (2, 3))])
def test_digits_are_learned_as_on_the_cpu(seed):
    device, cpu = trained_accuracy("presil", seed), trained_accuracy("cpu", seed)
    print(f"seed {seed}: device {device:.2f} %, CPU {cpu:.2f} %")
    assert device >= 97.0
    assert abs(device - cpu) <= 1.0


def one_batch(mode: str) -> list[torch.Tensor]:
    """Loss and gradients of a training step on 16 images."""
    (x, y), _ = digits()
    torch.manual_seed(1)
    model = small_resnet().to("presil")
    with torch.backends.presil.flags(mode=mode):
        loss = nn.functional.cross_entropy(model(x[:16].to("presil")), y[:16].to("presil"))
        loss.backward()
        torch.presil.synchronize()
    return [loss.detach().cpu(), *(p.grad.cpu() for p in model.parameters())]


def test_one_training_batch_on_the_rtl_equals_the_twin():
    model, rtl = one_batch("model"), one_batch("rtl")
    assert len(rtl) > 10
    assert all(torch.equal(a, b) for a, b in zip(model, rtl, strict=True))
