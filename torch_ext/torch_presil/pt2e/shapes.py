# SPDX-License-Identifier: Apache-2.0
"""Shapes without data of the int8 operators that this package calls beside those of torch_presil.meta."""

import torch


def _convolved(input, weight, stride, padding, dilation, dtype):
    size = [
        (input.shape[2 + i] + 2 * padding[i] - dilation[i] * (weight.shape[2 + i] - 1) - 1) // stride[i] + 1
        for i in range(2)
    ]
    return input.new_empty([input.shape[0], weight.shape[0], *size], dtype=dtype).contiguous(
        memory_format=torch.channels_last
    )


@torch.library.register_fake("presil::conv2d_int8.range")
def _(input, weight, bias, scale, stride, padding, dilation, *rest):
    return _convolved(input, weight, stride, padding, dilation, torch.int8)


@torch.library.register_fake("presil::conv2d_int8.real")
def _(input, weight, bias, scale, stride, padding, dilation, *rest):
    return _convolved(input, weight, stride, padding, dilation, torch.float32)


@torch.library.register_fake("presil::linear_int8.range")
def _(input, weight, *rest):
    return input.new_empty([*input.shape[:-1], weight.shape[0]], dtype=torch.int8)


@torch.library.register_fake("presil::linear_int8.real")
def _(input, weight, *rest):
    return input.new_empty([*input.shape[:-1], weight.shape[0]], dtype=torch.float32)


@torch.library.register_fake("presil::bmm_int8")
def _(a, b):
    return a.new_empty([a.shape[0], a.shape[1], b.shape[2]], dtype=torch.int32)
