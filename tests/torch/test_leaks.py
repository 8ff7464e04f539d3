# SPDX-License-Identifier: Apache-2.0
"""10,000 allocations, views, graphs and errors leave the statistics at zero."""

import gc

import pytest
import torch
from torch_presil import _C

P = torch.presil


@pytest.fixture(autouse=True)
def nothing_is_left():
    """Blocks and requested bytes after the test are those before it."""

    def blocks():
        P.synchronize()
        gc.collect()
        _C.clear_weights_cache()
        P.empty_host_cache()  # looks at the events of freed blocks
        stats = P.memory_stats()
        return (
            stats["allocation.all.current"],
            stats["requested_bytes.all.current"],
            P.host_memory_stats()["active_bytes.current"],
        )

    before = blocks()
    yield
    assert blocks() == before


def test_allocations_and_views():
    for i in range(10000):
        x = torch.empty(i % 5000 + 1, device="presil")
        y = x[i % (i % 5000 + 1) :].view(-1).unsqueeze(0).t()
        del x, y


def test_host_operators():
    x = torch.ones(100, device="presil")
    for _ in range(10000):
        x.add(1)


def test_graphs():
    w = torch.ones(8, 8, device="presil", requires_grad=True)
    for _ in range(10000):
        ((w @ w).relu() + w).sum().backward()
        w.grad = None


def test_graphs_that_never_run_backward():
    w = torch.ones(8, 8, device="presil", requires_grad=True)
    for _ in range(10000):
        w * w


def test_launches():
    x = torch.ones(16, 16, device="presil")
    for _ in range(3000):
        x @ x


def test_convolutions_with_new_weights():
    x = torch.ones(1, 8, 4, 4, device="presil")
    for _ in range(500):
        torch.nn.functional.conv2d(x, torch.ones(8, 8, 3, 3, device="presil"))


def test_errors():
    x, y = torch.ones(3, device="presil"), torch.ones(4, device="presil")
    for i in range(10000):
        try:
            x + y if i % 2 else torch.empty(1 << 45, device="presil") if i % 100 == 0 else x.view(7)
        except RuntimeError:
            continue
        raise AssertionError("no error")


def test_failing_launches():
    with torch.backends.presil.flags(mode="rtl"):
        x = torch.ones(16, 16, device="presil")
        for _ in range(20):
            _C.inject(0, f"slverr@{_C.device_address(0, x.data_ptr())}")
            x @ x
            with pytest.raises(torch.AcceleratorError):
                P.synchronize()
        _C.inject(0, "")


def test_pinned_memory():
    for i in range(10000):
        torch.empty(i % 3000 + 1, pin_memory=True)
    x = torch.ones(1000).pin_memory()
    for _ in range(1000):
        x.to("presil", non_blocking=True)


def test_pools_and_streams():
    for _ in range(1000):
        pool = P.MemPool()
        with P.use_mem_pool(pool), P.stream(P.Stream()):
            torch.empty(100, device="presil")
        del pool


def test_resize_and_set():
    x = torch.empty(10, device="presil")
    for i in range(5000):
        x.resize_(i % 100)
        x.set_(torch.empty(5, device="presil"))
