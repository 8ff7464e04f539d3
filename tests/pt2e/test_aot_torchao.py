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
from torchao.quantization import Int8DynamicActivationInt8WeightConfig, Int8WeightOnlyConfig, quantize_


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


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("rows", [1, 5])
def test_linear_layers(tmp_path, rows, dtype):
    torch.manual_seed(rows)
    model = nn.Sequential(nn.Linear(32, 64), nn.ReLU(), nn.Linear(64, 16)).eval().to(dtype)
    quantize_(model, Int8DynamicActivationInt8WeightConfig())
    x = torch.randn(rows, 32, dtype=dtype)
    x[0] = 0  # a row whose scale is the least there is
    summary, expected, got = both(tmp_path, model.to("presil"), x)
    assert torch.equal(got, expected) and (summary["launches"], summary["operators"]) == (2, 2)


def test_weights_alone(tmp_path):
    model = nn.Sequential(nn.Linear(32, 64), nn.ReLU(), nn.Linear(64, 16)).eval()
    quantize_(model, Int8WeightOnlyConfig())
    _, expected, got = both(tmp_path, model.to("presil"), torch.randn(5, 32))
    assert torch.equal(got, expected)


def test_transformer_block(tmp_path):
    """Sums of softmax and of norms have an order of their own: the last bits of what they give may differ, and then a
    code by one."""
    torch.manual_seed(3)
    model = Block().eval()
    quantize_(model, Int8DynamicActivationInt8WeightConfig())
    _, expected, got = both(tmp_path, model.to("presil"), torch.randn(2, 4, 32))
    torch.testing.assert_close(got, expected, rtol=0, atol=0.02 * expected.abs().max().item())


class Attention(nn.Module):
    """As libraries write it: in one operator."""

    def __init__(self, mask=None, **how):
        super().__init__()
        self.apart, self.together, self.how = nn.Linear(32, 96), nn.Linear(32, 32), how
        self.register_buffer("mask", mask)

    def forward(self, x):
        query, key, value = (t.unflatten(-1, (4, 8)).transpose(1, 2) for t in self.apart(x).split(32, -1))
        y = nn.functional.scaled_dot_product_attention(query, key, value, self.mask, **self.how)
        return self.together(y.transpose(1, 2).flatten(2))


@pytest.mark.parametrize("where", ["cpu", "presil"])
@pytest.mark.parametrize("how", [{}, {"mask": torch.arange(18.0).view(2, 1, 1, 9), "scale": 0.5}], ids=["", "mask"])
def test_attention_in_one_operator(tmp_path, how, where):
    torch.manual_seed(0)
    model, x = Attention(**how).eval(), torch.randn(2, 9, 32)
    with torch.no_grad():
        expected = model(x)
    summary, _, got = ahead_of_time(tmp_path, model.to(where), x, where=where)
    assert summary["launches"] >= 2 and summary["operators"] == 4
    torch.testing.assert_close(got, expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("how", [{"is_causal": True}, {"mask": torch.ones(9, 9).bool()}], ids=["causal", "booleans"])
def test_attention_that_needs_a_mask_of_booleans_is_refused(tmp_path, how):
    model, x = Attention(**how).eval().to("presil"), torch.randn(2, 9, 32)
    with pytest.raises(ValueError, match=r"scaled_dot_product_attention\S* at node \S+ \(\S*test_aot_torchao.py:\d+"):
        ahead_of_time(tmp_path, model, x)


def test_parts_of_a_row(tmp_path):
    """As GPT-2 splits a layer's result into query, key and value, of any sizes."""

    class Parts(nn.Module):
        def __init__(self):
            super().__init__()
            self.wide, self.narrow = nn.Linear(16, 40), nn.Linear(16, 8)

        def forward(self, x):
            a, b, c = self.wide(x).split([16, 8, 16], -1)
            return self.narrow(a) * b.chunk(2, 0)[1] + self.narrow(torch.relu(c))

    model = Parts().eval()
    quantize_(model, Int8DynamicActivationInt8WeightConfig())
    _, expected, got = both(tmp_path, model.to("presil"), torch.randn(2, 16))
    assert torch.equal(got, expected)


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
    _, expected, got = both(tmp_path, Numbers().eval().to("presil"), torch.randn(3, 16, dtype=dtype))
    assert torch.equal(got, expected)


def codes(y):
    return torch.clamp(torch.round(y * 20), -128, 127).to(torch.int8)


# Each has a type, or a rounding, of its own: of numbers, of floats without dimensions, of codes, of what is filled.
OF_TWO = {
    "sum": lambda y: y + 0.3,
    "difference": lambda y: y - 0.7,
    "product": lambda y: y * 0.1,
    "quotient": lambda y: y / 0.7,
    "filled": lambda y: y * torch.full_like(y, 0.1),
    "filled float32": lambda y: y * torch.full_like(y, 0.1, dtype=torch.float32),
    "filled, rounded": lambda y: y * torch.full_like(y, 0.1, dtype=torch.float32).to(torch.bfloat16),
    "filled int32": lambda y: y * torch.full_like(y, 200, dtype=torch.int32),
    "codes by a number": lambda y: codes(y) * 0.5,
    "codes by filled": lambda y: codes(y) * torch.full_like(y, 0.1),
    "codes by codes": lambda y: codes(y) / codes(y + 9),
    "largest added": lambda y: y + y.float().amax(),
    "by the largest": lambda y: y.float().amax() * y,
    "over the largest": lambda y: y / y.float().amax(),
    "smallest at least": lambda y: torch.maximum(y.float().amin() / 3, y),
}


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("name", list(OF_TWO))
def test_types_of_two(tmp_path, name, dtype):
    class Behind(nn.Linear):
        def forward(self, x):
            return OF_TWO[name](super().forward(x))

    _, expected, got = both(tmp_path, Behind(16, 16, dtype=dtype).eval().to("presil"), torch.randn(5, 16, dtype=dtype))
    assert got.dtype == expected.dtype and torch.equal(got, expected)
