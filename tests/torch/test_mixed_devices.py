# SPDX-License-Identifier: Apache-2.0
"""Operands of several devices are refused with PyTorch's text by every product and convolution, as by the fallback:
none is copied in silence."""

import itertools

import pytest
import torch
import torch.nn.functional as F

r = torch.randn
CASES = {
    "mm": (torch.mm, [r(4, 4), r(4, 4)]),
    "mm.out": (lambda a, b, out: torch.mm(a, b, out=out), [r(4, 4), r(4, 4), r(4, 4)]),
    "mm.dtype": (lambda a, b: torch.mm(a, b, out_dtype=torch.float32), [r(4, 4).bfloat16(), r(4, 4).bfloat16()]),
    "bmm": (torch.bmm, [r(2, 4, 4), r(2, 4, 4)]),
    "addmm": (torch.addmm, [r(4, 4), r(4, 4), r(4, 4)]),
    "addmm, self of no dimension": (torch.addmm, [r(()), r(4, 4), r(4, 4)]),
    "baddbmm": (torch.baddbmm, [r(2, 4, 4), r(2, 4, 4), r(2, 4, 4)]),
    "addbmm": (torch.addbmm, [r(4, 4), r(2, 4, 4), r(2, 4, 4)]),
    "mv": (torch.mv, [r(4, 4), r(4)]),
    "dot": (torch.dot, [r(4), r(4)]),
    "_int_mm": (torch._int_mm, [torch.ones(32, 32, dtype=torch.int8), torch.ones(32, 32, dtype=torch.int8)]),
    "float64 mm": (torch.mm, [r(4, 4).double(), r(4, 4).double()]),
    "einsum": (lambda a, b: torch.einsum("ij,jk->ik", a, b), [r(4, 4), r(4, 4)]),
    "linear": (F.linear, [r(4, 4), r(4, 4), r(4)]),
    "bilinear": (F.bilinear, [r(4, 3), r(4, 3), r(2, 3, 3)]),
    "conv1d": (F.conv1d, [r(1, 2, 5), r(3, 2, 3), r(3)]),
    "conv2d": (F.conv2d, [r(1, 2, 5, 5), r(3, 2, 3, 3), r(3)]),
    "conv3d": (F.conv3d, [r(1, 2, 5, 5, 5), r(3, 2, 3, 3, 3), r(3)]),
    "conv_transpose2d": (F.conv_transpose2d, [r(1, 2, 5, 5), r(2, 3, 3, 3), r(3)]),
    "presil::conv2d": (torch.ops.presil.conv2d, [r(1, 2, 5, 5), r(3, 2, 3, 3), r(3)]),
    "presil::linear": (torch.ops.presil.linear, [r(4, 4), r(4, 4), r(4)]),
    "sdpa": (F.scaled_dot_product_attention, [r(1, 2, 4, 8), r(1, 2, 4, 8), r(1, 2, 4, 8)]),
    "lstm_cell": (
        lambda x, h, c, wi, wh: torch.lstm_cell(x, (h, c), wi, wh),
        [r(2, 4), r(2, 4), r(2, 4), r(16, 4), r(16, 4)],
    ),
    "layer_norm": (lambda x, w, b: F.layer_norm(x, (4,), w, b), [r(2, 4), r(4), r(4)]),
    "add": (torch.add, [r(4), r(4)]),
}
# PyTorch's front end compares the types before any device is asked, and has a text of its own.
TEXTS = r"on the same device|should be the same|same device"


@pytest.mark.parametrize("requires_grad", [False, True])
@pytest.mark.parametrize("name", CASES)
def test_refused(name, requires_grad):
    call, operands = CASES[name]
    for where in itertools.product(("cpu", "presil"), repeat=len(operands)):
        if len(set(where)) == 1:
            continue
        placed = [o.to(d).detach() for o, d in zip(operands, where)]
        if requires_grad and not name.endswith(".out"):
            placed = [p.requires_grad_(p.is_floating_point()) for p in placed]
        with pytest.raises(RuntimeError, match=TEXTS):
            call(*placed)


def test_the_text_names_both_devices_and_the_operator():
    with pytest.raises(RuntimeError, match=r"at least two devices, presil:0 and cpu! \(when calling mm\)"):
        torch.mm(r(2, 2), r(2, 2).to("presil"))
