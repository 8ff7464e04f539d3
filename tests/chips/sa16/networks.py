# SPDX-License-Identifier: Apache-2.0
"""MobileNetV1 and the networks of MLPerf Tiny as plain modules, with random weights and the shape of their input."""

import torch
from torch import nn


def conv(i, o, k, stride=1, padding=None, groups=1):
    padding = k // 2 if padding is None else padding
    return nn.Sequential(nn.Conv2d(i, o, k, stride, padding, groups=groups, bias=False), nn.BatchNorm2d(o), nn.ReLU())


def separable(i, o, stride=1):
    return nn.Sequential(conv(i, i, 3, stride, groups=i), conv(i, o, 1))


class MobileNetV1(nn.Module):
    def __init__(self, width=0.25, classes=2):
        super().__init__()
        plan = [(64, 1), (128, 2), (128, 1), (256, 2), (256, 1), (512, 2), *[(512, 1)] * 5, (1024, 2), (1024, 1)]
        last = int(32 * width)
        layers = [conv(3, last, 3, 2)]
        for channels, stride in plan:
            layers.append(separable(last, int(channels * width), stride))
            last = int(channels * width)
        self.features, self.pool, self.head = nn.Sequential(*layers), nn.AdaptiveAvgPool2d(1), nn.Linear(last, classes)

    def forward(self, x):
        return self.head(torch.flatten(self.pool(self.features(x)), 1))


class Residual(nn.Module):
    def __init__(self, i, o, stride):
        super().__init__()
        self.first = conv(i, o, 3, stride)
        self.conv, self.norm = nn.Conv2d(o, o, 3, padding=1, bias=False), nn.BatchNorm2d(o)
        self.shortcut = nn.Conv2d(i, o, 1, stride) if stride != 1 else nn.Identity()

    def forward(self, x):
        return torch.relu(self.norm(self.conv(self.first(x))) + self.shortcut(x))


class ResNet8(nn.Module):
    """Image classification of MLPerf Tiny."""

    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(conv(3, 16, 3), Residual(16, 16, 1), Residual(16, 32, 2), Residual(32, 64, 2))
        self.pool, self.head = nn.AvgPool2d(8), nn.Linear(64, 10)

    def forward(self, x):
        return self.head(torch.flatten(self.pool(self.body(x)), 1))


class SpeechCommands(nn.Module):
    """Keyword spotting of MLPerf Tiny: DS-CNN."""

    def __init__(self):
        super().__init__()
        self.first = nn.Sequential(nn.Conv2d(1, 64, (10, 4), 2, (4, 1), bias=False), nn.BatchNorm2d(64), nn.ReLU())
        self.body = nn.Sequential(*[separable(64, 64) for _ in range(4)])
        self.pool, self.head = nn.AdaptiveAvgPool2d(1), nn.Linear(64, 12)

    def forward(self, x):
        return self.head(torch.flatten(self.pool(self.body(self.first(x))), 1))


def autoencoder():
    """Anomaly detection of MLPerf Tiny."""
    sizes = [640, 128, 128, 128, 128, 8, 128, 128, 128, 128]
    layers = []
    for i, o in zip(sizes, sizes[1:], strict=False):
        layers += [nn.Linear(i, o), nn.BatchNorm1d(o), nn.ReLU()]
    return nn.Sequential(*layers, nn.Linear(128, 640))


def resnet18():
    from torchvision.models import resnet18

    return resnet18(weights=None)


NETWORKS = {
    "resnet8": (ResNet8, (1, 3, 32, 32)),
    "ds_cnn": (SpeechCommands, (1, 1, 49, 10)),
    "mobilenet_v1_025": (MobileNetV1, (1, 3, 96, 96)),
    "autoencoder": (autoencoder, (4, 640)),
    "resnet18": (resnet18, (1, 3, 224, 224)),
}


def network(name: str, seed: int = 1):
    """Module in eval mode and an input. Batch norms get statistics as if trained."""
    torch.manual_seed(seed)
    make, shape = NETWORKS[name]
    model = make()
    for m in model.modules():
        if isinstance(m, (nn.BatchNorm1d, nn.BatchNorm2d)):
            nn.init.uniform_(m.weight, 0.5, 1.5)
            nn.init.uniform_(m.bias, -0.3, 0.3)
    x = torch.randn(shape)
    with torch.no_grad():
        model.train()
        for _ in range(3 if name != "resnet18" else 1):
            model(torch.randn(8 if name != "resnet18" else 2, *shape[1:]))
    return model.eval(), x
