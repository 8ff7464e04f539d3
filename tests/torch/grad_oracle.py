# SPDX-License-Identifier: Apache-2.0
"""Gradients of weights in the order of docs/numerics.md 5, each product by the oracle's matmul: fp32, chip `base`."""

import struct
import sys
from pathlib import Path

import torch
import torch.nn.functional as F

sys.path.insert(0, str(Path(__file__).parents[1]))
from oracle import operators  # noqa: E402

LANES, CELLS = 64, 32
BLOCK = LANES // 2  # positions: two bytes a lane for bf16 terms


def bits(t):
    return t.detach().cpu().contiguous().view(torch.int32).numpy().astype("uint32")


def floats(codes, shape):
    return torch.tensor([struct.unpack("f", struct.pack("I", code))[0] for code in codes]).reshape(shape)


def lines(sizes) -> tuple:
    """(number of the axis along the lanes, positions in order as blocks of (image, row, column)). sizes: of the
    output's
    gradient along image, row, column."""

    def blocks(axis):
        others = [n for i, n in enumerate(sizes) if i != axis]
        return -(-sizes[axis] // BLOCK) * others[0] * others[1]

    lane = min((2, 1, 0), key=blocks)  # of equals the column, then the row
    outer, inner = (i for i in range(3) if i != lane)
    out = []
    for a in range(sizes[outer]):
        for first in range(0, sizes[lane], BLOCK):
            for b in range(sizes[inner]):
                block = []
                for p in range(first, min(first + BLOCK, sizes[lane])):
                    position = [0, 0, 0]
                    position[outer], position[inner], position[lane] = a, b, p
                    block.append(tuple(position))
                out.append(block)
    return lane, out


def weight_gradient(x, g, kernel, stride=1, padding=0, dilation=1, groups=1):
    """x (N, C, H, W), g (N, O, OH, OW), both fp32 on the CPU: (O, C/groups, *kernel)."""
    channels, outputs = x.shape[1] // groups, g.shape[1] // groups
    padded = F.pad(x, (padding,) * 4)
    _, blocks = lines([g.shape[0], *g.shape[2:]])
    parts = []
    for group in range(groups):
        rows, columns = [], []  # K x (kernel position, channel), K x output channel
        for block in blocks:
            row, column = torch.zeros(BLOCK, kernel[0] * kernel[1] * channels), torch.zeros(BLOCK, outputs)
            for i, (n, y, v) in enumerate(block):
                window = padded[n, group * channels : (group + 1) * channels, y * stride :, v * stride :]
                window = window[:, : dilation * kernel[0] : dilation, : dilation * kernel[1] : dilation]
                row[i] = window.permute(1, 2, 0).reshape(-1)
                column[i] = g[n, group * outputs : (group + 1) * outputs, y, v]
            rows.append(row)
            columns.append(column)
        a, b = bits(torch.cat(rows).t()), bits(torch.cat(columns))
        values = operators.matmul([a], [b], dtype="fp32", lanes=LANES, cells=CELLS)
        parts.append(floats(values, (*kernel, channels, outputs)).permute(3, 2, 0, 1))
    return torch.cat(parts)


def weight_gradient_3d(x, g, kernel, padding):
    """x (N, C, D, H, W), stride 1, the same padding on all sides: image by image or plane by plane, whichever are
    fewer; each a 2-D gradient for a kernel position along the depth, added in fp32."""
    images, planes = g.shape[0], g.shape[2]
    deep = F.pad(x, (0, 0, 0, 0, padding, padding))
    slices = []
    for k in range(kernel[0]):
        total = None
        for i in range(min(images, planes)):
            # The planes of one image take the images' place, or the images of one plane are what they are.
            if images < planes:
                met = [p for p in range(planes) if padding <= p + k < padding + x.shape[2]]
                part = (deep[i, :, [p + k for p in met]].transpose(0, 1), g[i][:, met].transpose(0, 1))
            elif padding <= i + k < padding + x.shape[2]:
                part = (deep[:, :, i + k], g[:, :, i])
            else:
                continue
            one = weight_gradient(*part, kernel[1:], padding=padding)
            total = one if total is None else total + one
        slices.append(total)
    return torch.stack(slices, 2)
