# SPDX-License-Identifier: Apache-2.0
"""The caching allocator: statistics, peaks, snapshot, pools, out of memory."""

import gc
import pickle

import pytest
import torch
import torch_presil

P = torch.presil
PAGE = 4096


@pytest.fixture(autouse=True)
def empty():
    P.synchronize()
    gc.collect()
    torch_presil._C.clear_weights_cache()  # other tests' models; an allocation that fails would drop them
    P.empty_cache()


def changes(names, action):
    before = P.memory_stats()
    action()
    after = P.memory_stats()
    return [after[n] - before[n] for n in names]


def test_statistics_follow_allocations():
    base = P.memory_allocated()
    P.reset_peak_memory_stats(), P.reset_accumulated_memory_stats()
    x = torch.empty(100, device="presil")  # 400 bytes: a page
    y = torch.empty(3 << 20, dtype=torch.uint8, device="presil")
    assert P.memory_allocated() == base + PAGE + (3 << 20)
    stats = P.memory_stats()
    assert stats["requested_bytes.all.allocated"] == 400 + (3 << 20)
    assert (
        stats["allocated_bytes.large_pool.allocated"] == 3 << 20
        and stats["allocated_bytes.small_pool.allocated"] == PAGE
    )
    assert stats["allocation.all.allocated"] == 2 and stats["allocation.all.freed"] == 0
    del y
    stats = P.memory_stats()
    assert stats["allocation.all.freed"] == 1 and stats["allocated_bytes.all.freed"] == 3 << 20
    assert P.max_memory_allocated() == base + PAGE + (3 << 20)
    assert P.memory_reserved() >= P.memory_allocated() + (3 << 20), "the freed block stays cached"
    P.reset_peak_memory_stats()
    assert P.max_memory_allocated() == P.memory_allocated() == base + PAGE
    reserved = P.memory_reserved()
    P.empty_cache()
    assert P.memory_reserved() <= reserved - (3 << 20)
    del x
    assert P.memory_allocated() == base


def test_accelerator_statistics_are_the_same():
    x = torch.empty(1000, device="presil")
    assert torch.accelerator.memory_allocated() == P.memory_allocated() >= PAGE
    assert torch.accelerator.memory_stats() == P.memory_stats()
    free, total = torch.accelerator.get_memory_info()
    assert (free, total) == P.mem_get_info() and total - free == P.memory_allocated()
    assert P.memory_stats_as_nested_dict()["allocated_bytes"]["all"]["current"] == P.memory_allocated()
    del x


def test_a_freed_block_is_used_again():
    x = torch.empty(1 << 20, device="presil")
    address = x.data_ptr()
    del x
    again = []
    segments = changes(
        ["segment.all.allocated", "num_device_alloc"],
        lambda: again.append(torch.empty(1 << 20, device="presil").data_ptr()),
    )
    assert segments == [0, 0] and again == [address]


def test_snapshot_adds_up_and_can_be_pickled(tmp_path):
    x, y = (
        torch.empty(5000, dtype=torch.uint8, device="presil"),
        torch.empty(2 << 20, dtype=torch.uint8, device="presil"),
    )
    snapshot = pickle.loads(pickle.dumps(P.memory_snapshot()))
    assert sum(s["total_size"] for s in snapshot) == P.memory_reserved()
    assert sum(s["allocated_size"] for s in snapshot) == P.memory_allocated()
    blocks = [b for s in snapshot for b in s["blocks"]]
    assert sum(b["size"] for b in blocks) == P.memory_reserved()
    by_size = {b["requested_size"]: b["state"] for b in blocks if b["state"] == "active_allocated"}
    assert by_size[5000] == by_size[2 << 20] == "active_allocated"
    for s in snapshot:
        at = s["address"]
        for b in s["blocks"]:
            assert b["address"] == at
            at += b["size"]
        assert at == s["address"] + s["total_size"]
    P.memory._dump_snapshot(tmp_path / "s.pickle")
    assert pickle.loads((tmp_path / "s.pickle").read_bytes())["segments"] == snapshot
    del x, y


def test_summary_is_a_table():
    x = torch.empty(1 << 20, device="presil")
    text = P.memory_summary()
    assert (
        "Allocated memory" in text and "small blocks" in text and len({len(line) for line in text.splitlines()}) == 1
    ), text
    assert "small blocks" not in P.memory_summary(abbreviated=True)
    del x


def test_out_of_memory_says_what_was_asked_and_what_there_is():
    x = torch.empty(1 << 20, device="presil")
    before, ooms = P.memory_allocated(), P.memory_stats()["num_ooms"]
    with pytest.raises(P.OutOfMemoryError) as caught:
        torch.empty(1 << 40, device="presil")
    text = str(caught.value)
    for part in (
        "presil:0 is out of memory",
        "tried to allocate 4.00 TiB (4398046511104 bytes)",
        " capacity, ",
        "are free",
        "are allocated",
        "are reserved",
        "PRESIL_MEMORY",
    ):
        assert part in text, text
    assert P.memory_allocated() == before and P.memory_stats()["num_ooms"] > ooms
    assert (x.fill_(2).sum().item(), x.numel()) == (2 << 20, 1 << 20)


def test_a_limit_of_the_process():
    with pytest.raises(ValueError):
        P.set_per_process_memory_fraction(1.5)
    P.set_per_process_memory_fraction(0.001)
    try:
        assert P.get_per_process_memory_fraction() == 0.001
        with pytest.raises(P.OutOfMemoryError, match="limit"):
            torch.empty(1 << 30, dtype=torch.uint8, device="presil")
    finally:
        P.set_per_process_memory_fraction(1.0)
    torch.empty(1 << 30, dtype=torch.uint8, device="presil")


def test_packed_weights_make_room_before_memory_runs_out():
    x, w = torch.randn(1, 64, 8, 8, device="presil"), torch.randn(64, 64, 3, 3, device="presil")
    torch.nn.functional.conv2d(x, w)
    P.synchronize()
    from torch_presil import _C

    assert _C.weights_cache_entries() > 0
    with pytest.raises(P.OutOfMemoryError):
        torch.empty(1 << 40, device="presil")
    assert _C.weights_cache_entries() == 0


def test_pools():
    pool = P.MemPool()
    with P.use_mem_pool(pool):
        x = torch.empty(1 << 20, device="presil")
        y = torch.ones(3, device="presil") + 1  # also what the host computes
    z = torch.empty(1 << 20, device="presil")
    assert pool.use_count() >= 2
    addresses = {
        b["address"]
        for s in pool.snapshot()
        for b in s["blocks"]
        if b["state"] == "active_allocated" and b["requested_size"] == 4 << 20
    }
    assert len(addresses) == 1
    del x
    w = torch.empty(1 << 20, device="presil")
    assert pool.use_count() == 1, "the pool's freed block was not handed to others"
    with P.use_mem_pool(pool):
        x = torch.empty(1 << 20, device="presil")
    assert {b["address"] for s in pool.snapshot() for b in s["blocks"] if b["requested_size"] == 4 << 20} == addresses
    assert y.tolist() == [2, 2, 2]
    live = P.memory_allocated()
    id_ = pool.id
    del pool
    gc.collect()
    assert P.memory_snapshot(id_) == [] and P.memory_allocated() == live, "live blocks move to the default pool"
    from torch_presil import _C

    with pytest.raises(ValueError, match="no memory pool"):
        _C.exchange_pool(0, id_)
    del x, y, z, w


def test_raw_blocks():
    before = P.memory_allocated()
    p = P.caching_allocator_alloc(10000)
    assert P.memory_allocated() == before + 3 * PAGE
    P.caching_allocator_delete(p)
    assert P.memory_allocated() == before
    with pytest.raises(ValueError):
        P.caching_allocator_alloc(-1)


def test_storage_resize():
    x = torch.arange(10, device="presil")
    x.untyped_storage().resize_(0)
    x.untyped_storage().resize_(80)
    assert x.untyped_storage().nbytes() == 80
    x.resize_(1000)
    assert x.fill_(3).sum().item() == 3000
