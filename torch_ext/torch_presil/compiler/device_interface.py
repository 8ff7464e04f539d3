# SPDX-License-Identifier: Apache-2.0
"""What torch._dynamo wants to know about a device."""

import torch


def make_interface(base):
    """The interface class; base: torch._dynamo.device_interface.DeviceInterface, given so that this module doesn't
    import torch._dynamo."""
    presil = torch.presil

    class PresilInterface(base):
        device = presil.device
        Event = torch.Event
        Stream = torch.Stream
        current_device = staticmethod(presil.current_device)
        set_device = staticmethod(presil.set_device)
        device_count = staticmethod(presil.device_count)
        is_available = staticmethod(presil.is_available)
        synchronize = staticmethod(presil.synchronize)
        current_stream = staticmethod(presil.current_stream)
        memory_allocated = staticmethod(presil.memory_allocated)

        class Worker:
            set_device = staticmethod(presil.set_device)
            current_device = staticmethod(presil.current_device)
            get_device_properties = staticmethod(presil.get_device_properties)

        @staticmethod
        def exchange_device(index: int) -> int:
            before = presil.current_device()
            if index >= 0:
                presil.set_device(index)
            return before

        maybe_exchange_device = exchange_device

        @staticmethod
        def stream(stream):
            return stream

        @staticmethod
        def set_stream(stream) -> None:
            torch.accelerator.set_stream(stream)

        @staticmethod
        def _set_stream_by_id(stream_id: int, device_index: int, device_type: int) -> None:
            torch.accelerator.set_stream(
                torch.Stream(stream_id=stream_id, device_index=device_index, device_type=device_type)
            )

        @staticmethod
        def get_raw_stream(index: int) -> int:
            return torch.accelerator.current_stream(index).stream_id

        @staticmethod
        def get_compute_capability(device=None) -> str:
            return presil.get_device_properties(device).config

        @staticmethod
        def is_bf16_supported(including_emulation: bool = False) -> bool:
            return True

    return PresilInterface
