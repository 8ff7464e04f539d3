# SPDX-License-Identifier: Apache-2.0
"""DLPack: kDLExtDev, without a copy, as far as PyTorch 2.13 goes."""

import numpy
import pytest
import torch
from torch.utils.dlpack import DLDeviceType, from_dlpack, to_dlpack


def test_device():
    assert torch.ones(2).to("presil").__dlpack_device__() == (DLDeviceType.kDLExtDev, 0)
    assert torch.ones(2).__dlpack_device__() == (DLDeviceType.kDLCPU, 0)


@pytest.mark.parametrize(
    "dtype", [torch.float32, torch.bfloat16, torch.float16, torch.int8, torch.int64, torch.bool, torch.complex64]
)
def test_round_trip_shares_memory(dtype):
    t = torch.ones(3, 4).to(dtype).to("presil")[:, 1:]
    for other in (torch.from_dlpack(t), from_dlpack(to_dlpack(t))):
        assert (
            other.device == t.device
            and other.dtype == dtype
            and other.stride() == t.stride()
            and other.data_ptr() == t.data_ptr()
        )
    other.zero_()
    assert t.cpu().count_nonzero() == 0


def test_memory_outlives_the_exporter():
    other = torch.from_dlpack(torch.full((1000,), 3.0).to("presil"))
    junk = [torch.zeros(1000).to("presil") for _ in range(5)]
    assert other.cpu().eq(3).all() and junk


def test_work_in_flight():
    a = torch.randn(32, 32).to("presil")
    assert torch.equal(torch.from_dlpack(a @ a).cpu(), (a @ a).cpu())


def test_to_the_cpu_on_request():
    t = torch.arange(4.0).to("presil")
    cpu = torch.from_dlpack(t, device="cpu", copy=True)
    assert cpu.device.type == "cpu" and cpu.tolist() == [0, 1, 2, 3]


def test_numpy_does_not_take_the_device():
    with pytest.raises((BufferError, RuntimeError, TypeError, ValueError)):
        numpy.from_dlpack(torch.ones(2).to("presil"))


def test_what_dlpack_can_not_carry():
    with pytest.raises(BufferError, match="require gradient"):
        torch.from_dlpack(torch.ones(2).to("presil").requires_grad_())
    with pytest.raises(BufferError, match="conjugate"):
        torch.from_dlpack(torch.ones(2, dtype=torch.complex64).to("presil").conj())
