# SPDX-License-Identifier: Apache-2.0
"""presil::conv2d and presil::linear are differentiable operators like PyTorch's own."""

import pytest
import torch
import torch.nn.functional as F
from torch_presil import _C

conv2d, linear = torch.ops.presil.conv2d, torch.ops.presil.linear


def device(*shapes, dtype=torch.float64):
    return [torch.randn(*s).to("presil", dtype).requires_grad_() for s in shapes]


@pytest.mark.parametrize("activation", ["none", "relu", "relu6"])
@pytest.mark.parametrize("stride,padding,dilation,groups", [(1, 0, 1, 1), (2, 1, 1, 1), (1, 2, 2, 2)])
def test_gradcheck_conv2d(activation, stride, padding, dilation, groups):
    x, w, b = device((2, 4, 5, 4), (6, 4 // groups, 3, 2), (6,))
    out = F.conv2d(x.detach().cpu(), w.detach().cpu(), None, stride, padding, dilation, groups)
    (r,) = device(out.shape)
    args = ([stride] * 2, [padding] * 2, [dilation] * 2, groups)
    torch.autograd.gradcheck(lambda x, w, b, r: conv2d(x, w, b, *args, r, activation), (x, w, b, r))
    torch.autograd.gradcheck(lambda x, w: conv2d(x, w, None, *args, None, activation), (x, w))


def test_gradgradcheck():
    x, w = device((1, 2, 4, 4), (3, 2, 3, 3))
    torch.autograd.gradgradcheck(lambda x, w: conv2d(x, w, None, [1, 1], [1, 1]), (x, w))


def test_gradcheck_linear():
    x, w, b, r = device((2, 3, 5), (4, 5), (4,), (2, 3, 4))
    torch.autograd.gradcheck(lambda x, w, b, r: linear(x, w, b, r, "relu"), (x, w, b, r))
    torch.autograd.gradcheck(lambda x, w: linear(x, w), (x, w))


@pytest.mark.parametrize(
    "dtype,out_dtype",
    [(torch.float32, None), (torch.bfloat16, None), (torch.bfloat16, torch.float32), (torch.float16, None)],
)
@pytest.mark.parametrize("activation", ["none", "relu", "relu6"])
def test_gradients_on_the_chip(dtype, out_dtype, activation):
    tensors = [torch.randn(2, 9, 8, 7), torch.randn(12, 9, 3, 3), torch.randn(12), torch.randn(2, 12, 4, 4)]
    tensors = [t.to(dtype) for t in tensors]
    act = {"none": lambda t: t, "relu": F.relu, "relu6": F.relu6}[activation]
    host = [t.double().requires_grad_() for t in tensors]
    y = act(F.conv2d(host[0], host[1], host[2], 2, 1) + host[3])
    grad = torch.randn_like(y).to(out_dtype or dtype)
    y.backward(grad.double())
    chip = [t.to("presil").requires_grad_() for t in tensors]
    z = conv2d(chip[0], chip[1], chip[2], [2, 2], [1, 1], [1, 1], 1, chip[3], activation, out_dtype)
    assert z.dtype == (out_dtype or dtype)
    _C.reset_host_operators()
    z.backward(grad.to("presil"))
    assert not any("convolution" in name for name in _C.host_operators())
    tolerance = dict(rtol=2e-5, atol=2e-5) if dtype == torch.float32 else dict(rtol=2e-2, atol=6e-2)
    for got, expected in zip(chip, host):
        torch.testing.assert_close(got.grad.cpu().double(), expected.grad, **tolerance)


def samples(dtype=torch.float32):
    x, w, b, r = (
        torch.randn(*s).to("presil", dtype).requires_grad_() for s in ((2, 4, 6, 6), (8, 4, 3, 3), (8,), (2, 8, 6, 6))
    )
    yield torch.ops.presil.conv2d.default, (x, w, b, [1, 1], [1, 1], [1, 1], 1, r, "relu")
    yield torch.ops.presil.conv2d.default, (x.detach(), w.detach())
    y, v, c = (torch.randn(*s).to("presil", dtype).requires_grad_() for s in ((3, 5, 10), (7, 10), (7,)))
    yield torch.ops.presil.linear.default, (y, v, c, None, "relu6")
    yield torch.ops.presil.linear.default, (y.detach(), v.detach())


def int8_samples():
    def q(*shape):
        return torch.randint(-100, 100, shape, dtype=torch.int8).to("presil")

    bias, scale = torch.randint(-50, 50, (8,), dtype=torch.int32).to("presil"), torch.rand(8).mul(1e-3).to("presil")
    yield (
        torch.ops.presil.conv2d_int8.default,
        (q(2, 4, 6, 6), q(8, 4, 3, 3), bias, scale, [1, 1], [1, 1], [1, 1], 1, 3, -5),
    )
    yield torch.ops.presil.linear_int8.default, (q(3, 10), q(8, 10), bias, scale, 3, -5)


@pytest.mark.parametrize("index", range(6))
def test_opcheck(index):
    op, args = (list(samples()) + list(int8_samples()))[index]
    # The check of the registration refuses devices that it doesn't know ("NYI devices other than CPU/CUDA/XPU"): the
    # same question, asked directly.
    torch.library.opcheck(op, args, test_utils=("test_schema", "test_faketensor", "test_aot_dispatch_dynamic"))
    floating = not op.name().endswith("int8")
    assert torch._C._dispatch_has_kernel_for_dispatch_key(op.name(), "AutogradPrivateUse1") == floating


def test_float64_is_the_hosts_and_bad_arguments_are_refused():
    x, w = device((1, 2, 5, 5), (3, 2, 3, 3))
    _C.reset_host_operators()
    torch.testing.assert_close(conv2d(x, w).detach().cpu(), F.conv2d(x.detach().cpu(), w.detach().cpu()))
    assert "presil::conv2d" in _C.host_operators()
    with pytest.raises(ValueError, match="activation"):
        conv2d(x, w, activation="tanh")
    with pytest.raises(TypeError, match="same floating-point dtype"):
        conv2d(x, w.float())
