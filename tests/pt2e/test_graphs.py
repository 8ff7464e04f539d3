# SPDX-License-Identifier: Apache-2.0
"""Small graphs with quantization written by hand: each rule of the lowering, its bounds, and what it refuses."""

import pytest
import torch
from flow import compare
from torch import nn
from torch_presil.pt2e import QuantizationError, lower
from verified import all_verified

ops = torch.ops.quantized_decomposed
I8, U8 = (-128, 127, torch.int8), (0, 255, torch.uint8)
X, Y, Z = (0.021, -7, *I8), (0.034, 131, *U8), (0.05, 19, *I8)


def qdq(x, q):
    return ops.dequantize_per_tensor(ops.quantize_per_tensor(x, *q), *q)


class Graph(nn.Module):
    """body(self, *inputs), with weights: int8 (O, …) per channel, a bias of their size."""

    def __init__(self, body, shape=None, bias=True, zero=0):
        super().__init__()
        self.body = body
        self.register_buffer("spread", torch.rand(6) + 0.5)
        self.slope = nn.Parameter(torch.tensor([0.25, -0.5, 1.5, 0.0, 1.0, 0.01]))
        if shape:
            self.register_buffer("codes", torch.randint(-100, 100, shape, dtype=torch.int8))
            self.register_buffer("scales", torch.rand(shape[0]) * 0.02 + 0.001)
            self.register_buffer("zeros", torch.full((shape[0],), zero))
            self.register_buffer("bias", torch.randn(shape[0]) if bias else None)

    def weight(self):
        return ops.dequantize_per_channel(self.codes, self.scales, self.zeros, 0, *I8)

    def forward(self, *x):
        return self.body(self, *x)


def graph(model, *inputs):
    return torch.export.export(model.eval(), inputs).module()


def conv(m, x, **more):
    return nn.functional.conv2d(x, m.weight(), m.bias, **more)


IMAGE = (torch.randn(2, 6, 9, 7),)
PAIR = (torch.randn(2, 6, 9, 7), torch.randn(2, 6, 9, 7))
ROWS = (torch.randn(2, 5, 24), torch.randn(2, 24, 11))

CASES = {
    # name: (body, shape of the weight, inputs, quantized values compared, rows of float32)
    "padding is the zero point": (lambda m, x: qdq(conv(m, qdq(x, Y), padding=(2, 1)), Z), (8, 6, 3, 3), IMAGE, 2, 0),
    "same": (lambda m, x: qdq(conv(m, qdq(x, Y), padding="same", dilation=2), X), (8, 6, 3, 3), IMAGE, 2, 0),
    "no bias": (lambda m, x: qdq(nn.functional.conv2d(qdq(x, X), m.weight()), Y), (5, 6, 3, 3), IMAGE, 2, 0),
    "clamp of seven bits": (
        lambda m, x: qdq(conv(m, qdq(x, X)).clamp(-0.4, 2.2), (0.05, 40, 0, 127, torch.uint8)),
        (8, 6, 3, 3), IMAGE, 2, 0,
    ),
    "residual of another scale": (
        lambda m, x: qdq(torch.relu(qdq(x, Z) + conv(m, qdq(x, Y), padding=1)), X), (6, 6, 3, 3), IMAGE, 2, 0,
    ),
    "float32 out of the launch": (
        lambda m, x: nn.functional.hardtanh(conv(m, qdq(x, Y), padding=1) + qdq(x, Z), -3.0, 2.5),
        (6, 6, 3, 3), IMAGE, 1, 0,
    ),
    "read as float32, too": (
        lambda m, x: (lambda y: (y.neg(), qdq(y, Z)))(conv(m, qdq(x, Y))), (6, 6, 3, 3), IMAGE, 2, 1,
    ),
    "sum of planes": (lambda m, x, y: qdq(torch.relu(qdq(x, X) + qdq(y, Y)), Z), None, PAIR, 3, 0),
    "sum of rows": (lambda m, x, y: qdq(qdq(x, X) + qdq(y.transpose(1, 2)[:, :5], Y), Z), None,
                    (torch.randn(2, 5, 24), torch.randn(2, 24, 6)), 3, 2),
    "product by element": (lambda m, x, y: qdq(qdq(x, X) * qdq(y[:, :, :1, :1], Y), Z), None, PAIR, 3, 2),
    "product of activations": (lambda m, x, y: qdq(torch.matmul(qdq(x, X), qdq(y, Y)), Z), None, ROWS, 3, 0),
    "concatenation of scales": (lambda m, x, y: qdq(torch.cat([qdq(x, X), qdq(y, Y)], 1), Z), None, PAIR, 2, 0),
    "function": (lambda m, x: qdq(nn.functional.hardswish(qdq(x, X)), Z), None, IMAGE, 2, 0),
    "PReLU": (lambda m, x: qdq(nn.functional.prelu(qdq(x, X), m.slope[:1]), Z), None, IMAGE, 2, 1),
    "PReLU of channels": (lambda m, x: qdq(torch.tanh(nn.functional.prelu(qdq(x, X), m.slope)), Z), None, IMAGE, 2, 0),
    "batch-norm of codes": (
        lambda m, x: qdq(torch.relu(nn.functional.batch_norm(qdq(x, X), m.spread, m.spread, m.slope, m.slope)), Z),
        None, IMAGE, 2, 0,
    ),
    "mean": (lambda m, x: qdq(qdq(x, Y).mean((2, 3)), Y), None, IMAGE, 2, 0),
    "mean of another scale": (lambda m, x: qdq(qdq(x, Y).mean((2, 3)), Z), None, IMAGE, 2, 0),
    "windows": (lambda m, x: qdq(nn.functional.avg_pool2d(qdq(x, Y), 3, 2, 1), Y), None, IMAGE, 2, 0),
    "windows that divide the plane": (
        lambda m, x: qdq(nn.functional.adaptive_avg_pool2d(qdq(x, Y), (3, 7)), Y), None, IMAGE, 2, 0,
    ),
    "windows that don't": (
        lambda m, x: qdq(nn.functional.adaptive_avg_pool2d(qdq(x, Y), (3, 4)), Y), None, IMAGE, 2, 1,
    ),
    "windows of another scale": (lambda m, x: qdq(nn.functional.avg_pool2d(qdq(x, Y), 3), Z), None, IMAGE, 2, 1),
    "parts": (
        lambda m, x: [qdq(p, Y) for p in qdq(x, Y).chunk(4, 1)] + [qdq(p, Z) for p in qdq(x, X).split([1, 4, 4], -2)],
        None, IMAGE, 4, 0,
    ),
    "linear": (lambda m, x, y: qdq(nn.functional.linear(qdq(x, Y), m.weight(), m.bias), Z), (10, 24), ROWS, 2, 0),
    "line": (lambda m, x, y: qdq(nn.functional.conv1d(qdq(x, Y), m.weight(), m.bias, 2, 3), Z), (10, 5, 4), ROWS, 2, 0),
    "written in place": (lambda m, x: qdq(conv(m, qdq(x, Y)).relu_().clamp_(max=1.5), Z), (8, 6, 3, 3), IMAGE, 2, 0),
    "padded before": (
        lambda m, x: qdq(conv(m, nn.functional.pad(qdq(x, Y), (1, 2, 0, 1))), Z),
        (8, 6, 3, 3),
        IMAGE,
        2,
        0,
    ),
    "another scale behind a pooling": (
        lambda m, x: qdq(nn.functional.max_pool2d(qdq(x, Y), 2), Z),
        None,
        IMAGE,
        2,
        0,
    ),
    "grouped": (lambda m, x: qdq(conv(m, qdq(x, Y), groups=3), Z), (9, 2, 1, 1), IMAGE, 2, 0),
}  # fmt: skip


@pytest.mark.parametrize("name", list(CASES))
def test_every_rule_equals_the_reference(name):
    body, shape, inputs, least, floats = CASES[name]
    lowered = compare(graph(Graph(body, shape), *inputs), inputs, least)
    assert len(lowered.report().in_float32) == floats, str(lowered.report())


def test_rtl_equals_the_reference():
    for name in ("residual of another scale", "float32 out of the launch", "clamp of seven bits", "sum of planes",
                 "product of activations"):  # fmt: skip
        body, shape, inputs, least, _ = CASES[name]
        with all_verified():
            compare(graph(Graph(body, shape), *inputs), inputs, least)


FLOATS = {
    "asymmetric weights": (lambda m, x: qdq(conv(m, qdq(x, X)), Z), (8, 6, 3, 3), 60, "symmetric weights run in int8"),
    "transposed": (lambda m, x: qdq(nn.functional.conv_transpose2d(qdq(x, X), m.weight()), Z), (6, 4, 3, 3), 0,
                   "transposed convolutions"),
    "no codes in": (lambda m, x: qdq(conv(m, x), Z), (8, 6, 3, 3), 0, "is not quantized"),
    "16 bits": (lambda m, x: qdq(conv(m, qdq(x, (0.01, 0, -32768, 32767, torch.int16))), Z), (8, 6, 3, 3), 0,
                "codes are int16"),
    "broadcast": (lambda m, x: qdq(qdq(x, X) + qdq(x[:, :, :1], Y), Z), None, 0, "broadcasts"),
}  # fmt: skip


@pytest.mark.parametrize("name", list(FLOATS))
def test_what_stays_float32_says_why(name):
    body, shape, zero, reason = FLOATS[name]
    model = graph(Graph(body, shape, zero=zero), *IMAGE)
    lowered = lower(model)
    rows = lowered.report().in_float32
    assert any(reason in row["reason"] and row["file"] == __file__ and row["line"] for row in rows), rows
    with torch.no_grad():
        if name != "asymmetric weights":
            assert torch.equal(lowered(*IMAGE), model(*IMAGE))


def test_what_stays_float32_between_codes_is_explained():
    """As in a ConvNeXt: a norm, and a factor for each channel."""

    def body(m, x):
        y = nn.functional.layer_norm(qdq(conv(m, qdq(x, X), padding=1), Y), (7,))
        return qdq(conv(m, qdq(y * m.slope.view(6, 1, 1), Z), padding=1), X)

    lowered = lower(graph(Graph(body, (6, 6, 3, 3)), *IMAGE))
    device, x = lowered.to("presil"), IMAGE[0].to("presil")
    with torch.no_grad(), torch.presil.explain() as explained:
        expected = device(x)
    notes = {row["op"]: row["reason"] for row in explained.operators() if row["op"].startswith("pt2e::")}
    rows = {row["node"]: row for row in lowered.report().floats_between}
    assert notes == {f"pt2e::{n}": f"float32 between int8 operators: {row['reason']}" for n, row in rows.items()}
    assert "a norm takes mean and deviation" in notes["pt2e::layer_norm"] and len(notes) == 2
    with torch.no_grad():
        assert torch.equal(torch.compile(device, fullgraph=True)(x), expected)
        assert torch.equal(torch.export.export(device, (x,)).module()(x), expected)


def test_the_state_dict_restores_scales_and_zero_points(tmp_path):
    """Of a model that other data calibrated: without them codes of one would meet the scales of the other."""

    def made(a, b, c):
        def body(m, x):
            y = qdq(conv(m, qdq(x, a), padding=1), b)
            y = qdq(nn.functional.avg_pool2d(y, 2), b)
            return qdq(y * qdq(torch.sigmoid(y), c), a) + qdq(y + y, c)

        torch.manual_seed(0)
        return lower(graph(Graph(body, (6, 6, 3, 3)), *IMAGE))

    one, other = made(X, Y, Z), made((0.03, 3, *I8), (0.07, 120, *U8), (0.01, -20, *I8))
    torch.save(one.state_dict(), tmp_path / "int8.pt")
    with torch.no_grad():
        assert not torch.equal(one(*IMAGE), other(*IMAGE))
        other.load_state_dict(torch.load(tmp_path / "int8.pt", weights_only=True))
        assert torch.equal(one(*IMAGE), other(*IMAGE))
    real = lower(graph(Graph(lambda m, x: conv(m, qdq(x, X)), (6, 6, 3, 3)), *IMAGE))
    codes = lower(graph(Graph(lambda m, x: qdq(conv(m, qdq(x, X)), X), (6, 6, 3, 3)), *IMAGE))
    layers = [next(m for m in model.children() if hasattr(m, "geometry")) for model in (real, codes)]
    with pytest.raises(ValueError, match="state dict: Int8Layer has zero_point, out.*of another model"):
        layers[0].load_state_dict(layers[1].state_dict())


def broken(change):
    model = graph(Graph(lambda m, x: qdq(conv(m, qdq(x, Y)), Z), (8, 6, 3, 3)), *IMAGE)
    change(model)
    return model


def set_argument(role, index, value):
    def change(model):
        node = next(n for n in model.graph.nodes if role in str(n.target))
        node.args = (*node.args[:index], value, *node.args[index + 1 :])
        model.recompile()

    return change


@pytest.mark.parametrize(
    "change, text",
    [
        (set_argument("quantize_per_tensor", 1, 0.0), r"node quantize_per_tensor \(.*test_graphs.py:\d+\): scale 0.0"),
        (set_argument("quantize_per_tensor", 1, float("nan")), "scale nan: a finite number above 0 expected"),
        (set_argument("quantize_per_tensor", 2, 300), "zero point 300 is outside of the codes 0 to 255"),
        (set_argument("dequantize_per_tensor", 1, 0.5), r"node dequantize_per_tensor \(.*: dequantized with"),
        (lambda m: m.scales.__setitem__(3, 0.0), r"node dequantize_per_channel \(.*: scale 0.0 of channel 3"),
        (lambda m: m.bias.fill_(float("nan")), "the bias has NaN"),
    ],
)
def test_inconsistent_graphs_name_node_and_line(change, text):
    with pytest.raises(QuantizationError, match=text):
        lower(broken(change))


def test_what_is_no_converted_graph():
    with pytest.raises(TypeError, match="GraphModule of convert_pt2e expected, got Linear"):
        lower(nn.Linear(2, 2))
    with pytest.raises(QuantizationError, match="nothing is quantized"):
        lower(graph(nn.Linear(2, 2), torch.zeros(1, 2)))


def test_report_as_document():
    body, shape, inputs, *_ = CASES["read as float32, too"]
    report = lower(graph(Graph(body, shape), *inputs)).report()
    document = report.to_dict()
    assert document["launches"] == 1 and document["operators"] == {"int8": 1, "codes": 0, "float": 1}
    assert "aten.neg.default" in str(report) and "no operand is quantized" in str(report)
