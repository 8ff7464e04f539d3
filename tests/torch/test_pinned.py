# SPDX-License-Identifier: Apache-2.0
"""Pinned host memory: properties, caching, statistics, copies that do not wait, DataLoader."""

import torch
from torch.utils.data import DataLoader, TensorDataset

P = torch.presil


def test_pinned_is_a_property_of_every_part():
    x = torch.arange(100.0).pin_memory()
    assert x.is_pinned() and x[10:].is_pinned() and x.view(10, 10).t().is_pinned() and x.untyped_storage().is_pinned()
    assert not torch.ones(3).is_pinned() and not x.clone().is_pinned()
    assert torch.empty(3, pin_memory=True).is_pinned() and torch.equal(x, torch.arange(100.0))


def test_blocks_are_cached_and_counted():
    torch.accelerator.empty_host_cache()
    P.reset_peak_host_memory_stats(), P.reset_accumulated_host_memory_stats()
    base = P.host_memory_stats()
    x = torch.empty(5000, dtype=torch.uint8).pin_memory()
    stats = P.host_memory_stats()
    assert (
        stats["active_bytes.current"] == base["active_bytes.current"] + 8192
        and stats["active_requests.current"] == base["active_requests.current"] + 1
    )
    address = x.data_ptr()
    del x
    stats = P.host_memory_stats()
    assert (
        stats["active_bytes.current"] == base["active_bytes.current"]
        and stats["allocated_bytes.current"] == base["allocated_bytes.current"] + 8192
    )
    assert stats["active_bytes.peak"] >= base["active_bytes.current"] + 8192
    x = torch.empty(6000, dtype=torch.uint8).pin_memory()
    assert x.data_ptr() == address
    del x
    P.empty_host_cache()
    assert P.host_memory_stats()["allocated_bytes.current"] == base["allocated_bytes.current"]
    assert P.host_memory_stats_as_nested_dict()["num_host_alloc"] >= 1


def test_copies_from_pinned_memory_do_not_wait_and_keep_their_order():
    with torch.backends.presil.flags(mode="rtl"):
        w = torch.randn(96, 96, device="presil")
        for _ in range(10):
            w @ w
        x = torch.randn(96, 96).pin_memory()
        d = x.to("presil", non_blocking=True)
        busy = not P.current_stream().query()
        y = d @ torch.eye(96, device="presil")
        back = torch.empty(96, 96).pin_memory()
        back.copy_(d, non_blocking=True)
        P.current_stream().synchronize()
    assert busy, "the copy did not wait for the launches before it"
    assert torch.equal(back, x)
    assert torch.allclose(y.cpu(), x, atol=1e-5)


def test_a_pinned_block_is_not_reused_while_a_copy_reads_it():
    with torch.backends.presil.flags(mode="rtl"):
        w = torch.randn(96, 96, device="presil")
        results = []
        for i in range(8):
            w @ w
            x = torch.full((96, 96), float(i)).pin_memory()
            results.append(x.to("presil", non_blocking=True))
            del x
        assert [r.mean().item() for r in results] == list(range(8))


def test_views_other_dtypes_and_unpinned_memory_copy_right():
    x = torch.randn(40, 30).pin_memory()
    for source in (x.t(), x[:, ::2], x.double(), torch.randn(4, 5), x[0, :0], x.expand(2, 40, 30)):
        assert torch.equal(source.to("presil", non_blocking=True).cpu(), source)
    d = torch.empty(40, 30, dtype=torch.float64, device="presil")
    assert torch.equal(d.copy_(x, non_blocking=True).cpu(), x.double())
    c = torch.randn(5, dtype=torch.complex64).pin_memory()
    assert torch.equal(c.conj().to("presil", non_blocking=True).cpu(), c.conj())


def test_data_loader_pins_batches():
    data = TensorDataset(torch.arange(64.0).view(32, 2), torch.arange(32))
    for workers in (0, 1):
        seen = []
        for x, y in DataLoader(data, batch_size=8, pin_memory=True, num_workers=workers):
            assert x.is_pinned() and y.is_pinned()
            seen += y.to("presil", non_blocking=True).tolist()
            assert torch.equal(x.to("presil", non_blocking=True).sum(1).cpu(), x.sum(1))
        assert seen == list(range(32))
