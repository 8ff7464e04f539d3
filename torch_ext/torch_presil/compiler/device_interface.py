# SPDX-License-Identifier: Apache-2.0
"""What torch._dynamo wants to know about a device."""

import torch

OURS = ("current_device", "set_device", "device_count", "is_available", "synchronize", "current_stream")
OURS += ("memory_allocated",)


def make_interface(base):
    """The interface class; base: torch._dynamo.device_interface.DeviceInterface, given so that this module doesn't
    import torch._dynamo."""
    presil = torch.presil

    class PresilInterface(base):
        device, Event, Stream, Worker = presil.device, torch.Event, torch.Stream, presil
        exchange_device = staticmethod(torch._C._accelerator_exchangeDevice)
        maybe_exchange_device = staticmethod(torch._C._accelerator_maybeExchangeDevice)
        set_stream = staticmethod(torch.accelerator.set_stream)

        @staticmethod
        def stream(stream):
            return stream

        @staticmethod
        def _set_stream_by_id(stream_id: int, device_index: int, device_type: int) -> None:
            torch.accelerator.set_stream(torch.Stream(stream_id, device_index, device_type))

        @staticmethod
        def get_raw_stream(index: int) -> int:
            return torch.accelerator.current_stream(index).stream_id

        @staticmethod
        def get_compute_capability(device=None) -> str:
            return presil.get_device_properties(device).config

        @staticmethod
        def is_bf16_supported(including_emulation: bool = False) -> bool:
            return True

    for name in OURS:
        setattr(PresilInterface, name, staticmethod(getattr(presil, name)))
    return PresilInterface
