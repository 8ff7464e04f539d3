# SPDX-License-Identifier: Apache-2.0
"""Networks quantized by three quantizers: every int8 code of every layer equals the integer reference's."""

import pytest
import torch
import torchvision
from flow import compare, converted, settled
from torch import nn


class Awkward(nn.Module):
    """Odd sizes, strides, dilation, groups, a residual of another scale, clamps, a concatenation, a line."""

    def __init__(self):
        super().__init__()
        self.first = nn.Conv2d(5, 12, 3, stride=2, padding=2)
        self.norm = nn.BatchNorm2d(12)
        self.depthwise = nn.Conv2d(12, 12, 3, padding=1, groups=12, bias=False)
        self.grouped = nn.Conv2d(12, 18, (1, 3), padding=(0, 2), dilation=(1, 2), groups=3)
        self.point = nn.Conv2d(12, 18, 1)
        self.line = nn.Conv1d(18, 7, 5, stride=3, padding=1)
        self.fully = nn.Linear(14, 9)

    def forward(self, x):
        x = torch.relu(self.norm(self.first(x)))
        y = nn.functional.relu6(self.depthwise(x)) * 3.0
        z = nn.functional.hardtanh(self.grouped(x) + self.point(x), -0.5, 0.75)
        z = torch.cat([z, z.flip(3)], 0)
        line = self.line(z.flatten(2))
        return self.fully(line[..., :14]), nn.functional.max_pool2d(y, 3)


def awkward_inputs():
    return (torch.randn(3, 5, 17, 13) * torch.rand(3, 5, 1, 1) + 0.3,)


LAUNCHES = {"presil": 6, "x86": 5, "xnnpack": 7, "xnnpack-per-tensor": 7}  # x86: no 1-D convolution; xnnpack: additions


@pytest.mark.parametrize("quantizer", list(LAUNCHES))
def test_awkward_sizes(quantizer):
    inputs = awkward_inputs()
    model = settled(Awkward(), *inputs)
    lowered = compare(converted(model, inputs, quantizer), inputs, 4)
    assert lowered.report().launches_count() == LAUNCHES[quantizer]


def small_mobilenet():
    blocks = [[1, 16, 1, 1], [6, 24, 2, 2], [6, 32, 1, 2]]
    return torchvision.models.MobileNetV2(num_classes=10, inverted_residual_setting=blocks)


@pytest.mark.parametrize("quantizer", ["presil", "x86", "xnnpack"])
def test_mobilenet_v2(quantizer):
    inputs = (torch.randn(2, 3, 33, 33),)
    lowered = compare(converted(settled(small_mobilenet(), *inputs), inputs, quantizer), inputs, 12)
    assert not lowered.report().floats_between


def test_resnet18():
    inputs = (torch.randn(2, 3, 32, 32),)
    model = settled(torchvision.models.resnet18(num_classes=10), *inputs)
    lowered = compare(converted(model, inputs, dynamic=True), inputs, 20)
    report = lowered.report()
    assert not report.floats_between
    assert report.launches_count() == 21  # a launch a convolution or linear layer, additions in them
    with torch.no_grad():  # another batch than the exported one
        assert lowered(torch.randn(3, 3, 32, 32).to("presil")).shape == (3, 10)


@pytest.mark.parametrize("name,side,launches", [("PNet", 40, 5), ("RNet", 24, 6), ("ONet", 48, 8)])
def test_mtcnn(name, side, launches):
    """With its trained weights. Each PReLU has slopes of its own for its channels."""
    from facenet_pytorch.models import mtcnn

    inputs = (torch.rand(2, 3, side, side) * 2 - 1,)
    lowered = compare(converted(getattr(mtcnn, name)().eval(), inputs), inputs, launches - 1)
    report = lowered.report()
    assert not report.floats_between, str(report)
    assert [row["operator"] for row in report.in_float32] == ["aten.softmax.int"]  # what it returns
    assert report.launches_count() == launches
