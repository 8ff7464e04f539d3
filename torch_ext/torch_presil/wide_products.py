# SPDX-License-Identifier: Apache-2.0
"""int8 products summed in int32 on the device: torch's out_dtype (a product in a wider type than its operands'), and
torchao's kernel, by which quantize_ with int8 activations computes.

torchao's knows torch._int_mm as CUDA has it: it copies a weight that is stored [out, in], at each call, and computes
widths that are no multiples of 8 on the CPU. The chip takes both as they are."""

import functools

import torch
from torch._higher_order_ops.out_dtype import out_dtype, out_dtype_fallback

from torch_presil.on_import import after_import

__all__ = ["install"]


def _out_dtype(op, output_dtype, *args):
    codes = all(isinstance(a, torch.Tensor) and a.dtype == torch.int8 for a in args)
    if op is torch.ops.aten.mm.default and output_dtype == torch.int32 and codes:
        return torch._int_mm(*args)
    return out_dtype_fallback(op, output_dtype, *args)


def _take_from_torchao(intmm) -> None:
    theirs = intmm.safe_int_mm

    @functools.wraps(theirs)
    def safe_int_mm(input, mat2):
        if input.device.type == "presil" and mat2.device == input.device:
            return torch._int_mm(input, mat2)
        return theirs(input, mat2)

    intmm.safe_int_mm = safe_int_mm


def install() -> None:
    """Called once, by `import torch_presil`."""
    out_dtype.py_impl(torch._C.DispatchKey.PrivateUse1)(_out_dtype)
    after_import("torchao.kernel.intmm", _take_from_torchao)
