# SPDX-License-Identifier: Apache-2.0
"""Shapes of our custom operators without data (meta and fake tensors)."""

import torch


def _conv_output(x, weight, stride, padding, dilation, dtype):
    size = [
        (x.shape[2 + i] + 2 * padding[i] - dilation[i] * (weight.shape[2 + i] - 1) - 1) // stride[i] + 1
        for i in range(2)
    ]
    return x.new_empty([x.shape[0], weight.shape[0], *size], dtype=dtype).contiguous(memory_format=torch.channels_last)


@torch.library.register_fake("presil::conv2d")
def _(
    input,
    weight,
    bias=None,
    stride=(1, 1),
    padding=(0, 0),
    dilation=(1, 1),
    groups=1,
    residual=None,
    activation="none",
    out_dtype=None,
    label="conv2d",
):
    return _conv_output(input, weight, stride, padding, dilation, out_dtype or input.dtype)


@torch.library.register_fake("presil::linear")
def _(input, weight, bias=None, residual=None, activation="none", out_dtype=None, label="linear"):
    return input.new_empty([*input.shape[:-1], weight.shape[0]], dtype=out_dtype or input.dtype)


def _of_codes(overload: str, dtype: torch.dtype) -> None:
    """Convolution and linear layer on int8 codes."""

    @torch.library.register_fake(f"presil::conv2d_int8{overload}")
    def _(input, weight, bias, scale, stride, padding, dilation, *rest, **named):
        return _conv_output(input, weight, stride, padding, dilation, dtype)

    @torch.library.register_fake(f"presil::linear_int8{overload}")
    def _(input, weight, *rest, **named):
        return input.new_empty([*input.shape[:-1], weight.shape[0]], dtype=dtype)


for _overload, _dtype in {"": torch.int8, ".range": torch.int8, ".real": torch.float32}.items():
    _of_codes(_overload, _dtype)


@torch.library.register_fake("presil::bmm_int8")
def _(a, b):
    return a.new_empty([a.shape[0], a.shape[1], b.shape[2]], dtype=torch.int32)


@torch.library.register_fake("presil::avg_pool2d_int8")
def _(
    input,
    kernel_size,
    stride=(),
    padding=0,
    ceil_mode=False,
    count_include_pad=True,
    divisor_override=None,
    *,
    zero_point,
):
    means = torch.ops.aten.avg_pool2d(
        input.float(), kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override
    )
    return means.to(torch.int8)


@torch.library.register_fake("presil::linear_int4")
def _(input, weight, scale, bias=None):
    return input.new_empty([*input.shape[:-1], weight.shape[0]], dtype=torch.float32)
