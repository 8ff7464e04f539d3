#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes a bundle of layers that models seldom have: transposed convolutions of a few elements, and a product of values
of very different size.

usage: rare.py OUT        (PRESIL_CHIP: the configuration)
"""

import sys

import torch
import torch_presil  # noqa: F401

OUT = sys.argv[1]


def main() -> None:
    torch.backends.presil.mode = "model"
    torch.manual_seed(0)
    dense = torch.nn.Conv2d(8, 8, 3, padding=1).to("presil", torch.bfloat16)
    transposed = [
        torch.nn.ConvTranspose2d(8, 8, 3, stride=2, padding=1, output_padding=p).to("presil", torch.bfloat16)
        for p in (0, 1)
    ]
    wide = torch.nn.Linear(256, 8).to("presil")
    x = torch.randn(1, 8, 6, 6).to("presil", torch.bfloat16)
    sizes = (torch.randn(16, 256) * torch.exp2(torch.randint(-12, 12, (16, 256)))).to("presil")
    with torch.no_grad(), torch.presil.capture(OUT):
        y = dense(x)
        for layer in transposed:
            layer(y[:, :, :1, :1].contiguous())
            layer(y[:, :, :1, :2].contiguous())
        wide(sizes)


main()
