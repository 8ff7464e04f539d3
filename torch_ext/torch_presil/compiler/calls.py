# SPDX-License-Identifier: Apache-2.0
"""What one chip operator computes, as functions that stand in a compiled graph. Called directly they compute with
PyTorch's operators, one after the other; inside a partition (partition.py) each becomes one entry of a command list.

low, high: clamp behind everything else, None: no bound.
"""

import torch

from torch_presil import _C

aten = torch.ops.aten


def _tail(y, residual, low, high):
    if residual is not None:
        y = y + residual
    return y if low is None and high is None else aten.clamp.default(y, low, high)


def kernel(weight):
    """A kernel of a 1-D convolution, whose tensors have a height of 1 here, as one of a 2-D convolution."""
    return weight.unsqueeze(2) if weight.dim() == 3 else weight


def like(x, constant):
    """A weight or bias in the type of x."""
    return None if constant is None else constant.to(x.dtype)


def conv(
    x, weight, bias, norm, eps, stride, padding, dilation, transposed, output_padding, groups, residual, low, high
):
    """x: (N, C, H, W); weight: (O, I, KH, KW), or (O, I, KW); it and bias are converted to the type of x. norm: () or
    (mean, variance, weight, bias) of a batch-norm in eval mode. residual: the output's shape."""
    y = aten.convolution.default(
        x, like(x, kernel(weight)), like(x, bias), stride, padding, dilation, transposed, output_padding, groups
    )
    if norm:
        mean, variance, scale, shift = norm
        y = aten._native_batch_norm_legit_no_training.default(y, scale, shift, mean, variance, 0.0, eps)[0]
    return _tail(y, residual, low, high)


def conv_size(x, weight, stride, padding, dilation, transposed, output_padding, groups) -> list:
    weight = kernel(weight)
    size = [x.shape[0], weight.shape[1] * groups if transposed else weight.shape[0]]
    for i in range(2):
        reach = dilation[i] * (weight.shape[2 + i] - 1)
        size.append(
            (x.shape[2 + i] - 1) * stride[i] - 2 * padding[i] + reach + output_padding[i] + 1
            if transposed
            else (x.shape[2 + i] + 2 * padding[i] - reach - 1) // stride[i] + 1
        )
    return size


def linear(x, weight, bias, residual, low, high):
    """x: (rows, K), weight: (N, K), which the chip keeps packed; it and bias are converted to the type of x.
    residual: (rows, N)."""
    weight, bias = like(x, weight), like(x, bias)
    y = aten.mm.default(x, weight.t()) if bias is None else aten.addmm.default(bias, x, weight.t())
    return _tail(y, residual, low, high)


def product(a, b, residual, low, high):
    """a: (M, K) or (B, M, K), b: (K, N) or (B, K, N). residual: broadcast to the result."""
    y = aten.mm.default(a, b) if a.dim() == 2 else aten.bmm.default(a, b)
    return _tail(y, residual, low, high)


def _gradient(which, grad, x, weight, stride, padding, dilation, transposed, output_padding, groups):
    bias_size = [weight.shape[1] * groups if transposed else weight.shape[0]]
    return aten.convolution_backward.default(
        grad,
        x,
        kernel(weight),
        bias_size,
        stride,
        padding,
        dilation,
        transposed,
        output_padding,
        groups,
        [i == which for i in range(3)],
    )[which]


def input_grad(grad, x, weight, stride, padding, dilation, transposed, output_padding, groups, residual):
    """Of a convolution with these arguments. grad: (N, O, H', W'); result and residual: x's shape. The kernel is read
    where it lies."""
    return _tail(
        _gradient(0, grad, x, weight, stride, padding, dilation, transposed, output_padding, groups),
        residual,
        None,
        None,
    )


def weight_grad(grad, x, weight, stride, padding, dilation, transposed, output_padding, groups):
    """As input_grad, of the weight, always with four dimensions; weight: for its shape."""
    return _gradient(1, grad, x, weight, stride, padding, dilation, transposed, output_padding, groups)


def bias_grad(grad, x, weight, stride, padding, dilation, transposed, output_padding, groups):
    """As input_grad, of the bias; only grad counts."""
    return _gradient(2, grad, x, weight, stride, padding, dilation, transposed, output_padding, groups)


CALLS = (conv, linear, product, input_grad, weight_grad, bias_grad)
RESIDUAL = {
    conv: 11,
    linear: 3,
    product: 2,
    input_grad: 9,
}  # position of the argument, where there is one; low and high follow, if clamped
CLAMPED = (conv, linear, product)
GRADIENTS = (input_grad, weight_grad, bias_grad)  # of convolution_backward's results, in order
WRITES_NHWC = (conv, input_grad)
# What an argument that is no result of a chip operator is converted to; "weight": packed, so that its strides don't
# matter. Others are read as they lie.
READS = {
    conv: {0: "nhwc", 1: "weight", 2: "weight", 3: "weight", 11: "nhwc"},
    linear: {0: "rows", 1: "weight", 2: "weight", 3: "rows"},
    input_grad: {9: "nhwc"},
}
NORM = 3  # position in conv


def left_out(operator: str, reason: str) -> None:
    """Stands before an operator that the chip has, but that is in no partition: it runs by itself. For
    torch.presil.explain()."""
    _C.note_operator(operator, reason)


# Operators that only look at memory in another way.
VIEWS = {
    aten.view.default,
    aten._unsafe_view.default,
    aten.t.default,
    aten.permute.default,
    aten.transpose.int,
    aten.expand.default,
    aten.unsqueeze.default,
    aten.squeeze.dim,
    aten.squeeze.dims,
    aten.select.int,
    aten.slice.Tensor,
    aten.alias.default,
    aten.detach.default,
}
STRICT_VIEWS = {aten.view.default, aten._unsafe_view.default}  # fail on strides that don't fit
