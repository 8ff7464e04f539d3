# SPDX-License-Identifier: Apache-2.0
"""How the operands of chip operators have to lie in memory."""

import torch
from torch._meta_registrations import calc_conv_nd_return_shape


class NotRecordable(Exception):
    """This operator, on these strides, is no entry of a command list."""


def need(condition, what: str) -> None:
    if not condition:
        raise NotRecordable(what)


def is_nhwc(t: torch.Tensor) -> bool:
    return t.is_contiguous(memory_format=torch.channels_last)


def are_rows(t: torch.Tensor) -> bool:
    """A matrix of contiguous rows that don't overlap."""
    return t.dim() == 2 and (t.shape[1] == 1 or t.stride(1) == 1) and (t.shape[0] == 1 or t.stride(0) >= t.shape[1])


def loadable(t: torch.Tensor) -> bool:
    """As the chip fetches a matrix [B, M, N]: one of the inner strides is 1, rows don't overlap."""

    def ok(fast, slow):
        return (t.shape[fast] == 1 or t.stride(fast) == 1) and (
            t.shape[slow] == 1 or t.stride(slow) >= max(t.shape[fast], 1)
        )

    return (ok(-1, -2) or ok(-2, -1)) and t.numel() > 0


def converted(t: torch.Tensor, kind: str | None) -> torch.Tensor:
    """As an argument of this kind (ChipOperator.reads) is given to the chip."""
    if kind == "nhwc" and t.dim() == 4:  # the kernel of a 1-D convolution has three
        return t.contiguous(memory_format=torch.channels_last)
    return t.contiguous() if kind == "rows" else t


def batched(t: torch.Tensor) -> torch.Tensor:
    return t if t.dim() == 3 else t.unsqueeze(0)


def pixels(t: torch.Tensor) -> torch.Tensor:
    """[rows, C] as one image of rows × 1 pixels."""
    return t.unsqueeze(0).unsqueeze(2).permute(0, 3, 1, 2)


def as_images(a, out) -> dict:
    """A linear layer's operands as those of a convolution with a kernel of 1 × 1."""
    residual = None if a.residual is None else pixels(a.residual)
    return {"x": pixels(a.x), "weight": a.weight[:, :, None, None], "residual": residual, "out": pixels(out)}


def kernel(weight: torch.Tensor) -> torch.Tensor:
    """A kernel of a 1-D convolution, whose tensors have a height of 1 here, as one of a 2-D convolution."""
    return weight.unsqueeze(2) if weight.dim() == 3 else weight


def conv_result(a, dtype, transposed: bool = False) -> torch.Tensor:
    """ChipOperator.result of a convolution."""
    geometry = a.stride, a.padding, a.dilation, transposed, a.groups, a.output_padding if transposed else None
    size = calc_conv_nd_return_shape(a.x, kernel(a.weight), *geometry)
    need(min(size) > 0 and a.x.numel() > 0, "an empty convolution")
    read = [t for t in (a.x, a.residual) if t is not None]
    need(all(map(is_nhwc, read)), "a convolution of a tensor that is not channels_last")
    return torch.empty(size, dtype=dtype, device=a.x.device, memory_format=torch.channels_last)


def linear_result(a, dtype) -> torch.Tensor:
    """ChipOperator.result of a linear layer."""
    read = [t for t in (a.x, a.residual) if t is not None]
    need(a.x.numel() > 0 and all(map(are_rows, read)), "a linear layer of rows that are not contiguous")
    return torch.empty([a.x.shape[0], a.weight.shape[0]], dtype=dtype, device=a.x.device)
