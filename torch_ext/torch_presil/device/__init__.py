# SPDX-License-Identifier: Apache-2.0
"""torch.presil: the device module, after torch.cuda. docs/runtime.md says where it differs."""

import sys

import torch

from torch_presil import _C
from torch_presil.device import amp, memory, random, streams
from torch_presil.device._index import index_of
from torch_presil.device.capture import capture, capture_failures
from torch_presil.device.faults import inject
from torch_presil.device.memory import (
    MemPool,
    OutOfMemoryError,
    caching_allocator_alloc,
    caching_allocator_delete,
    empty_cache,
    empty_host_cache,
    get_allocator_backend,
    get_per_process_memory_fraction,
    host_memory_stats,
    host_memory_stats_as_nested_dict,
    max_memory_allocated,
    max_memory_reserved,
    mem_get_info,
    memory_allocated,
    memory_reserved,
    memory_snapshot,
    memory_stats,
    memory_stats_as_nested_dict,
    memory_summary,
    reset_accumulated_host_memory_stats,
    reset_accumulated_memory_stats,
    reset_max_memory_allocated,
    reset_peak_host_memory_stats,
    reset_peak_memory_stats,
    set_per_process_memory_fraction,
    use_mem_pool,
)
from torch_presil.device.progress import show_while_waiting
from torch_presil.device.random import (
    default_generators,
    get_rng_state,
    get_rng_state_all,
    initial_seed,
    manual_seed,
    manual_seed_all,
    seed,
    seed_all,
    set_rng_state,
    set_rng_state_all,
)
from torch_presil.device.reports import host_moves, host_operators, reports, reset_host_operators, verified
from torch_presil.device.streams import Event, Stream, StreamContext, current_stream, default_stream, set_stream, stream
from torch_presil.explain import explain
from torch_presil.graphs import (
    PresilGraph,
    graph,
    graph_pool_handle,
    is_current_stream_capturing,
    make_graphed_callables,
)

AcceleratorError = torch.AcceleratorError

__all__ = [
    "AcceleratorError",
    "DeferredPresilCallError",
    "DeviceProperties",
    "Event",
    "MemPool",
    "OutOfMemoryError",
    "PresilGraph",
    "Stream",
    "StreamContext",
    "amp",
    "aot_save",
    "caching_allocator_alloc",
    "caching_allocator_delete",
    "can_device_access_peer",
    "capture",
    "capture_failures",
    "current_device",
    "current_stream",
    "default_generators",
    "default_stream",
    "device",
    "device_count",
    "device_of",
    "empty_cache",
    "empty_host_cache",
    "explain",
    "get_allocator_backend",
    "get_amp_supported_dtype",
    "get_arch_list",
    "get_device_capability",
    "get_device_name",
    "chip_names",
    "get_device_properties",
    "get_per_process_memory_fraction",
    "get_rng_state",
    "get_rng_state_all",
    "graph",
    "graph_pool_handle",
    "has_half",
    "host_memory_stats",
    "host_memory_stats_as_nested_dict",
    "host_moves",
    "host_operators",
    "init",
    "initial_seed",
    "inject",
    "is_available",
    "is_bf16_supported",
    "is_current_stream_capturing",
    "is_initialized",
    "make_graphed_callables",
    "manual_seed",
    "manual_seed_all",
    "max_memory_allocated",
    "max_memory_reserved",
    "mem_get_info",
    "memory",
    "memory_allocated",
    "memory_reserved",
    "memory_snapshot",
    "memory_stats",
    "memory_stats_as_nested_dict",
    "memory_summary",
    "random",
    "reports",
    "reset_accumulated_host_memory_stats",
    "reset_accumulated_memory_stats",
    "reset_device",
    "reset_host_operators",
    "reset_max_memory_allocated",
    "reset_peak_host_memory_stats",
    "reset_peak_memory_stats",
    "seed",
    "seed_all",
    "set_device",
    "set_per_process_memory_fraction",
    "set_rng_state",
    "set_rng_state_all",
    "set_stream",
    "stream",
    "streams",
    "synchronize",
    "use_mem_pool",
    "verified",
]

has_half = True


def aot_save(program, path) -> dict:
    """Saves a torch.export program for presil-run: command lists, packed weights, signature (torch_presil.aot,
    docs/aot.md)."""
    from torch_presil.aot import aot_save as save

    return save(program, path)


class DeferredPresilCallError(Exception):
    """A call that was put off until the first use of the device failed."""


class DeviceProperties:
    """What the chip's registers say: chip, config, build, simulator, transport, total_memory (bytes), and, where they
    mean something to the chip, clock_mhz, config_hash and its own sizes in its own words (chip_names()["properties"]):
    of the chip in rtl/ lanes, cells, word_bytes, banks, bank_words, acc_rows."""

    def __init__(self, values: dict):
        self.__dict__.update(values)

    @property
    def name(self) -> str:
        array = f" ({self.lanes}x{self.cells})" if hasattr(self, "lanes") and hasattr(self, "cells") else ""
        return f"{self.chip}-{self.config}{array}"

    def __repr__(self) -> str:
        return f"DeviceProperties({', '.join(f'{k}={v!r}' for k, v in self.__dict__.items())})"


# ---- which devices
def device_count() -> int:
    """Number of devices: PRESIL_DEVICES, 1 by default. Starts nothing."""
    return _C.device_count()


def is_available() -> bool:
    """True: the device needs nothing but this package. Starts nothing."""
    return True


def current_device() -> int:
    return _C.current_device()


def set_device(device) -> None:
    """The current device of the calling thread; a negative index changes nothing."""
    index = index_of(device)
    if index >= 0:
        _C.set_device(index)


class device:
    """Context: the current device inside. A negative index changes nothing."""

    def __init__(self, device):
        self.index = index_of(device)
        self.previous = -1

    def __enter__(self):
        self.previous = _C.current_device()
        if self.index >= 0:
            _C.set_device(self.index)
        return self

    def __exit__(self, *exc):
        _C.set_device(self.previous)
        return False


class device_of(device):
    """Context: the device of a tensor or storage inside; nothing for one that is elsewhere."""

    def __init__(self, obj):
        super().__init__(obj.device.index if obj.device.type == "presil" else -1)


def chip_names(device=None) -> dict:
    """What the chip calls what its reports count: "engines", "causes" and "counters", each a list of dicts with "name"
    and, where the chip says so, "unit", "meaning", "bound" (what bounds a launch that meets this cause most), "works"
    (the cause of an engine that works), "array" (the engine that multiplies). "commands", if there: its word for what a
    launch is made of, the key of their number in reports. "properties": its sizes, with "name" and "value"."""
    return _C.chip_names(index_of(device))


def get_device_properties(device=None) -> DeviceProperties:
    return DeviceProperties(_C.properties(index_of(device)))


def get_device_name(device=None) -> str:
    return get_device_properties(device).name


def get_device_capability(device=None) -> dict:
    """{"supported_dtypes": what tensors may hold} as torch.accelerator says it, and "chip_dtypes": what matmul and
    convolution compute on the chip."""
    found = torch.accelerator.get_device_capability(torch.device("presil", index_of(device)))
    return {**found, "chip_dtypes": {torch.float32, torch.bfloat16, torch.float16, torch.int8}}


def get_arch_list() -> list:
    """The configuration of the chip."""
    return [torch.backends.presil.chip]


def can_device_access_peer(device, peer_device) -> bool:
    """False: devices have memories of their own; copies between them go through the host."""
    index_of(device), index_of(peer_device)
    return False


# ---- life
_queued_calls = []


def is_initialized() -> bool:
    """Whether any device was opened (in this process)."""
    return not _C.in_bad_fork() and any(_C.is_open(i) for i in range(_C.device_count()))


def init() -> None:
    """Opens the current device; devices open at their first use by themselves. No simulator starts before the first
    launch. RuntimeError in a forked child."""
    _C.open(_C.current_device())
    _lazy_init()


def _lazy_init() -> None:
    """torch calls this before whatever concerns the device, questions too: it runs what _lazy_call queued and leaves
    the opening to the first use."""
    while _queued_calls:
        call, trace = _queued_calls.pop(0)
        try:
            call()
        except Exception as error:
            raise DeferredPresilCallError(
                f"a call that waited for the device failed: {error}\nIt was made at:\n{''.join(trace)}"
            ) from error


def _lazy_call(call, **kwargs) -> None:
    """Now if a device is open, else in init()."""
    if is_initialized():
        call()
    else:
        import traceback

        _queued_calls.append((call, traceback.format_stack()))


def _is_in_bad_fork() -> bool:
    """In a child of fork() of a process that had opened a device."""
    return _C.in_bad_fork()


def _is_compiled() -> bool:
    return True


def synchronize(device=None) -> None:
    """Waits for all work of the device; raises what its launches raised."""
    index = index_of(device)
    if _C.synchronize_without_jobs(index):
        return
    if getattr(sys.stderr, "isatty", bool)():  # it may be anything that has write()
        try:
            show_while_waiting(index, sys.stderr)
        except KeyboardInterrupt as interrupt:
            try:
                _C.synchronize(index)  # what was dropped is told here, and not at the next wait
            except RuntimeError as failed:
                raise interrupt from failed
            raise
    _C.synchronize(index)


def reset_device(device=None) -> None:
    """Drops queued work and resets the chip; memory and its contents stay. The way out of a dead device (EDEAD)."""
    _C.reset(index_of(device))


# ---- mixed precision
def get_amp_supported_dtype() -> list:
    return [torch.bfloat16, torch.float16]


def is_bf16_supported(including_emulation: bool = True) -> bool:
    return True
