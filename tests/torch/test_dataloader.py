# SPDX-License-Identifier: Apache-2.0
"""DataLoader: workers by fork and spawn, pinned batches, and device tensors that can't cross a process."""

import pytest
import torch
import torch_presil  # noqa: F401  a spawned worker imports this file, and has no conftest.py
from torch import multiprocessing
from torch.utils.data import DataLoader, Dataset, TensorDataset


class Squares(Dataset):
    def __len__(self):
        return 12

    def __getitem__(self, i):
        return torch.full((3,), float(i * i)), i


class OnTheDevice(Squares):
    def __getitem__(self, i):
        return torch.full((3,), float(i)).to("presil")


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_workers(method):
    a = torch.randn(8, 8).to("presil")
    a @ a  # the device is open, and work is in flight
    loader = DataLoader(Squares(), batch_size=4, num_workers=2, multiprocessing_context=method, persistent_workers=True)
    for _ in range(2):
        batches = [(x.to("presil"), i) for x, i in loader]
        assert torch.cat([i for _, i in batches]).tolist() == list(range(12))
        assert torch.equal(torch.cat([x.cpu() for x, _ in batches])[:, 0], torch.arange(12.0) ** 2)
    assert torch.isfinite(a @ a).all()


def test_pinned_batches_and_a_shuffle():
    loader = DataLoader(
        TensorDataset(torch.arange(20.0)),
        batch_size=5,
        shuffle=True,
        pin_memory=True,
        generator=torch.Generator().manual_seed(1),
    )
    seen = []
    for (x,) in loader:
        assert x.is_pinned()
        seen.append(x.to("presil", non_blocking=True))
    assert sorted(torch.cat(seen).cpu().tolist()) == list(range(20))


def test_dataset_on_the_device():
    data = TensorDataset(torch.arange(6.0).to("presil"), torch.arange(6).to("presil"))
    ((x, y),) = DataLoader(data, batch_size=6)
    assert x.device.type == y.device.type == "presil" and y.tolist() == list(range(6))


def test_device_tensors_do_not_leave_a_forked_worker():
    with pytest.raises(RuntimeError, match="forked child.*spawn"):
        list(DataLoader(OnTheDevice(), batch_size=4, num_workers=1, multiprocessing_context="fork", timeout=60))


def test_device_tensors_do_not_leave_a_spawned_worker():
    with pytest.raises(RuntimeError, match=r"can't be sent to another process.*value\.cpu\(\)"):
        list(DataLoader(OnTheDevice(), batch_size=4, num_workers=1, multiprocessing_context="spawn", timeout=60))


@pytest.mark.parametrize("value", ["tensor", "parameter", "storage"])
def test_sending_is_refused(value):
    t = torch.ones(3).to("presil")
    thing = {"tensor": t, "parameter": torch.nn.Parameter(t), "storage": t.untyped_storage()}[value]
    with pytest.raises(RuntimeError, match=r"presil:0 can't be sent to another process"):
        multiprocessing.get_context("spawn").SimpleQueue().put(thing)
    queue = multiprocessing.get_context("spawn").Queue()
    queue.put(thing)  # its thread can't raise here: the receiver gets the error
    with pytest.raises(RuntimeError, match=r"presil:0 can't be sent to another process"):
        queue.get(timeout=60)
    queue.put(t.cpu())
    assert queue.get(timeout=60).tolist() == [1, 1, 1]
    with pytest.raises(RuntimeError, match="can't be sent"):
        multiprocessing.get_context("spawn").Process(target=print, args=(thing,)).start()
