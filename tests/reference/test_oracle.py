# SPDX-License-Identifier: Apache-2.0
"""The plain-C reference against the oracle (tests/oracle: Python's integers and fractions): integers are equal bit for
bit; what the chip of rtl/ makes of floats is right to the reference, and a step further off is not."""

import random
from fractions import Fraction

import numpy
import pytest
from conform import driver_api as d
from conftest import Call
from oracle import operators

LANES, CELLS = 16, 8
SEEDS = range(12)


def draw_int8(draw, shape, most=127):
    return numpy.array([draw.randint(-most, most) for _ in range(int(numpy.prod(shape)))], numpy.int8).reshape(shape)


def signed(patterns, shape, bits=32):
    values = [p - (1 << bits) if p >> (bits - 1) else p for p in patterns]
    return numpy.array(values).reshape(shape)


def planes(x):
    """NHWC as the oracle's nested N, C, H, W."""
    return numpy.moveaxis(x, -1, 1).tolist()


def case(seed):
    """x and w in NHWC, the attributes, and the oracle's options."""
    draw = random.Random(seed)
    kernel, stride = (draw.randint(1, 3), draw.randint(1, 3)), (draw.randint(1, 2), draw.randint(1, 2))
    padding, groups = (draw.randint(0, 1), draw.randint(0, 1)), draw.choice((1, 1, 2))
    c, o = groups * draw.choice((1, 3, 8)), groups * draw.choice((1, 2))
    x, w = draw_int8(draw, (2, 4, 5, c)), draw_int8(draw, (o, *kernel, c // groups))
    attributes = {"stride": list(stride), "padding": list(padding), "groups": [groups]}
    options = dict(stride=stride, padding=padding, groups=groups, lanes=LANES, cells=CELLS)
    size = [(s + 2 * p - k) // by + 1 for s, p, k, by in zip(x.shape[1:3], padding, kernel, stride, strict=True)]
    return draw, x, w, attributes, options, (2, *size, o)


def by_channel(patterns, shape):
    """The oracle's N, O, H, W as N, H, W, O."""
    return numpy.moveaxis(numpy.array(patterns).reshape(shape[0], shape[3], *shape[1:3]), 1, -1)


@pytest.mark.parametrize("seed", SEEDS)
def test_sums_of_integers(seed):
    _, x, w, attributes, options, shape = case(seed)
    expected = by_channel(signed(operators.conv2d(planes(x), planes(w), dtype="int8", **options), -1), shape)
    call = Call(d.CONV, {"input": x, "weight": w}, shape, d.INT32, attributes, seed=seed)
    assert (call.result() == expected).all() and call.differs(expected) is None
    expected[(0,) * 4] ^= 1
    assert "element [0, 0, 0, 0]" in call.differs(expected)


def float_bits(value):
    return int(numpy.float32(value).view(numpy.uint32))


def requantised(seed):
    """A convolution with bias, scale, residual and zero point: the call, and what the oracle gives."""
    draw, x, w, attributes, options, shape = case(seed)
    bias = numpy.array([draw.randint(-1000, 1000) for _ in range(shape[3])], numpy.int32)
    scale = numpy.array([draw.uniform(1e-4, 1e-2) for _ in range(shape[3])], numpy.float32)
    residual, zero, out_zero = draw_int8(draw, shape), draw.randint(-9, 9), draw.randint(-9, 9)
    by = numpy.float32(draw.uniform(0.1, 1))
    epilogue = operators.Epilogue(
        out="INT8",
        bias=bias.tolist(),
        scale=[float_bits(s) for s in scale],
        residual=planes(residual),
        res_type="INT8",
        res_zp=zero,
        res_scale=float_bits(by),
        out_zp=out_zero,
        int_lo=-120,
        int_hi=115,
    )
    patterns = operators.conv2d(planes(x), planes(w), dtype="int8", epilogue=epilogue, **options)
    expected = by_channel(signed(patterns, -1, 8), shape)
    steps = [d.Step(d.ADD, 2, by, 0, 0, zero), d.Step(d.QUANTIZE, d.NO_OPERAND, 0, 0, 0, out_zero, -120, 115)]
    inputs = {"input": x, "weight": w, "residual": residual}
    call = Call(d.CONV, inputs, shape, d.INT8, attributes, steps, bias=bias, scale=scale, seed=seed)
    return call, expected, (x, w, bias, scale, residual, zero, by, out_zero, attributes)


@pytest.mark.parametrize("seed", SEEDS)
def test_requantisation(seed):
    call, expected, _ = requantised(seed)
    assert call.differs(expected) is None
    found = call.result().astype(int)
    assert (abs(found - expected) <= 1).all() and (found != expected).mean() < 0.01
    for wrong in (expected + 1, expected - 1):
        assert call.reference.compare(put(call, wrong)).differing == expected.size


def put(call, values):
    call.to[...] = values
    return call.to


@pytest.mark.parametrize("seed", SEEDS)
def test_requantisation_in_fractions(seed):
    """The result itself is the exact value, rounded once."""
    call, _, (x, w, bias, scale, residual, zero, by, out_zero, attributes) = requantised(seed)
    plain = Call(d.CONV, {"input": x, "weight": w}, call.to.shape, d.INT32, attributes).result()
    found = call.result()
    for at in numpy.ndindex(found.shape):
        exact = (int(plain[at]) + int(bias[at[-1]])) * Fraction(float(scale[at[-1]]))
        exact += (int(residual[at]) - zero) * Fraction(float(by))
        assert found[at] == min(max(round(exact) + out_zero, -120), 115)  # round(): ties to even


def test_ties_that_fp32_holds_have_one_right_result():
    x = numpy.arange(-6, 7, dtype=numpy.int8).reshape(1, 1, 13)
    steps = [d.Step(d.SCALE, d.NO_OPERAND, 0.5), d.Step(d.QUANTIZE, d.NO_OPERAND, 0, 0, 0, 1, -128, 127)]
    one = numpy.ones((1, 1, 1), numpy.int8)
    call = Call(d.MATMUL, {"a": one, "b": x}, (1, 1, 13), d.INT8, steps=steps)
    expected = [round(Fraction(int(v), 2)) + 1 for v in x.flat]
    assert call.result().ravel().tolist() == expected
    for i in range(13):
        for off in (-1, 1):
            wrong = numpy.array(expected).reshape(1, 1, 13)
            wrong[0, 0, i] += off
            assert call.reference.compare(put(call, wrong)).differing == 1


def floats(draw, shape, bits):
    """Patterns of bf16 or fp32 around 1."""
    values = numpy.array([draw.gauss(0, 1) for _ in range(int(numpy.prod(shape)))], numpy.float32).reshape(shape)
    patterns = values.view(numpy.uint32)
    return (patterns >> 16).astype(numpy.uint16) if bits == 16 else patterns


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("dtype, bits, compute", [("bf16", 16, 1), ("fp32", 32, 2)])
def test_products_of_floats(seed, dtype, bits, compute):
    """The chip's own order of additions, and its products of terms, are among what the reference takes."""
    draw = random.Random(seed)
    m, k, n = draw.choice((1, 5)), draw.choice((1, 2, 16, 17, 40)), draw.choice((1, 8, 9))
    a, b = floats(draw, (1, m, k), bits), floats(draw, (1, k, n), bits)
    patterns = operators.matmul(a.tolist(), b.tolist(), dtype=dtype, lanes=LANES, cells=CELLS)
    found = numpy.array(patterns, numpy.uint32).view(numpy.float32).reshape(1, m, n)
    kinds = (d.BF16, numpy.uint16) if bits == 16 else (d.FP32, numpy.float32)
    inputs = {"a": a.view(kinds[1]), "b": b.view(kinds[1])}
    call = Call(d.MATMUL, inputs, (1, m, n), d.FP32, compute=compute, dtypes={"a": kinds[0], "b": kinds[0]}, seed=seed)
    assert call.differs(found) is None
    magnitude = abs(values(a, bits)) @ abs(values(b, bits))
    for off in (1, -1):
        wrong = found + off * 4 * (k + 2) * 2.0**-24 * magnitude.astype(numpy.float32)
        assert call.reference.compare(put(call, wrong)).differing == m * n


def values(patterns, bits):
    wide = patterns.astype(numpy.uint32) << 16 if bits == 16 else patterns
    return wide.view(numpy.float32).astype(numpy.float64)


def test_tolerance_is_relative_to_the_largest_magnitude():
    a = numpy.array([[[1.0, 100.0]]], numpy.float32)
    call = Call(d.MATMUL, {"a": numpy.ones((1, 1, 1), numpy.float32), "b": a}, (1, 1, 2), d.FP32, compute=2)
    assert call.differs(a + 0.9, 1e-2) is None
    assert "element [0, 0, 1]" in call.differs(a + [[[0.9, 1.1]]], 1e-2)
    assert "element [0, 0, 0]" in call.differs(a + 0.9)


def test_what_is_not_a_number_is_not_near_anything():
    a = numpy.array([[[numpy.nan, numpy.inf, 1.0]]], numpy.float32)
    call = Call(d.MATMUL, {"a": numpy.ones((1, 1, 1), numpy.float32), "b": a}, (1, 1, 3), d.FP32, compute=2)
    assert call.differs(a, 1e-2) is None
    for i, wrong in ((0, 0), (1, numpy.finfo(numpy.float32).max), (1, -numpy.inf), (2, numpy.nan), (2, numpy.inf)):
        other = a.copy()
        other[0, 0, i] = wrong
        assert call.reference.compare(put(call, other), 1e-2).differing == 1


@pytest.mark.parametrize(
    "change, said",
    [
        (lambda op: op.attributes.update(no_such=[1]), "attributes"),
        (lambda op: op.inputs.append(d.operand("no_such", d.INT8, (1,))), "no_such"),
        (lambda op: op.steps.append(d.Step(99, d.NO_OPERAND)), "no step 99"),
        (lambda op: setattr(op, "kind", 99), "no kind 99"),
        (lambda op: op.inputs.pop(), "has no b"),
        (lambda op: setattr(op, "outputs", [d.operand("output", d.INT32, (1, 2, 2))]), "expected"),
    ],
)
def test_what_it_does_not_know_is_refused(change, said):
    from conform.reference import Reference

    one = numpy.ones((1, 1, 1), numpy.int8)
    call = Call(d.MATMUL, {"a": one, "b": one}, (1, 1, 1), d.INT32)
    change(call.op)
    with pytest.raises(d.DeviceError, match=said):
        Reference(call.op, [one] * len(call.op.inputs))
