# SPDX-License-Identifier: Apache-2.0
"""Matrix products on the chip against the CPU: shapes, strides, dtypes, forms."""

import pytest
import torch

SHAPES = [
    (1, 1, 1),
    (1, 64, 32),
    (3, 5, 7),
    (31, 33, 65),
    (32, 64, 64),
    (100, 130, 70),
    (1025, 40, 33),
    (64, 1000, 2048),
]


def close(got, expected, dtype):
    tolerance = (
        dict(rtol=2e-6, atol=1e-5 * expected.abs().max().item() + 1e-12)
        if dtype == torch.float32
        else dict(rtol=1e-2, atol=1e-2 * expected.abs().max().item())
    )
    torch.testing.assert_close(got.cpu(), expected, **tolerance)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("shape", SHAPES)
def test_mm(shape, dtype):
    m, n, k = shape
    a, b = torch.randn(m, k).to(dtype), torch.randn(k, n).to(dtype)
    reference = a.float() @ b.float()
    for x, y in (
        (a, b),
        (a.t().contiguous().t(), b),
        (a, b.t().contiguous().t()),
        (a.t().contiguous().t(), b.t().contiguous().t()),
    ):
        close(x.to("presil") @ y.to("presil"), reference.to(dtype), dtype)


def test_strides_that_the_chip_cannot_load_are_copied():
    a, b = torch.randn(20, 60)[::2, ::3], torch.randn(20, 1).expand(20, 12)
    close(a.to("presil") @ b.to("presil"), a @ b, torch.float32)
    d = torch.randn(40, 60).to("presil")
    close(d[::2, ::3] @ d[::2, ::3].t(), d.cpu()[::2, ::3] @ d.cpu()[::2, ::3].t(), torch.float32)


def test_all_forms():
    a, b, c = torch.randn(4, 10, 20), torch.randn(4, 20, 30), torch.randn(4, 10, 30)
    A, B, C = (t.to("presil") for t in (a, b, c))
    close(torch.bmm(A, B), torch.bmm(a, b), torch.float32)
    close(torch.baddbmm(C, A, B), torch.baddbmm(c, a, b), torch.float32)
    close(torch.baddbmm(C, A, B, beta=0.5, alpha=2), torch.baddbmm(c, a, b, beta=0.5, alpha=2), torch.float32)
    close(torch.addmm(C[0], A[0], B[0]), torch.addmm(c[0], a[0], b[0]), torch.float32)
    close(torch.addmm(C[0, 0], A[0], B[0]), torch.addmm(c[0, 0], a[0], b[0]), torch.float32)
    close(torch.addmm(C[0, :, :1], A[0], B[0], beta=2), torch.addmm(c[0, :, :1], a[0], b[0], beta=2), torch.float32)
    close(torch.mv(A[0], B[0, :, 0]), torch.mv(a[0], b[0, :, 0]), torch.float32)
    close(torch.dot(A[0, 0], B[0, :, 0]), torch.dot(a[0, 0], b[0, :, 0]), torch.float32)
    close(
        torch.nn.functional.linear(A, B[0].t(), C[0, 0]),
        torch.nn.functional.linear(a, b[0].t(), c[0, 0]),
        torch.float32,
    )
    out = torch.empty(0, device="presil")
    close(torch.mm(A[0], B[0], out=out), a[0] @ b[0], torch.float32)
    square = torch.randn(8, 8)
    S = square.to("presil")
    close(torch.mm(S, S, out=S), square @ square, torch.float32)


def test_empty_and_invalid():
    assert (torch.zeros(0, 5, device="presil") @ torch.zeros(5, 3, device="presil")).shape == (0, 3)
    assert (torch.ones(4, 0, device="presil") @ torch.ones(0, 3, device="presil")).cpu().abs().sum() == 0
    with pytest.raises(RuntimeError, match="mat1 and mat2|size|shape"):
        torch.ones(2, 3, device="presil") @ torch.ones(4, 5, device="presil")


def test_other_dtypes_are_the_hosts():
    a = torch.randint(-5, 5, (6, 7))
    assert torch.equal((a.to("presil") @ a.t().to("presil")).cpu(), a @ a.t())
    d = torch.randn(6, 7, dtype=torch.float64)
    torch.testing.assert_close((d.to("presil") @ d.t().to("presil")).cpu(), d @ d.t())


@pytest.mark.parametrize(
    "shape", [(1, 8, 8), (17, 8, 16), (40, 32, 64), (33, 40, 200), (100, 64, 1000), (20, 8, 20000)]
)
def test_int_mm_is_exact(shape):
    m, n, k = shape
    a, b = torch.randint(-128, 128, (m, k), dtype=torch.int8), torch.randint(-128, 128, (k, n), dtype=torch.int8)
    expected = (a.long() @ b.long()).int()
    assert torch.equal(torch._int_mm(a.to("presil"), b.to("presil")).cpu(), expected)
    assert torch.equal(torch._int_mm(a.to("presil"), b.t().contiguous().to("presil").t()).cpu(), expected)


def test_fp32_precision_setting():
    a, b = torch.randn(64, 512), torch.randn(512, 64)
    exact = (a.double() @ b.double()).float()
    fine = (a.to("presil") @ b.to("presil")).cpu()
    with torch.backends.presil.flags(fp32_precision="bf16"):
        coarse = (a.to("presil") @ b.to("presil")).cpu()
    scale = (a.abs() @ b.abs()).max()
    assert (fine - exact).abs().max() <= 2.0**-21 * scale
    assert 2.0**-16 * scale < (coarse - exact).abs().max() < 2.0**-7 * scale


@pytest.mark.parametrize("special", [float("inf"), float("-inf"), float("nan")])
def test_specials_have_the_class_of_ieee_fp32(special):
    a, b = torch.randn(5, 40), torch.randn(40, 6)
    a[1, 3] = special
    b[7, 2] = special
    b[9, 4] = 0
    a[2, 9] = special
    got, expected = (a.to("presil") @ b.to("presil")).cpu(), a @ b
    assert torch.equal(got.isnan(), expected.isnan()) and torch.equal(got.isinf(), expected.isinf())
    assert torch.equal(got[expected.isinf()], expected[expected.isinf()])


def test_rtl_equals_twin(verify):
    for dtype in (torch.float32, torch.bfloat16):
        a, b = torch.randn(70, 100).to(dtype).to("presil"), torch.randn(100, 45).to(dtype).to("presil")
        (a @ b).cpu()
        (a @ b.t().contiguous().t()).cpu()
