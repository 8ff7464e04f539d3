# SPDX-License-Identifier: Apache-2.0
"""What operators come to: integers exactly, floats in double precision. numpy alone; no code of any chip."""

import numpy

from .device import ADD, BF16, CLAMP, FP32, INT8, INT32, QUANTIZE, SCALE

NUMPY = {INT8: numpy.int8, BF16: numpy.uint16, FP32: numpy.float32, INT32: numpy.int32}
NAMES = {INT8: "int8", BF16: "bf16", FP32: "fp32", INT32: "int32"}


def from_bits(array: numpy.ndarray, dtype: int) -> numpy.ndarray:
    """Values of memory: int64 or float64."""
    if dtype == BF16:
        return (array.astype(numpy.uint32) << 16).view(numpy.float32).astype(numpy.float64)
    return array.astype(numpy.float64 if dtype == FP32 else numpy.int64)


def random_bits(shape, dtype: int, seed: int) -> numpy.ndarray:
    """Elements as memory has them; int8 over its whole range, floats that bf16 holds, some of them 0."""
    draw = numpy.random.default_rng(seed)
    if dtype == INT8:
        return draw.integers(-128, 128, shape).astype(numpy.int8)
    if dtype == INT32:
        return draw.integers(-(2**20), 2**20, shape).astype(numpy.int32)
    values = draw.standard_normal(shape).astype(numpy.float32)
    bits = values.view(numpy.uint32) & 0xFFFF0000
    return (bits >> 16).astype(numpy.uint16) if dtype == BF16 else bits.view(numpy.float32)


def matmul(a: numpy.ndarray, b: numpy.ndarray) -> numpy.ndarray:
    return a @ b


def conv(x: numpy.ndarray, w: numpy.ndarray, stride, padding, dilation, groups: int, pad_value: int = 0):
    """x [N, H, W, C], w [O, KH, KW, C/groups] -> [N, OH, OW, O]."""
    n, height, width, channels = x.shape
    outputs, kh, kw, per_group = w.shape
    oh = (height + 2 * padding[0] - dilation[0] * (kh - 1) - 1) // stride[0] + 1
    ow = (width + 2 * padding[1] - dilation[1] * (kw - 1) - 1) // stride[1] + 1
    padded = numpy.full((n, height + 2 * padding[0], width + 2 * padding[1], channels), pad_value, x.dtype)
    padded[:, padding[0] : padding[0] + height, padding[1] : padding[1] + width] = x
    out = numpy.zeros((n, oh, ow, outputs), numpy.int64 if x.dtype == numpy.int64 else numpy.float64)
    each = outputs // groups
    for y in range(kh):
        for z in range(kw):
            window = padded[:, y * dilation[0] :, z * dilation[1] :][:, :: stride[0], :: stride[1]][:, :oh, :ow]
            for g in range(groups):
                part = window[..., g * per_group : (g + 1) * per_group]
                out[..., g * each : (g + 1) * each] += part @ w[g * each : (g + 1) * each, y, z].T
    return out


def pool(x: numpy.ndarray, kernel, stride, padding, largest: bool):
    """x [N, H, W, C]; an average is a sum and a count: (sum, count) of each place, padding counted."""
    n, height, width, channels = x.shape
    oh = (height + 2 * padding[0] - kernel[0]) // stride[0] + 1
    ow = (width + 2 * padding[1] - kernel[1]) // stride[1] + 1
    lowest = -(2**62) if x.dtype == numpy.int64 else -numpy.inf
    padded = numpy.full(
        (n, height + 2 * padding[0], width + 2 * padding[1], channels), lowest if largest else 0, x.dtype
    )
    padded[:, padding[0] : padding[0] + height, padding[1] : padding[1] + width] = x
    windows = [
        padded[:, y:, z:][:, :: stride[0], :: stride[1]][:, :oh, :ow]
        for y in range(kernel[0])
        for z in range(kernel[1])
    ]
    return numpy.max(windows, 0) if largest else numpy.sum(windows, 0) / (kernel[0] * kernel[1])


def steps(values: numpy.ndarray, applied: list, operands: list) -> numpy.ndarray:
    """Of presil_op.h, in order; a scale is one multiplication in fp32."""
    for step in applied:
        if step.kind == SCALE:
            values = (values.astype(numpy.float32) * numpy.float32(step.scale)).astype(numpy.float64)
        elif step.kind == ADD:
            values = values + (operands[step.input] - step.zero_point) * step.scale
        elif step.kind == CLAMP:
            values = numpy.clip(values, step.low, step.high)
        elif step.kind == QUANTIZE:
            values = numpy.clip(numpy.rint(values) + step.zero_point, step.int_low, step.int_high)
    return values


def differs(found: numpy.ndarray, expected: numpy.ndarray, dtype: int, tolerance: float) -> str | None:
    """None, or the first element that is wrong. Integers: all bits; floats: relative to the largest magnitude."""
    if dtype in (INT8, INT32):
        wanted = expected.astype(numpy.int64)
        if dtype == INT32:
            wanted = wanted.astype(numpy.int32).astype(numpy.int64)  # sums wrap
        wrong = from_bits(found, dtype) != wanted
    else:
        wanted = expected
        most = max(float(numpy.abs(expected).max(initial=0)), 1e-30)
        rounding = 2.0**-8 if dtype == BF16 else 2.0**-23
        wrong = ~(numpy.abs(from_bits(found, dtype) - expected) <= (tolerance + rounding) * most)
    if not wrong.any():
        return None
    at = tuple(int(i) for i in numpy.argwhere(wrong)[0])
    return (
        f"element {list(at)} is {from_bits(found, dtype)[at]}, {wanted[at]} expected "
        f"({int(wrong.sum())} of {wrong.size} are wrong)"
    )
