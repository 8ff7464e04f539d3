# SPDX-License-Identifier: Apache-2.0
"""The expected bits of a generated case, from the oracle: all output elements of a small case, a sample of a large
one."""

import random

import numpy as np

from oracle import operators

from .generate import configurations

FULL = 100_000  # cost up to which every element is computed
SAMPLE = 64  # elements at least, above it


def _epilogue(case, data):
    e = case.epilogue
    return operators.Epilogue(
        out=e.out,
        bias=data["bias"],
        scale=data["scale"],
        residual=data["residual"],
        res_type=e.residual or "FP32",
        res_zp=e.res_zp,
        res_scale=e.res_scale,
        clamp=e.clamp,
        out_zp=e.out_zp,
        int_lo=e.int_lo,
        int_hi=e.int_hi,
    )


def expected(case, data, elements=None):
    """Output patterns at the coordinates (of case.output_shape), or of all in row-major order; data = case.data()."""
    c = configurations()[case.chip]
    common = dict(
        dtype=case.dtype, lanes=c["lanes"], cells=c["cells"], epilogue=_epilogue(case, data), elements=elements
    )
    if case.kind == "matmul":
        return operators.matmul(
            data["a"], data["b"], transpose_a=case.transpose_a, transpose_b=case.transpose_b, **common
        )
    return operators.conv2d(
        data["x"],
        data["w"],
        stride=case.stride,
        padding=case.padding,
        dilation=case.dilation,
        groups=case.groups,
        input_dilation=case.input_dilation,
        pad=case.pad,
        **common,
    )


def sample(case):
    """The coordinates to compare: None (all) up to FULL; else corners, the seams at cells and accumulator rows,
    edges, and random ones."""
    if case.cost <= FULL:
        return None
    shape, c = case.output_shape, configurations()[case.chip]
    r = random.Random(f"sample {case.chip} {case.seed} {case.index}")
    ends = [[0, s - 1] for s in shape]
    chosen = {tuple(pair[corner >> axis & 1] for axis, pair in enumerate(ends)) for corner in range(1 << len(shape))}
    seams = {v + d for limit in ("cells", "lanes", "acc_rows") for v in (c[limit], 2 * c[limit]) for d in (-1, 0)}
    for axis, size in enumerate(shape):  # one coordinate on a seam or an edge, the others random
        for value in sorted(v for v in seams | {0, size - 1} if v < size):
            chosen.add(tuple(value if a == axis else r.randrange(s) for a, s in enumerate(shape)))
    wanted = min(int(np.prod(shape)), max(SAMPLE, len(chosen)))
    while len(chosen) < wanted:
        chosen.add(tuple(r.randrange(s) for s in shape))
    return sorted(chosen)
