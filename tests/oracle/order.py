# SPDX-License-Identifier: Apache-2.0
"""The order of accumulation of numerics.md section 5: which (kernel row, kernel column, channels) make which block.

A block is a tuple of segments (ky, kx, c0, c1): the channels c0..c1-1 of the kernel position, placed one after the
other from lane 0; the lanes left over are zero in both operands. Blocks are listed in the order in which they are
added.
"""

import functools
import itertools
import math
from dataclasses import dataclass


@functools.cache
def fewest_blocks(ky, slice_, n):
    """(blocks, kernel rows in a block of each run) of the best of all lists of at most four; (infinity, ()) without."""
    rows = range(1, min(ky, 16, n) + 1)
    lists = (c for k in range(1, 5) for c in itertools.combinations_with_replacement(rows, k))
    enough = [c for c in lists if sum(n // r for r in c) >= slice_]
    found = [(sum(-(-ky // r) for r in c), len(c), c) for c in enough]
    blocks, _, best = min(found, default=(float("inf"), 0, ()))
    return blocks, best


@dataclass(frozen=True)
class Reduction:
    """What section 5 lets the order depend on. element_bytes is that of what the array sees: 1 int8, 2 bf16 and fp16
    (fp32: its terms)."""

    channels: int
    kernel: tuple[int, int]
    element_bytes: int
    lanes: int
    cells: int
    out_channels: int
    groups: int = 1
    dilation: tuple[int, int] = (1, 1)
    input_dilation: tuple[int, int] = (1, 1)
    stride: tuple[int, int] = (1, 1)
    out_size: tuple[int, int] = (1, 1)  # of a dilated depthwise kernel alone

    @property
    def n(self):
        """Elements of a block."""
        return self.lanes // self.element_bytes

    @property
    def packed(self):
        ky, kx = self.kernel
        return (
            self.groups == 1
            and self.dilation[1] == 1
            and self.input_dilation == (1, 1)
            and kx * ky > 1
            and self.channels * self.element_bytes <= self.lanes // 2
        )

    @property
    def outputs_of_channel(self):
        return self.out_channels // self.groups

    @property
    def depthwise(self):
        """Whether the array sums each cell's own channel, piece of the kernel by piece."""
        return (
            self.groups == self.channels > 1
            and all(
                i == 1 or (self.element_bytes == 2 and (d == 1 or k == 1))
                for i, d, k in zip(self.input_dilation, self.dilation, self.kernel)
            )
            and max(self.kernel) <= 64
            and self.cells * self.element_bytes <= self.lanes
        )

    @property
    def packed_rows(self):
        """R of the packing rule, as many as fit."""
        ky, kx = self.kernel
        return min(ky, self.lanes // (kx * self.channels * self.element_bytes)) or 1

    @property
    def balanced_rows(self):
        """R of the packing rule, of which neither the loads nor the sums take longer than they must."""
        groups = -(-self.out_channels // self.cells)
        fitting = [r for r in range(1, self.packed_rows + 1) if r % 2 == 0 or r == self.packed_rows]
        return min(fitting, key=lambda r: (max(r, -(-self.kernel[0] // r) * groups), -r))

    @functools.cached_property
    def runs(self):
        """Section 5, runs: (elements, kernel rows in a block) of each, or () where the slice is not cut so."""
        ky, slice_ = self.kernel[0], self.kernel[1] * self.channels
        blocks, best = fewest_blocks(ky, slice_, self.n)
        plain = -(-ky // self.packed_rows) * -(-slice_ // self.n)  # one of the two is 1
        rows = [-(-ky // -(-ky // r)) for r in best]
        groups = -(-self.out_channels // self.cells)
        if ky > 65535 or blocks >= plain or 4 * sum(rows) > 3 * blocks * groups:
            return ()
        held = [self.n // r for r in best[:-1]]
        return tuple(zip([*held, slice_ - sum(held)], rows, strict=True))

    def cell_group(self, out_channel):
        """Which outputs have the same activations: CELLS of them, or one that has its own."""
        return out_channel if self.depthwise else out_channel // self.cells

    def group(self, out_channel):
        """(first, end) input channel of the output channel's own group."""
        size = self.channels // self.groups
        g = out_channel // (self.out_channels // self.groups)
        return g * size, (g + 1) * size

    def blocks(self, cell_group, met=None):
        """The blocks of a cell group, in order. met: of a depthwise kernel the rows and the columns that meet elements
        of a dilated input, not gaps; else all."""
        if self.depthwise:
            return depthwise_blocks(self, cell_group // self.outputs_of_channel, met or [*map(range, self.kernel)])
        if self.packed:
            return packed_blocks(self)
        first = cell_group * self.cells
        last = min(first + self.cells, self.out_channels) - 1
        low, high = self.group(first)[0], self.group(last)[1]
        return [
            ((ky, kx, cb * self.n, min((cb + 1) * self.n, self.channels)),)
            for cb in range(low // self.n, -(-high // self.n))
            for ky in range(self.kernel[0])
            for kx in range(self.kernel[1])
        ]


def phases(stride, dilation, outputs):
    """Section 5, depthwise: of the outputs along an axis; None: too many, or too few outputs each."""
    count = dilation // math.gcd(stride, dilation)
    return count if count == 1 or (count <= 32 and 2 * outputs >= 3 * count) else None


def pieces(size, stride=1, dilation=1, outputs=1):
    """Section 5, depthwise: a kernel's axis cut in pieces of at most five, as ranges."""
    if phases(stride, dilation, outputs) is None:
        return [range(at, at + 1) for at in range(size)]
    stride //= math.gcd(stride, dilation)
    if stride == 1 or (stride == 2 and size <= 5):
        return fives(range(size))
    return [piece for rest in range(min(stride, size)) for piece in fives(range(rest, size, stride))]


def fives(positions):
    """As few pieces of at most five as there can be, the longest first."""
    out = []
    for left in range(-(-len(positions) // 5), 0, -1):
        length = -(-len(positions) // left)
        out.append(positions[:length])
        positions = positions[length:]
    return out


def depthwise_blocks(r, channel, met):
    """A block for each piece of the kernel, its positions the lanes; maybe more than n of them."""
    axes = []
    for own, s, d, i, outs in zip(met, r.stride, r.dilation, r.input_dilation, r.out_size, strict=True):
        cut = pieces(len(own), s, d, outs) if i == 1 else pieces(len(own), s // math.gcd(s, i))
        axes.append([[own[at] for at in piece] for piece in cut])
    return [
        tuple((y, x, channel, channel + 1) for y in rows for x in columns) for rows, columns in itertools.product(*axes)
    ]


def packed_blocks(r):
    """Section 5, packing: R kernel rows a block, or the slice of one kernel row cut in several, or in runs."""
    ky, kx = r.kernel
    if r.runs:
        return run_blocks(r)
    if kx * r.channels * r.element_bytes <= r.lanes:
        rows = r.balanced_rows
        return [
            tuple((y, x, 0, r.channels) for y in range(y0, min(y0 + rows, ky)) for x in range(kx))
            for y0 in range(0, ky, rows)
        ]
    flat = kx * r.channels
    return [tuple(cut(y, s, min(s + r.n, flat), r.channels)) for s in range(0, flat, r.n) for y in range(ky)]


def run_blocks(r):
    """Section 5, runs: each with its own number of kernel rows in a block."""
    blocks, start, ky = [], 0, r.kernel[0]
    for elements, rows in r.runs:
        span = start, start + elements
        blocks += [
            tuple(s for y in range(y0, min(y0 + rows, ky)) for s in cut(y, *span, r.channels))
            for y0 in range(0, ky, rows)
        ]
        start += elements
    return blocks


def cut(y, start, end, channels):
    """The segments of positions start..end-1 of the slice (kernel column, channel) of kernel row y."""
    while start < end:
        x, c = divmod(start, channels)
        stop = min(end, (x + 1) * channels)
        yield y, x, c, c + stop - start
        start = stop
