# SPDX-License-Identifier: Apache-2.0
"""fuse(): a residual is read where the layer stands, so it is fused only if nothing writes it until the add, and an add
in place only if nobody looks at what it writes."""

import operator
import random

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch_presil import _C
from torch_presil.compiler.rules.clamp import CLAMPS
from torch_presil.fuse import fuse
from torch_presil.fused_layer import fused_layers


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


class Normed(nn.Module):
    """A layer with batch-norm behind it; as often as called."""

    def __init__(self, layer, norm, times=1):
        super().__init__()
        self.layer, self.norm, self.times = layer, norm, times
        nn.init.uniform_(norm.running_mean, -0.5, 0.5)
        nn.init.uniform_(norm.running_var, 0.3, 2)

    def forward(self, x):
        y = self.norm(self.layer(x))
        for _ in range(self.times - 1):
            y = y + self.layer(x)
        return y


NORMS = {
    "convolution": (lambda: Normed(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4)), (2, 3, 6, 5), True),
    "no affine": (lambda: Normed(nn.Linear(3, 4), nn.BatchNorm1d(4, affine=False)), (2, 3), True),
    "rows": (lambda: Normed(nn.Linear(3, 4), nn.BatchNorm1d(4)), (5, 3), True),
    "used twice": (lambda: Normed(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), 2), (2, 3, 6, 5), False),
    "of another dimension": (lambda: Normed(nn.Linear(3, 4), nn.BatchNorm1d(4)), (5, 4, 3), False),
    "of another dimension, 4-D": (lambda: Normed(nn.Linear(3, 4), nn.BatchNorm2d(4)), (5, 4, 4, 3), False),
    "one image": (lambda: Normed(nn.Conv2d(3, 4, 3), nn.BatchNorm1d(4)), (3, 6, 5), False),
}


@pytest.mark.parametrize("make, shape, folds", NORMS.values(), ids=NORMS)
def test_a_norm_is_folded_where_its_channels_are_the_layers(make, shape, folds):
    torch.manual_seed(0)
    model, x = make().eval(), torch.randn(shape)
    fused = fuse(model, x)
    assert any(isinstance(m, nn.modules.batchnorm._BatchNorm) for m in fused.modules()) is not folds
    with torch.no_grad():
        torch.testing.assert_close(fused(x), model(x), rtol=1e-5, atol=1e-5)


def clamped_by_an_argument(m, x):
    return torch.clamp(m.a(x), min=x[:, :1])


def written_elsewhere(m, x):
    y = m.a(x)
    out = torch.zeros_like(x)
    torch.clamp(y, 0, 6, out=out)
    return out * 2


def wide(m, x):
    return F.hardtanh(m.a(x), -1, 1, True)


@pytest.mark.parametrize("forward", [clamped_by_an_argument, written_elsewhere, wide], ids=lambda f: f.__name__)
def test_what_is_not_folded_stays_as_it_was_traced(forward):
    torch.manual_seed(0)
    model, x = Block(forward).eval(), torch.randn(2, 4, 6, 6)
    fused, traced = fuse(model, x), torch.fx.symbolic_trace(model)
    said = lambda gm: [(n.op, n.target, str(n.args), n.kwargs.keys()) for n in gm.graph.nodes]
    assert said(fused) == said(traced)
    assert not any("val" in n.meta for n in fused.graph.nodes)
    with torch.no_grad():
        torch.testing.assert_close(fused(x), model(x))


@pytest.mark.parametrize("name", _C.CLAMPS)
def test_every_compiler_has_one_table_of_what_clamps(name):
    low, high = _C.CLAMPS[name]
    overload = getattr(torch.ops.aten, name).default
    assert CLAMPS[overload] == CLAMPS[getattr(torch.ops.aten, f"{name}_").default] == (low, high)
    bounds = [a.name.partition("_")[0] for a in overload._schema.arguments[1:]]  # how C++ tells which is which
    assert set(bounds) <= {"min", "max"} and bool(bounds) is ((low, high) == (None, None))
    x, w = 9 * torch.randn(7, 5), torch.randn(4, 5)
    for layer in (torch.ops.presil.linear_layer, lambda *a: torch.ops.presil.linear(*a[:5]).cpu()):
        on = "cpu" if layer is torch.ops.presil.linear_layer else "presil"
        if bounds:
            with pytest.raises(ValueError, match="activation must be 'none', 'relu' or 'relu6', got"):
                layer(x.to(on), w.to(on), None, None, name)
        else:
            got = layer(x.to(on), w.to(on), None, None, name)
            torch.testing.assert_close(got, F.linear(x, w).clamp(low, high), rtol=1e-4, atol=1e-4)


class Drawn(nn.Module):
    """Steps drawn by a seed: layers, norms, additions, clamps, views and writes, of values that others have, too."""

    CLAMPS = [F.relu, F.relu6, lambda t: F.relu(t, True), lambda t: t.relu_(), lambda t: t.clamp(min=0)]
    CLAMPS += [lambda t: t.clamp_(0, 6), lambda t: F.hardtanh(t, 0, 6, True), lambda t: torch.clamp(t, max=2)]
    ADDS = [torch.add, operator.iadd, lambda a, b: a.add_(b), lambda a, b: torch.add(a, b, alpha=2)]
    OTHERS = [lambda t: t.view(t.shape), lambda t: t[:], lambda t: t.contiguous(), lambda t: t.mul_(0.5)]

    def __init__(self, seed):
        super().__init__()
        self.seed = seed
        self.layers = nn.ModuleList(nn.Conv2d(3, 3, 3, padding=1) for _ in range(5))
        self.norms = nn.ModuleList(nn.BatchNorm2d(3) for _ in range(3))
        self.clamps = nn.ModuleList([nn.ReLU(), nn.ReLU(inplace=True), nn.Hardtanh(-0.5, 0.5), nn.ReLU6(inplace=True)])
        for norm in self.norms:
            nn.init.uniform_(norm.running_var, 0.5, 2)
            nn.init.uniform_(norm.weight, -2, 2)

    def forward(self, x):
        drawn, values = random.Random(self.seed), [x]
        steps = (*[self.layers] * 4, *[self.norms] * 2, *[self.ADDS] * 4, self.CLAMPS, self.clamps, self.OTHERS)
        for _ in range(drawn.randint(3, 14)):
            step = drawn.choice(steps)
            operands = [drawn.choice(values[-3:]) for _ in range(2 if step is self.ADDS else 1)]
            values.append(drawn.choice(list(step))(*operands))
        return tuple(values[-drawn.randint(1, 3) :])


def test_whatever_is_drawn_is_computed_alike():
    folded, wrong = 0, []
    for seed in range(150):
        torch.manual_seed(seed)
        model, x = Drawn(seed).eval(), torch.randn(2, 3, 4, 4)
        fused = fuse(model, x)
        folded += sum(layer.has_residual or layer.activation != "none" for layer in fused_layers(fused).values())
        with torch.no_grad():
            a, b = x.clone(), x.clone()
            for e, y in zip((*model(a), a), (*fused(b), b), strict=True):
                if not (y - e).abs().max() <= 1e-4 * max(1.0, e.abs().max()):
                    wrong.append(seed)
    assert not wrong and folded > 10
