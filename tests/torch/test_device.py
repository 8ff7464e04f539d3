# SPDX-License-Identifier: Apache-2.0
"""Device, memory, copies, views, fallback: what every tensor needs."""

import copy
import io
import subprocess
import sys
import time

import pytest
import torch
from torch import nn


def test_the_first_program_of_the_readme():
    x = torch.randn(8, 64)
    y = (x.to("presil") @ x.to("presil").t()).cpu()
    assert y.shape == (8, 8)
    assert torch.allclose(y, x @ x.t(), rtol=1e-5, atol=1e-5)


def test_module_surface():
    assert torch.presil.is_available() and torch.presil.device_count() == 1
    assert torch.presil.current_device() == 0
    p = torch.presil.get_device_properties()
    assert (p.lanes, p.cells, p.word_bytes) == (64, 32, 64)
    assert torch.device("presil").type == "presil"
    with pytest.raises(RuntimeError, match="out of range"):
        torch.presil.set_device(5)


@pytest.mark.parametrize(
    "dtype",
    [
        torch.float32,
        torch.bfloat16,
        torch.float16,
        torch.float64,
        torch.int64,
        torch.int8,
        torch.uint8,
        torch.bool,
        torch.complex64,
    ],
)
def test_round_trip(dtype):
    x = torch.randint(0, 2, (5, 7)).to(dtype)
    assert torch.equal(x.to("presil").cpu(), x)
    assert torch.equal(x.t().to("presil").cpu(), x.t())


def test_views_share_storage():
    x = torch.arange(24.0).view(4, 6).to("presil")
    y = x[1:3, ::2]
    y.fill_(-1)
    z = torch.arange(24.0).view(4, 6)
    z[1:3, ::2] = -1
    assert torch.equal(x.cpu(), z)
    assert y.untyped_storage().data_ptr() == x.untyped_storage().data_ptr()


def test_fallback_mutates_resizes_and_aliases_like_the_cpu():
    x = torch.randn(6, 5)
    d = x.to("presil")
    out = torch.empty(0, device="presil")
    torch.add(d, d, out=out)
    assert torch.equal(out.cpu(), x + x)
    d.add_(1).mul_(2)
    assert torch.equal(d.cpu(), (x + 1) * 2)
    values, indices = d.sort(dim=0)
    assert torch.equal(values.cpu(), ((x + 1) * 2).sort(dim=0).values)
    d.resize_(3, 3)
    assert d.shape == (3, 3)
    assert d.relu_() is d


def test_mixed_devices_are_refused():
    with pytest.raises(RuntimeError, match="same device"):
        torch.ones(3, device="presil") + torch.ones(3)
    assert (torch.ones(3, device="presil") + torch.tensor(1.0)).cpu().tolist() == [2, 2, 2]


def test_random_numbers_are_the_cpus():
    torch.manual_seed(7)
    expected = (torch.rand(10), torch.randn(10), torch.nn.functional.dropout(torch.ones(50), 0.5))
    torch.presil.manual_seed(7)
    got = (
        torch.rand(10, device="presil"),
        torch.randn(10, device="presil"),
        torch.nn.functional.dropout(torch.ones(50, device="presil"), 0.5),
    )
    for e, g in zip(expected, got):
        assert torch.equal(g.cpu(), e)


def test_save_load_deepcopy():
    m = nn.Linear(4, 3).to("presil")
    buffer = io.BytesIO()
    torch.save(m.state_dict(), buffer)
    buffer.seek(0)
    state = torch.load(buffer, map_location="cpu", weights_only=True)
    assert torch.equal(state["weight"], m.weight.cpu())
    assert torch.equal(copy.deepcopy(m).weight.cpu(), m.weight.cpu())


def test_module_to_keeps_parameters():
    m = nn.Linear(4, 3)
    optimizer = torch.optim.SGD(m.parameters(), lr=0.1)
    m.to("presil")
    assert optimizer.param_groups[0]["params"][0].device.type == "presil"


def test_host_operators_are_counted_and_strict_mode_refuses():
    torch.presil.reset_host_operators()
    torch.ones(3, device="presil").sin()
    assert torch.presil.host_operators()["aten::sin.out"]["calls"] == 1
    with torch.backends.presil.flags(strict=True), pytest.raises(RuntimeError, match="strict"):
        torch.ones(3, device="presil").cos()


def test_the_time_of_an_operator_that_a_native_kernel_computes_on_the_host_is_counted():
    a = torch.randn(600, 600, device="presil", dtype=torch.float64)
    torch.presil.reset_host_operators()
    start = time.perf_counter()
    a @ a
    spent = time.perf_counter() - start
    counted = torch.presil.host_operators()["aten::mm"]
    assert counted["calls"] == 1 and 0 < counted["seconds"] <= spent, (counted, spent)


def test_moves_by_the_host_are_counted_and_pass_strict_mode():
    x = torch.randn(20, 50)
    torch.presil.reset_host_operators()
    with torch.backends.presil.flags(strict=True):
        d = x.to("presil")
        d.to(torch.bfloat16)
        d.t().contiguous()
        d.clone()
        d.cpu()
    moves = torch.presil.host_moves()
    assert {kind: (m["calls"], m["bytes"]) for kind, m in moves.items()} == {
        "copy to the device": (1, 4000),
        "conversion to another dtype": (1, 2000),
        "conversion to another layout": (1, 4000),
        "copy on the device": (1, 4000),
        "copy to the host": (1, 4000),
    }
    assert all(m["seconds"] > 0 for m in moves.values()) and not torch.presil.host_operators()
    torch.nn.functional.conv2d(torch.randn(1, 8, 5, 5, device="presil"), torch.randn(4, 8, 3, 3, device="presil"))
    assert torch.presil.host_moves()["weights packed"]["calls"] == 1
    torch.presil.reset_host_operators()
    assert torch.presil.host_moves() == {}


def test_memory_is_returned():
    torch.presil.synchronize()
    before = torch.presil.memory_allocated()
    for _ in range(100):
        x = torch.empty(1 << 20, device="presil")
        y = x.view(1024, 1024)[3:].t()
        del x, y
    assert torch.presil.memory_allocated() == before


def test_out_of_memory_is_an_error_and_leaves_the_device_usable():
    with pytest.raises(torch.OutOfMemoryError, match="bytes"):
        torch.empty(1 << 40, device="presil")
    assert torch.ones(2, device="presil").sum().item() == 2


def test_settings_refuse_nonsense():
    with pytest.raises(AttributeError, match="no setting"):
        torch.backends.presil.mdoe = "rtl"
    with pytest.raises(ValueError, match="mode must be"):
        torch.backends.presil.mode = "fast"
    with pytest.raises(RuntimeError, match="before|after the device was first used"):
        torch.ones(1, device="presil")
        torch.backends.presil.chip = "tiny"


def test_forked_child_gets_a_clear_error():
    code = """
import os, torch, torch_presil
torch.ones(1, device="presil")
pid = os.fork()
if pid == 0:
    try:
        torch.ones(1, device="presil")
    except RuntimeError as e:
        os._exit(0 if "forked" in str(e) else 3)
    os._exit(4)
raise SystemExit(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
"""
    assert subprocess.run([sys.executable, "-c", code], timeout=120).returncode == 0


def test_memory_nobody_wrote_is_filled_under_deterministic_algorithms():
    torch.use_deterministic_algorithms(True)
    try:
        assert (
            torch.empty(3, 4, device="presil").isnan().all()
            and torch.empty_strided((2, 3), (1, 2), device="presil").isnan().all()
        )
        assert (torch.empty(5, dtype=torch.int32, device="presil") == 2**31 - 1).all()
    finally:
        torch.use_deterministic_algorithms(False)


def test_split_points_may_lie_on_the_device():
    x = torch.randn(7, 3, requires_grad=True)
    d = x.detach().to("presil").requires_grad_()
    for a, b in zip(
        torch.tensor_split(x, torch.tensor([2, 5])), torch.tensor_split(d, torch.tensor([2, 5], device="presil"))
    ):
        assert torch.equal(b.cpu(), a)
        b.sum().backward(retain_graph=True)
    assert torch.equal(d.grad.cpu(), torch.ones(7, 3))


@pytest.mark.parametrize(
    "make",
    [
        lambda x: x.to_sparse(),
        lambda x: x.to_sparse_csr(),
        lambda x: torch.quantize_per_tensor(x, 0.1, 0, torch.quint8),
        lambda x: x.to_mkldnn(),
        lambda x: torch.sparse_coo_tensor(torch.zeros(1, 2, dtype=torch.int64, device="presil"), x[0, :2], (4,)),
    ],
)
def test_layouts_that_cannot_live_here_are_refused_with_a_text(make):
    with pytest.raises(NotImplementedError, match="th(e|is) device"):
        make(torch.ones(3, 3, device="presil"))


def test_lists_of_many_tensors():
    tensors = [torch.randn(3) for _ in range(100)]
    moved = [t.to("presil") for t in tensors]
    views = torch._foreach_add(moved, moved[::-1])
    for i, v in enumerate(views):
        assert torch.equal(v.cpu(), tensors[i] + tensors[-1 - i])
    torch._foreach_mul_(moved, 2)
    assert all(torch.equal(m.cpu(), 2 * t) for m, t in zip(moved, tensors))


def test_batch_sizes_of_a_packed_sequence_stay_on_the_cpu():
    x = torch.randn(5, 3, 4)
    packed = torch.nn.utils.rnn.pack_padded_sequence(x.to("presil"), torch.tensor([5, 3, 2]))
    expected = torch.nn.utils.rnn.pack_padded_sequence(x, torch.tensor([5, 3, 2]))
    assert packed.batch_sizes.device.type == "cpu" and torch.equal(packed.batch_sizes, expected.batch_sizes)
    assert torch.equal(packed.data.cpu(), expected.data)
