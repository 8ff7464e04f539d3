# SPDX-License-Identifier: Apache-2.0
"""torch's out_dtype (a product in a wider type than its operands') on the device: int8 products summed in int32.

torchao's quantize_ with int8 activations computes by it. Its own kernel knows torch._int_mm for CUDA alone, and widens
the operands to int32 elsewhere: no product of the chip's."""

import torch
from torch._higher_order_ops.out_dtype import out_dtype, out_dtype_fallback

__all__ = ["install"]


def _out_dtype(op, output_dtype, *args):
    codes = all(isinstance(a, torch.Tensor) and a.dtype == torch.int8 for a in args)
    if op is torch.ops.aten.mm.default and output_dtype == torch.int32 and codes:
        return torch._int_mm(*args)
    return out_dtype_fallback(op, output_dtype, *args)


def install() -> None:
    """Called once, by `import torch_presil`."""
    out_dtype.py_impl(torch._C.DispatchKey.PrivateUse1)(_out_dtype)
