# SPDX-License-Identifier: Apache-2.0
"""torch.utils._debug_mode.DebugMode: two runs are compared operator by operator, by hashes of their tensors."""

import pytest
import torch
from torch import nn
from torch.utils._debug_mode import DebugMode


def model():
    torch.manual_seed(0)
    layers = [nn.Conv2d(3, 8, 3), nn.ReLU(), nn.Flatten(), nn.Linear(288, 10)]
    return nn.Sequential(*layers).eval().to("presil")


@pytest.fixture
def logged():
    """logged(net, how) -> what DebugMode wrote of net(x), with hashes of results and arguments."""
    torch.manual_seed(1)
    x = torch.randn(2, 3, 8, 8).to("presil")

    def run(net, how: str):
        with DebugMode() as log, DebugMode.log_tensor_hashes(hash_fn=how, hash_inputs=True), torch.no_grad():
            net(x)
        return log.logs

    return run


def names(calls) -> list:
    return [str(call.op).rpartition("::")[2].removeprefix("aten.").split(".")[0] for call in calls]


@pytest.mark.parametrize("how", ["hash_tensor", "norm"])
def test_equal_runs_have_equal_hashes(logged, how):
    net = model()
    first, again = (logged(net, how) for _ in range(2))
    assert names(first) == ["convolution", "relu", "view", "t", "addmm"]
    hashes = [call.log["hash"] for call in first]
    assert len({str(h) for h in hashes}) == 4, "relu's and view's are the same"
    assert DebugMode.check_hash_mismatches(first, again, compare_inputs=True) == []


@pytest.mark.parametrize("how", ["hash_tensor", "norm"])
def test_the_operator_that_differs_is_named(logged, how):
    net = model()
    first = logged(net, how)
    with torch.no_grad():
        net[3].weight[0, 0] += 0.5
    found = DebugMode.check_hash_mismatches(first, logged(net, how), compare_inputs=True)
    results = [row["call"] for row in found if not row["is_input_hash"]]
    assert results == ["aten::t", "aten::addmm"], found


def test_the_model_has_the_bits_of_the_rtl(logged, monkeypatch):
    """From one executor to the other, as from one machine to another: bit for bit, operator by operator."""
    runs = []
    for mode in ("rtl", "model"):
        with monkeypatch.context() as here:
            here.setattr(torch.backends.presil, "mode", mode)
            runs.append(logged(model(), "hash_tensor"))
    assert torch.backends.presil.mode == "model", "as it was"
    assert names(runs[0])[-1] == "addmm"
    assert DebugMode.check_hash_mismatches(*runs, compare_inputs=True) == []


def test_a_hash_is_that_of_the_bits(logged):
    """One bit in the last place: the norm may round it away, the hash may not."""
    one = torch.randn(64, 64).to("presil")
    other = one.clone()
    other.view(torch.int32)[5, 7] ^= 1

    def logs(x):
        with DebugMode() as log, DebugMode.log_tensor_hashes(hash_fn="hash_tensor"):
            x.clone()
        return log.logs

    assert DebugMode.check_hash_mismatches(logs(one), logs(one)) == []
    (row,) = DebugMode.check_hash_mismatches(logs(one), logs(other))
    assert row["call"] == "aten::clone"
