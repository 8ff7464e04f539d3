# SPDX-License-Identifier: Apache-2.0
"""torch.save and load with map_location, pickle, copies, state dicts both ways, safetensors."""

import copy
import io
import pickle

import pytest
import safetensors.torch
import torch
from torch import nn


def round_trip(value, **options):
    f = io.BytesIO()
    torch.save(value, f)
    f.seek(0)
    return torch.load(f, **options)


def net() -> nn.Module:
    return nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.Flatten(), nn.Linear(16, 2))


@pytest.mark.parametrize(
    "dtype", [torch.float32, torch.bfloat16, torch.float16, torch.int8, torch.bool, torch.complex64, torch.float64]
)
@pytest.mark.parametrize("weights_only", [True, False])
def test_tensor(dtype, weights_only):
    t = (torch.randn(3, 5) * 3).to(dtype)
    d = round_trip(t.to("presil"), weights_only=weights_only)
    assert d.device == torch.device("presil", 0) and d.dtype == dtype and torch.equal(d.cpu(), t)


@pytest.mark.parametrize(
    "location", ["cpu", torch.device("cpu"), {"presil:0": "cpu"}, lambda storage, tag: storage.cpu()]
)
def test_map_location_to_the_cpu(location):
    t = torch.randn(4).to("presil")
    assert round_trip(t, map_location=location).device.type == "cpu"


@pytest.mark.parametrize("location", ["presil", "presil:0", torch.device("presil", 0)])
def test_map_location_to_the_device(location):
    t = torch.randn(4)
    d = round_trip(t, map_location=location)
    assert d.device == torch.device("presil", 0) and torch.equal(d.cpu(), t)


def test_map_location_to_a_device_that_is_not_there():
    f = io.BytesIO()
    torch.save(torch.randn(4).to("presil"), f)
    f.seek(0)
    with pytest.raises(RuntimeError, match="presil"):
        torch.load(f, map_location="presil:7")


def test_views_share_storage_after_loading():
    base = torch.arange(12.0).to("presil")
    a, b = round_trip((base[2:8], base.view(3, 4).t()))
    assert a.untyped_storage().data_ptr() == b.untyped_storage().data_ptr() and b.stride() == (1, 4)
    a.zero_()
    assert b.cpu().flatten().count_nonzero() == 12 - 6 - 1


def test_conj_neg_and_requires_grad():
    z = torch.randn(3, dtype=torch.complex64).to("presil")
    loaded = round_trip(z.conj())
    assert torch.equal(loaded.resolve_conj().cpu(), z.cpu().conj().resolve_conj())
    p = round_trip(nn.Parameter(torch.ones(2).to("presil")))
    assert isinstance(p, nn.Parameter) and p.requires_grad and p.device.type == "presil"


def test_pickle_tensor_module_and_optimizer():
    m = net().to("presil")
    o = torch.optim.Adam(m.parameters(), lr=1e-2)
    m(torch.randn(2, 3, 4, 4).to("presil")).sum().backward()
    o.step()
    m2, o2 = pickle.loads(pickle.dumps((m, o)))
    assert all(
        p.device.type == "presil" and torch.equal(p.cpu(), q.cpu())
        for p, q in zip(m2.parameters(), m.parameters(), strict=True)
    )
    state, state2 = o.state_dict()["state"], o2.state_dict()["state"]
    assert all(torch.equal(state[i]["exp_avg"].cpu(), state2[i]["exp_avg"].cpu()) for i in state)
    assert o2.param_groups[0]["params"][0] is next(m2.parameters())


def test_copies():
    t = torch.randn(3, 4).to("presil")[:, 1:]
    deep, shallow = copy.deepcopy(t), copy.copy(t)
    assert deep.data_ptr() != t.data_ptr() and deep.stride() == t.stride() and torch.equal(deep.cpu(), t.cpu())
    assert shallow.data_ptr() == t.data_ptr() and shallow.device == t.device
    m = net().to("presil")
    again = copy.deepcopy(m)
    with torch.no_grad():
        again[0].weight.zero_()
    assert m[0].weight.abs().sum() > 0 and again[0].weight.device.type == "presil"
    tied = nn.Linear(3, 3).to("presil")
    pair = copy.deepcopy([tied.weight, tied.weight])
    assert pair[0] is pair[1]


def test_state_dict_both_ways():
    cpu, device = net(), net().to("presil")
    device.load_state_dict(cpu.state_dict())
    assert all(
        torch.equal(v, device.state_dict()[k].cpu()) and device.state_dict()[k].device.type == "presil"
        for k, v in cpu.state_dict().items()
    )
    with torch.no_grad():
        device[1].running_mean.add_(1)
    cpu.load_state_dict(device.state_dict())
    assert torch.equal(cpu[1].running_mean, torch.ones(4)) and cpu[1].running_mean.device.type == "cpu"
    meta = nn.Linear(4, 4, device="meta")
    meta.load_state_dict(nn.Linear(4, 4).to("presil").state_dict(), assign=True)
    assert meta.weight.device.type == "presil"
    with pytest.raises(RuntimeError, match="size mismatch"):
        nn.Linear(3, 3).to("presil").load_state_dict(nn.Linear(4, 3).state_dict())


def test_packed_weights_follow_a_loaded_state():
    m, other = nn.Linear(8, 8).to("presil"), nn.Linear(8, 8)
    x = torch.randn(2, 8)
    with torch.no_grad():
        m(x.to("presil"))
        m.load_state_dict(other.state_dict())
        assert torch.allclose(m(x.to("presil")).cpu(), other(x), atol=1e-4)


def test_optimizer_state_moves_with_its_parameters():
    cpu = nn.Linear(4, 4)
    o = torch.optim.SGD(cpu.parameters(), lr=0.1, momentum=0.9)
    cpu(torch.ones(1, 4)).sum().backward()
    o.step()
    device = copy.deepcopy(cpu).to("presil")
    o2 = torch.optim.SGD(device.parameters(), lr=0.1, momentum=0.9)
    o2.load_state_dict(o.state_dict())
    assert all(s["momentum_buffer"].device.type == "presil" for s in o2.state.values())


def test_safetensors(tmp_path):
    tensors = {
        "a": torch.randn(3, 4).to("presil"),
        "b": torch.arange(5).to("presil"),
        "c": torch.randn(4).bfloat16().to("presil"),
    }
    path = str(tmp_path / "x.safetensors")
    safetensors.torch.save_file(tensors, path, metadata={"k": "v"})
    for device in ("presil", "presil:0", torch.device("presil")):
        loaded = safetensors.torch.load_file(path, device=device)
        assert all(
            loaded[k].device == torch.device("presil", 0) and torch.equal(loaded[k].cpu(), v.cpu())
            for k, v in tensors.items()
        )
    assert all(v.device.type == "cpu" for v in safetensors.torch.load_file(path).values())
    m = nn.Linear(3, 4).to("presil")
    safetensors.torch.save_model(m, path)
    other = nn.Linear(3, 4).to("presil")
    safetensors.torch.load_model(other, path, device="presil")
    assert torch.equal(other.weight.cpu(), m.weight.cpu())
    with safetensors.safe_open(path, "pt", device="presil") as f:
        assert f.get_tensor("weight").device.type == "presil" and f.get_slice("weight")[1:2].device.type == "presil"


def test_storage():
    t = torch.arange(6, dtype=torch.int16).to("presil")
    s = t.untyped_storage()
    assert s.device == torch.device("presil", 0) and s.nbytes() == 12 and s.is_presil and not s.is_cuda
    cpu = s.cpu()
    assert cpu.device.type == "cpu" and bytes(cpu) == bytes(t.cpu().untyped_storage())
    clone = s.clone()
    clone.fill_(0)
    assert t.cpu().tolist() == list(range(6)) and clone.device == s.device
    s.copy_(torch.full((6,), 7, dtype=torch.int16).untyped_storage())
    assert t.cpu().tolist() == [7] * 6
    empty = torch.UntypedStorage(16, device="presil")
    assert empty.device == s.device and empty.nbytes() == 16
    empty.resize_(64)
    assert empty.nbytes() == 64
    assert torch.randn(3).untyped_storage().presil().device == s.device
    assert round_trip(s).device == s.device and bytes(round_trip(s).cpu()) == bytes(s.cpu())
