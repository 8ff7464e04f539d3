# SPDX-License-Identifier: Apache-2.0
"""Layers whose slice is cut into runs (docs/numerics.md 5): RTL = twin = oracle for each kind of cut, at the limits of
the rule, with every stride and dilation of rows, and with values that must not reach past the kernel's last row.

The cases are found by the oracle's own rule; PRESIL_SEED gives their values.
"""

import itertools

import pytest
from oracle.order import Reduction

from bench import driver

from .generate import EPILOGUES, FAMILIES, ConvCase, configurations
from .sweep import Counts, check
from .test_sweep import SEED

KERNELS = ((2, 3), (3, 2), (3, 3), (4, 5), (5, 5), (3, 7), (7, 3), (7, 7), (8, 8), (11, 11), (16, 16), (17, 4))
CHANNELS = (1, 2, 3, 4, 5, 6, 8, 12, 16, 24, 32)
EACH = {"tiny": 96, "odd": 96, "base": 44, "wide": 30}  # cases a chip


def reduction(chip: str, dtype: str, channels: int, kernel: tuple, outputs: int) -> Reduction:
    c = configurations()[chip]
    return Reduction(channels, kernel, 1 if dtype == "int8" else 2, c["lanes"], c["cells"], outputs)


def cuts(chip: str) -> list:
    """(dtype, channels, kernel, outputs) of each different list of runs, and of its neighbours around the rule's
    limits, small ones first."""
    c, found = configurations()[chip], {}
    outputs = (1, c["cells"], c["cells"] + 1, 2 * c["cells"] + 1)
    for dtype in ("bf16", "fp32", "int8", "fp32_bf16"):
        half = c["lanes"] // 2 // (1 if dtype == "int8" else 2)
        channels_of = [n for n in CHANNELS if n <= half]
        for kernel, channels in sorted(itertools.product(KERNELS, channels_of), key=lambda s: s[0][0] * s[0][1] * s[1]):
            with_runs = [o for o in outputs if reduction(chip, dtype, channels, kernel, o).runs]
            if not with_runs:
                continue
            runs = reduction(chip, dtype, channels, kernel, with_runs[0]).runs
            key = dtype, tuple(r for _, r in runs), tuple(bool(kernel[0] % r) for _, r in runs)
            without = [o for o in outputs if o not in with_runs]
            found.setdefault(key, [(dtype, channels, kernel, o) for o in (with_runs[0], *without[-1:])])
    lists = list(found.values())
    return [case for some in itertools.zip_longest(*lists) for case in some if case]


def cases(chip: str) -> list:
    out = []
    every = cuts(chip)
    step = max(1, len(every) // EACH[chip])
    for number, (dtype, channels, kernel, outputs) in enumerate(every[::step][: EACH[chip]]):
        stride, dilation = (number % 4 + 1, number // 2 % 3 + 1), (number // 4 % 2 + 1, 1)
        more = 11 if number % 6 == 0 else 2  # outputs but one
        size = tuple((k - 1) * d + 1 + more * s for k, d, s in zip(kernel, dilation, stride, strict=True))
        out.append(
            ConvCase(
                chip,
                SEED,
                number,
                dtype,
                FAMILIES[dtype][number % len(FAMILIES[dtype])],
                EPILOGUES[dtype][number % len(EPILOGUES[dtype])],
                channels=channels,
                out_channels=outputs,
                kernel=kernel,
                stride=stride,
                dilation=dilation,
                padding=(number % min(3, kernel[0]), number // 3 % min(3, kernel[1])),
                size=size,
                pad=number * 37 % 256 if dtype == "int8" else 0,
                channels_last=number % 5 != 4,
            )
        )
    return out


@pytest.mark.parametrize("chip", EACH)
def test_runs(chip):
    counts, some = Counts(), cases(chip)
    cut = [reduction(chip, c.dtype, c.channels, c.kernel, c.out_channels).runs for c in some]
    print(f"{chip}: PRESIL_SEED={SEED} {[len(runs) for runs in cut]}")
    assert sum(map(bool, cut)) >= len(some) // 2 and {2, 3, 4} <= {len(runs) for runs in cut}
    with driver.Device(chip, mode="verify") as device:
        for case in some:
            check(device, case, counts, verify=True, tilings=(1, 2, 3))
    assert counts.cases == len(some) == EACH[chip]


def balanced(chip: str) -> list:
    """Layers whose blocks have fewer kernel rows than would fit, and a neighbour of more outputs that have all."""
    c, out = configurations()[chip], []
    shapes = itertools.product(("bf16", "fp32", "int8"), ((3, 3), (5, 2), (7, 1)), (1, 2, 3), (1, c["cells"]))
    for dtype, kernel, channels, outputs in shapes:
        layer = reduction(chip, dtype, channels, kernel, outputs)
        if not layer.packed or layer.runs or layer.balanced_rows == layer.packed_rows:
            continue
        number = len(out)
        more = {"stride": (number % 3 + 1, number % 2 + 1), "dilation": (number // 3 % 2 + 1, 1), "size": (23, 17)}
        family, epilogue = (some[dtype][number % len(some[dtype])] for some in (FAMILIES, EPILOGUES))
        case = ConvCase(chip, SEED, number, dtype, family, epilogue, channels=channels, out_channels=outputs,
                        kernel=kernel, padding=(number % 2, 0), channels_last=number % 4 != 3, **more)  # fmt: skip
        out.append(case)
    return out


@pytest.mark.parametrize("chip", EACH)
def test_fewer_kernel_rows_than_fit(chip):
    """Where LOAD would take longer for all than MATRIX for two blocks (docs/numerics.md 5, packing)."""
    counts, some = Counts(), balanced(chip)
    assert len(some) >= 6
    with driver.Device(chip, mode="verify") as device:
        for case in some:
            check(device, case, counts, verify=True, tilings=(0, 1, 2))
    assert counts.cases == len(some)
