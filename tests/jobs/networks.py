# SPDX-License-Identifier: Apache-2.0
"""Networks in small, for the equality of parallel and sequential runs: (function that gives results, dtype)."""

import torch
from torch import nn


def _to(module, dtype):
    return module.to(dtype).eval().to("presil")


class Residual(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Conv2d(12, 12, 3, padding=1), nn.Conv2d(12, 12, 3, padding=1)

    def forward(self, x):
        return x + self.second(self.first(x).relu())


def convolutions(dtype):
    layers = [nn.Conv2d(3, 12, 7, stride=2, padding=3), nn.ReLU(), Residual(), nn.MaxPool2d(2), nn.Conv2d(12, 12, 1)]
    layers += [nn.Conv2d(12, 12, 3, groups=12), nn.Flatten(), nn.Linear(48, 10)]
    return _to(nn.Sequential(*layers), dtype), torch.randn(1, 3, 17, 17).to(dtype)


def attention(dtype):
    return _to(nn.TransformerEncoderLayer(24, 3, 40, batch_first=True), dtype), torch.randn(2, 9, 24).to(dtype)


def recurrent(dtype):
    return _to(nn.LSTM(10, 14), dtype), torch.randn(5, 1, 10).to(dtype)


def forward(model, x):
    with torch.inference_mode():
        out = model(x.to("presil"))
    return [out[0] if isinstance(out, tuple) else out]


def training(model, x):
    """Two steps: launches that write weights which later ones read."""
    optimizer, losses = torch.optim.SGD(model.parameters(), lr=0.01), []
    for _ in range(2):
        optimizer.zero_grad()
        out = model(x.to("presil"))
        loss = (out[0] if isinstance(out, tuple) else out).float().square().mean()
        loss.backward()
        optimizer.step()
        losses.append(loss.detach())
    return losses + [p.detach() for p in model.parameters()]


NETWORKS = {
    "convolutions, bf16": (convolutions, torch.bfloat16, forward),
    "convolutions, fp32": (convolutions, torch.float32, forward),
    "attention, bf16": (attention, torch.bfloat16, forward),
    "recurrent, fp32": (recurrent, torch.float32, forward),
    "training, fp32": (convolutions, torch.float32, training),
}
