# SPDX-License-Identifier: Apache-2.0
"""A repeated operator gets the commands of the first at its own addresses: same bits as the first, wherever its tensors lie."""

import torch
import torch.nn.functional as F


def everywhere(count, shape, dtype):
    """The same values at `count` places, whose distances differ."""
    value, keep = torch.randn(shape).to(dtype), []
    for i in range(count):
        keep.append(torch.empty(4096 * (i * 7 % 5 + 1), dtype=torch.uint8, device="presil"))
        keep.append(value.to("presil"))
    return value, keep[1::2]


def check():
    for dtype in (torch.float32, torch.bfloat16):
        (a, A), (b, B), (c, C) = everywhere(4, (3, 20, 40), dtype), everywhere(4, (3, 40, 24), dtype), everywhere(4, (3, 20, 24), dtype)
        results = [torch.baddbmm(C[i], A[(i + 1) % 4], B[(i * 3) % 4]).cpu() for i in range(4)]
        torch.testing.assert_close(results[0].double(), c.double() + a.double() @ b.double(), rtol=1e-2, atol=0.1)
        assert all(torch.equal(r, results[0]) for r in results)
        (x, X), (w, W) = everywhere(3, (2, 20, 6, 6), dtype), everywhere(3, (9, 20, 3, 3), dtype)
        results = []
        for i in range(3):
            leaves = X[i].requires_grad_(), W[(i + 2) % 3].requires_grad_()
            y = F.conv2d(*leaves, padding=1)
            y.backward(torch.ones_like(y))
            results.append([t.detach().cpu() for t in (y, *(leaf.grad for leaf in leaves))])
        torch.testing.assert_close(results[0][0].double(), F.conv2d(x.double(), w.double(), padding=1), rtol=1e-2, atol=0.1)
        for other in results[1:]:
            assert all(torch.equal(t, first) for t, first in zip(other, results[0]))


def test_on_the_twin():
    check()


def test_on_the_rtl(verify):
    check()
