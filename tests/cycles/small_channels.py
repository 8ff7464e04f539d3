# SPDX-License-Identifier: Apache-2.0
"""Depthwise and grouped convolutions, transposed ones and first layers on the RTL of `base`, each against its own
roofline: the table in docs/performance.md.

.venv/bin/python tests/cycles/small_channels.py           measures and prints it
.venv/bin/python tests/cycles/small_channels.py --write   puts it into the document

Bound: the greater of two figures that the layer can't go below. Neither is asked of the driver.
- array: MATRIX's cycles for the blocks that docs/numerics.md (5) sums, as tests/oracle/order.py lists them: one for
  each output pixel, block and cell group. Depthwise: one for each position of a piece's window over the whole output.
  Transposed: the kernel positions that meet the input without its gaps. Gradients of depthwise layers: the windows of
  the convolutions that they are.
- bus: bytes of input, weights, bias and scales, and output, each once and without padding, at a beat a cycle.
"""

import argparse
import itertools
import math
import os
import sys
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "oracle"))
from order import Reduction, phases, pieces  # noqa: E402

PAGE, BEGIN, END = ROOT / "docs" / "performance.md", "<!-- small channels: begin -->\n", "<!-- small channels: end -->"
LANES, CELLS, WORD = 64, 32, 64  # of base
BYTES = {"bf16": 2, "int8": 1}


@dataclass(frozen=True)
class Layer:
    """channels -> outputs, a square kernel over a square image."""

    channels: int
    outputs: int
    kernel: int
    stride: int
    size: int
    padding: int
    groups: int = 1
    transposed: bool = False
    dilation: int = 1
    gradient: str = ""  # or "input", "weights": what is computed instead
    dtypes: tuple = ("bf16", "int8")

    def __str__(self):
        groups = "" if self.groups == 1 else ", depthwise" if self.depthwise else f", {self.groups} groups"
        channels = (
            self.channels if self.channels == self.outputs and self.depthwise else f"{self.channels} → {self.outputs}"
        )
        k, stride = self.kernel, f" stride {self.stride}" if self.stride > 1 else ""
        stride += f" dilation {self.dilation}" if self.dilation > 1 else ""
        gradient = f", gradient of the {self.gradient}" if self.gradient else ""
        return (
            f"{k}×{k}{stride}{' transposed' if self.transposed else ''}, {channels} at {self.size}²{groups}{gradient}"
        )

    @property
    def depthwise(self):
        return self.groups == self.channels

    @property
    def out_size(self):
        if self.transposed:
            return (self.size - 1) * self.stride + self.kernel - 2 * self.padding
        return (self.size + 2 * self.padding - self.dilation * (self.kernel - 1) - 1) // self.stride + 1


def depthwise(channels, size, kernel, stride=1, gradient="", each=1, dilation=1):
    """each: outputs of a channel."""
    other = dict(gradient=gradient, dilation=dilation, dtypes=("bf16",) if gradient else ("bf16", "int8"))
    return Layer(channels, each * channels, kernel, stride, size, dilation * (kernel // 2), channels, **other)


LAYERS = (
    depthwise(64, 28, 3),
    depthwise(144, 56, 3),
    depthwise(384, 14, 3),
    depthwise(144, 56, 3, 2),
    depthwise(240, 28, 3, 2),
    depthwise(240, 28, 5),
    depthwise(672, 14, 5),
    depthwise(1152, 7, 5),
    depthwise(144, 56, 5, 2),
    depthwise(144, 56, 3, dilation=2),
    depthwise(960, 33, 5, dilation=2),
    depthwise(256, 65, 3, dilation=12),
    depthwise(64, 56, 3, each=2),
    depthwise(64, 56, 3, each=3),
    depthwise(16, 28, 3, each=8),
    depthwise(16, 28, 3, each=64),
    depthwise(64, 28, 5, each=4),
    depthwise(64, 56, 3, gradient="weights", each=2),
    depthwise(64, 56, 3, gradient="weights", each=3),
    depthwise(64, 56, 3, gradient="input", each=2),
    depthwise(64, 56, 3, gradient="input", each=3),
    depthwise(64, 28, 3, gradient="input", each=64),
    depthwise(64, 28, 5, gradient="input", each=4),
    depthwise(64, 56, 3, 2, gradient="input", each=2),
    depthwise(96, 112, 3, 2, gradient="input"),
    depthwise(96, 112, 3, 2, gradient="weights"),
    *(
        depthwise(*layer, gradient=gradient)
        for layer in ((144, 56, 3), (144, 56, 3, 2), (384, 14, 3), (240, 28, 5))
        for gradient in ("input", "weights")
    ),
    Layer(128, 128, 3, 1, 56, 1, 32),
    Layer(128, 128, 3, 1, 28, 1, 16),
    Layer(64, 64, 3, 2, 56, 1, 4),
    Layer(240, 240, 1, 1, 28, 0, 3),
    Layer(64, 64, 4, 2, 32, 1, transposed=True, dtypes=("bf16",)),
    Layer(64, 64, 3, 2, 32, 1, transposed=True, dtypes=("bf16",)),
    Layer(128, 64, 2, 2, 28, 0, transposed=True, dtypes=("bf16",)),
    Layer(64, 3, 4, 2, 32, 1, transposed=True, dtypes=("bf16",)),
    Layer(64, 64, 4, 2, 32, 1, 64, transposed=True, dtypes=("bf16",)),
    Layer(21, 21, 16, 8, 28, 4, 21, transposed=True, dtypes=("bf16",)),
    Layer(3, 64, 7, 2, 224, 3),
    Layer(3, 32, 3, 2, 224, 1),
    Layer(3, 64, 11, 4, 224, 2),
    Layer(3, 768, 16, 16, 224, 0),
    Layer(16, 64, 3, 1, 56, 1),
)


def window_positions(outputs: int, kernel: int, stride: int, dilation: int = 1) -> int:
    """Along one axis, of all pieces of the kernel: what a window of all outputs reads (docs/isa.md 4, depthwise)."""
    count, found = phases(stride, dilation, outputs) or 1, 0
    for first in range(count):
        for piece in pieces(kernel, stride, dilation, outputs):
            step = 1 if len(piece) == 1 else stride // math.gcd(stride, dilation) // piece.step
            found += (len(range(first, outputs, count)) - 1) * step + len(piece)
    return found


def phase_positions(layer: Layer, outputs: int, each: int = 1) -> int:
    """The same of a dilated input, that of each phase: a transposed convolution's, or an input's gradient along an axis
    that has `each` outputs of a channel beside each other (docs/numerics.md 5)."""
    k, s, edge = layer.kernel, layer.stride, layer.kernel - 1 - layer.padding
    kernels = [sum((o - edge + i) % s == 0 for i in range(k)) for o in range(s)]
    return sum(window_positions(len(range(o, outputs, s)), each * kernels[o], each) for o in range(s))


def gradient_positions(layer: Layer, each: int = 1) -> int:
    """The same of a gradient. Weights: of each block (docs/numerics.md 5)."""
    k, s = layer.kernel, layer.stride
    if layer.gradient == "input":
        return phase_positions(layer, layer.size, each)
    reach = (64 if layer.outputs <= 2 * layer.channels else 32) // s
    blocks = [min(reach, layer.out_size - at) for at in range(0, layer.out_size, reach)]
    return sum(window_positions(k, block, 1, s) for block in blocks)


def parts_of_outputs(layer: Layer) -> list[int]:
    """Outputs of a channel whose kernels, one above the other, have up to 64 rows (docs/numerics.md 5)."""
    each = layer.outputs // layer.channels
    most = -(-each // -(-each // (64 // layer.kernel)))
    return [min(most, each - first) for first in range(0, each, most)]


def kernel_positions(layer: Layer) -> int:
    """Along one axis, of all outputs of a transposed convolution: those without a gap of the dilated input."""
    edge = layer.kernel - 1 - layer.padding
    return sum(
        (o - edge + k) % layer.stride == 0 for o, k in itertools.product(range(layer.out_size), range(layer.kernel))
    )


def array_cycles(layer: Layer, dtype: str) -> int:
    groups = -(-layer.outputs // CELLS)
    if layer.depthwise:
        if layer.gradient == "input":
            rows = sum(gradient_positions(layer, count) for count in parts_of_outputs(layer))
            return rows * gradient_positions(layer) * -(-layer.channels // CELLS)
        if layer.transposed:
            return phase_positions(layer, layer.out_size) ** 2 * groups
        along = window_positions(layer.out_size, layer.kernel, layer.stride, layer.dilation)
        return (gradient_positions(layer) if layer.gradient else along) ** 2 * groups
    if layer.transposed:
        return kernel_positions(layer) ** 2 * -(-layer.channels * BYTES[dtype] // LANES) * groups
    kernel, stride = (layer.kernel, layer.kernel), (layer.stride, layer.stride)
    order = Reduction(layer.channels, kernel, BYTES[dtype], LANES, CELLS, layer.outputs, layer.groups, stride=stride)
    return layer.out_size**2 * sum(len(order.blocks(g)) for g in range(groups))


def bus_beats(layer: Layer, dtype: str) -> int:
    elements = (
        layer.channels * layer.size**2
        + layer.outputs * layer.out_size**2
        + layer.channels * layer.outputs // layer.groups * layer.kernel**2
    )
    parameters = 8 * layer.outputs if dtype == "int8" else 0
    return -(-(elements * BYTES[dtype] + parameters) // WORD)


def cycles_of(layer: Layer, dtype: str) -> int:
    """On the RTL; one launch."""
    import torch
    from measure import bf16, conv, conv_int8, finished_reports, int8
    from torch_presil import _C

    make = {"bf16": bf16, "int8": int8}[dtype]
    x = make(1, layer.channels, layer.size, layer.size)
    if layer.transposed:
        x = x.contiguous(memory_format=torch.channels_last).to("presil")
        w = make(layer.channels, layer.outputs // layer.groups, layer.kernel, layer.kernel).to("presil")
        place = (layer.stride, layer.padding, 0, layer.groups)
        run = lambda: torch.nn.functional.conv_transpose2d(x, w, None, *place)  # noqa: E731
    else:
        w = make(layer.outputs, layer.channels // layer.groups, layer.kernel, layer.kernel)
        made = conv if dtype == "bf16" else conv_int8
        run = made(x, w, layer.stride, layer.padding, layer.groups, layer.dilation)
    if layer.gradient:
        x = x.contiguous(memory_format=torch.channels_last).to("presil").requires_grad_()
        w = w.to("presil").requires_grad_()
        y = torch.nn.functional.conv2d(x, w, None, layer.stride, layer.padding, 1, layer.groups)
        grad = make(*y.shape).contiguous(memory_format=torch.channels_last).to("presil")
        run = lambda: torch.autograd.grad(y, x if layer.gradient == "input" else w, grad)  # noqa: E731
    _C.collect_reports(True)
    run()
    return sum(report["cycles"] for report in finished_reports())


def table() -> str:
    lines = ["| layer | type | array | bus | bound by | reached | of the bound |", "|---|---|---:|---:|---|---:|---:|"]
    for layer in LAYERS:
        for dtype in layer.dtypes:
            array, bus, cycles = array_cycles(layer, dtype), bus_beats(layer, dtype), cycles_of(layer, dtype)
            by, share = "array" if array >= bus else "bus", 100 * max(array, bus) / cycles
            assert share <= 100, f"{layer} {dtype}: {cycles} cycles are below the bound {array}, {bus}"
            lines.append(f"| {layer} | {dtype} | {array:,} | {bus:,} | {by} | {cycles:,} | {share:.1f} % |")
    return "\n".join(lines) + "\n"


def written() -> str:
    return PAGE.read_text().partition(BEGIN)[2].partition(END)[0]


def write(rows: str) -> None:
    before, _, rest = PAGE.read_text().partition(BEGIN)
    PAGE.write_text(before + BEGIN + rows + END + rest.partition(END)[2])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--write", action="store_true", help="put the table into docs/performance.md")
    args = parser.parse_args()
    rows = table()
    if args.write:
        write(rows)
    print(rows, end="")


if __name__ == "__main__":
    os.environ.setdefault("PRESIL_CHIP", "base")
    main()
