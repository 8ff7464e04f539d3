# SPDX-License-Identifier: Apache-2.0
"""Seeds, states and generators: the CPU's numbers for the same seed."""

import torch

P = torch.presil


def test_seed_state_and_fork():
    torch.manual_seed(11)
    expected = torch.randn(5)
    P.manual_seed(11)
    state = P.get_rng_state()
    assert P.initial_seed() == 11 and state.dtype == torch.uint8 and state.device.type == "cpu"
    first = torch.randn(5, device="presil")
    assert torch.equal(first.cpu(), expected)
    P.set_rng_state(state)
    assert torch.equal(torch.randn(5, device="presil"), first)
    with torch.random.fork_rng(device_type="presil"):
        P.manual_seed(99)
        torch.rand(3, device="presil")
    P.set_rng_state_all(P.get_rng_state_all())
    after = torch.randn(5, device="presil")
    torch.manual_seed(11)
    torch.randn(5)
    assert torch.equal(after.cpu(), torch.randn(5))


def test_torch_manual_seed_seeds_the_device():
    torch.manual_seed(5)
    a = torch.rand(4, device="presil")
    torch.manual_seed(5)
    assert torch.equal(torch.rand(4, device="presil"), a)
    assert P.seed() != 5 and P.initial_seed() != 5
    P.seed_all()


def test_generators():
    g = torch.Generator(device="presil").manual_seed(3)
    c = torch.Generator().manual_seed(3)
    assert g.device == torch.device("presil:0")
    assert torch.equal(torch.randperm(20, generator=g, device="presil").cpu(), torch.randperm(20, generator=c))
    assert torch.equal(
        torch.empty(6, device="presil").exponential_(generator=g).cpu(), torch.empty(6).exponential_(generator=c)
    )
    twin = g.clone_state()
    assert torch.equal(torch.rand(3, generator=g, device="presil"), torch.rand(3, generator=twin, device="presil"))
    assert P.default_generators[0].device == g.device


def test_dropout_and_the_cpu_do_not_disturb_each_other():
    P.manual_seed(1), torch.default_generator.manual_seed(1)
    expected = torch.nn.functional.dropout(torch.ones(100), 0.3)
    cpu_state = torch.get_rng_state()
    got = torch.nn.functional.dropout(torch.ones(100, device="presil"), 0.3)
    assert torch.equal(got.cpu(), expected)
    assert torch.equal(torch.get_rng_state(), cpu_state), "the CPU's generator stood still"
