# SPDX-License-Identifier: Apache-2.0
"""The surface of torch.presil and torch.accelerator: devices, properties, initialisation."""

import subprocess
import sys

import pytest
import torch

# Names of torch.cuda.__all__ that torch.presil does not have, and why.
NOT_OURS = {
    "another vendor's": {
        "CUDAGraph",
        "CudaError",
        "DeferredCudaCallError",
        "cudart",
        "cudaStatus",
        "check_error",
        "nccl",
        "nvtx",
        "tunable",
        "jiterator",
        "has_magma",
        "current_blas_handle",
        "current_solver_handle",
        "get_gencode_flags",
        "is_tf32_supported",
        "sparse",
        "GreenContext",
        "ExternalStream",
        "get_stream_from_external",
        "set_sync_debug_mode",
        "get_sync_debug_mode",
    },
    "the allocator can't be replaced": {
        "CUDAPluggableAllocator",
        "change_current_allocator",
        "caching_allocator_enable",
        "caching_allocator_disabled",
    },
    "no such sensor in a simulated chip": {
        "list_gpu_processes",
        "memory_usage",
        "device_memory_used",
        "utilization",
        "temperature",
        "power_draw",
        "clock_rate",
    },
    "no memory shared between processes": {"ipc_collect"},
    "deprecated upstream": {"memory_cached", "max_memory_cached", "reset_max_memory_cached"},
    "typed tensors and storages, deprecated": {n for n in torch.cuda.__all__ if n.endswith(("Tensor", "Storage"))},
    "graphs: torch_presil/graph": {
        "graph",
        "graphs",
        "graph_pool_handle",
        "make_graphed_callables",
        "is_current_stream_capturing",
    },
    "profiler: torch.profiler": {"profiler"},
}


def test_every_name_of_torch_cuda_is_here_or_left_out_with_a_reason():
    left_out = set().union(*NOT_OURS.values())
    missing = sorted(n for n in torch.cuda.__all__ if not hasattr(torch.presil, n) and n not in left_out)
    assert not missing
    assert not sorted(n for n in torch.presil.__all__ if not hasattr(torch.presil, n))


def test_questions_start_nothing():
    """A process that only asks opens no device and loads no simulator, in mode rtl too."""
    code = """
import os
os.environ.update(PRESIL_MODE="rtl", PRESIL_CHIP="base")
import torch, torch_presil
p = torch.presil
assert p.is_available() and p.device_count() == 1 and p.current_device() == 0
p.manual_seed_all(3); p.get_rng_state(); torch.manual_seed(4)
assert p.memory_allocated() == 0 and p.memory_snapshot() == [] and p.memory_stats()["allocated_bytes.all.peak"] == 0
p.empty_cache(); p.reset_peak_memory_stats(); p.synchronize(); torch.accelerator.synchronize()
assert torch.accelerator.is_available() and torch.accelerator.current_accelerator().type == "presil"
assert not p.is_initialized()
assert "presil_sim" not in open("/proc/self/maps").read()
torch.ones(3, device="presil").sum().item()
assert p.is_initialized()
assert "presil_sim" not in open("/proc/self/maps").read(), "host operators need no simulator"
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr


def test_properties_name_capability():
    p = torch.presil.get_device_properties("presil:0")
    assert (p.lanes, p.cells, p.word_bytes, p.config) == (64, 32, 64, "base")
    assert p.clock_mhz > 0 and p.total_memory == torch.presil.get_device_properties(torch.device("presil")).total_memory
    assert torch.presil.get_device_name() == p.name == "presil-base (64x32)"
    dtypes = torch.accelerator.get_device_capability()["supported_dtypes"]
    assert {
        torch.float32,
        torch.bfloat16,
        torch.float16,
        torch.int8,
        torch.uint8,
        torch.bool,
        torch.float64,
        torch.complex64,
    } <= dtypes
    assert not any("q" in str(d) for d in dtypes), "quantized tensors can't live on the device"
    assert torch.presil.get_device_capability()["chip_dtypes"] == {
        torch.float32,
        torch.bfloat16,
        torch.float16,
        torch.int8,
    }
    assert torch.presil.is_bf16_supported() and torch.presil.get_amp_supported_dtype() == [
        torch.bfloat16,
        torch.float16,
    ]


def test_bad_devices_are_refused():
    with pytest.raises(RuntimeError, match="device index 5 is out of range: there is 1 device"):
        torch.presil.set_device(5)
    with pytest.raises(RuntimeError, match="out of range"):
        torch.empty(1, device="presil:3")
    with pytest.raises(RuntimeError, match="out of range"):
        torch.presil.synchronize(7)
    with pytest.raises(ValueError, match="expected a presil device, got cpu"):
        torch.presil.synchronize("cpu")
    torch.presil.set_device(-1)
    assert torch.presil.current_device() == 0


def test_contexts():
    with torch.presil.device("presil:0"), torch.presil.device_of(torch.ones(1)), torch.accelerator.device_index(0):
        assert torch.presil.current_device() == torch.accelerator.current_device_index() == 0
    assert torch.get_device_module("presil") is torch.presil
    with torch.device("presil"):
        assert torch.ones(2).device == torch.device("presil", 0)


def test_lazy_calls_wait_for_the_device_and_failures_say_where_they_were_made():
    code = """
import torch, torch_presil
seen = []
torch.presil._lazy_call(lambda: seen.append(1))
assert not seen
torch.presil.init()
assert seen == [1]
torch.presil._lazy_call(lambda: seen.append(2))
assert seen == [1, 2]
"""
    assert subprocess.run([sys.executable, "-c", code], timeout=120).returncode == 0
    code = """
import torch, torch_presil
torch.presil._lazy_call(lambda: 1 / 0)
try:
    torch.presil.init()
except torch.presil.DeferredPresilCallError as error:
    assert "division by zero" in str(error) and "_lazy_call" in str(error), error
    raise SystemExit(7)
"""
    assert subprocess.run([sys.executable, "-c", code], timeout=120).returncode == 7


def test_amp_of_the_module():
    with torch.presil.amp.autocast():
        assert (torch.ones(4, 4, device="presil") @ torch.ones(4, 4, device="presil")).dtype == torch.bfloat16
    assert torch.presil.amp.GradScaler(enabled=False).get_scale() == 1.0
