# SPDX-License-Identifier: Apache-2.0
"""PyTorch's optimiser database on the device beside the CPU: every input of every entry, one parameter at a time,
foreach, fused and capturable.

The first three are bit-equal to the CPU's same form (around the chip's own products, where an optimiser multiplies
matrices: parity/products.py). The capturable form doesn't exist on the CPU: its parameters are held to the CPU's
plain form in float64, no further from it than eight times the CPU's float32 runs with parameters and gradients moved
by their last bit (parity/products.py, no_worse).
"""

import contextlib
import copy
import os
from pathlib import Path

import pytest
import torch
import torch_presil  # noqa: F401
from parity import compare, databases
from parity.products import Launches, explain, no_worse, nudged
from torch.testing._internal.common_optimizers import optim_db

SEED = int(os.environ.get("PRESIL_SEED", "0"))
FORMS = {
    "forloop": {"foreach": False},
    "foreach": {"foreach": True},
    "fused": {"fused": True},
    "capturable": {"capturable": True},
}
STEPS = 4
NUDGES = 4
NUMBERS = {"step", "eta", "mu", "mu_product", "t"}  # of the schedule: on the CPU unless capturable
ENTRIES = {info.optim_cls.__name__: info for info in optim_db}
COUNTED = (15, 192)  # entries, and runs of their inputs in every form


def supported(info, form):
    return form == "forloop" or form in info.supported_impls and (form != "fused" or "cpu" in info.supports_fused_on)


def trained(info, case, device, form, dtype=torch.float32, nudge=None):
    """Parameters and state after some steps with seeded gradients, from the same start. nudge: a generator that moves
    both by a unit of their last place."""
    generator = torch.Generator().manual_seed(SEED)

    def made(shape):
        value = torch.randn(shape, generator=generator).to(dtype)
        return (nudged(value, nudge) if nudge else value).to(device)

    shapes = (
        [(5, 4)]
        if info.optim_cls.__name__ == "Muon"
        else [(5, 4), (5,)]
        if info.only_supports_sparse_grads
        else [(5, 4), (5,), ()]
    )
    parameters = [torch.nn.Parameter(made(s)) for s in shapes]
    kwargs = copy.deepcopy(case.kwargs)
    if form != "forloop" or "foreach" in info.supported_impls:
        kwargs.update(FORMS[form])
    if form == "capturable" and isinstance(kwargs.get("lr"), torch.Tensor):
        kwargs["lr"] = kwargs["lr"].to(device)
    optimizer = info.optim_cls(parameters, **kwargs)
    for _ in range(STEPS):
        gradients = [made(s) for s in shapes]
        if info.only_supports_sparse_grads:
            gradients = [g.to_sparse() for g in gradients]

        def closure():
            for p, g in zip(parameters, gradients):
                p.grad = g.clone()
            return sum((p * p.grad).sum() for p in parameters)

        closure()
        optimizer.step(closure if info.step_requires_closure else None)
    state = [
        {k: v for k, v in optimizer.state[p].items() if isinstance(v, torch.Tensor) and k not in NUMBERS}
        for p in parameters
    ]
    return [p.detach() for p in parameters], [s[k] for s in state for k in sorted(s)]


def difference(info, case, form, launches):
    def run(device, context=contextlib.nullcontext()):
        with context:
            return trained(info, case, device, "forloop" if form == "capturable" and device == "cpu" else form)

    def compared(got, reference, launched):
        if form == "capturable":
            nudge = torch.Generator().manual_seed(SEED)
            return no_worse(
                [reference[0]] + [trained(info, case, "cpu", "forloop", nudge=nudge)[0] for _ in range(NUDGES)],
                trained(info, case, "cpu", "forloop", torch.float64)[0],
                got[0],
                "presil",
                "not the CPU's plain form",
            )
        return (
            explain(lambda context: run("cpu", context), launches, got, "presil")
            if launched
            else compare.trees(got, reference, "presil", False)
        )

    return databases.difference(run, launches, compared)


@pytest.fixture(scope="module")
def answers():
    print(f"\nseed {SEED}")
    found = []
    with Launches() as launches:
        for name, info in ENTRIES.items():
            answer = databases.answer_for(name, "float32")
            for form in FORMS:
                if not supported(info, form):
                    continue
                for index, case in enumerate(info.optim_inputs_func(device="cpu")):
                    named = any(f in case.kwargs for f in ("foreach", "fused", "capturable", "differentiable"))
                    if (form == "forloop" or not named) and databases.chosen(answer, index):
                        databases.note(answer, form, index, difference(info, case, form, launches))
            found.append(answer)
    return found


def test_every_entry_and_input_is_there(answers):
    databases.assert_counted(answers, "optimisers", COUNTED)


def test_what_fails_is_what_is_expected(answers):
    databases.assert_as_expected(answers, Path(__file__).with_name("expected_optimizers.toml"), SEED)
