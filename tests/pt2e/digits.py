# SPDX-License-Identifier: Apache-2.0
"""Example of docs/pt2e.md: a small network learns scikit-learn's digits on the device, is quantized by PT2E, and reads
its whole test set on the RTL in int8.

    .venv/bin/python tests/pt2e/digits.py
"""

import torch
import torch_presil  # noqa: F401
from sklearn.datasets import load_digits
from torch import nn
from torch_presil.pt2e import PresilQuantizer, lower
from torchao.quantization.pt2e.quantize_pt2e import convert_pt2e, prepare_pt2e

EPOCHS, BATCH = 4, 64


class Residual(nn.Module):
    def __init__(self, channels: int):
        super().__init__()
        self.conv = nn.Conv2d(channels, channels, 3, padding=1, bias=False)
        self.norm = nn.BatchNorm2d(channels)

    def forward(self, x):
        return torch.relu(x + self.norm(self.conv(x)))


def network() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(1, 16, 3, padding=1),
        nn.ReLU(),
        nn.Conv2d(16, 24, 3, stride=2, padding=1),
        nn.ReLU(),
        Residual(24),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(96, 10),
    )


def digits():
    """1437 images to learn from, 359 to be tested with, pixels in [0, 1]: (images, labels) each."""
    data = load_digits()
    x, y = torch.tensor(data.images, dtype=torch.float32).unsqueeze(1) / 16, torch.tensor(data.target)
    order = torch.randperm(len(x), generator=torch.Generator().manual_seed(0))
    return (x[order[:1438]], y[order[:1438]]), (x[order[1438:]], y[order[1438:]])


def train(model, x, y, device: str, epochs: int = EPOCHS) -> nn.Module:
    """On `device`; back on the CPU."""
    model, order = model.to(device).train(), torch.Generator().manual_seed(0)
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, epochs)
    for _ in range(epochs):
        for batch in torch.randperm(len(x), generator=order).split(BATCH):
            optimizer.zero_grad()
            nn.functional.cross_entropy(model(x[batch].to(device)), y[batch].to(device)).backward()
            optimizer.step()
        schedule.step()
    return model.cpu().eval()


def quantize(model, x) -> torch.fx.GraphModule:
    """x: images to calibrate with; the batch's size is free. What convert_pt2e returns."""
    batch = torch.export.Dim("batch")
    exported = torch.export.export(model, (x,), dynamic_shapes=({0: batch},)).module()
    prepared = prepare_pt2e(exported, PresilQuantizer())
    prepared(x)
    return convert_pt2e(prepared)


def accuracy(scores: torch.Tensor, labels: torch.Tensor) -> float:
    return 100.0 * float((scores.argmax(1) == labels).float().mean())


def main() -> None:
    torch.manual_seed(0)
    (x, y), (test_x, test_y) = digits()
    with torch.backends.presil.flags(mode="model"):  # the RTL's bits, faster
        model = train(network(), x, y, "presil")
    with torch.no_grad():
        print(f"float32 on the CPU: {accuracy(model(test_x), test_y):.2f} %")
        lowered = lower(quantize(model, x[:256]))
        print(lowered.report())
        with torch.backends.presil.flags(mode="rtl"), torch.presil.explain() as explained:
            scores = lowered.to("presil")(test_x.to("presil")).cpu()
        print(f"int8 on the RTL: {accuracy(scores, test_y):.2f} %")
        print(explained)


if __name__ == "__main__":
    main()
