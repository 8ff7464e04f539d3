# SPDX-License-Identifier: Apache-2.0
"""What follows a layer, in every order: each compiler folds what the chip does in that order, and nothing else."""

import itertools

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from test_aot import presil_run, save_array
from test_jit import launches
from torch import nn

from torch_presil.fuse import fuse
from torch_presil.quantize import quantize

pytestmark = pytest.mark.filterwarnings("ignore:.*torch.jit.*:DeprecationWarning")
STEPS = {
    "relu": F.relu,
    "relu6": F.relu6,
    "clamp": lambda x: F.hardtanh(x, -0.25, 0.5),
    "add": None,  # of another layer's result
    "norm": None,
}


class Chain(nn.Module):
    """A layer, then the steps."""

    def __init__(self, layer, other, steps):
        super().__init__()
        self.layer, self.other, self.steps = layer, other, steps
        self.norms = nn.ModuleList(nn.BatchNorm2d(6) for s in steps if s == "norm")
        for norm in self.norms:
            nn.init.uniform_(norm.running_mean, -0.5, 0.5)
            nn.init.uniform_(norm.running_var, 0.3, 2)
            nn.init.uniform_(norm.weight, -2, 2)
            nn.init.uniform_(norm.bias, -1, 1)

    def forward(self, x):
        y, norms = self.layer(x), iter(self.norms)
        for step in self.steps:
            y = next(norms)(y) if step == "norm" else y + self.other(x) if step == "add" else STEPS[step](y)
        return y


class Chains(nn.Module):
    def __init__(self, layer, names):
        super().__init__()
        orders = [o for n in (1, 2, 3) for o in itertools.product(names, repeat=n)]
        self.chains = nn.ModuleDict({" ".join(o): Chain(layer(), layer(), o) for o in orders})

    def forward(self, x):
        return tuple(chain(x) for chain in self.chains.values())


def convolutions():
    return Chains(lambda: nn.Conv2d(3, 6, 3), ["relu", "clamp", "add", "norm"]).eval(), torch.randn(2, 3, 6, 5)


def linear_layers():
    return Chains(lambda: nn.Linear(7, 6), ["relu", "relu6", "clamp", "add"]).eval(), torch.randn(5, 7)


def same(chains, got, expected, tolerance=2e-6):
    wrong = []
    for name, y, e in zip(chains, got, expected, strict=True):
        off = (y.cpu().float() - e).abs().max().item()
        if not off <= tolerance * max(1.0, e.abs().max().item()):
            wrong.append(f"{name}: off by {off:.3g}")
    assert not wrong, f"{len(wrong)} of {len(chains)}: {'; '.join(wrong[:8])}"


def compiled(model, x):
    return torch.compile(model.to("presil"))(x.to("presil"))


def traced_by_fx(model, x):
    return fuse(model, x).to("presil")(x.to("presil"))


def eager(model, x):
    return model.to("presil")(x.to("presil"))


def jit(model, x):
    lowered = torch._C._jit_to_backend("presil", torch.jit.trace(model, x), {"forward": ""})
    return lowered(x.to("presil"))


@pytest.mark.parametrize("way", [eager, compiled, traced_by_fx, jit])
@pytest.mark.parametrize("make", [convolutions, linear_layers])
def test_orders(make, way):
    model, x = make()
    with torch.no_grad():
        expected = model(x)
        same(model.chains, way(model, x), expected)


@pytest.mark.parametrize("make", [convolutions, linear_layers])
def test_orders_ahead_of_time(tmp_path, make):
    model, x = make()
    with torch.no_grad():
        expected = model(x)
    torch.presil.aot_save(torch.export.export(model, (x,)), tmp_path / "model.paot")
    outputs = [tmp_path / f"{i}.npy" for i in range(len(expected))]
    presil_run("--mode", "model", tmp_path / "model.paot", save_array(tmp_path / "in.npy", x), *outputs)
    same(model.chains, [torch.from_numpy(np.load(o)) for o in outputs], expected)


@pytest.mark.parametrize("make", [convolutions, linear_layers])
def test_orders_of_a_quantized_model(make):
    """Against its own codes on the CPU; near the floats' results, which a wrong order is not."""
    model, x = make()
    with torch.no_grad():
        expected = model(x)
        q = quantize(fuse(model, x), [x])
        same(model.chains, q.to("presil")(x.to("presil")), expected, 0.12)


ACTIVATIONS = {
    "relu": F.relu,
    "relu6": F.relu6,
    "hardtanh": lambda x: F.hardtanh(x, 0, 6),
    "hardtanh in place": lambda x: F.hardtanh_(x, 0.0, 6.0),
    "Hardtanh": nn.Hardtanh(0, 6),
    "ReLU6": nn.ReLU6(inplace=True),
    "clamp from below": lambda x: x.clamp(min=0),
    "clamp on both sides": lambda x: torch.clamp(x, 0, 6),
    "clamp, high alone by name": lambda x: x.clamp(0.0, max=6),
    "clamp_min": lambda x: torch.clamp_min(x, 0),
}


class Activated(nn.Module):
    def __init__(self, activation):
        super().__init__()
        self.layer, self.activation = nn.Linear(7, 6), activation

    def forward(self, x):
        return self.activation(self.layer(x))


def ready(way, model, x):
    """What runs it by this way, without what that does once."""
    if way is traced_by_fx:
        return fuse(model, x).to("presil")
    if way is jit:
        return torch._C._jit_to_backend("presil", torch.jit.trace(model, x), {"forward": ""})
    torch._dynamo.reset()  # it compiles one forward() a few times only
    compiled = torch.compile(model.to("presil"))
    compiled(x.to("presil"))
    return compiled


@pytest.mark.parametrize("way", [compiled, traced_by_fx, jit])
@pytest.mark.parametrize("activation", ACTIVATIONS.values(), ids=ACTIVATIONS)
def test_activations_are_one_launch_with_their_layer(activation, way):
    model, x = Activated(activation).eval(), 20 * torch.randn(5, 7)
    with torch.no_grad():
        expected, run = model(x), ready(way, model, x)
        got, given = [], x.to("presil")
        labels, host = launches(lambda: got.append(run(given)))
    torch.testing.assert_close(got[0].cpu(), expected, rtol=1e-5, atol=1e-4)
    assert (len(labels), host) == (1, set())
