# SPDX-License-Identifier: Apache-2.0
"""The networks of presil conform, on the device and on the CPU: a line of JSON for each.

usage: networks.py [NAME...]
"""

import copy
import functools
import json
import sys

import torch
import torch_presil  # noqa: F401
from torch_presil.fuse import fuse
from torch_presil.quantize import QuantizedLayer, quantize


class Int8Linear(torch.nn.Module):
    def __init__(self, inputs: int, outputs: int):
        super().__init__()
        self.register_buffer("weight", torch.randint(-128, 128, (outputs, inputs), dtype=torch.int8))

    def forward(self, x):
        return torch._int_mm(x, self.weight.t())


class Int8(torch.nn.Module):
    """Integers from end to end: exact."""

    def __init__(self):
        super().__init__()
        self.first, self.second = Int8Linear(64, 48), Int8Linear(48, 16)

    def forward(self, x):
        return self.second((self.first(x) >> 8).clamp(-128, 127).to(torch.int8))


class Recurrent(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.lstm = torch.nn.LSTM(16, 24, batch_first=True)

    def forward(self, x):
        return self.lstm(x)[0]


class Attention(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.attention = torch.nn.MultiheadAttention(32, 4, batch_first=True)

    def forward(self, x):
        return self.attention(x, x, x, need_weights=False)[0]


class Block(torch.nn.Module):
    """A residual over two convolutions, one of them depthwise."""

    def __init__(self, channels: int):
        super().__init__()
        self.first = torch.nn.Conv2d(channels, channels, 3, padding=1, groups=channels)
        self.second = torch.nn.Conv2d(channels, channels, 1)

    def forward(self, x):
        return torch.relu(self.second(torch.relu(self.first(x))) + x)


def sequence(*layers):
    return torch.nn.Sequential(*layers)


n = torch.nn
NETWORKS = {
    "int8": lambda: (Int8(), torch.randint(-128, 128, (20, 64), dtype=torch.int8)),
    "mlp": lambda: (sequence(n.Linear(64, 48), n.ReLU(), n.Linear(48, 10)), torch.randn(8, 64)),
    "mlp-bf16": lambda: (
        sequence(n.Linear(64, 48), n.ReLU(), n.Linear(48, 10)).bfloat16(),
        torch.randn(8, 64).bfloat16(),
    ),
    "cnn": lambda: (
        sequence(
            n.Conv2d(3, 8, 3, padding=1, bias=False),  # the gradient of a bias before a norm is rounding alone
            n.BatchNorm2d(8),
            n.ReLU(),
            n.MaxPool2d(2),
            n.Conv2d(8, 16, 3),
            n.Flatten(),
        ),
        torch.randn(2, 3, 12, 12),
    ),
    "depthwise": lambda: (
        sequence(n.Conv2d(8, 8, 3, padding=1, groups=8), n.ReLU6(), n.Conv2d(8, 16, 1), n.AdaptiveAvgPool2d(1)),
        torch.randn(1, 8, 10, 10),
    ),
    "transposed": lambda: (sequence(n.ConvTranspose2d(4, 6, 3, stride=2), n.Sigmoid()), torch.randn(1, 4, 5, 5)),
    "quantized-cnn": lambda: (
        sequence(
            n.Conv2d(3, 24, 3, stride=2, padding=1),
            n.BatchNorm2d(24),
            n.ReLU(),
            Block(24),
            n.MaxPool2d(2),
            n.Conv2d(24, 10, 3, padding=2, dilation=2),
            n.Flatten(),
            n.Linear(160, 7),
        ),
        torch.randn(1, 3, 16, 16),
    ),
    "quantized-mlp": lambda: (sequence(n.Linear(100, 48), n.ReLU(), n.Linear(48, 10)), torch.randn(6, 100)),
    "lstm": lambda: (Recurrent(), torch.randn(2, 5, 16)),
    "attention": lambda: (Attention(), torch.randn(1, 9, 32)),
}


QUANTIZED_SHARE = 0.01  # of a layer's codes that may be one step from docs/numerics.md, 7


def _outputs(model, x) -> list:
    """The result, and where there are any the gradients of parameters."""
    y = model(x)
    if not any(p.requires_grad for p in model.parameters()):
        return [y]
    y.float().pow(2).sum().backward()
    return [y.detach(), *(p.grad for p in model.parameters())]


def row_of(name: str, error: float, allowed: float, elements: int, explained) -> dict:
    totals = explained.totals()
    return {
        "name": name,
        "error": error,
        "allowed": allowed,
        "elements": elements,
        "chip": totals["chip"]["launches"],
        "host": totals["host"]["calls"],
        "cycles": totals["chip"]["cycles"],
        "reasons": [row["reason"] for row in explained.operators() if row["where"] == "host"],
    }


class Steps:
    """What the layers of a quantized network give on the device, against the CPU's integers of the same inputs."""

    def __init__(self, model):
        self.codes, self.different, self.most = 0, 0, 0
        for layer in [m for m in model.modules() if isinstance(m, QuantizedLayer)]:
            layer.register_forward_hook(functools.partial(self._compare, copy.deepcopy(layer)))

    def _compare(self, host, _, inputs, found) -> None:
        difference = (host(*(t.cpu() for t in inputs)).int() - found.cpu().int()).abs()
        self.codes += difference.numel()
        self.different += int((difference > 0).sum())
        self.most = max(self.most, int(difference.max()))


def compare_quantized(name: str) -> dict:
    """Layer by layer in codes: a chip's own requantisation may round to the next one now and then."""
    torch.manual_seed(sum(name.encode()))
    model, x = NETWORKS[name]()
    with torch.no_grad():
        model = quantize(fuse(model.eval(), x), [x])
    steps = Steps(model)
    with torch.presil.explain() as explained, torch.inference_mode():
        model.to("presil")(x.to("presil"))
    error = float("inf") if steps.most > 1 else steps.different / steps.codes
    return row_of(name, error, QUANTIZED_SHARE, steps.codes, explained) | {"off_by_one": steps.different}


def compare(name: str) -> dict:
    if name.startswith("quantized"):
        return compare_quantized(name)
    torch.manual_seed(sum(name.encode()))
    model, x = NETWORKS[name]()
    expected = _outputs(copy.deepcopy(model), x)
    with torch.presil.explain() as explained:
        found = [y.cpu() for y in _outputs(model.to("presil"), x.to("presil"))]
    error = 0.0
    for a, b in zip(found, expected, strict=True):
        most = max(float(b.double().abs().max()), 1e-30)
        difference = (a.double() - b.double()).abs().max()
        error = max(error, float("inf") if torch.isnan(difference) else float(difference) / most)
    allowed = 0.0 if name == "int8" else 2e-2 if name.endswith("bf16") else 1e-4
    return row_of(name, error, allowed, sum(y.numel() for y in expected), explained)


if __name__ == "__main__":
    for network in sys.argv[1:] or NETWORKS:
        print(json.dumps(compare(network)), flush=True)
