# SPDX-License-Identifier: Apache-2.0
"""The smallest model of each of torchvision's 17 classification families: inference at its own size, a training step
of smaller images; at its own size that is for the night."""

import pytest
import torch
from compare import compare
from torch import nn
from torchvision import models

# family -> its smallest model by parameters, input size
FAMILIES = {
    "alexnet": ("alexnet", 224),
    "convnext": ("convnext_tiny", 224),
    "densenet": ("densenet121", 224),
    "efficientnet": ("efficientnet_b0", 224),
    "googlenet": ("googlenet", 224),
    "inception": ("inception_v3", 299),
    "maxvit": ("maxvit_t", 224),
    "mnasnet": ("mnasnet0_5", 224),
    "mobilenetv2": ("mobilenet_v2", 224),
    "mobilenetv3": ("mobilenet_v3_small", 224),
    "regnet": ("regnet_y_400mf", 224),
    "resnet": ("resnet18", 224),
    "shufflenetv2": ("shufflenet_v2_x0_5", 224),
    "squeezenet": ("squeezenet1_1", 224),
    "swin_transformer": ("swin_t", 224),
    "vgg": ("vgg11", 224),
    "vision_transformer": ("vit_b_16", 224),
}

# The operators are the same, the products a third. (swin_t's windows are padded either way.)
SMALL = 128
# Half a minute and more each for a training step, or of one size alone.
LONG = {"convnext", "densenet", "inception", "maxvit", "vgg", "vision_transformer"}
# Of those that take no statistics of a batch the two that train longest.
ONE_IMAGE = ("convnext", "vgg")


def classifier(name: str) -> nn.Module:
    own_init = {"init_weights": True} if name in ("googlenet", "inception_v3") else {}
    return models.get_model(name, **own_init)


def loss_of(output):
    """Cross-entropy, auxiliary classifiers included."""
    heads = output if isinstance(output, tuple) else (output,)
    target = torch.tensor([3, 7], device=heads[0].device)[: heads[0].shape[0]]
    return sum(nn.functional.cross_entropy(h, target) for h in heads if h is not None)


def test_every_family_is_here():
    modules = {models.get_model_builder(n).__module__.rsplit(".", 1)[1] for n in models.list_models(module=models)}
    assert modules == set(FAMILIES) and len(modules) == 17 and len(models.list_models(module=models)) == 80


def train(family: str, size: int) -> None:
    batch = 1 if family in ONE_IMAGE else 2
    compare(classifier(FAMILIES[family][0]), (torch.randn(batch, 3, size, size),), loss_of)


@pytest.mark.parametrize("family", [family for family in FAMILIES if family not in LONG])
def test_family_trains_like_on_the_cpu(family):
    train(family, SMALL)


@pytest.mark.nightly
@pytest.mark.parametrize("family", FAMILIES)
def test_family_trains_at_its_own_size(family):
    train(family, FAMILIES[family][1])


@pytest.mark.parametrize("family", FAMILIES)
def test_family_infers_like_on_the_cpu(family):
    name, size = FAMILIES[family]
    compare(classifier(name), (torch.randn(1, 3, size, size),), None)
