# SPDX-License-Identifier: Apache-2.0
"""40 networks of torchvision quantized by PT2E: every code of every layer, and the result, equal the integer
reference's on the CPU and on the device; and how many operators fall to float32 between quantized layers. Stage
`nightly-pt2e`. PRESIL_UPDATE_DOCS=1 writes their table in docs/pt2e.md."""

import os
import re
from collections import Counter
from pathlib import Path

import pytest
import torch
from flow import compare, converted, settled
from torchvision import models

PAGE = Path(__file__).resolve().parents[2] / "docs" / "pt2e.md"
START, END = "<!-- networks -->\n", "<!-- networks: end -->\n"
SIDES = {"alexnet": 224, "vgg11": 224, "inception_v3": 80}  # else 64
NETWORKS = """
    alexnet convnext_tiny densenet121 efficientnet_b0 efficientnet_b1 efficientnet_b2 efficientnet_v2_s googlenet
    inception_v3 mnasnet0_5 mnasnet0_75 mnasnet1_0 mnasnet1_3 mobilenet_v2 mobilenet_v3_large mobilenet_v3_small
    regnet_x_400mf regnet_x_800mf regnet_x_1_6gf regnet_x_3_2gf regnet_y_400mf regnet_y_800mf regnet_y_1_6gf
    regnet_y_3_2gf resnet18 resnet34 resnet50 resnet101 resnext50_32x4d shufflenet_v2_x0_5 shufflenet_v2_x1_0
    shufflenet_v2_x1_5 shufflenet_v2_x2_0 squeezenet1_0 squeezenet1_1 vgg11 vgg11_bn vgg13 vgg16_bn wide_resnet50_2
""".split()


def made(name: str) -> torch.nn.Module:
    if name not in ("googlenet", "inception_v3"):
        return models.get_model(name, num_classes=10)
    return models.get_model(name, num_classes=10, init_weights=False, aux_logits=False)


@pytest.fixture(scope="module")
def rows():
    """Those of this run; they take the place of the page's."""
    collected = {}
    yield collected
    if not os.environ.get("PRESIL_UPDATE_DOCS"):
        return
    before, rest = PAGE.read_text().split(START)
    old, behind = rest.split(END)
    known = dict(re.findall(r"^\| (\w+) \| (.*) \|$", old, re.M)) | collected
    table = "".join(f"| {name} | {known[name]} |\n" for name in NETWORKS if name in known)
    head = "| network | launches | operators in float32 between quantized ones |\n|---|---:|---|\n"
    PAGE.write_text(before + START + head + table + END + behind)


@pytest.mark.parametrize("name", NETWORKS)
def test_every_code(name, rows):
    side = SIDES.get(name, 64)
    inputs = (torch.randn(1 if side == 224 else 2, 3, side, side),)
    model = made(name)
    lowered = compare(converted(settled(model, *inputs), inputs), inputs, 1)
    report = lowered.report()
    floats = Counter(row["operator"].split(".")[1] for row in report.floats_between)
    said = ", ".join(f"{count} {operator}" for operator, count in sorted(floats.items())) or "none"
    rows[name] = f"{report.launches_count()} | {said}"
    print(f"{name}: {report.launches_count()} launches, in float32 between: {said}")
