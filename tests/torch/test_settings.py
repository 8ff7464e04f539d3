# SPDX-License-Identifier: Apache-2.0
"""torch.backends.presil: what each setting does, PyTorch's own precision and determinism settings."""

import os
import subprocess
import sys

import pytest
import torch

S = torch.backends.presil
NAMES = (
    "mode",
    "chip",
    "build",
    "memory_model",
    "memory_model_seed",
    "fp32_precision",
    "strict",
    "deterministic",
    "launch_blocking",
    "affinity",
)


def accuracy(kind: str) -> str:
    """ "ieee" or "bf16", by the error of a product."""
    g = torch.Generator().manual_seed(0)
    a = torch.randn(1, 64, 8, 8, generator=g)
    if kind == "conv":
        w = torch.randn(32, 64, 1, 1, generator=g)
        got, exact = (
            torch.nn.functional.conv2d(a.to("presil"), w.to("presil")).cpu(),
            torch.nn.functional.conv2d(a.double(), w.double()),
        )
    else:
        got, exact = (a[0, 0].to("presil") @ a[0, 1].to("presil")).cpu(), a[0, 0].double() @ a[0, 1].double()
    error = float((got.double() - exact).norm() / exact.norm())
    assert error < 1e-6 or 1e-4 < error < 1e-2, error
    return "ieee" if error < 1e-6 else "bf16"


@pytest.fixture(autouse=True)
def pytorch_defaults():
    # torch.testing._internal, which other tests import, forbids these assignments for the whole process.
    with torch.backends.__allow_nonbracketed_mutation():
        yield
        torch.set_float32_matmul_precision("highest")
        torch.backends.fp32_precision = "none"
        torch.backends.mkldnn.fp32_precision = "none"
        torch.backends.mkldnn.matmul.fp32_precision = "none"
        torch.backends.mkldnn.conv.fp32_precision = "none"


@pytest.mark.parametrize("setting, expected", [("highest", "ieee"), ("high", "ieee"), ("medium", "bf16")])
def test_float32_matmul_precision(setting, expected):
    torch.set_float32_matmul_precision(setting)
    assert accuracy("matmul") == expected and accuracy("conv") == "ieee"


@pytest.mark.parametrize("setting, expected", [("ieee", "ieee"), ("tf32", "ieee"), ("bf16", "bf16")])
def test_fp32_precision_of_pytorch(setting, expected):
    torch.backends.fp32_precision = setting
    assert accuracy("matmul") == accuracy("conv") == expected


def test_fp32_precision_of_operators():
    torch.backends.mkldnn.conv.fp32_precision = "bf16"
    assert (accuracy("conv"), accuracy("matmul")) == ("bf16", "ieee")


@pytest.mark.parametrize("learns", [False, True])
def test_a_fused_linear_layer_follows_products(learns):
    """As torch.nn.functional.linear does, and a partition of a compiled graph: bits, gradients too."""
    x, w = torch.randn(5, 40).to("presil"), torch.randn(7, 40).to("presil").requires_grad_(learns)
    results = []
    for conv, matmul in (("ieee", "ieee"), ("bf16", "ieee"), ("ieee", "bf16")):
        torch.backends.mkldnn.conv.fp32_precision, torch.backends.mkldnn.matmul.fp32_precision = conv, matmul
        y = torch.ops.presil.linear(x, w)
        assert torch.equal(y, torch.nn.functional.linear(x, w))
        results.append([y.detach(), *(torch.autograd.grad(y.square().sum(), w) if learns else ())])
    for exact, of_conv, of_matmul in zip(*results, strict=True):
        assert torch.equal(exact, of_conv) and not torch.equal(exact, of_matmul)


def test_our_setting_wins():
    torch.set_float32_matmul_precision("medium")
    with S.flags(fp32_precision="ieee"):
        assert accuracy("matmul") == "ieee"
    torch.set_float32_matmul_precision("highest")
    with S.flags(fp32_precision="bf16"):
        assert accuracy("matmul") == accuracy("conv") == "bf16"
    assert S.fp32_precision == "none"
    with pytest.raises(ValueError, match="chip has no tf32"):
        S.fp32_precision = "tf32"


def test_flags_restore_also_after_a_refusal():
    before = {n: getattr(S, n) for n in NAMES}
    with pytest.raises(ValueError), S.flags(strict=True, mode="nonsense"):
        pass
    with pytest.raises(ZeroDivisionError), S.flags(strict=True, launch_blocking=True, mode="verify"):
        1 / 0
    assert {n: getattr(S, n) for n in NAMES} == before
    with pytest.raises(AttributeError, match="no setting 'speed'; it has mode"):
        S.speed = 3


def test_settings_from_the_environment():
    environment = {
        **os.environ,
        "PRESIL_MODE": "verify",
        "PRESIL_CHIP": "tiny",
        "PRESIL_BUILD": "check",
        "PRESIL_MEMORY_MODEL": "ideal",
        "PRESIL_STRICT": "1",
        "PRESIL_LAUNCH_BLOCKING": "1",
        "PRESIL_AFFINITY": "0",
    }
    code = (
        "import torch, torch_presil; s = torch.backends.presil; print(s.mode, s.chip, s.build, "
        "s.memory_model, s.strict, s.launch_blocking, s.affinity)"
    )
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, timeout=120)
    assert done.stdout.split() == ["verify", "tiny", "check", "ideal", "True", "True", "0"], done.stderr


def test_chip_and_build_are_fixed_by_the_first_use():
    torch.ones(1, device="presil")
    for name, value in (("chip", "tiny"), ("build", "trace")):
        with pytest.raises(RuntimeError, match="after the device was first used"):
            setattr(S, name, value)


def test_the_memory_model_changes_cycles_not_bits():
    x = torch.randn(64, 64, device="presil")
    results = {}
    with S.flags(mode="rtl"):
        for model in ("", "ideal"):
            with S.flags(memory_model=model), torch.presil.reports() as r:
                y = x @ x
                results[model] = (y.cpu(), r.take()[0]["cycles"])
    assert torch.equal(results[""][0], results["ideal"][0]) and results["ideal"][1] < results[""][1]


def test_the_watchdog_has_the_patience_it_is_given():
    x = torch.randn(8, 8, device="presil")
    with S.flags(mode="rtl", memory_model="latency=3000"):
        expected = (x @ x).cpu()
        with S.flags(watchdog_cycles=500):
            with pytest.raises(torch.AcceleratorError, match="no progress for 500 cycles"):
                (x @ x).cpu()
        assert torch.equal((x @ x).cpu(), expected)


def test_deterministic_algorithms():
    assert S.deterministic
    with pytest.raises(ValueError, match="always True"):
        S.deterministic = False
    torch.use_deterministic_algorithms(True)
    try:
        assert (
            torch.empty(5, device="presil").isnan().all()
            and torch.empty_strided((2, 3), (3, 1), device="presil").isnan().all()
        )
        assert (torch.empty(5, dtype=torch.int32, device="presil") == torch.iinfo(torch.int32).max).all()
        assert torch.ones(2, device="presil").resize_(4)[2:].isnan().all()
        torch.utils.deterministic.fill_uninitialized_memory = False
        torch.full((64,), 3.0, device="presil")  # the block that is used next
        assert not torch.empty(64, device="presil").isnan().any()
    finally:
        torch.utils.deterministic.fill_uninitialized_memory = True
        torch.use_deterministic_algorithms(False)


def test_affinity_moves_the_launches_to_the_worker():
    with S.flags(affinity="0"):
        x = torch.eye(32, device="presil")
        assert torch.equal((x @ x).cpu(), torch.eye(32))
    assert S.affinity == ""
    with pytest.raises(ValueError, match="list of CPUs"):
        S.affinity = "first"
    with pytest.raises(ValueError, match="none of these"):
        S.affinity = "1000"
