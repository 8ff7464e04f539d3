# SPDX-License-Identifier: Apache-2.0
"""PyTorch's module database on the device beside the CPU: every input of every entry in float32 and float64, forward
and backward, in training and evaluation.

Compared are outputs, gradients of inputs and parameters, and buffers (running statistics). Without launches: every
bit. With launches: the CPU's run around the device's own products, each of which must lie within its bound
(parity/products.py). Recurrent modules have no run to compare bits with: PyTorch takes its fused cells on every
device but the CPU, which adds gates in another order. They are held to the float64 result, no further from it than
eight times the CPU's runs with operands moved by their last bit (parity/products.py, no_worse): a bound that float64
has too, and that does not hang on how the host's library rounds. Attention is taken apart on the CPU as on the
device. The fused layers of transformers in evaluation are off here on both sides, because the CPU's are another
algorithm; tests/torch/test_attention.py has them.
"""

import contextlib
import copy
import os
from pathlib import Path

import pytest
import torch
import torch_presil  # noqa: F401
from parity import checks, compare, databases
from parity.products import Launches, explain, no_worse, nudged
from torch.testing._internal.common_modules import module_db
from torch.utils._pytree import tree_flatten, tree_map

SEED = int(os.environ.get("PRESIL_SEED", "0"))
DTYPES = {"float32": torch.float32, "float64": torch.float64}
NUDGES = 4
OTHER_BITS = ("nn.RNN", "nn.LSTM", "nn.GRU")
ENTRIES = {info.name: info for info in module_db}
COUNTED = (114, 7236)  # entries, and runs of their inputs in both types and both modes


def result(info, case, device, dtype, training, nudge=None):
    """Outputs, gradients and buffers of one module, made and seeded on the CPU. nudge: a generator that moves operands
    and parameters by a unit of their last place."""
    constructor, arguments = copy.deepcopy((case.constructor_input, case.forward_input))
    torch.manual_seed(SEED)
    module = info.module_cls(*constructor.args, **constructor.kwargs).to(dtype)
    if nudge:
        for p in module.parameters():
            p.data = nudged(p.data, nudge)
    module = module.to(device).train(training)

    def move(value):
        if not isinstance(value, torch.Tensor):
            return value
        wide = value.detach().to(dtype) if value.is_floating_point() else value.detach()
        wide = nudged(wide, nudge) if nudge else wide
        return wide.to(device, copy=True).requires_grad_(value.requires_grad)

    args, kwargs = tree_map(move, (arguments.args, arguments.kwargs))
    torch.manual_seed(SEED)
    outputs = [t for t in tree_flatten(module(*args, **kwargs))[0] if isinstance(t, torch.Tensor)]
    differentiable = [t for t in outputs if t.requires_grad]
    generator = torch.Generator().manual_seed(SEED)
    if differentiable:
        torch.autograd.backward(
            differentiable, [torch.randn(t.shape, generator=generator).to(t) for t in differentiable]
        )
    leaves = [t for t in tree_flatten((args, kwargs))[0] if isinstance(t, torch.Tensor) and t.requires_grad] + list(
        module.parameters()
    )
    return [t.detach() for t in outputs], [t.grad for t in leaves], [b.detach() for b in module.buffers()]


def difference(info, case, dtype, training, launches):
    def run(device, context=contextlib.nullcontext(), dtype=dtype, nudge=None):
        with context:
            return result(info, case, device, dtype, training, nudge)

    def wide():
        return run("cpu", dtype=torch.float64)

    def runs():
        generator = torch.Generator().manual_seed(SEED)
        return [run("cpu")] + [run("cpu", nudge=generator) for _ in range(NUDGES)]

    def compared(got, reference, launched):
        if info.name.startswith(OTHER_BITS):
            return no_worse(runs(), wide(), got, "presil", "other bits than the CPU's")
        if launched:
            return explain(
                lambda context: run("cpu", context),
                launches,
                got,
                "presil",
                lambda context: run("presil", context),
                runs,
                wide,
            )
        return compare.trees(got, reference, "presil", False)

    return databases.difference(run, launches, compared)


@pytest.fixture(scope="module")
def answers():
    print(f"\nseed {SEED}")
    enabled = torch.backends.mha.get_fastpath_enabled()
    torch.backends.mha.set_fastpath_enabled(False)
    found = []
    checks.quiet()  # pytest restores the filters of warnings
    with Launches() as launches, torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.MATH):
        for name, info in ENTRIES.items():
            for label, dtype in DTYPES.items():
                if dtype not in info.dtypes:
                    continue
                answer = databases.answer_for(name, label, databases.FIRST, databases.EVERY)
                for check, training in (("train", True), ("eval", False)):
                    torch.manual_seed(SEED)
                    for index, case in enumerate(
                        info.module_inputs_func(info, device="cpu", dtype=dtype, requires_grad=True, training=training)
                    ):
                        if case.forward_input is None or not databases.chosen(answer, index):
                            continue
                        databases.note(answer, check, index, difference(info, case, dtype, training, launches))
                found.append(answer)
    torch.backends.mha.set_fastpath_enabled(enabled)
    return found


def test_every_entry_and_input_is_there(answers):
    databases.assert_counted(answers, "modules", COUNTED)


def test_what_fails_is_what_is_expected(answers):
    databases.assert_as_expected(answers, Path(__file__).with_name("expected_modules.toml"), SEED)
