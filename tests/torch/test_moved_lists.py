# SPDX-License-Identifier: Apache-2.0
"""A partition is recorded once: where tensors lie elsewhere its list is moved, with the same bits; where weights do, it
is not."""

import pytest
import torch
from torch import nn

from torch_presil.compiler import backend, partition


pytestmark = pytest.mark.usefixtures("fresh_graphs")


def net() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(4, 8, 3, 2, 1),
        nn.ReLU(),
        nn.Conv2d(8, 8, 3, padding=2, dilation=2, groups=2),
        nn.ConvTranspose2d(8, 4, 3, 2, 1, output_padding=1),
        nn.Flatten(),
        nn.Linear(4 * 10 * 10, 3),
    )


def train(model, steps):
    """All gradients of each step. What is kept from one step to the next lets nothing lie where it did."""
    compiled, found, kept = torch.compile(model, backend="presil"), [], []
    for step in range(steps):
        kept.append(torch.empty(3000 * (step + 1), device="presil"))
        x = torch.randn(2, 4, 10, 10, generator=torch.Generator().manual_seed(step))
        x = x.to("presil", model[0].weight.dtype).requires_grad_()
        model.zero_grad()
        compiled(x).square().sum().backward()
        kept.append([p.grad for p in model.parameters()])
        found += [x.grad.cpu(), *(p.grad.cpu() for p in model.parameters())]
    return found


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_gradients_are_recorded_once(dtype, monkeypatch):
    model = net().to("presil", dtype)
    got = train(model, 5)
    assert all(t.abs().max() > 0 for t in got)
    forward, backward = backend.graphs
    assert backward.recordings == backward.partitions > 0 and backward.moved == 4 * backward.partitions
    assert forward.recordings == forward.partitions and forward.moved == 4 * forward.partitions
    monkeypatch.setattr(partition.ChipPartition, "_moved", lambda *_: None)
    torch._dynamo.reset()
    expected = train(model, 5)
    assert backend.graphs[3].recordings > backward.recordings
    assert all(map(torch.equal, got, expected))


def test_results_that_are_kept_are_other_ones():
    model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 8)).to("presil")
    compiled = torch.compile(model, backend="presil")
    inputs = [torch.randn(4, 8, device="presil") for _ in range(20)]
    with torch.no_grad():
        results = [compiled(x) for x in inputs]
        assert all(torch.equal(y, model(x)) for x, y in zip(inputs, results))
    (graph,) = backend.graphs
    assert (graph.recordings, graph.moved, graph.launches) == (1, 19, 20)


@pytest.mark.parametrize("name", ["weight", "bias"])
def test_other_weights_are_recorded(name):
    model = nn.Conv2d(4, 4, 3, padding=1).to("presil")
    compiled = torch.compile(model, backend="presil")
    kept = []
    with torch.no_grad():
        for step in range(3):
            x = torch.randn(1, 4, 6, 6, device="presil")
            kept += [x, compiled(x)]
            assert torch.equal(kept[-1], model(x))
            kept.append(getattr(model, name).data)
            getattr(model, name).data = torch.randn_like(kept[-1])
    assert sum(g.recordings for g in backend.graphs) == 3
