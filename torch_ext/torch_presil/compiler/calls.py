# SPDX-License-Identifier: Apache-2.0
"""What one chip operator computes, as functions that stand in a compiled graph. Called directly they compute with PyTorch's operators, one after the other;
inside a partition (partition.py) each becomes one entry of a command list.

low, high: clamp behind everything else, None: no bound.
"""

import torch

aten = torch.ops.aten


def _tail(y, residual, low, high):
    if residual is not None:
        y = y + residual
    return y if low is None and high is None else aten.clamp.default(y, low, high)


def conv(x, weight, bias, norm, eps, stride, padding, dilation, transposed, output_padding, groups, residual, low, high):
    """x: (N, C, H, W). norm: () or (mean, variance, weight, bias) of a batch-norm in eval mode. residual: the output's shape."""
    y = aten.convolution.default(x, weight, bias, stride, padding, dilation, transposed, output_padding, groups)
    if norm:
        mean, variance, scale, shift = norm
        y = aten._native_batch_norm_legit_no_training.default(y, scale, shift, mean, variance, 0.0, eps)[0]
    return _tail(y, residual, low, high)


def conv_size(x, weight, stride, padding, dilation, transposed, output_padding, groups) -> list:
    size = [x.shape[0], weight.shape[1] * groups if transposed else weight.shape[0]]
    for i in range(2):
        reach = dilation[i] * (weight.shape[2 + i] - 1)
        size.append((x.shape[2 + i] - 1) * stride[i] - 2 * padding[i] + reach + output_padding[i] + 1 if transposed
                    else (x.shape[2 + i] + 2 * padding[i] - reach - 1) // stride[i] + 1)
    return size


def linear(x, weight, bias, residual, low, high):
    """x: (rows, K), weight: (N, K), which the chip keeps packed. residual: (rows, N)."""
    y = aten.mm.default(x, weight.t()) if bias is None else aten.addmm.default(bias, x, weight.t())
    return _tail(y, residual, low, high)


def product(a, b, residual, low, high):
    """a: (M, K) or (B, M, K), b: (K, N) or (B, K, N). residual: broadcast to the result."""
    y = aten.mm.default(a, b) if a.dim() == 2 else aten.bmm.default(a, b)
    return _tail(y, residual, low, high)


CALLS = (conv, linear, product)
RESIDUAL = {conv: 11, linear: 3, product: 2}  # position of the argument; low and high follow
NORM = 3  # position in conv

# Operators that only look at memory in another way.
VIEWS = {aten.view.default, aten._unsafe_view.default, aten.t.default, aten.permute.default, aten.transpose.int, aten.expand.default, aten.unsqueeze.default, aten.squeeze.dim,
         aten.squeeze.dims, aten.select.int, aten.slice.Tensor, aten.alias.default, aten.detach.default}
STRICT_VIEWS = {aten.view.default, aten._unsafe_view.default}  # fail on strides that don't fit
