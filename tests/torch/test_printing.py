# SPDX-License-Identifier: Apache-2.0
"""Printing: the CPU's text plus the device, without launches, fallbacks or copies."""

import pytest
import torch
from torch import nn


def text(t: torch.Tensor) -> str:
    return repr(t).replace(" ", "").replace("\n", "").replace(",device='presil:0'", "")


def plain(t: torch.Tensor) -> str:
    return repr(t).replace(" ", "").replace("\n", "")


CASES = {
    "float": lambda: torch.randn(3, 4),
    "large": lambda: torch.randn(100, 100),
    "bf16": lambda: torch.randn(5).bfloat16(),
    "int": lambda: torch.arange(6).view(2, 3),
    "bool": lambda: torch.tensor([True, False]),
    "scalar": lambda: torch.tensor(3.5),
    "empty": lambda: torch.empty(0, 3),
    "complex": lambda: torch.randn(3, dtype=torch.complex64),
    "conj": lambda: torch.randn(3, dtype=torch.complex64).conj(),
    "neg": lambda: torch.randn(3, dtype=torch.complex64).conj().imag,
    "strided": lambda: torch.randn(6, 8)[::2, ::3].t(),
    "expanded": lambda: torch.randn(3, 1).expand(3, 4),
    "specials": lambda: torch.tensor([float("inf"), float("nan"), -0.0]),
    "float8": lambda: torch.randn(4).to(torch.float8_e4m3fn),
    "double": lambda: torch.randn(2, dtype=torch.float64),
    "five": lambda: torch.randn(2, 2, 2, 2, 2),
    "quantity": lambda: torch.randn(2000),
}


@pytest.mark.parametrize("name", CASES)
def test_same_text_as_the_cpu(name):
    cpu = CASES[name]()
    device = cpu.to("presil")
    assert text(device) == plain(cpu)
    assert "device='presil:0'" in repr(device)


def test_nothing_runs():
    t = torch.randn(100, 100).to("presil")
    with torch.presil.explain() as e:
        repr(t)
        str(t)
        f"{t}"
    assert [g for g in e.operators() if g["where"] in ("chip", "host")] == []


def test_waits_for_the_launch_that_writes_it():
    a = torch.randn(64, 64)
    d = a.to("presil")
    for _ in range(3):
        assert text(d @ d) == plain((d @ d).cpu())


def test_requires_grad_and_grad_fn():
    p = nn.Parameter(torch.ones(2).to("presil"))
    assert "requires_grad=True" in repr(p) and repr(p).startswith("Parameter containing:")
    assert "grad_fn=<MulBackward0>" in repr(p * 2)


def test_item_and_format():
    t = torch.tensor(3.25).to("presil")
    assert f"{t:.2f}" == "3.25" and t.item() == 3.25 and t.tolist() == 3.25
    assert torch.arange(4).to("presil").tolist() == [0, 1, 2, 3]


def test_fake_functional_and_zero_tensors():
    from torch._subclasses.fake_tensor import FakeTensorMode

    with FakeTensorMode() as mode:
        assert "FakeTensor" in repr(mode.from_tensor(torch.empty(2, device="meta")))
    d = torch.ones(3).to("presil")
    assert "GradTrackingTensor" in _grad_text(d)
    assert "0., 0." in repr(torch._efficientzerotensor(2, device="presil"))


def _grad_text(d: torch.Tensor) -> str:
    texts = []

    def f(x):
        texts.append(str(x))
        return x.sum()

    torch.func.grad(f)(d)
    return texts[0]


def test_module_and_state_dict():
    assert repr(nn.Linear(2, 3).to("presil")) == "Linear(in_features=2, out_features=3, bias=True)"
    assert "presil:0" in str(nn.Linear(2, 3).to("presil").state_dict())
