# SPDX-License-Identifier: Apache-2.0
"""Quantized models under torch.compile: partitions of int8 launches with the integers of eager mode."""

import copy

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from torch_presil.compiler import backend
from torch_presil.fuse import fuse
from torch_presil.fused_layer import FusedLayer
from torch_presil.quantize import QuantizationParameters, QuantizedLayer, quantize

presil = torch.ops.presil


pytestmark = pytest.mark.usefixtures("fresh_graphs")


def launches_of(function) -> list:
    with torch.presil.reports() as reports:
        function()
        return [r["label"] for r in reports.take()]


class Net(nn.Module):
    """Strides, groups, dilation, a residual, ReLU and ReLU6, both poolings, two linear layers."""

    def __init__(self):
        super().__init__()
        self.stem, self.a = nn.Conv2d(3, 8, 5, 2, 2), nn.Conv2d(8, 8, 3, padding=1, groups=4)
        self.b, self.down = nn.Conv2d(8, 12, 3, padding=2, dilation=2), nn.Conv2d(8, 12, 1)
        self.pool, self.one, self.two = nn.MaxPool2d(3, 2, 1), nn.Linear(12, 9), nn.Linear(9, 5)

    def forward(self, x):
        x = self.pool(F.relu(self.stem(x)))
        x = F.relu(self.b(F.relu6(self.a(x))) + self.down(x))
        return self.two(F.relu(self.one(torch.flatten(F.adaptive_avg_pool2d(x, 1), 1))))


def quantized(model, x):
    return quantize(fuse(model.eval(), x), [x])


@pytest.mark.parametrize("how", [{"backend": "presil"}, {}])
def test_a_quantized_network_is_launches_of_int8_with_eagers_bits(how):
    torch.manual_seed(1)
    x = 4 * torch.randn(2, 3, 19, 18)
    model = quantized(Net(), x)
    device, X = copy.deepcopy(model).to("presil"), x.to("presil")
    with torch.no_grad():
        compiled, expected = torch.compile(device, **how), device(X)
        for _ in range(2):
            assert torch.equal(compiled(X), expected)
        assert torch.equal(expected.cpu(), model(x))
        assert len(launches_of(lambda: device(X))) == 6
        assert launches_of(lambda: compiled(X)) == ["stem", "inference.1", "inference.2"]  # one operator has its name
        launched = [r["op"] for r in explained(lambda: compiled(X)) if r["where"] == "chip"]
    assert sorted(launched) == [f"presil::inference.{i}" for i in range(3)]
    (graph,) = backend.graphs
    assert (graph.partitions, graph.chip_operators, graph.left_out, graph.refused) == (3, 6, {}, [])
    assert graph.host_operators["aten.max_pool2d.default"] == 1  # of codes: nothing is converted around it
    assert graph.host_operators["aten._to_copy.default"] == 2  # to the first codes, and from the last


def explained(function) -> list:
    with torch.presil.explain() as e:
        function()
    return e.operators()


def layer_of(module, x, out, activation="none", residual=None):
    layer = FusedLayer("layer", module)
    layer.activation, layer.has_residual = activation, residual is not None
    return QuantizedLayer(layer, x, out, residual).to("presil")


def codes(*shape):
    return torch.randint(-128, 128, shape, dtype=torch.int8, device="presil")


def test_the_bound_of_relu6_goes_into_the_launch():
    torch.manual_seed(2)
    wide = QuantizationParameters(0.2, -100)  # 6 is code -70
    layer = layer_of(nn.Conv2d(5, 7, 3, padding=1), QuantizationParameters(0.5, 3), wide, "relu6")
    x = codes(2, 5, 9, 8)
    with torch.no_grad():
        expected, got = layer(x), torch.compile(layer, backend="presil")(x)
        assert not [r["op"] for r in explained(lambda: layer(x)) if "clamp" in r["op"]]  # in eager mode neither
    assert torch.equal(got, expected) and got.min() == -100 and got.max() == -70
    (graph,) = backend.graphs
    assert (graph.chip_operators, graph.folded, graph.host_operators) == (1, 0, {})


def test_clamps_of_codes_behind_each_other_are_one():
    torch.manual_seed(3)
    layer = layer_of(nn.Linear(8, 40), QuantizationParameters(0.5, 3), QuantizationParameters(0.05, -20), "relu")
    x = codes(6, 8)

    def run(x):
        return layer(x).clamp(-50, 100).clamp(min=-10).clamp(max=60), layer(x).clamp(max=0.5)

    with torch.no_grad():
        expected, got = run(x), torch.compile(run, backend="presil")(x)
    for e, g in zip(expected, got, strict=True):
        assert e.dtype == g.dtype and torch.equal(e, g)
    assert expected[0].min() == -10 and expected[0].max() == 60 and expected[1].dtype == torch.float32
    assert backend.graphs[0].folded == 3  # a bound of codes that is no code is none of them


def test_residual_and_zero_points():
    torch.manual_seed(4)
    x, r = QuantizationParameters(0.03, -5), QuantizationParameters(0.02, 7)
    conv = layer_of(nn.Conv2d(12, 10, 3, padding=1), x, QuantizationParameters(0.05, 11), "relu", r)
    linear = layer_of(nn.Linear(10, 10), QuantizationParameters(0.05, 11), QuantizationParameters(0.04, -7), "none", r)

    def run(x, residual, more):
        y = conv(x, residual)
        return linear(y.permute(0, 2, 3, 1).reshape(-1, 10), more)

    inputs = codes(2, 12, 5, 4), codes(2, 10, 5, 4), codes(40, 10)
    with torch.no_grad():
        expected, got = run(*inputs), torch.compile(run, backend="presil")(*inputs)
    assert torch.equal(got, expected)
    (graph,) = backend.graphs
    assert (graph.chip_operators, graph.partitions, graph.left_out) == (2, 1, {})


def test_rows_of_any_shape_and_number():
    torch.manual_seed(5)
    first = layer_of(nn.Linear(24, 16), QuantizationParameters(0.1, 3), QuantizationParameters(0.2, -9), "relu")
    second = layer_of(
        nn.Linear(16, 24), QuantizationParameters(0.2, -9), QuantizationParameters(0.1, 3), "none", first.x
    )

    def run(x):
        return second(first(x), x)

    compiled = torch.compile(run, backend="presil")
    with torch.no_grad():
        for batch in (2, 3, 5, 8):
            for length in (4, 7, 9):
                x = codes(batch, length, 24)
                assert torch.equal(compiled(x), run(x))
        one = codes(24)
        assert torch.equal(torch.compile(run, backend="presil", dynamic=False)(one), run(one))
    assert {(g.partitions, g.chip_operators, len(g.refused)) for g in backend.graphs} == {(1, 2, 0)}
    assert len(backend.graphs) <= 4


def test_a_weight_of_the_graph_says_why():
    layer = layer_of(nn.Linear(8, 6), QuantizationParameters(0.1, 0), QuantizationParameters(0.1, 0))

    def run(x, weight):
        return presil.linear_int8(x, weight + 1, layer.bias, layer.scale, 0, 0, label="made")

    x, weight = codes(3, 8), codes(6, 8)
    with torch.no_grad():
        assert torch.equal(torch.compile(run, backend="presil")(x, weight), run(x, weight))
    assert backend.graphs[0].left_out == {"linear_int8": "its weight, bias or scale is computed in the graph"}


def parameters(o, *shape):
    """Weight, bias and scale."""
    weight = torch.randint(-128, 128, (o, *shape), dtype=torch.int8)
    made = weight, torch.randint(-999, 999, (o,), dtype=torch.int32), torch.rand(o) / 500
    return [t.to("presil") for t in made]


def test_bounds_of_codes_and_results_in_float32():
    """The overloads that torch_presil.pt2e calls."""

    first, second, third = parameters(8, 6, 3, 3), parameters(8, 8, 1, 1), parameters(5, 8)
    plane, infinite = ([1, 1], [1, 1], [1, 1], 1, -7), float("inf")

    def run(x, real, codes):
        y = presil.conv2d_int8.range(x, *first, *plane, 11, None, 1.0, 0, -40, 90, "first")
        one = ([1, 1], [0, 0], [1, 1], 1, 11)
        z = presil.conv2d_int8.real(y, *second, *one, real, 1.0, 0, -1.5, infinite, "second").clamp(max=2.0)
        w = presil.conv2d_int8.real(y, *second, *one, codes, 0.25, 3, -infinite, infinite, "third").relu()
        rows = y.permute(0, 2, 3, 1).reshape(-1, 8)
        return z, w, presil.linear_int8.range(rows, *third, 11, -3, None, 1.0, 0, -100, 20, "fourth")

    x, real = codes(2, 6, 7, 5), torch.randn(2, 8, 7, 5, device="presil").contiguous(memory_format=torch.channels_last)
    with torch.no_grad():
        inputs = x, real, codes(2, 8, 7, 5)
        for expected, got in zip(run(*inputs), torch.compile(run, backend="presil")(*inputs), strict=True):
            assert got.dtype == expected.dtype and torch.equal(got, expected)
    (graph,) = backend.graphs
    assert (graph.partitions, graph.chip_operators, graph.folded) == (1, 4, 1)  # a clamp behind bounds stays
    assert (graph.left_out, graph.refused) == ({}, [])


@pytest.mark.parametrize("dynamic", [True, None])
def test_any_size_of_image(dynamic):
    torch.manual_seed(8)
    model = quantized(Net(), 4 * torch.randn(2, 3, 19, 18)).to("presil")
    compiled = torch.compile(model, backend="presil", dynamic=dynamic)
    with torch.no_grad():
        for shape in ((2, 3, 19, 18), (3, 3, 19, 18), (1, 3, 21, 30), (4, 3, 32, 17)):
            x = torch.randn(shape, device="presil")
            assert torch.equal(compiled(x), model(x))
    assert {(g.partitions, g.chip_operators, len(g.refused)) for g in backend.graphs} == {(3, 6, 0)}
    assert len(backend.graphs) <= 4


def test_weights_may_change():
    layer = layer_of(nn.Linear(8, 6), QuantizationParameters(0.1, 0), QuantizationParameters(0.1, 0))
    compiled, x = torch.compile(layer, backend="presil"), codes(3, 8)
    with torch.no_grad():
        compiled(x)
        for name in ("weight", "bias", "scale"):
            before = layer(x)
            getattr(layer, name).mul_(2)
            assert torch.equal(compiled(x), layer(x)) and not torch.equal(layer(x), before)


def test_resnet18():
    from torchvision.models import resnet18

    torch.manual_seed(6)
    x = torch.randn(1, 3, 64, 64)
    device, X = quantized(resnet18(), x).to("presil"), x.to("presil")
    with torch.no_grad():
        compiled, expected = torch.compile(device, backend="presil"), device(X)
        assert torch.equal(compiled(X), expected)
        assert (len(launches_of(lambda: device(X))), len(launches_of(lambda: compiled(X)))) == (21, 3)
    (graph,) = backend.graphs
    assert (graph.partitions, graph.chip_operators, graph.left_out, graph.refused) == (3, 21, {}, [])


def test_int8_on_the_rtl(verify):
    torch.manual_seed(7)
    x = 4 * torch.randn(1, 3, 11, 10)
    model = quantized(Net(), x)
    device, X = copy.deepcopy(model).to("presil"), x.to("presil")
    compiled = torch.compile(device, backend="presil")
    with torch.no_grad(), torch.presil.reports() as reports:
        got = compiled(X).cpu()
        launches = reports.take()
    assert torch.equal(got, model(x))
    assert len(launches) == 3 and all(r["verified"] == 1 and r["cycles"] > 0 for r in launches)
