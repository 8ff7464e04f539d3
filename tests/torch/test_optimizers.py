# SPDX-License-Identifier: Apache-2.0
"""foreach and fused optimisers give the CPU's bits, and their state lives on the device."""

import copy

import pytest
import torch
from torch import nn
from torch.optim.optimizer import _default_to_fused_or_foreach

FUSED = {
    "SGD": dict(lr=0.1, momentum=0.9, nesterov=True),
    "Adam": dict(lr=0.01, amsgrad=True, weight_decay=0.1),
    "AdamW": dict(lr=0.01),
    "Adagrad": dict(lr=0.1),
}
FOREACH = {
    **FUSED,
    "RMSprop": dict(centered=True, momentum=0.5),
    "Adadelta": {},
    "Adamax": {},
    "NAdam": {},
    "RAdam": {},
    "ASGD": {},
    "Rprop": {},
}


def trained(device, name, steps=4, **options):
    generator = torch.Generator().manual_seed(3)
    parameters = [
        nn.Parameter(torch.randn(shape, generator=generator).to(device)) for shape in ((5, 4), (7,), (), (3, 2, 2))
    ]
    optimizer = getattr(torch.optim, name)(parameters, **options)
    for _ in range(steps):
        for p in parameters:
            p.grad = torch.randn(p.shape, generator=generator).to(device)
        optimizer.step()
    return parameters, optimizer


def equal(device, host):
    for d, h in zip(device[0], host[0], strict=True):
        assert d.device.type == "presil" and torch.equal(d.detach().cpu(), h.detach())
    for d, h in zip(device[1].state.values(), host[1].state.values(), strict=True):
        for key, value in h.items():
            if isinstance(value, torch.Tensor):
                assert torch.equal(d[key].cpu(), value), key
                assert value.dim() == 0 or d[key].device.type == "presil", key


@pytest.mark.parametrize("name", sorted(FUSED))
def test_fused(name):
    torch.presil.reset_host_operators()
    equal(trained("presil", name, fused=True, **FUSED[name]), trained("cpu", name, fused=True, **FUSED[name]))
    assert torch.presil.host_operators()[f"aten::_fused_{name.lower()}_"]["calls"] == 4


@pytest.mark.parametrize("name", sorted(FOREACH))
def test_foreach(name):
    equal(trained("presil", name, foreach=True, **FOREACH[name]), trained("cpu", name, foreach=True, **FOREACH[name]))


@pytest.mark.parametrize("name", sorted(FOREACH))
def test_one_tensor_at_a_time(name):
    equal(trained("presil", name, foreach=False, **FOREACH[name]), trained("cpu", name, foreach=False, **FOREACH[name]))


def test_foreach_is_the_default_as_on_other_accelerators():
    _, optimizer = trained("presil", "Adam", steps=0, lr=0.1)
    assert optimizer.defaults["foreach"] is None and optimizer.defaults["fused"] is None
    assert _default_to_fused_or_foreach(optimizer.param_groups[0]["params"], False, False) == (False, True)


def test_state_moves_with_load_state_dict():
    parameters, optimizer = trained("cpu", "Adam", lr=0.1)
    copies = [nn.Parameter(p.detach().to("presil")) for p in parameters]
    moved = torch.optim.Adam(copies, lr=0.1)
    moved.load_state_dict(copy.deepcopy(optimizer.state_dict()))  # its step counters would be shared
    assert moved.state[copies[0]]["exp_avg"].device.type == "presil"
    for p, c in zip(parameters, copies):
        p.grad = torch.ones_like(p)
        c.grad = torch.ones_like(c)
    optimizer.step(), moved.step()
    for p, c in zip(parameters, copies):
        assert torch.equal(c.detach().cpu(), p.detach())


def test_clipping_and_swa():
    parameters, _ = trained("cpu", "SGD", lr=0.1)
    on_device, _ = trained("presil", "SGD", lr=0.1)
    expected, got = nn.utils.clip_grad_norm_(parameters, 0.5), nn.utils.clip_grad_norm_(on_device, 0.5)
    torch.testing.assert_close(got.cpu(), expected)
    for p, d in zip(parameters, on_device):
        torch.testing.assert_close(d.grad.cpu(), p.grad)
    model = nn.Linear(3, 2).to("presil")
    average = torch.optim.swa_utils.AveragedModel(model)
    average.update_parameters(model)
    assert torch.equal(average.module.weight, model.weight)
