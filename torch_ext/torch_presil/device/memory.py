# SPDX-License-Identifier: Apache-2.0
"""Device memory and pinned host memory: statistics, snapshot, pools. Questions about a device that was never used
open nothing and answer 0."""

import contextlib
import pickle

import torch

from torch_presil import _C
from torch_presil.device._index import index_of

OutOfMemoryError = torch.OutOfMemoryError

__all__ = [
    "MemPool",
    "OutOfMemoryError",
    "caching_allocator_alloc",
    "caching_allocator_delete",
    "empty_cache",
    "empty_host_cache",
    "get_allocator_backend",
    "get_per_process_memory_fraction",
    "host_memory_stats",
    "host_memory_stats_as_nested_dict",
    "max_memory_allocated",
    "max_memory_reserved",
    "mem_get_info",
    "memory_allocated",
    "memory_reserved",
    "memory_snapshot",
    "memory_stats",
    "memory_stats_as_nested_dict",
    "memory_summary",
    "moved_bytes",
    "reset_accumulated_host_memory_stats",
    "reset_accumulated_memory_stats",
    "reset_max_memory_allocated",
    "reset_peak_host_memory_stats",
    "reset_peak_memory_stats",
    "set_per_process_memory_fraction",
    "use_mem_pool",
]


def _device(device) -> torch.device:
    return torch.device("presil", index_of(device))


# ---- device memory
def memory_stats(device=None) -> dict:
    """torch.accelerator.memory_stats: "allocated_bytes.all.current" and so on; bytes are rounded up to pages of 4
    KiB, "requested_bytes" are not."""
    return torch.accelerator.memory_stats(_device(device))


def moved_bytes(device=None) -> dict:
    """Bytes of tensors and weights that moved {"to_device", "to_host"} since the device was opened: 0 where the chip
    works on the host's memory, or the host on the chip's."""
    to_device, to_host = _C.moved_bytes(index_of(device))
    return {"to_device": to_device, "to_host": to_host}


def memory_stats_as_nested_dict(device=None) -> dict:
    return torch._C._accelerator_getDeviceStats(index_of(device))


def memory_allocated(device=None) -> int:
    return torch.accelerator.memory_allocated(_device(device))


def max_memory_allocated(device=None) -> int:
    return torch.accelerator.max_memory_allocated(_device(device))


def memory_reserved(device=None) -> int:
    """Bytes of live and cached blocks."""
    return torch.accelerator.memory_reserved(_device(device))


def max_memory_reserved(device=None) -> int:
    return torch.accelerator.max_memory_reserved(_device(device))


def reset_peak_memory_stats(device=None) -> None:
    torch.accelerator.reset_peak_memory_stats(_device(device))


def reset_accumulated_memory_stats(device=None) -> None:
    torch.accelerator.reset_accumulated_memory_stats(_device(device))


def reset_max_memory_allocated(device=None) -> None:
    reset_peak_memory_stats(device)


def mem_get_info(device=None) -> tuple:
    """(free, total) bytes; cached blocks count as free."""
    return torch.accelerator.get_memory_info(_device(device))


def empty_cache() -> None:
    """Cached pages of all devices and pools go back to the system, after the work that was enqueued before."""
    torch.accelerator.empty_cache()


def get_allocator_backend() -> str:
    return "presil"


_fraction = {}


def set_per_process_memory_fraction(fraction: float, device=None) -> None:
    """Allocations beyond this part of the capacity (0 to 1) are OutOfMemoryError."""
    if not 0 <= fraction <= 1:
        raise ValueError(f"fraction must be from 0 to 1, got {fraction}")
    index = index_of(device)
    _C.set_memory_limit(index, 0 if fraction == 1 else max(1, int(fraction * mem_get_info(index)[1])))
    _fraction[index] = float(fraction)


def get_per_process_memory_fraction(device=None) -> float:
    return _fraction.get(index_of(device), 1.0)


def caching_allocator_alloc(size: int, device=None, stream=None) -> int:
    """Host address of `size` bytes of device memory, for caching_allocator_delete. stream: without effect
    (streams.py)."""
    if size < 0:
        raise ValueError(f"size must not be negative, got {size}")
    return _C.device_malloc(index_of(device), size)


def caching_allocator_delete(address: int) -> None:
    _C.device_free(address)


# ---- what is where
def memory_snapshot(mempool_id=None) -> list:
    """All devices' segments (runs of neighbouring blocks of one pool and size class) with their blocks, as plain
    dicts after torch.cuda.memory_snapshot."""
    segments = [s for i in range(_C.device_count()) for s in _C.memory_snapshot(i)]
    return segments if mempool_id is None else [s for s in segments if s["segment_pool_id"] == tuple(mempool_id)]


def _snapshot(device=None) -> dict:
    """What https://pytorch.org/memory_viz reads."""
    segments = memory_snapshot() if device is None else _C.memory_snapshot(index_of(device))
    return {"segments": segments, "device_traces": [[] for _ in range(_C.device_count())]}


def _dump_snapshot(filename="dump_snapshot.pickle") -> None:
    with open(filename, "wb") as file:
        pickle.dump(_snapshot(), file)


def _size(bytes_: int) -> str:
    value, units = float(bytes_), ["B", "KiB", "MiB", "GiB", "TiB"]
    while value >= 10240 and len(units) > 1:
        value /= 1024
        units.pop(0)
    return f"{value:8.0f} {units[0]:<3}"


def memory_summary(device=None, abbreviated: bool = False) -> str:
    """A table of the statistics; abbreviated: without the rows for small and large blocks (up to, and above 1 MiB)."""
    stats = memory_stats(device)
    rows = [
        ("Allocated memory", "allocated_bytes", _size),
        ("Requested memory", "requested_bytes", _size),
        ("Reserved memory", "reserved_bytes", _size),
        ("Allocations", "allocation", "{:8d}    ".format),
        ("Segments", "segment", "{:8d}    ".format),
    ]
    title = (
        f"presil memory, device {index_of(device)}; out of memory: {stats.get('num_ooms', 0)}; cache "
        f"flushes: {stats.get('num_alloc_retries', 0)}"
    )
    line = "|" + "=" * 82 + "|"
    out = [
        line,
        f"| {title:<80} |",
        line,
        f"| {'':<20} | " + " | ".join(f"{c:<12}" for c in ("now", "peak", "total up", "total down")) + " |",
        line,
    ]
    for title, name, text in rows:
        for kind in ("all",) if abbreviated else ("all", "small_pool", "large_pool"):
            label = title if kind == "all" else f"  {kind[:5]} blocks"
            out.append(
                f"| {label:<20} | "
                + " | ".join(
                    text(stats.get(f"{name}.{kind}.{column}", 0))
                    for column in ("current", "peak", "allocated", "freed")
                )
                + " |"
            )
        out.append("|" + "-" * 82 + "|")
    out[-1] = line
    return "\n".join(out) + "\n"


# ---- pools
class MemPool:
    """Device memory of its own: blocks allocated under use_mem_pool(pool) never share a segment with others, and stay
    the pool's until it is deleted; blocks that
    are alive then move to the default pool."""

    def __init__(self, device=None):
        self._device = index_of(device)
        self._id = _C.create_pool(self._device)

    @property
    def id(self) -> tuple:
        return self._id

    def snapshot(self) -> list:
        """Its segments, as memory_snapshot()."""
        return memory_snapshot(self._id)

    def use_count(self) -> int:
        """Live blocks."""
        return sum(b["state"] == "active_allocated" for s in self.snapshot() for b in s["blocks"])

    def __del__(self):
        if getattr(self, "_id", None) is not None:
            _C.destroy_pool(self._id)


@contextlib.contextmanager
def use_mem_pool(pool: MemPool, device=None):
    """The calling thread's allocations come from the pool."""
    index = pool._device if device is None else index_of(device)
    before = _C.exchange_pool(index, pool.id)
    try:
        yield
    finally:
        _C.exchange_pool(index, before)


# ---- pinned host memory
def _flat(prefix: str, value, out: dict) -> dict:
    if isinstance(value, dict):
        for k, v in value.items():
            _flat(f"{prefix}.{k}" if prefix else k, v, out)
    else:
        out[prefix] = value
    return out


def host_memory_stats_as_nested_dict() -> dict:
    return _C.host_memory_stats()


def host_memory_stats() -> dict:
    """Pinned memory, after torch.cuda.host_memory_stats: "allocated_bytes.current" (cached blocks included),
    "active_bytes.current" and so on."""
    return dict(sorted(_flat("", _C.host_memory_stats(), {}).items()))


def reset_peak_host_memory_stats() -> None:
    _C.reset_peak_host_memory_stats()


def reset_accumulated_host_memory_stats() -> None:
    _C.reset_accumulated_host_memory_stats()


def empty_host_cache() -> None:
    """Cached pinned blocks go back to the system."""
    torch.accelerator.empty_host_cache()
