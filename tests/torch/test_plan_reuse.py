# SPDX-License-Identifier: Apache-2.0
"""A repeated operator gets the commands of the first at its own addresses. Every place has values of its own, so that
what was read elsewhere shows: of -1, 0 and 1, so that every sum is exact (at most 180, in bfloat16 too)."""

import torch
import torch.nn.functional as F


def places(count, shape, dtype):
    keep = []
    for i in range(count):
        keep.append(torch.empty(4096 * (i * 7 % 5 + 1), dtype=torch.uint8, device="presil"))
        keep.append(torch.randint(-1, 2, shape).to(dtype).to("presil"))
    return keep[1::2]


def equal(got, expected):
    assert torch.equal(got.detach().cpu().double(), expected)


def check():
    for dtype in (torch.float32, torch.bfloat16):
        a, b, c = places(4, (3, 20, 40), dtype), places(4, (3, 40, 24), dtype), places(4, (3, 20, 24), dtype)
        for i in range(4):
            operands = c[i], a[(i + 1) % 4], b[(i * 3) % 4]
            equal(torch.baddbmm(*operands), torch.baddbmm(*(t.cpu().double() for t in operands)))
        x, w = places(3, (2, 20, 6, 6), dtype), places(3, (9, 20, 3, 3), dtype)
        for i in range(3):
            chip = [t.detach().requires_grad_() for t in (x[i], w[(i + 2) % 3])]
            host = [t.detach().cpu().double().requires_grad_() for t in chip]
            results = [F.conv2d(*t, padding=1) for t in (chip, host)]
            for y in results:
                y.backward(torch.ones_like(y))
            equal(results[0], results[1].detach())
            for got, expected in zip(chip, host):
                equal(got.grad, expected.grad)


def test_on_the_twin():
    check()


def test_on_the_rtl(verify):
    check()
