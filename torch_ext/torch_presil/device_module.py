# SPDX-License-Identifier: Apache-2.0
"""torch.presil: the device module, after torch.cuda."""

import torch

from torch_presil import _C

__all__ = ["device_count", "current_device", "set_device", "device", "is_available", "is_initialized", "init", "synchronize", "get_device_name",
           "get_device_properties", "manual_seed", "manual_seed_all", "seed", "initial_seed", "get_rng_state", "set_rng_state", "get_amp_supported_dtype",
           "memory_allocated", "max_memory_allocated", "memory_reserved", "memory_stats", "reset_peak_memory_stats", "empty_cache", "mem_get_info",
           "current_stream", "Stream", "Event", "host_operators", "reset_host_operators", "reports", "DeviceProperties"]


class DeviceProperties:
    """What the chip's registers say: chip, config, build, simulator, lanes, cells, word_bytes, banks, bank_words, acc_rows, clock_mhz, config_hash, total_memory (bytes)."""

    def __init__(self, values: dict):
        self.__dict__.update(values)

    def __repr__(self) -> str:
        return f"DeviceProperties({', '.join(f'{k}={v!r}' for k, v in self.__dict__.items())})"


def _index(device=None) -> int:
    if device is None:
        return _C.current_device()
    if isinstance(device, int):
        return device
    device = torch.device(device)
    if device.type != "presil":
        raise ValueError(f"expected a presil device, got {device}")
    return _C.current_device() if device.index is None else device.index


def device_count() -> int:
    """Number of devices: PRESIL_DEVICES, 1 by default."""
    return _C.device_count()


def is_available() -> bool:
    """True: the device needs nothing but this package. Starts no simulator."""
    return True


def is_initialized() -> bool:
    """Whether any device was opened."""
    return any(_C.is_open(i) for i in range(_C.device_count()))


def init() -> None:
    """Opens the current device (devices open at their first use by themselves)."""
    _C.open(_C.current_device())


def current_device() -> int:
    return _C.current_device()


def set_device(device) -> None:
    _C.set_device(_index(device))


class device:
    """Context: the current device inside. A negative index changes nothing."""

    def __init__(self, device):
        self.index = _index(device)
        self.previous = -1

    def __enter__(self):
        self.previous = _C.current_device()
        if self.index >= 0:
            _C.set_device(self.index)
        return self

    def __exit__(self, *exc):
        _C.set_device(self.previous)
        return False


def synchronize(device=None) -> None:
    """Waits for all work of the device; raises what its launches raised."""
    _C.synchronize(_index(device))


def get_device_properties(device=None) -> DeviceProperties:
    return DeviceProperties(_C.properties(_index(device)))


def get_device_name(device=None) -> str:
    p = get_device_properties(device)
    return f"{p.chip}-{p.config} ({p.lanes}x{p.cells})"


def get_amp_supported_dtype() -> list:
    return [torch.bfloat16, torch.float16]


def manual_seed(seed: int) -> None:
    _C.default_generator(_C.current_device()).manual_seed(int(seed))


def manual_seed_all(seed: int) -> None:
    for i in range(_C.device_count()):
        _C.default_generator(i).manual_seed(int(seed))


def seed() -> int:
    return _C.default_generator(_C.current_device()).seed()


def initial_seed() -> int:
    return _C.default_generator(_C.current_device()).initial_seed()


def get_rng_state(device="presil") -> torch.Tensor:
    return _C.default_generator(_index(device)).get_state()


def set_rng_state(state: torch.Tensor, device="presil") -> None:
    _C.default_generator(_index(device)).set_state(state)


def _is_in_bad_fork() -> bool:
    return False


def memory_stats(device=None) -> dict:
    return torch.accelerator.memory_stats(_index(device))


def memory_allocated(device=None) -> int:
    return torch.accelerator.memory_allocated(_index(device))


def max_memory_allocated(device=None) -> int:
    return torch.accelerator.max_memory_allocated(_index(device))


def memory_reserved(device=None) -> int:
    return torch.accelerator.memory_reserved(_index(device))


def reset_peak_memory_stats(device=None) -> None:
    torch.accelerator.reset_peak_memory_stats(_index(device))


def empty_cache() -> None:
    torch.accelerator.empty_cache()


def mem_get_info(device=None) -> tuple:
    """(free, total) bytes."""
    p = _C.properties(_index(device))["total_memory"]
    return p - memory_allocated(device), p


def current_stream(device=None) -> torch.Stream:
    return torch.accelerator.current_stream(torch.device("presil", _index(device)))


class Stream(torch.Stream):
    def __new__(cls, device=None, priority=0, **kwargs):
        return super().__new__(cls, torch.device("presil", _index(device)), priority=priority, **kwargs)


class Event(torch.Event):
    def __new__(cls, enable_timing=False):
        return super().__new__(cls, device="presil", enable_timing=enable_timing)


def host_operators() -> dict:
    """Operators that ran on the host since the last reset: name -> {calls, seconds, reason}."""
    return _C.host_operators()


def reset_host_operators() -> None:
    _C.reset_host_operators()


class reports:
    """Context that collects a report (dict) of every launch: `with torch.presil.reports() as r: ...; r.take()`."""

    def __enter__(self):
        _C.collect_reports(True)
        return self

    def take(self) -> list:
        """Reports of the launches that have finished, oldest first; waits for the current device."""
        _C.synchronize(_C.current_device())
        return _C.take_reports()

    def __exit__(self, *exc):
        for i in range(_C.device_count()):
            _C.synchronize(i)
        _C.collect_reports(False)
        return False
