# SPDX-License-Identifier: Apache-2.0
"""Automatic mixed precision: every operator of PyTorch's lists computes in the type its policy says, and training
with GradScaler converges as on the CPU."""

import copy
import warnings

import pytest
import torch
from torch import nn
from torch.nn import functional as F

DTYPES = [torch.bfloat16, torch.float16]


def autocast(dtype):
    return torch.autocast("presil", dtype=dtype)


def randn(*size, dtype=torch.float32):
    return torch.randn(*size).to("presil", dtype)


def lower_precision_calls():
    x, w, b = randn(4, 8), randn(6, 8), randn(6)
    image, kernel = randn(1, 3, 8, 8), randn(5, 3, 3, 3)
    batch = randn(2, 4, 8)
    cell = [randn(4, 8), randn(4, 8), randn(32, 8), randn(32, 8)]
    return {
        "mm": lambda: torch.mm(x, w.t()),
        "matmul": lambda: x @ w.t(),
        "addmm": lambda: torch.addmm(b, x, w.t()),
        "mv": lambda: torch.mv(w, x[0]),
        "bmm": lambda: torch.bmm(batch, batch.transpose(1, 2)),
        "baddbmm": lambda: torch.baddbmm(randn(2, 4, 4), batch, batch.transpose(1, 2)),
        "linear": lambda: F.linear(x, w, b),
        "einsum": lambda: torch.einsum("ij,kj->ik", x, w),
        "linalg_vecdot": lambda: torch.linalg.vecdot(x, x),
        "conv1d": lambda: F.conv1d(image[:, :, 0], kernel[:, :, 0]),
        "conv2d": lambda: F.conv2d(image, kernel),
        "conv_transpose2d": lambda: F.conv_transpose2d(image, kernel.transpose(0, 1)),
        "prelu": lambda: F.prelu(x, randn(1)),
        "sdpa": lambda: F.scaled_dot_product_attention(batch, batch, batch),
        "lstm_cell": lambda: torch.lstm_cell(cell[0], (cell[1], cell[1]), cell[2], cell[3])[0],
        "gru_cell": lambda: torch.gru_cell(x, x, randn(24, 8), randn(24, 8)),
    }


def fp32_calls(dtype):
    x = randn(4, 8, dtype=dtype).abs() + 0.1
    y, target = randn(4, 8, dtype=dtype), torch.randint(8, (4,)).to("presil")
    return {
        "exp": lambda: x.exp(),
        "log": lambda: x.log(),
        "rsqrt": lambda: x.rsqrt(),
        "pow": lambda: x.pow(2.5),
        "softplus": lambda: F.softplus(x),
        "layer_norm": lambda: F.layer_norm(x, (8,)),
        "group_norm": lambda: F.group_norm(x, 2),
        "mse_loss": lambda: F.mse_loss(x, y),
        "nll_loss": lambda: F.nll_loss(x, target),
        "kl_div": lambda: F.kl_div(x.log(), y.softmax(1), reduction="batchmean"),
        "cross_entropy": lambda: F.cross_entropy(x, target),
        "bce_with_logits": lambda: F.binary_cross_entropy_with_logits(x, y.sigmoid()),
        "norm": lambda: x.norm(),
        "cosine_similarity": lambda: F.cosine_similarity(x, y),
        "logsumexp": lambda: x.logsumexp(1),
        "softmax": lambda: x.softmax(1),
        "sum": lambda: x.sum(),
        "cumsum": lambda: x.cumsum(0),
        "prod": lambda: x.prod(),
    }


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", sorted(lower_precision_calls()))
def test_products_compute_in_the_lower_precision(name, dtype):
    call = lower_precision_calls()[name]
    assert call().dtype == torch.float32
    with autocast(dtype):
        assert call().dtype == dtype


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", sorted(fp32_calls(torch.bfloat16)))
def test_what_loses_too_much_computes_in_float32(name, dtype):
    call = fp32_calls(dtype)[name]
    assert call().dtype == dtype
    with autocast(dtype):
        assert call().dtype == torch.float32


@pytest.mark.parametrize("dtype", DTYPES)
def test_mixed_operands_promote(dtype):
    low, high = randn(6, dtype=dtype), randn(6)
    with autocast(dtype):
        assert torch.addcmul(low, high, low).dtype == torch.float32
        assert torch.cat([low, high]).dtype == torch.stack([high, low]).dtype == torch.float32
        assert torch.cat([low, low]).dtype == dtype
        assert (low + low).dtype == dtype and (low + high).dtype == torch.float32
        assert torch.mm(randn(2, 2, dtype=torch.float64), randn(2, 2, dtype=torch.float64)).dtype == torch.float64


def test_equals_explicit_casts():
    x, w = randn(5, 64), randn(7, 64)
    with autocast(torch.bfloat16):
        got = F.linear(x, w)
    assert torch.equal(got.cpu(), F.linear(x.bfloat16(), w.bfloat16()).cpu())
    with autocast(torch.bfloat16), torch.autocast("presil", enabled=False):
        assert F.linear(x, w).dtype == torch.float32


def test_binary_cross_entropy_is_refused_with_the_way_out():
    p, t = randn(4).sigmoid(), randn(4).sigmoid()
    with autocast(torch.float16), pytest.raises(RuntimeError, match="binary_cross_entropy_with_logits"):
        F.binary_cross_entropy(p, t)


def test_an_unsupported_dtype_warns_and_disables():
    with pytest.warns(UserWarning, match="presil.*not supported") as caught:
        context = torch.autocast("presil", dtype=torch.float32)
    assert "torch.bfloat16" in str(caught[0].message) and "torch.float16" in str(caught[0].message)
    with context:
        assert (randn(2, 2) @ randn(2, 2)).dtype == torch.float32
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        torch.autocast("presil", dtype=torch.bfloat16)


def train(model, x, y, device, dtype, steps):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    scaler = torch.amp.GradScaler(device, enabled=dtype == torch.float16, init_scale=2.0**10)
    losses = []
    for _ in range(steps):
        optimizer.zero_grad()
        with torch.autocast(device, dtype=dtype):
            loss = F.cross_entropy(model(x), y)
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        losses.append(loss.item())
    return losses


@pytest.mark.parametrize("dtype", DTYPES)
def test_training_follows_the_cpu(dtype):
    model = nn.Sequential(nn.Conv2d(1, 8, 3), nn.BatchNorm2d(8), nn.ReLU(), nn.Flatten(), nn.Linear(8 * 36, 10))
    x, y = torch.randn(16, 1, 8, 8), torch.randint(10, (16,))
    twin = copy.deepcopy(model).to("presil")
    expected, got = (
        train(model, x, y, "cpu", dtype, 10),
        train(twin, x.to("presil"), y.to("presil"), "presil", dtype, 10),
    )
    assert got[-1] < 0.5 * got[0]
    assert all(p.dtype == p.grad.dtype == torch.float32 for p in twin.parameters())
    # Both round each product to 8 (11) bits; losses follow each other within that.
    torch.testing.assert_close(
        torch.tensor(got), torch.tensor(expected), rtol=0, atol=4 * torch.finfo(dtype).eps * expected[0]
    )


def test_grad_scaler_skips_a_step_with_infinite_gradients_and_halves_the_scale():
    p = nn.Parameter(randn(3))
    before = p.detach().cpu()
    optimizer = torch.optim.SGD([p], lr=1.0)
    scaler = torch.amp.GradScaler("presil", init_scale=4.0)
    scaler.scale((p * float("inf")).sum()).backward()
    scaler.step(optimizer)
    scaler.update()
    assert torch.equal(p.detach().cpu(), before) and scaler.get_scale() == 2.0
    optimizer.zero_grad()
    scaler.scale((p * 2).sum()).backward()
    scaler.unscale_(optimizer)
    assert p.grad.cpu().tolist() == [2, 2, 2]
    scaler.step(optimizer)
    scaler.update()
    assert torch.equal(p.detach().cpu(), before - 2)
