# SPDX-License-Identifier: Apache-2.0
"""A model on the device against the CPU: outputs, gradients of every parameter, one optimiser step.

What is asked. float32 results differ from one correct machine to the next in the last bits, and a network amplifies
that; how much it does is measured by the CPU itself: its float32 against its float64. The device's float32 must be as
close to float64 as the CPU's float32 is, within a factor of FACTOR (the chip's bound per product, docs/numerics.md 6,
is 2^-21 of the sum of magnitudes; the CPU's is about 2^-23), tensor by tensor, by the 2-norm. A tensor whose CPU
error is luckily small is measured by the model's median. One float32 run is one throw of the dice where ReLUs bend
(regnet, three seeds: the device's error is 2.8, 0.1 and
0.77 times the CPU's); so what is further away is measured again by the largest error of RUNS of the CPU, each with
inputs and parameters moved by up to half a last bit. The optimiser's step has no products: on the same gradients it
must equal the CPU's bit for bit.
"""

import copy
import functools
from collections.abc import Callable
from dataclasses import dataclass, field

import torch
from torch import nn
from torch.utils import _pytree as pytree

FACTOR = 4.0
RUNS = 4
HALF_BIT = 2.0**-24  # relative
FLOOR = 1e-6  # of a tensor's norm


@dataclass
class Result:
    """What one run gave: name -> tensor, on the CPU in float64 (outputs, gradients)."""

    outputs: dict[str, torch.Tensor] = field(default_factory=dict)
    gradients: dict[str, torch.Tensor] = field(default_factory=dict)


def named_floats(prefix: str, tree) -> dict[str, torch.Tensor]:
    """The floating-point tensors of nested outputs."""
    leaves, _ = pytree.tree_flatten_with_path(dict(tree) if hasattr(tree, "keys") else tree)
    return {
        prefix + pytree.keystr(path): leaf.detach().cpu().double()
        for path, leaf in leaves
        if isinstance(leaf, torch.Tensor) and leaf.is_floating_point()
    }


def moved(tree, device=None, dtype=None):
    return pytree.tree_map_only(
        torch.Tensor, lambda t: t.to(device=device, dtype=dtype if t.is_floating_point() else None), tree
    )


def forward(model: nn.Module, inputs, seed: int = 1):
    torch.manual_seed(seed)
    return model(**inputs) if isinstance(inputs, dict) else model(*inputs)


def evaluate(model: nn.Module, inputs) -> Result:
    with torch.inference_mode():
        return Result(outputs=named_floats("output", forward(model.eval(), inputs)))


def train(model: nn.Module, inputs, objective: Callable) -> Result:
    """Forward and backward in training mode; gradients stay in the model too."""
    output = forward(model.train(), inputs)
    objective(output).backward()
    return Result(
        named_floats("output", output),
        {n: p.grad.detach().cpu().double() for n, p in model.named_parameters() if p.grad is not None},
    )


def relative(value: torch.Tensor, exact: torch.Tensor) -> float:
    assert value.shape == exact.shape, (value.shape, exact.shape)
    assert torch.isfinite(value).all() or not torch.isfinite(exact).all()
    return float((value - exact).norm() / exact.norm().clamp_min(1e-30))


def too_far(device: dict, cpus: list[dict], exact: dict) -> list[str]:
    """One line for each tensor that is further from `exact` than FACTOR times the worst of `cpus`."""
    # A gradient that is mathematically zero (a bias before a normalisation) is noise; it is measured against the
    # largest.
    largest = max(float(t.norm() / max(t.numel(), 1) ** 0.5) for t in exact.values())

    def error(value, name):
        scale = exact[name].norm().clamp_min(1e-3 * largest * max(exact[name].numel(), 1) ** 0.5).clamp_min(1e-30)
        relative(value[name], exact[name])
        return float((value[name] - exact[name]).norm() / scale)

    host = {name: max(error(cpu, name) for cpu in cpus) for name in exact}
    median = sorted(host.values())[len(host) // 2]
    worst = [(error(device, n), max(host[n], median), n) for n in device]
    return [f"{n}: {e:.2e} from float64, the CPU {h:.2e}" for e, h, n in worst if e > FACTOR * h + FLOOR]


def assert_close(what: str, device: dict, cpu: dict, exact: dict, more_runs: Callable[[], list[dict]] = list) -> None:
    """more_runs: further results of the CPU's float32, asked for when one is not enough."""
    assert device and device.keys() == cpu.keys() == exact.keys(), (
        f"{what}: {sorted(set(device) ^ set(cpu))} only on one side"
    )
    bad = too_far(device, [cpu], exact)
    if bad:
        bad = too_far(device, [cpu, *more_runs()], exact)
    assert not bad, (
        f"{what}: {len(bad)} of {len(device)} tensors are further from float64 than {FACTOR} times the CPU's float32: "
        + "; ".join(bad[:5])
    )


def nudged(model: nn.Module, inputs, seed: int) -> tuple:
    """Copies of model and inputs, each value moved by up to half of float32's last bit."""
    generator = torch.Generator().manual_seed(seed)

    def nudge(t: torch.Tensor) -> torch.Tensor:
        return (
            t.detach()
            .double()
            .mul(1 + HALF_BIT * (2 * torch.rand(t.shape, generator=generator, dtype=torch.float64) - 1))
            .to(t.dtype)
            if t.is_floating_point()
            else t
        )

    other = copy.deepcopy(model)
    with torch.no_grad():
        for p in other.parameters():
            p.copy_(nudge(p))
            p.grad = None
    return other, pytree.tree_map_only(torch.Tensor, nudge, inputs)


def assert_step_equals(model: nn.Module, device_model: nn.Module) -> None:
    """One SGD step with momentum on the device equals the CPU's on the same gradients and parameters, bit for bit."""
    reference = copy.deepcopy(model)
    with torch.no_grad():
        for p, q in zip(reference.parameters(), device_model.parameters(), strict=True):
            p.copy_(q)
            p.grad = None if q.grad is None else q.grad.cpu()
    for m in (reference, device_model):
        optimizer = torch.optim.SGD(m.parameters(), lr=0.01, momentum=0.9, weight_decay=1e-4)
        optimizer.step()
    for (name, p), q in zip(reference.named_parameters(), device_model.parameters(), strict=True):
        assert torch.equal(p, q.cpu()), f"{name} after the optimiser's step"


def compare(model: nn.Module, inputs, objective: Callable | None) -> None:
    """model in float32 on the CPU; inputs a tuple or dict of tensors. objective: output -> scalar loss; None: forward
    only, in eval mode."""
    device_model, exact_model = copy.deepcopy(model).to("presil"), copy.deepcopy(model).double()
    run = (lambda m, x: train(m, x, objective)) if objective else evaluate
    device, exact, cpu = (
        run(device_model, moved(inputs, "presil")),
        run(exact_model, moved(inputs, dtype=torch.float64)),
        run(model, inputs),
    )
    others = functools.cache(lambda: [run(*nudged(model, inputs, seed)) for seed in range(1, RUNS)])
    assert_close("outputs", device.outputs, cpu.outputs, exact.outputs, lambda: [o.outputs for o in others()])
    if objective:
        assert_close(
            "gradients", device.gradients, cpu.gradients, exact.gradients, lambda: [o.gradients for o in others()]
        )
        assert_step_equals(model, device_model)
