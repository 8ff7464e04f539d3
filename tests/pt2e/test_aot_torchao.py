# SPDX-License-Identifier: Apache-2.0
"""Models whose layers torchao quantizes as they run, ahead of time: what finds each row's scale is the host's, and
presil-run gives the device's bits."""

import numpy as np
import pytest
import torch
from flow import converted, settled
from test_aot_pt2e import ahead_of_time
from torch import nn
from torch_presil.pt2e import lower
from torchao.quantization import Int8DynamicActivationInt8WeightConfig, quantize_


class Block(nn.Module):
    """Of a transformer: attention over four places, and two layers behind it."""

    def __init__(self, width=32, heads=2):
        super().__init__()
        self.heads, self.qkv, self.out = heads, nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(2))
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x):
        n, places, width = x.shape
        q, k, v = self.qkv(self.norms[0](x)).view(n, places, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        scores = torch.softmax(q @ k.transpose(-2, -1) / 4, -1)
        x = x + self.out((scores @ v).transpose(1, 2).reshape(n, places, width))
        return x + self.down(torch.relu(self.up(self.norms[1](x))))


def both(tmp_path, model, x):
    with torch.no_grad():
        expected = model(x.to("presil")).cpu()
    summary, _, got = ahead_of_time(tmp_path, model, x)
    return summary, expected, got


@pytest.mark.parametrize("rows", [1, 5])
def test_linear_layers(tmp_path, rows):
    torch.manual_seed(rows)
    model = nn.Sequential(nn.Linear(32, 64), nn.ReLU(), nn.Linear(64, 16)).eval()
    quantize_(model, Int8DynamicActivationInt8WeightConfig())
    x = torch.randn(rows, 32)
    x[0] = 0  # a row whose scale is the least there is
    summary, expected, got = both(tmp_path, model.to("presil"), x)
    assert torch.equal(got, expected) and (summary["launches"], summary["operators"]) == (2, 2)


def test_transformer_block(tmp_path):
    """Sums of softmax and of norms have an order of their own: the last bits of what they give may differ, and then a
    code by one."""
    torch.manual_seed(3)
    model = Block().eval()
    quantize_(model, Int8DynamicActivationInt8WeightConfig())
    _, expected, got = both(tmp_path, model.to("presil"), torch.randn(2, 4, 32))
    torch.testing.assert_close(got, expected, rtol=0, atol=0.02 * expected.abs().max().item())


def test_softmax_behind_codes(tmp_path):
    """PT2E: codes become float32 in the middle of the program."""
    x = torch.randn(2, 3, 9, 8)
    head = nn.Sequential(nn.Conv2d(3, 8, 3), nn.ReLU(), nn.Conv2d(8, 4, 1), nn.Flatten(2), nn.Softmax(1))
    model = lower(converted(settled(head, x), (x,))).to("presil")
    _, expected, got = both(tmp_path, model, x)
    np.testing.assert_allclose(got.numpy(), expected.numpy(), rtol=1e-6, atol=0)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_numbers(tmp_path, dtype):
    """In place of the other operand; each is rounded as PyTorch rounds it."""

    class Numbers(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = nn.Linear(16, 16, dtype=dtype)

        def forward(self, x):
            y = self.layer(x)
            y = (y * 0.1 + 0.3) / 127.5 - 1e-3
            most = y.amax(-1, keepdim=True)
            y = y + torch.maximum(most, torch.full_like(most, 0.25)) - y.amin((0, 1))
            return self.layer(torch.round(y.reciprocal() * 7))

    torch.manual_seed(0)
    model, x = Numbers().eval().to("presil"), torch.randn(3, 16, dtype=dtype)
    if dtype == torch.float32:
        _, expected, got = both(tmp_path, model, x)
        assert torch.equal(got, expected)
    else:
        with torch.no_grad():
            program = torch.export.export(model, (x.to("presil"),))
        assert torch.presil.aot_save(program, tmp_path / "model.paot")["launches"] == 2
