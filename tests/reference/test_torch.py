# SPDX-License-Identifier: Apache-2.0
"""The plain-C reference against PyTorch on the CPU: every kind, sizes around boundaries, zero and one, odd strides."""

import itertools
import random

import numpy
import pytest
import torch
import torch.nn.functional as F
from conform import driver_api as d
from conform.driver_api import DeviceError
from conftest import DTYPES, NUMPY, Call

FLOATS = {d.BF16: torch.bfloat16, d.FP16: torch.float16, d.FP8_E4M3: torch.float8_e4m3fn, d.FP8_E5M2: torch.float8_e5m2}
FLOATS[d.FP32] = torch.float32
CASES = range(60)


def integers(shape, seed, most=100):
    return numpy.random.default_rng(seed).integers(-most, most + 1, shape)


def reals(shape, seed):
    return numpy.random.default_rng(seed).standard_normal(shape).astype(numpy.float32)


def bits_of(tensor, dtype):
    """Of a float tensor, rounded by PyTorch to dtype, as numpy holds them."""
    rounded = tensor.to(FLOATS[dtype])
    if dtype in (d.FP32, d.FP16):
        return rounded.numpy()
    return rounded.view(torch.uint8 if dtype in (d.FP8_E4M3, d.FP8_E5M2) else torch.int16).numpy().view(NUMPY[dtype])


def same(found, expected):
    """Integers are equal; floats too, but for what the order of additions in double makes of one rounding."""
    assert found.shape == tuple(expected.shape)
    if found.dtype == numpy.float32:
        numpy.testing.assert_allclose(found, expected.to(torch.float32).numpy(), rtol=1e-6, atol=1e-6)
    else:
        assert (found == expected.numpy()).all()


def nchw(x):
    return torch.from_numpy(x.astype(numpy.float64)).movedim(-1, 1)


def kernel_of(w):
    return nchw(w)


def nhwc(y):
    return y.movedim(1, -1)


def window(draw, n):
    """stride, padding, dilation, kernel of n dimensions."""
    return [[draw.randint(*r) for _ in range(n)] for r in ((1, 3), (0, 2), (1, 2), (1, 3))]


def typed(x, w, floats):
    if floats:
        return x.astype(numpy.float32) / 8, w.astype(numpy.float32) / 8, d.FP32, 2
    return x.astype(numpy.int8), w.astype(numpy.int8), d.INT32, 0


@pytest.mark.parametrize("seed", CASES)
def test_convolutions(seed):
    draw = random.Random(seed)
    n = draw.choice((1, 2, 2, 3))
    stride, padding, dilation, kernel = window(draw, n)
    groups, images = draw.choice((1, 1, 2, 3)), draw.choice((0, 1, 2))
    c, o = groups * draw.choice((1, 2, 5)), groups * draw.choice((1, 3, 4))
    sizes = [dil * (k - 1) + 1 + draw.randint(0, 4) for dil, k in zip(dilation, kernel, strict=True)]
    x, w = integers((images, *sizes, c), seed, 127), integers((o, *kernel, c // groups), seed + 1, 127)
    x, w, out, compute = typed(x, w, seed % 2)
    convolve = (F.conv1d, F.conv2d, F.conv3d)[n - 1]
    expected = nhwc(convolve(nchw(x), kernel_of(w), None, stride, padding, dilation, groups))
    attributes = {"stride": stride, "padding": padding, "dilation": dilation, "groups": [groups]}
    found = Call(d.CONV, {"input": x, "weight": w}, expected.shape, out, attributes, compute=compute, seed=seed)
    same(found.result(), expected)


@pytest.mark.parametrize("seed", range(20))
def test_convolutions_of_a_dilated_input_with_a_value_around_it(seed):
    draw = random.Random(seed)
    stride, padding, dilation, kernel = window(draw, 2)
    spread = [draw.randint(1, 3), draw.randint(1, 3)]
    x, w = integers((1, 4, 5, 2), seed, 127).astype(numpy.int8), integers((3, *kernel, 2), seed + 1, 127)
    around = draw.randint(-128, 127)
    size = [(x.shape[1 + i] - 1) * spread[i] + 1 for i in (0, 1)]
    wide = torch.full((1, 2, size[0] + 2 * padding[0], size[1] + 2 * padding[1]), float(around), dtype=torch.float64)
    inner = wide[:, :, padding[0] : padding[0] + size[0], padding[1] : padding[1] + size[1]]
    inner[:, :, :: spread[0], :: spread[1]] = nchw(x)
    if any(wide.shape[2 + i] <= dilation[i] * (kernel[i] - 1) for i in (0, 1)):
        pytest.fail("the case has no output")
    expected = nhwc(F.conv2d(wide, kernel_of(w), None, stride, 0, dilation))
    attributes = {"stride": stride, "padding": padding, "dilation": dilation, "input_dilation": spread}
    attributes["pad_value"] = [around & 255]
    inputs = {"input": x, "weight": w.astype(numpy.int8)}
    same(Call(d.CONV, inputs, expected.shape, d.INT32, attributes, seed=seed).result(), expected)


@pytest.mark.parametrize("seed", CASES)
def test_transposed_convolutions(seed):
    draw = random.Random(seed)
    n = draw.choice((1, 2, 2, 3))
    stride, padding, dilation, kernel = window(draw, n)
    padding = [min(p, dil * (k - 1)) for p, dil, k in zip(padding, dilation, kernel, strict=True)]
    groups, extra = (
        draw.choice((1, 2)),
        [draw.randint(0, max(s, dil) - 1) for s, dil in zip(stride, dilation, strict=True)],
    )
    c, o = groups * draw.choice((1, 3)), groups * draw.choice((1, 2))
    x = integers((draw.choice((1, 2)), *(p + draw.randint(1, 4) for p in padding), c), seed, 127)
    x, w, out, compute = typed(x, integers((c, *kernel, o // groups), seed + 1, 127), seed % 2)
    convolve = (F.conv_transpose1d, F.conv_transpose2d, F.conv_transpose3d)[n - 1]
    expected = nhwc(convolve(nchw(x), kernel_of(w), None, stride, padding, extra, groups, dilation))
    attributes = {"stride": stride, "padding": padding, "dilation": dilation, "groups": [groups]}
    inputs = {"input": x, "weight": w}
    same(Call(d.CONV_TRANSPOSE, inputs, expected.shape, out, attributes, compute=compute, seed=seed).result(), expected)


@pytest.mark.parametrize("seed", range(20))
def test_depthwise_convolutions(seed):
    draw = random.Random(seed)
    stride, padding, dilation, kernel = window(draw, 2)
    c = draw.choice((1, 2, 7, 16))
    x, w = integers((2, 6, 7, c), seed, 127), integers((c, *kernel, 1), seed + 1, 127)
    x, w, out, compute = typed(x, w, seed % 2)
    expected = nhwc(F.conv2d(nchw(x), kernel_of(w), None, stride, padding, dilation, c))
    attributes = {"stride": stride, "padding": padding, "dilation": dilation}
    inputs = {"input": x, "weight": w}
    same(Call(d.DEPTHWISE, inputs, expected.shape, out, attributes, compute=compute, seed=seed).result(), expected)


@pytest.mark.parametrize("seed", range(30))
def test_gradients_of_weights(seed):
    draw = random.Random(seed)
    n = draw.choice((1, 2, 2, 3))
    stride, padding, dilation, kernel = window(draw, n)
    groups = draw.choice((1, 2))
    c, o = groups * draw.choice((1, 3)), groups * draw.choice((1, 2))
    sizes = [dil * (k - 1) + 1 + draw.randint(0, 4) for dil, k in zip(dilation, kernel, strict=True)]
    x = reals((draw.choice((1, 2)), *sizes, c), seed)
    ways = zip(sizes, padding, dilation, kernel, stride, strict=True)
    grad = reals((len(x), *((i + 2 * p - dil * (k - 1) - 1) // s + 1 for i, p, dil, k, s in ways), o), seed + 1)
    gradient = getattr(torch.nn.grad, f"conv{n}d_weight")
    size = (o, c // groups, *kernel)
    expected = nhwc(gradient(nchw(x), size, nchw(grad), stride, padding, dilation, groups))
    attributes = {"stride": stride, "padding": padding, "dilation": dilation, "groups": [groups]}
    inputs = {"input": x, "grad": grad}
    found = Call(d.WEIGHT_GRADIENT, inputs, expected.shape, d.FP32, attributes, compute=2, seed=seed).result()
    same(found, expected)


@pytest.mark.parametrize("m, k, n", list(itertools.product((0, 1, 5, 16, 17), (0, 1, 16, 33), (0, 1, 15, 16))))
def test_products_of_matrices(m, k, n):
    for batches, shared in (((1,), False), ((3,), True), ((2, 2), False)):
        a, b = (
            integers((*batches, m, k), m, 127),
            integers((*([1] * len(batches) if shared else batches), k, n), n, 127),
        )
        expected = torch.from_numpy(a).double() @ torch.from_numpy(b).double()
        for floats in (0, 1):
            x, y, out, compute = typed(a, b, floats)
            found = Call(d.MATMUL, {"a": x, "b": y}, (*batches, m, n), out, compute=compute, seed=m + n).result()
            same(found, expected / 64 if floats else expected)


def test_sums_of_integers_wrap_around():
    a, b = numpy.full((1, 1, 3), 2**30, numpy.int32), numpy.full((1, 3, 1), 3, numpy.int32)
    assert Call(d.MATMUL, {"a": a, "b": b}, (1, 1, 1), d.INT32).result().item() == 9 * 2**30 - 2 * 2**32
    assert Call(d.MATMUL, {"a": a, "b": b.astype(numpy.int64)}, (1, 1, 1), d.INT64).result().item() == 9 * 2**30
    steps = [d.Step(d.SCALE, d.NO_OPERAND, 0.5)]  # of the sum as it wrapped
    found = Call(d.MATMUL, {"a": a, "b": b}, (1, 1, 1), d.FP32, steps=steps).result().item()
    assert found == (9 * 2**30 - 2 * 2**32) / 2


def test_products_in_bf16_round_their_operands():
    a, b = reals((1, 4, 9), 1), reals((1, 9, 3), 2)
    rounded = [torch.from_numpy(v).bfloat16().double() for v in (a, b)]
    same(Call(d.MATMUL, {"a": a, "b": b}, (1, 4, 3), d.FP32, compute=1).result(), rounded[0] @ rounded[1])


@pytest.mark.parametrize("seed", CASES)
def test_pooling(seed):
    draw = random.Random(seed)
    n = draw.choice((1, 2, 2, 3))
    kernel = [draw.randint(1, 4) for _ in range(n)]
    stride, padding = [draw.randint(1, 3) for _ in range(n)], [draw.randint(0, k // 2) for k in kernel]
    x = reals((draw.choice((1, 2)), *(draw.randint(4, 8) for _ in range(n)), draw.choice((1, 5, 16))), seed)
    ceil, counts = bool(draw.randint(0, 1)), bool(draw.randint(0, 1))
    largest, average = (getattr(F, f"{kind}_pool{n}d") for kind in ("max", "avg"))
    attributes = {"kernel": kernel, "stride": stride, "padding": padding}
    expected = nhwc(largest(nchw(x), kernel, stride, padding, ceil_mode=ceil))
    same(Call(d.POOL_MAX, {"input": x}, expected.shape, d.FP32, attributes, seed=seed).result(), expected)
    expected = nhwc(average(nchw(x), kernel, stride, padding, ceil, counts))
    attributes["count_include_pad"] = [int(counts)]
    same(Call(d.POOL_AVERAGE, {"input": x}, expected.shape, d.FP32, attributes, seed=seed).result(), expected)


def test_pooling_of_integers_and_of_nan():
    x = integers((1, 6, 6, 3), 1, 127).astype(numpy.int8)
    expected = nhwc(F.max_pool2d(nchw(x), 3, 2, 1, 2))
    attributes = {"kernel": [3, 3], "stride": [2, 2], "padding": [1, 1], "dilation": [2, 2]}
    same(Call(d.POOL_MAX, {"input": x}, expected.shape, d.INT8, attributes).result(), expected)
    expected = nhwc(F.avg_pool2d(nchw(x), 2, divisor_override=3)).round()  # ties to even
    attributes = {"kernel": [2, 2], "divisor": [3]}
    same(Call(d.POOL_AVERAGE, {"input": x}, expected.shape, d.INT8, attributes).result(), expected)
    y = reals((1, 4, 4, 1), 2)
    y[0, 1, 1] = numpy.nan
    found = Call(d.POOL_MAX, {"input": y}, (1, 2, 2, 1), d.FP32, {"kernel": [2, 2]}).result()
    assert numpy.isnan(found).sum() == 1 and numpy.isnan(found[0, 0, 0, 0])


UNARY = "neg abs relu square sign ceil floor trunc round sqrt reciprocal rsqrt exp log sin cos tanh erf sigmoid".split()
UNARY += ["relu6", "hardtanh", "silu", "gelu", "hardsigmoid", "hardswish", "softplus"]


@pytest.mark.parametrize("name", UNARY)
def test_functions_of_one_element(name):
    x = reals((3, 1, 17), 5) * 4
    if name in ("sqrt", "rsqrt", "log"):
        x = abs(x)
    function = getattr(F, name, None) or getattr(torch, name)
    expected = function(torch.from_numpy(x).double())
    same(Call(d.ELEMENTWISE, {"input": x}, x.shape, d.FP32, {"function": name}).result(), expected)
    whole = numpy.round(x).astype(numpy.int32)
    if name in ("neg", "abs", "relu", "square", "sign", "relu6", "ceil", "hardtanh"):
        found = Call(d.ELEMENTWISE, {"input": whole}, x.shape, d.INT32, {"function": name}).result()
        same(found, function(torch.from_numpy(whole)))


@pytest.mark.parametrize("more", [{}, {"approximate": "none"}, {"approximate": "tanh"}])
def test_gelu_and_its_approximation(more):
    x = reals((4, 250), 3) * 4
    found = Call(d.ELEMENTWISE, {"input": x}, x.shape, d.FP32, {"function": "gelu", **more}).result()
    same(found, F.gelu(torch.from_numpy(x).double(), **more))
    other = F.gelu(torch.from_numpy(x).double(), approximate="none" if more.get("approximate") == "tanh" else "tanh")
    assert abs(found - other.numpy()).max() > 1e-4  # the two are apart
    with pytest.raises(DeviceError, match='no approximation "erf" of gelu'):
        Call(d.ELEMENTWISE, {"input": x}, x.shape, d.FP32, {"function": "gelu", "approximate": "erf"})


@pytest.mark.parametrize("low, high", [(0, 6), (-0.1, None), (None, 0.7), (1.5, -2), (None, None)])
def test_clamp(low, high):
    x = reals((4, 50), 3) * 4
    x[1, 2] = numpy.nan
    bounds = {name: float(v) for name, v in (("low", low), ("high", high)) if v is not None}
    expected = torch.from_numpy(x)
    if bounds:
        expected = expected.clamp(low, high)
    same(Call(d.ELEMENTWISE, {"input": x}, x.shape, d.FP32, {"function": "clamp", **bounds}).result(), expected)


@pytest.mark.parametrize("name", ["add", "sub", "mul", "div", "maximum", "minimum"])
@pytest.mark.parametrize(
    "shapes", [((2, 3, 4), (2, 3, 4)), ((2, 3, 4), (4,)), ((1, 3, 1), (2, 1, 4)), ((), (5, 1)), ((0, 3), (1, 3))]
)
def test_functions_of_two_elements(name, shapes):
    x, y = reals(shapes[0], 1), reals(shapes[1], 2)
    expected = getattr(torch, name)(torch.from_numpy(x).double(), torch.from_numpy(y).double())
    attributes = {"function": name}
    same(Call(d.ELEMENTWISE, {"input": x, "other": y}, expected.shape, d.FP32, attributes).result(), expected)
    if name != "div":
        x, y = (integers(shape, i, 127).astype(numpy.int8) for i, shape in enumerate(shapes))
        expected = getattr(torch, name)(torch.from_numpy(x), torch.from_numpy(y))  # wraps around
        same(Call(d.ELEMENTWISE, {"input": x, "other": y}, expected.shape, d.INT8, attributes).result(), expected)


@pytest.mark.parametrize("name", ["sum", "mean", "prod", "amax", "amin"])
@pytest.mark.parametrize("dims", [[0], [-1], [0, 2], [0, 1, 2], None])
@pytest.mark.parametrize("keeps", [True, False])
def test_reductions(name, dims, keeps):
    x = reals((3, 4, 5), 1)
    if name == "prod":
        expected = torch.from_numpy(x).double()
        for dim in sorted((i % 3 for i in (dims or range(3))), reverse=True):
            expected = expected.prod(dim, keepdim=keeps)
    else:
        expected = getattr(torch, name)(torch.from_numpy(x).double(), dims or (0, 1, 2), keepdim=keeps)
    attributes = {"function": name} | ({"dims": dims} if dims else {})
    same(Call(d.REDUCTION, {"input": x}, expected.shape, d.FP32, attributes).result(), expected)
    if name in ("sum", "amax", "amin"):
        whole = integers((3, 4, 5), 1, 2**30).astype(numpy.int32)
        expected = getattr(torch, name)(torch.from_numpy(whole), dims or (0, 1, 2), keepdim=keeps).to(torch.int32)
        same(Call(d.REDUCTION, {"input": whole}, expected.shape, d.INT32, attributes).result(), expected)


@pytest.mark.parametrize("dim", [0, 1, -1])
@pytest.mark.parametrize("logarithm", [0, 1])
@pytest.mark.parametrize("size", [1, 2, 17])
def test_softmax(dim, logarithm, size):
    x = reals((3, size, 5), 1) * 9
    function = F.log_softmax if logarithm else F.softmax
    attributes = {"dim": [dim], "log": [logarithm]}
    expected = function(torch.from_numpy(x).double(), dim)
    same(Call(d.SOFTMAX, {"input": x}, x.shape, d.FP32, attributes).result(), expected)


@pytest.mark.parametrize("channels", [1, 6, 17])
def test_norms(channels):
    x, weight, bias = reals((2, 3, 5, channels), 1), reals((channels,), 2), reals((channels,), 3)
    mean, variance = reals((channels,), 4), abs(reals((channels,), 5))
    t, w, b, m, v = (torch.from_numpy(a).double() for a in (x, weight, bias, mean, variance))
    named = {"input": x, "weight": weight, "bias": bias}

    def run(function, inputs, **more):
        return Call(d.NORM, inputs, x.shape, d.FP32, {"function": function, "epsilon": 1e-3, **more}).result()

    same(run("layer", named), F.layer_norm(t, (channels,), w, b, 1e-3))
    same(run("rms", {"input": x, "weight": weight}), F.rms_norm(t, (channels,), w, 1e-3))
    two = {"input": x, "weight": reals((5, channels), 6)}
    same(run("layer", two), F.layer_norm(t, (5, channels), torch.from_numpy(two["weight"]).double(), None, 1e-3))
    given = named | {"mean": mean, "variance": variance}
    same(run("batch", given), nhwc(F.batch_norm(nchw(x), m, v, w, b, eps=1e-3)))
    same(run("batch", named), nhwc(F.batch_norm(nchw(x), None, None, w, b, training=True, eps=1e-3)))
    for groups in (g for g in (1, 2, channels) if channels % g == 0):
        same(run("group", named, groups=[groups]), nhwc(F.group_norm(nchw(x), groups, w, b, 1e-3)))


@pytest.mark.parametrize("seed", range(20))
def test_places_of_maxima(seed):
    """Of equal elements the first, of NaNs the last, as PyTorch has them."""
    draw = random.Random(seed)
    stride, padding, dilation, kernel = window(draw, 2)
    padding = [min(p, k // 2) for p, k in zip(padding, kernel, strict=True)]
    attributes = {"kernel": kernel, "stride": stride, "padding": padding, "dilation": dilation}
    x = integers((2, 7, 8, 3), seed, most=3).astype(numpy.float32)
    if seed % 2:
        x[integers(x.shape, seed + 1, most=6) == 0] = numpy.nan
    planes = nchw(x)
    expected, index = map(nhwc, F.max_pool2d(planes, kernel, stride, padding, dilation, return_indices=True))
    for dtype in (d.INT32, d.INT64):
        other = [("index", dtype, index.shape)]
        call = Call(d.POOL_MAX, {"input": x}, expected.shape, d.FP32, attributes, seed=seed, others=other)
        same(call.result(), expected)
        assert (call.other("index") == index.numpy()).all()
    if not seed % 2:
        call = Call(d.POOL_MAX, {"input": x.astype(numpy.int8)}, expected.shape, d.INT8, attributes, others=other)
        call.result()
        assert (call.other("index") == index.numpy()).all()


def test_places_that_no_number_has_are_refused():
    x = numpy.zeros((1, 1, 200, 1), numpy.float32)
    for name, dtype, text in (
        ("index", d.INT8, "no numbers"),
        ("index", d.FP32, "dtype"),
        ("place", d.INT32, "output"),
    ):
        with pytest.raises(DeviceError, match=text):
            Call(d.POOL_MAX, {"input": x}, (1, 1, 200, 1), d.FP32, {"kernel": [1, 1]}, others=[(name, dtype, x.shape)])


@pytest.mark.parametrize("dims", [1, 2])
def test_statistics_of_norms(dims):
    x, w, b = reals((3, 4, 5), 1) * 2 + 3, reals((4, 5)[-dims:], 2), reals((4, 5)[-dims:], 3)
    expected = torch.native_layer_norm(*map(torch.from_numpy, (x,)), w.shape, *map(torch.from_numpy, (w, b)), 1e-3)
    size = expected[1].shape
    others = [("rstd", d.FP32, size), ("mean", d.FP32, size)]
    attributes = {"function": "layer", "epsilon": 1e-3}
    inputs = {"input": x, "weight": w, "bias": b}
    call = Call(d.NORM, inputs, x.shape, d.FP32, attributes, seed=dims, others=others)
    for found, wanted in zip((call.result(), call.other("mean"), call.other("rstd")), expected, strict=True):
        same(found, wanted)
    call = Call(
        d.NORM, {"input": x, "weight": w}, x.shape, d.FP32, {**attributes, "function": "rms"}, others=others[:1]
    )
    call.result()
    same(call.other("rstd"), torch.from_numpy(x).square().mean(list(range(-dims, 0)), keepdim=True).add(1e-3).rsqrt())
    for function, name in (("rms", "mean"), ("batch", "rstd")):
        with pytest.raises(DeviceError, match=f"doesn't know the output {name}"):
            Call(
                d.NORM,
                {"input": x},
                x.shape,
                d.FP32,
                {**attributes, "function": function},
                others=[(name, d.FP32, size)],
            )


@pytest.mark.parametrize("zero_point", [-128, -3, 0, 7, 127])
def test_means_of_codes_are_those_of_pytorchs_quantized_networks(zero_point):
    """Halves are rounded to even codes of the distance from the zero point."""
    before, torch.backends.quantized.engine = torch.backends.quantized.engine, "qnnpack"
    try:
        x = integers((2, 6, 7, 3), zero_point + 200, 127).astype(numpy.int8)
        codes = torch._make_per_tensor_quantized_tensor(
            torch.from_numpy(x.astype(numpy.int16) + 128).to(torch.uint8).movedim(-1, 1), 0.5, zero_point + 128
        )
        steps = [d.Step(d.QUANTIZE, d.NO_OPERAND, 0, 0, 0, zero_point, -128, 127)]
        for kernel, stride, padding in ((2, 2, 0), (3, 2, 1), (6, 1, 0)):
            expected = F.avg_pool2d(codes, kernel, stride, padding).int_repr().to(torch.int16) - 128
            attributes = {"kernel": [kernel] * 2, "stride": [stride] * 2, "padding": [padding] * 2}
            attributes["zero_point"] = [zero_point]
            shape = nhwc(expected).shape
            found = Call(d.POOL_AVERAGE, {"input": x}, shape, d.INT8, attributes, steps).result()
            assert (found == nhwc(expected).numpy()).all()
    finally:
        torch.backends.quantized.engine = before


@pytest.mark.parametrize("dim", [0, 1, -1])
def test_gathers(dim):
    draw = numpy.random.default_rng(dim + 1)
    for x in (reals((4, 5, 6), 1), integers((4, 5, 6), 1).astype(numpy.int8)):
        size, out = x.shape[dim], d.FP32 if x.dtype == numpy.float32 else d.INT8
        index = draw.integers(0, size, (4, 5, 6))
        expected = torch.gather(torch.from_numpy(x), dim, torch.from_numpy(index))
        same(Call(d.GATHER, {"input": x, "index": index}, x.shape, out, {"dim": [dim]}).result(), expected)
        rows = draw.integers(0, size, (7,)).astype(numpy.int32)
        expected = torch.index_select(torch.from_numpy(x), dim, torch.from_numpy(rows))
        same(Call(d.GATHER, {"input": x, "index": rows}, expected.shape, out, {"dim": [dim]}).result(), expected)
    table, index = reals((9, 3), 1), draw.integers(0, 9, (2, 4))
    expected = F.embedding(torch.from_numpy(index), torch.from_numpy(table))
    same(Call(d.GATHER, {"input": table, "index": index}, (2, 4, 3), d.FP32).result(), expected)
    with pytest.raises(DeviceError, match="index 9 of 9"):
        Call(d.GATHER, {"input": table, "index": index * 0 + 9}, (2, 4, 3), d.FP32)


@pytest.mark.parametrize("shape", [(), (0,), (1,), (7, 3), (2, 1, 3, 1, 2, 1, 2, 3)])
@pytest.mark.parametrize("kind", [numpy.int8, numpy.uint8, numpy.int16, numpy.int32, numpy.int64, numpy.float16])
def test_copies(shape, kind):
    x = (numpy.random.default_rng(1).standard_normal(shape) * 1e4).astype(numpy.int64).astype(kind)
    call = Call(d.COPY, {"input": x}, shape, DTYPES[numpy.dtype(kind)])
    assert (call.result() == x).all() and call.differs(x) is None


def test_int4_lies_two_in_a_byte():
    from conform.reference import Reference

    packed = numpy.array([0x21, 0xF3, 0x08], numpy.uint8)  # 1, 2, 3, -1, -8, 0
    out = numpy.zeros(6, numpy.int8)
    op = d.Op(d.ELEMENTWISE, [d.operand("input", d.INT4, (6,))], [d.operand("output", d.INT8, (6,))])
    op.attributes = {"function": "neg"}
    assert list(Reference(op, [packed]).store(out)) == [-1, -2, -3, 1, 8, 0]
    op.outputs, to = [d.operand("output", d.INT4, (6,), (-1,))], numpy.zeros(4, numpy.uint8)
    Reference(op, [packed]).store(to[3:])  # backwards from the low half of the last byte
    assert list(to) == [0x00, 0x18, 0xED, 0x0F]


@pytest.mark.parametrize("dtype", FLOATS)
def test_floats_are_read_and_rounded_as_pytorch_does(dtype):
    """Every pattern of 8 and 16 bits; values at, beside and between all of them."""
    if dtype in (d.FP8_E4M3, d.FP8_E5M2):
        patterns = numpy.arange(256).astype(numpy.uint8)
        known = torch.from_numpy(patterns).view(FLOATS[dtype]).float()
    elif dtype == d.FP32:
        patterns = numpy.random.default_rng(1).integers(0, 2**32, 4096).astype(numpy.uint32).view(numpy.float32)
        known = torch.from_numpy(patterns)
    else:
        patterns = numpy.arange(65536).astype(numpy.uint16).view(NUMPY[dtype])
        known = torch.from_numpy(patterns.view(numpy.int16)).view(FLOATS[dtype]).float()
    attributes = {"function": "neg"}
    call = Call(d.ELEMENTWISE, {"input": patterns}, patterns.shape, d.FP32, attributes, dtypes={"input": dtype})
    numpy.testing.assert_array_equal(call.result(), (-known).numpy())
    finite = numpy.sort(known[torch.isfinite(known)].numpy())
    middle = (finite[:-1].astype(numpy.float64) + finite[1:]) / 2
    tried = numpy.concatenate(
        [finite, middle, *(numpy.nextafter(finite, v, dtype=numpy.float32) for v in (-1e38, 1e38))]
    )
    tried = tried.astype(numpy.float32)
    found = Call(d.ELEMENTWISE, {"input": tried}, tried.shape, dtype, attributes).result()
    expected = bits_of(torch.from_numpy(-tried), dtype)
    numpy.testing.assert_array_equal(
        found.copy().view(numpy.uint8), numpy.ascontiguousarray(expected).view(numpy.uint8)
    )
