# SPDX-License-Identifier: Apache-2.0
"""Where torch has no hook for an out-of-tree device: printing, DLPack's device, addresses that leave torch, sending to
another process, safetensors. Each keeps torch's own code for every other device."""

import functools
import sys
import threading
from multiprocessing.reduction import ForkingPickler

import torch
import torch.utils.dlpack
from torch.multiprocessing import reductions

from torch_presil import _C

__all__ = ["address", "install"]

# As Tensor.data_ptr(), for comparing: who gets it does not write there.
address = torch._C.TensorBase.data_ptr


def _on_device(value) -> bool:
    return value.device.type == "presil"


def _print_from_host_memory() -> None:
    """torch formats with some twenty operators, more for large tensors. They read a CPU view of the memory instead:
    no launch, no fallback, no copy."""
    original = torch._tensor_str._tensor_str

    @functools.wraps(original)
    def tensor_str(self, indent):
        if _on_device(self):
            if self._is_zerotensor():
                self = self.clone()
            # A subclass with a dispatcher of its own may have no memory behind it.
            plain = type(self) in (torch.Tensor, torch.nn.Parameter) and torch._C._has_storage(self)
            self = _C.host_view(self.detach()) if plain else self.cpu()
        return original(self, indent)

    torch._tensor_str._tensor_str = tensor_str


def _name_dlpack_device() -> None:
    """torch.Tensor.__dlpack_device__ knows the backend by its first name only ("privateuse1")."""
    original = torch.Tensor.__dlpack_device__

    @functools.wraps(original)
    def __dlpack_device__(self):
        if not torch.overrides.has_torch_function_unary(self) and _on_device(self):
            return torch.utils.dlpack.DLDeviceType.kDLExtDev, self.device.index
        return original(self)

    torch.Tensor.__dlpack_device__ = __dlpack_device__


def _note_strangers() -> None:
    """Who gets an address or a capsule may write the memory without torch: from then on what was made of the bytes
    (packed weights) is compared with them before it is used."""

    def on_tensors(owner, name):
        original = getattr(owner, name)

        @functools.wraps(original)
        def noted(tensor, *args, **kwargs):
            result = original(tensor, *args, **kwargs)
            if isinstance(tensor, torch.Tensor) and tensor.device.type == "presil" and torch._C._has_storage(tensor):
                _C.expose(tensor)
            return result

        setattr(owner, name, noted)

    on_tensors(torch.Tensor, "data_ptr")
    on_tensors(torch.Tensor, "__dlpack__")
    for module in (torch._C, torch.utils.dlpack):
        for name in ("_to_dlpack", "_to_dlpack_versioned", "to_dlpack"):
            if hasattr(module, name):
                on_tensors(module, name)

    original = torch.UntypedStorage.data_ptr

    @functools.wraps(original)
    def data_ptr(self):
        begin = original(self)
        if self.device.type == "presil":
            _C.expose_bytes(begin, self.nbytes())
        return begin

    torch.UntypedStorage.data_ptr = data_ptr


def _refuse(text: str):
    raise RuntimeError(text)


def _refuse_processes() -> None:
    """Device memory belongs to the simulated device of one process. What a queue's feeder thread would only print is
    raised where the message is received."""

    def guarded(original):
        @functools.wraps(original)
        def reduce(value):
            if not _on_device(value):
                return original(value)
            text = (
                f"presil: a {type(value).__name__} on {value.device} can't be sent to another process: its memory "
                f"belongs to the simulated device of this one. "
                "Send value.cpu(), and move it to the device there"
            )
            if threading.current_thread().name == "QueueFeederThread":
                return _refuse, (text,)
            raise RuntimeError(text)

        return reduce

    for kind in (torch.Tensor, torch.nn.Parameter):
        ForkingPickler.register(kind, guarded(reductions.reduce_tensor))
    ForkingPickler.register(torch.UntypedStorage, guarded(reductions.reduce_storage))


def _name_safetensors_device() -> None:
    """safetensors has a fixed list of device names, and takes numbers: the current accelerator's."""
    try:
        import safetensors
    except ImportError:
        return
    original = safetensors.safe_open

    @functools.wraps(original, updated=())
    def safe_open(filename, framework, device="cpu", **options):
        if isinstance(device, (str, torch.device)) and str(device).partition(":")[0] == "presil":
            index = torch.device(device).index
            device = _C.current_device() if index is None else index
        return original(filename, framework, device, **options)

    for name in ("safetensors", "safetensors.torch"):
        if name in sys.modules:
            sys.modules[name].safe_open = safe_open


def install() -> None:
    """Called once, at import."""
    _print_from_host_memory()
    _name_dlpack_device()
    _note_strangers()
    _refuse_processes()
    _name_safetensors_device()
