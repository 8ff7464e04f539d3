# SPDX-License-Identifier: Apache-2.0
"""Operators that the CPU has no kernel for: against the same result by other means."""

import pytest
import torch
from torch.nn import functional as F


def close(got, expected, **tolerance):
    torch.testing.assert_close(got.cpu(), expected, **tolerance)


@pytest.mark.parametrize("shape", [(6, 4), (6, 4, 5), (6, 4, 3, 3)])
@pytest.mark.parametrize("affine", [False, True])
def test_synchronised_batch_norm_of_two_halves_is_batch_norm_of_the_whole(shape, affine):
    """The five steps of SyncBatchNorm, the halves (4 and 2 images) standing for two processes."""
    x, grad = torch.randn(shape).requires_grad_(), torch.randn(shape)
    weight, bias = (torch.rand(4).requires_grad_(), torch.randn(4).requires_grad_()) if affine else (None, None)
    running_mean, running_var = torch.randn(4), torch.rand(4)
    device_mean, device_var = running_mean.to("presil"), running_var.to("presil")
    expected = F.batch_norm(x, running_mean, running_var, weight, bias, True, 0.2, 1e-4)
    expected.backward(grad)

    def move(t):
        return None if t is None else t.detach().to("presil")

    w, b, halves, grads = move(weight), move(bias), move(x).split([4, 2]), move(grad).split([4, 2])
    stats = [torch.batch_norm_stats(h, 1e-4) for h in halves]
    counts = torch.tensor([h.numel() / 4 for h in halves]).to("presil")
    mean, invstd = torch.batch_norm_gather_stats_with_counts(
        halves[0],
        torch.stack([s[0] for s in stats]),
        torch.stack([s[1] for s in stats]),
        device_mean,
        device_var,
        0.2,
        1e-4,
        counts,
    )
    close(
        torch.cat([torch.batch_norm_elemt(h, w, b, mean, invstd, 1e-4) for h in halves]),
        expected.detach(),
        rtol=1e-5,
        atol=1e-5,
    )
    close(device_mean, running_mean)
    close(device_var, running_var)
    parts = [torch.batch_norm_backward_reduce(g, h, mean, invstd, w, True, True, True) for g, h in zip(grads, halves)]
    sums, products = parts[0][0] + parts[1][0], parts[0][1] + parts[1][1]
    close(
        torch.cat(
            [
                torch.batch_norm_backward_elemt(g, h, mean, invstd, w, sums, products, counts.int())
                for g, h in zip(grads, halves)
            ]
        ),
        x.grad,
        rtol=1e-4,
        atol=1e-5,
    )
    if affine:
        close(parts[0][2] + parts[1][2], weight.grad, rtol=1e-4, atol=1e-5)
        close(parts[0][3] + parts[1][3], bias.grad, rtol=1e-4, atol=1e-5)
    equal = torch.batch_norm_gather_stats(halves[0], mean.repeat(2, 1), invstd.repeat(2, 1), None, None, 0.1, 1e-4, 7)
    close(equal[0], mean.cpu())
    close(equal[1], invstd.cpu())


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("shape,last", [((5, 8), 1), ((3, 4, 6), 2), ((7,), 1)])
def test_rms_norm_backward(shape, last, weighted):
    x, grad = torch.randn(shape, dtype=torch.float64).requires_grad_(), torch.randn(shape, dtype=torch.float64)
    normalized = shape[-last:]
    weight = torch.rand(normalized, dtype=torch.float64).requires_grad_() if weighted else None
    F.rms_norm(x, normalized, weight, 1e-6).backward(grad)
    rstd = (x.detach().pow(2).mean(tuple(range(-last, 0)), True) + 1e-6).rsqrt()
    for_input, for_weight = torch.ops.aten._fused_rms_norm_backward(
        grad.to("presil"),
        x.detach().to("presil"),
        normalized,
        rstd.to("presil"),
        weight.detach().to("presil") if weighted else None,
        [True, weighted],
    )
    close(for_input, x.grad)
    if weighted:
        close(for_weight, weight.grad)


def test_depthwise_convolutions_run_on_the_chip():
    x, w, b = torch.randn(2, 6, 9, 8), torch.randn(12, 1, 3, 3), torch.randn(12)
    with torch.presil.reports() as reports:
        got = torch.ops.aten._conv_depthwise2d(
            x.to("presil"), w.to("presil"), [3, 3], b.to("presil"), [2, 1], [1, 1], [1, 1]
        )
        torch.presil.synchronize()
        assert sum(r["macs"] for r in reports.take()) > 0
    close(got, F.conv2d(x, w, b, (2, 1), 1, groups=6), rtol=1e-5, atol=1e-5)
    x3, w3 = torch.randn(1, 3, 5, 6, 6), torch.randn(3, 1, 2, 3, 3)
    close(
        torch.ops.aten.conv_depthwise3d(
            x3.to("presil"), w3.to("presil"), [2, 3, 3], None, [1, 1, 1], [0, 1, 1], [1, 1, 1]
        ),
        F.conv3d(x3, w3, None, 1, (0, 1, 1), groups=3),
        rtol=1e-5,
        atol=1e-5,
    )


def test_pooling_and_dropout_with_a_mask():
    x = torch.randn(2, 3, 9, 8, requires_grad=True)
    y = F.max_pool2d(x, 3, 2, 1)
    grad = torch.randn_like(y)
    y.backward(grad)
    assert torch.equal(
        torch.ops.aten.max_pool2d_backward(
            grad.to("presil"), x.detach().to("presil"), [3, 3], [2, 2], [1, 1], [1, 1], False
        ).cpu(),
        x.grad,
    )
    d = torch.ones(4000, device="presil")
    out, mask = torch._fused_dropout(d, 0.25)
    assert mask.dtype == torch.uint8 and 800 < mask.sum().item() < 1200
    assert torch.equal(out.cpu(), mask.cpu() * 4.0) and torch.equal(torch._masked_scale(d, mask, 4.0), out)


def test_resize_output():
    out = torch.empty(0, device="presil")
    torch.ops.aten._resize_output_(out, [2, 3], torch.device("presil:0"))
    assert out.shape == (2, 3)
    with pytest.raises(RuntimeError, match="on device cpu"):
        torch.ops.aten._resize_output_(out, [2], torch.device("cpu"))


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_products_with_a_float32_result(dtype):
    a, b, c = (torch.randn(shape).to(dtype) for shape in ((3, 6, 40), (3, 40, 5), (3, 6, 5)))
    A, B, C = (t.to("presil") for t in (a, b, c))
    exact = a.double() @ b.double()
    bound = 2.0**-20 * (a.double().abs() @ b.double().abs()).max().item()  # docs/numerics.md 6
    out = torch.empty(0, device="presil")
    for got, expected in (
        (torch.bmm(A, B, out_dtype=torch.float32), exact),
        (torch.mm(A[0], B[0], out_dtype=torch.float32), exact[0]),
        (torch.baddbmm(C, A, B, out_dtype=torch.float32, beta=0.5), exact + c.double() / 2),
        (torch.addmm(C[0], A[0], B[0], out_dtype=torch.float32), exact[0] + c[0].double()),
        (torch.mm(A[0], B[0], out_dtype=torch.float32, out=out), exact[0]),
    ):
        assert got.dtype == torch.float32
        close(got.double(), expected, rtol=0, atol=bound)
    assert out.shape == (6, 5)
    with pytest.raises(RuntimeError, match="out_dtype"):
        torch.mm(A[0], B[0], out_dtype=torch.float64)


def test_backward_of_linear_and_matmul():
    x, w, b = (
        torch.randn(2, 7, 6, requires_grad=True),
        torch.randn(5, 6, requires_grad=True),
        torch.randn(5, requires_grad=True),
    )
    y = F.linear(x, w, b)
    grad = torch.randn_like(y)
    y.backward(grad)
    for got, expected in zip(
        torch.ops.aten.linear_backward(x.detach().to("presil"), grad.to("presil"), w.detach().to("presil"), [True] * 3),
        (x.grad, w.grad, b.grad),
    ):
        close(got, expected, rtol=1e-5, atol=1e-5)
    for left, right in (
        ((4, 3, 6), (6, 5)),
        ((6,), (6, 5)),
        ((3, 6), (6,)),
        ((6,), (6,)),
        ((6,), (2, 6, 5)),
        ((2, 3, 6), (6,)),
        ((2, 1, 3, 6), (4, 6, 5)),
    ):
        p, q = torch.randn(left, requires_grad=True), torch.randn(right, requires_grad=True)
        y = p @ q
        grad = torch.randn_like(y)
        y.backward(grad)
        for got, expected in zip(
            torch.ops.aten.matmul_backward(
                grad.to("presil"), p.detach().to("presil"), q.detach().to("presil"), [True, True]
            ),
            (p.grad, q.grad),
        ):
            close(got, expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("reduction", ["sum", "mean", "none"])
def test_chunked_linear_cross_entropy_accumulates_in_float32_as_on_the_cpu(dtype, reduction):
    seed = 5
    generator = torch.Generator().manual_seed(seed)
    x, w = (torch.randn(shape, generator=generator).to(dtype) for shape in ((96, 16), (64, 16)))
    target = torch.randint(64, (96,), generator=generator)
    options = torch.nn.LinearCrossEntropyOptions()
    exact = F.linear_cross_entropy(x.double(), w.double(), target, reduction=reduction)
    got = F.linear_cross_entropy(
        x.to("presil"), w.to("presil"), target.to("presil"), reduction=reduction, options=options
    )
    expected = F.linear_cross_entropy(x, w, target, reduction=reduction, options=options)
    unit = torch.finfo(dtype).eps / 2
    assert ((expected.double() - exact).abs() <= 1.01 * unit * exact.abs()).all(), f"the CPU, seed {seed}"
    assert ((got.cpu().double() - exact).abs() <= 1.01 * unit * exact.abs()).all(), f"seed {seed}"


def test_addr_and_stack_in_place_and_into_out_are_the_cpus():
    a, x, y = torch.tensor(1.0), torch.randn(5), torch.randn(10)
    for device in ("cpu", "presil"):
        with pytest.raises(RuntimeError, match="2D tensor expected, got 0D"):
            a.to(device, copy=True).addr_(x.to(device), y.to(device))
    out = torch.empty(0, device="presil")
    torch._stack([x.to("presil"), x.to("presil")], 1, out=out)
    close(out, torch.stack([x, x], 1), rtol=0, atol=0)
