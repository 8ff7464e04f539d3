# SPDX-License-Identifier: Apache-2.0
"""fuse(): a residual is read where the layer stands, so it is fused only if nothing writes it until the add, and an add
in place only if nobody looks at what it writes."""

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch_presil.fuse import fuse, fused_layers


class Block(nn.Module):
    def __init__(self, forward):
        super().__init__()
        self.a, self.b = (nn.Conv2d(4, 4, 3, padding=1) for _ in range(2))
        self.relu = nn.ReLU(inplace=True)
        self.compute = forward

    def forward(self, x):
        return self.compute(self, x)


def written_between(m, x):
    y, z = m.a(x), m.b(x)
    y.mul_(2)
    return z + y


def written_through_a_view(m, x):
    y, z = m.a(x), m.b(x)
    y[0].add_(1)
    return z + y


def written_by_a_module(m, x):
    y = m.a(x)
    z = m.b(x)
    m.relu(y)
    return z + y


def written_by_an_argument(m, x):
    y, z = m.a(x), m.b(x)
    torch.mul(y, 3, out=y)
    return y + z


def added_in_place_and_used(m, x):
    y = torch.tanh(x)
    r = m.a(x)
    z = y
    z += r
    return y * 2 + z


def added_in_place_and_used_by_a_view(m, x):
    y = torch.tanh(x)
    view = y.view(x.shape[0], -1)
    r = m.a(x)
    y += r
    return view.sum() + y


def added_to_the_input(m, x):
    r = m.a(x)
    x += r
    return m.b(x)


# What was fused before stays fused: torchvision's blocks.
def residual(m, x):
    y = m.relu(m.a(x))
    z = m.b(y)
    z += x
    return m.relu(z)


def two_layers(m, x):
    y = m.a(x)
    z = m.b(x)
    y += z
    return F.relu(y)


def twice(m, x):
    y = m.a(x) + x
    return m.b(y) + y


REFUSED = [
    written_between,
    written_through_a_view,
    written_by_a_module,
    written_by_an_argument,
    added_in_place_and_used,
    added_in_place_and_used_by_a_view,
    added_to_the_input,
]
FUSED = {residual: 1, two_layers: 1, twice: 2}


@pytest.mark.parametrize("forward", [*REFUSED, *FUSED], ids=lambda f: f.__name__)
def test_the_fused_model_computes_what_the_model_computes(forward):
    torch.manual_seed(0)
    model, x = Block(forward).eval(), torch.randn(2, 4, 6, 6)
    given = x.clone()
    fused = fuse(model, given)
    assert torch.equal(given, x), "the example is not written"
    with torch.no_grad():
        a, b, c = x.clone(), x.clone(), x.to("presil")
        expected = model(a)
        torch.testing.assert_close(fused(b), expected, rtol=1e-5, atol=1e-5)
        torch.testing.assert_close(fused.to("presil")(c).cpu(), expected, rtol=1e-4, atol=1e-4)
        assert torch.allclose(a, b, atol=1e-5) and torch.allclose(a, c.cpu(), atol=1e-4), "the input is written alike"
    assert sum(layer.has_residual for layer in fused_layers(fused).values()) == FUSED.get(forward, 0)
