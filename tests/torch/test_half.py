# SPDX-License-Identifier: Apache-2.0
"""float16 on the chip, as it lies: exact products, fp32 sums, one rounding (docs/numerics.md 4 and 5). On a chip that
has none: tests/chips/test_dtypes.py."""

import sys
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from torch_presil import _C

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from oracle import operators  # noqa: E402


BASE = dict(dtype="fp16", lanes=64, cells=32)


def bits(t):
    return t.detach().cpu().contiguous().view(torch.int16).numpy().astype("uint16")


def of_bits(values, dtype, shape):
    """A tensor of a pattern for each element; NaN has no payload."""
    integers = torch.int16 if dtype == torch.float16 else torch.int32
    limit = 1 << (8 * integers.itemsize)
    values = [v - limit if v >= limit // 2 else v for v in map(int, values)]
    return torch.tensor(values, dtype=integers).view(dtype).reshape(shape)


def same(got, want):
    torch.testing.assert_close(got.cpu(), want, rtol=0, atol=0, equal_nan=True)


@pytest.mark.parametrize("shape", [(3, 5, 2), (4, 70, 5), (1, 33, 3)])
def test_matmul_equals_the_oracle_bit_for_bit(shape):
    m, k, n = shape
    a, b = torch.randn(m, k).half(), torch.randn(k, n).half()
    a[0, :2] = torch.tensor([6e-8, 65504.0]).half()  # a subnormal and the largest
    for dtype, out in ((torch.float16, "FP16"), (torch.float32, "FP32")):
        expected = operators.matmul([bits(a)], [bits(b)], epilogue=operators.Epilogue(out=out), **BASE)
        got = torch.mm(a.to("presil"), b.to("presil"), out_dtype=dtype)
        assert got.dtype == dtype
        same(got, of_bits(expected, dtype, (m, n)))


@pytest.mark.parametrize("groups", [1, 4, 20])
def test_convolution_equals_the_oracle_bit_for_bit(groups):
    x, w, b = torch.randn(1, 20, 5, 6).half(), torch.randn(20, 20 // groups, 3, 3).half(), torch.randn(20).half()
    x[0, 0, 0], x[0, 4, 1, 1] = 6e-8, 65504.0
    bias = b.float().view(torch.int32).numpy().astype("uint32")
    expected = operators.conv2d(
        bits(x), bits(w), padding=(1, 1), groups=groups, epilogue=operators.Epilogue(out="FP16", bias=bias), **BASE
    )
    got = F.conv2d(x.to("presil"), w.to("presil"), b.to("presil"), padding=1, groups=groups)
    same(got, of_bits(expected, torch.float16, got.shape))


def test_codes_of_weights_that_are_none():
    """0x7c01 is a NaN like any other, in groups too; their absent weights are not multiplied."""
    w = torch.zeros(4, 1, 3, 3).half()
    w[1].view(torch.int16)[:] = 0x7C01
    x = torch.ones(1, 4, 3, 3).half()
    x[0, 3] = float("inf")
    for group in (1, 2):
        weight = w if group == 1 else w[:, :1].expand(4, 2, 3, 3).contiguous()
        y = F.conv2d(x.to("presil"), weight.to("presil"), groups=4 // group).flatten().cpu()
        assert y.isnan().tolist() == ([False, True, False, True] if group == 1 else [False, True, True, True])


def test_overflow_infinity_and_nan():
    a = torch.tensor([[60000.0, 60000.0], [float("inf"), 1.0], [float("nan"), 0.0], [6e-8, 0.0]]).half()
    b = torch.tensor([[1.0, -1.0], [1.0, 0.0]]).half()
    torch.testing.assert_close(
        (a.to("presil") @ b.to("presil")).cpu(), (a.float() @ b.float()).half(), rtol=0, atol=0, equal_nan=True
    )


def test_products_run_on_the_chip_in_one_pass():
    x = torch.randn(2, 40, 16, dtype=torch.float16).to("presil")
    _C.reset_host_operators()
    _C.collect_reports(True)
    torch.baddbmm(torch.randn(1, 40, 40, dtype=torch.float16).to("presil"), x, x.transpose(1, 2))
    torch.addmm(torch.randn(40, dtype=torch.float16).to("presil"), x[0], x[1].t(), beta=0.5, alpha=2)
    torch.mv(x[0], x[1, 0])
    torch.presil.synchronize()
    reports = _C.take_reports()
    _C.collect_reports(False)
    assert [r["label"] for r in reports] == ["baddbmm", "addmm", "mv"] and all(r["passes"] == 1 for r in reports)
    assert not {"presil::widen", "presil::round"} & set(_C.host_operators())


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_results_in_float32(dtype):
    a, b, c = (torch.randn(*s).to(dtype) for s in ((2, 9, 30), (2, 30, 7), (2, 9, 7)))
    A, B, C = a.to("presil"), b.to("presil"), c.to("presil")
    exact = a.double() @ b.double()
    for got, want in (
        (torch.bmm(A, B, out_dtype=torch.float32), exact),
        (torch.mm(A[0], B[0], out_dtype=torch.float32), exact[0]),
        (torch.addmm(C[0].float(), A[0], B[0], out_dtype=torch.float32), exact[0] + c[0].double()),
        (torch.baddbmm(C.float(), A, B, out_dtype=torch.float32, beta=2.0), exact + 2 * c.double()),
    ):
        assert got.dtype == torch.float32
        torch.testing.assert_close(got.cpu().double(), want, rtol=2e-6, atol=2e-5)
    out = torch.empty(9, 7, device="presil")
    torch.mm(A[0], B[0], out_dtype=torch.float32, out=out)
    torch.testing.assert_close(out.cpu().double(), exact[0], rtol=2e-6, atol=2e-5)
    with pytest.raises(RuntimeError, match="out_dtype"):
        torch.mm(A[0], B[0], out_dtype=torch.float64)


def test_autocast_and_linear():
    linear = torch.nn.Linear(48, 20).to("presil")
    x = torch.randn(5, 48)
    with torch.autocast("presil", dtype=torch.float16):
        y = linear(x.to("presil"))
    assert y.dtype == torch.float16
    host = torch.nn.functional.linear(
        x.half().float(), linear.weight.cpu().half().float(), linear.bias.cpu().half().float()
    )
    torch.testing.assert_close(y.float().cpu(), host, rtol=1e-3, atol=1e-3)


def test_ties_and_subnormals_of_results(verify):
    """Multiples of 2^-25, half of them between two fp16, with their neighbours; 2^-14 and around; the largest ones."""
    k = torch.arange(-64, 2050).half()
    a = torch.stack([k * 2.0**-24, torch.zeros_like(k)], 1)
    a[:40, 1] = 2.0**-24  # 2^-39 beside: no tie
    b = torch.tensor([[0.5, 1.0], [2.0**-15, 2.0**-15]]).half()
    same(a.to("presil") @ b.to("presil"), (a.double() @ b.double()).half())
    a = torch.tensor([[65504.0, 16.0], [65504.0, 15.992], [-65504.0, -16.0], [65504.0, 8.0]]).half()
    same(a.to("presil") @ torch.ones(2, 1).half().to("presil"), (a.double() @ torch.ones(2, 1).double()).half())


def test_rtl_equals_twin(verify):
    x = torch.randn(1, 12, 7, 7, dtype=torch.float16).to("presil")
    F.conv2d(x, torch.randn(9, 12, 3, 3, dtype=torch.float16).to("presil")).cpu()
    (x.flatten(2)[0] @ x.flatten(2)[0].t()).cpu()
