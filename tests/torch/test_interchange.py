# SPDX-License-Identifier: Apache-2.0
"""numpy, generated methods, conversions, memory formats, legacy type names, default device."""

import numpy
import pytest
import torch
from torch import nn
from torch.nn.utils.rnn import pack_sequence


def test_numpy():
    a = numpy.arange(6, dtype=numpy.float32).reshape(2, 3)
    d = torch.from_numpy(a).to("presil")
    assert (d.cpu().numpy() == a).all() and (d.numpy(force=True) == a).all()
    for convert in (lambda: d.numpy(), lambda: numpy.asarray(d), lambda: numpy.array(d)):
        with pytest.raises(TypeError, match=r"can't convert presil:0 device type tensor to numpy. Use Tensor.cpu\(\)"):
            convert()


def test_from_python_and_numpy_to_the_device():
    a = numpy.arange(4.0)
    for make in (torch.tensor, torch.as_tensor, torch.asarray):
        t = make(a, device="presil")
        assert t.device == torch.device("presil", 0) and t.tolist() == a.tolist()
        assert make([1, 2], device="presil", dtype=torch.float32).tolist() == [1, 2]
    d = torch.ones(3, device="presil")
    assert torch.as_tensor(d) is d and torch.asarray(d).data_ptr() == d.data_ptr()
    assert torch.asarray(d, copy=True).data_ptr() != d.data_ptr()
    assert torch.asarray(d, device="cpu").device.type == "cpu"
    a[:] = 0
    assert t.tolist() == [0, 1, 2, 3]  # a copy, never a view of host memory


def test_generated_methods():
    t = torch.randn(2)
    assert not t.is_presil and t.presil().is_presil and t.presil(0).device == torch.device("presil", 0)
    assert t.presil().presil().device.type == "presil" and torch.equal(t.presil().cpu(), t)
    m = nn.Linear(2, 2).presil()
    assert m.weight.is_presil and m.cpu().weight.device.type == "cpu"
    packed = pack_sequence([torch.ones(3, 2), torch.ones(2, 2)]).presil()
    assert (
        packed.is_presil
        and packed.data.is_presil
        and packed.batch_sizes.device.type == "cpu"
        and not packed.cpu().is_presil
    )
    assert t.untyped_storage().presil().is_presil


def test_to_with_everything():
    t = torch.randn(2, 3, 4, 5)
    d = t.to("presil", torch.bfloat16, memory_format=torch.channels_last)
    assert (
        d.dtype == torch.bfloat16
        and d.is_contiguous(memory_format=torch.channels_last)
        and torch.equal(d.cpu(), t.bfloat16())
    )
    assert d.to("presil") is d and d.to("presil", copy=True) is not d
    assert d.to(t).dtype == torch.float32 and d.to(t).device.type == "cpu"
    assert d.to(memory_format=torch.contiguous_format).is_contiguous() and d.to(d.device, d.dtype) is d
    volume = torch.randn(1, 2, 3, 4, 5).to("presil", memory_format=torch.channels_last_3d)
    assert volume.is_contiguous(memory_format=torch.channels_last_3d)
    strided = t.transpose(1, 3)[:, ::2].to("presil")
    assert torch.equal(strided.cpu(), t.transpose(1, 3)[:, ::2]) and strided.device.type == "presil"
    assert (
        torch.empty_like(d).is_contiguous(memory_format=torch.channels_last)
        and torch.empty_like(d, device="cpu").device.type == "cpu"
    )
    m = nn.Conv2d(3, 4, 3).to("presil", memory_format=torch.channels_last)
    assert m.weight.is_contiguous(memory_format=torch.channels_last)


def test_non_blocking_both_ways():
    t = torch.randn(1000).pin_memory()
    d = t.to("presil", non_blocking=True)
    back = d.to("cpu", non_blocking=True)
    torch.presil.synchronize()
    assert torch.equal(back, t)


def test_type_names():
    d = torch.ones(2).to("presil")
    assert d.type() == "torch.presil.FloatTensor" and d.to(torch.int8).type() == "torch.presil.CharTensor"
    assert d.type(torch.int32).dtype == torch.int32 and d.type(torch.int32).is_presil
    assert d.type("torch.presil.HalfTensor").dtype == torch.float16 and d.type("torch.FloatTensor").device.type == "cpu"
    assert torch.ones(2).type("torch.presil.DoubleTensor").is_presil
    assert d.type_as(torch.ones(1, dtype=torch.int64)).device.type == "cpu"


def test_default_device():
    with torch.device("presil"):
        assert (
            torch.zeros(2).is_presil
            and nn.Linear(2, 2).weight.is_presil
            and torch.zeros(2, device="cpu").device.type == "cpu"
        )
    torch.set_default_device("presil")
    try:
        assert torch.arange(3).is_presil and torch.randperm(4).is_presil and torch.tensor([1]).is_presil
    finally:
        torch.set_default_device(None)
    assert torch.zeros(2).device.type == "cpu"


def test_device_objects():
    assert torch.device("presil") != torch.device("presil:0") and str(torch.device("presil", 1)) == "presil:1"
    assert torch.device("presil:0").type == "presil" and hash(torch.device("presil:0")) == hash(
        torch.device("presil", 0)
    )
    assert torch._C._get_privateuse1_backend_name() == "presil"
    torch.utils.rename_privateuse1_backend("presil")
    with pytest.raises(RuntimeError, match="already been set"):
        torch.utils.rename_privateuse1_backend("other")


def test_buffers_and_files(tmp_path):
    assert torch.frombuffer(bytearray(b"\x01\x02"), dtype=torch.uint8).to("presil").tolist() == [1, 2]
    path = tmp_path / "raw"
    path.write_bytes(bytes(range(8)))
    assert torch.from_file(str(path), size=8, dtype=torch.uint8).to("presil").tolist() == list(range(8))
    with pytest.raises(RuntimeError):
        torch.frombuffer(bytearray(4), dtype=torch.uint8).to("presil").untyped_storage()._share_fd_cpu_()
