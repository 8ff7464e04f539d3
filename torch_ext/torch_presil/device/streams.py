# SPDX-License-Identifier: Apache-2.0
"""Streams and events. All streams of a device share its one queue, in the order of enqueuing; what waits promise
holds, priorities change nothing."""

import torch

from torch_presil import _C
from torch_presil.device._index import index_of

__all__ = ["Event", "Stream", "StreamContext", "current_stream", "default_stream", "set_stream", "stream"]


class Stream(torch.Stream):
    """A stream of the device's pool (32 of either priority, handed out in turn).

    priority: 0 or -1 (higher); kept, but without effect. stream_id, device_index, device_type: an existing stream.
    """

    def __new__(cls, device=None, priority: int = 0, **kwargs):
        if "stream_id" in kwargs:
            return super().__new__(cls, **kwargs)
        return super().__new__(cls, torch.device("presil", index_of(device)), priority=priority, **kwargs)

    @property
    def priority(self) -> int:
        return _C.stream_priority(self.stream_id)

    @staticmethod
    def priority_range() -> tuple:
        """(lowest, highest)."""
        return 0, -1

    def record_event(self, event=None) -> "Event":
        event = Event() if event is None else event
        event.record(self)
        return event

    def __repr__(self) -> str:
        return f"<torch.presil.Stream device={self.device} id={self.stream_id}>"


class _EventType(type):
    def __instancecheck__(cls, obj) -> bool:
        return isinstance(obj, torch.Event) and obj.device.type == "presil"


class Event(metaclass=_EventType):
    """Makes a torch.Event of the device (no subclass: torch.Event.elapsed_time takes its own type only).

    enable_timing: elapsed_time() gives milliseconds of simulated time, from the chip's cycle counter and clock_mhz of
    its configuration (modes rtl and verify).
    blocking is accepted and changes nothing. interprocess: NotImplementedError, because every process has devices of
    its own.
    """

    def __new__(cls, enable_timing: bool = False, blocking: bool = False, interprocess: bool = False):
        if interprocess:
            raise NotImplementedError(
                "presil: an event can't be shared with another process: every process has devices of its own"
            )
        return torch.Event(device="presil", enable_timing=enable_timing, blocking=blocking)


def _of(stream: torch.Stream) -> Stream:
    return Stream(stream_id=stream.stream_id, device_index=stream.device_index, device_type=stream.device_type)


def current_stream(device=None) -> Stream:
    """Of the calling thread."""
    return _of(torch.accelerator.current_stream(torch.device("presil", index_of(device))))


def default_stream(device=None) -> Stream:
    index = index_of(device)
    return Stream(stream_id=0, device_index=index, device_type=current_stream(index).device_type)


def set_stream(stream) -> None:
    """The current stream, and its device the current device. None changes nothing."""
    if stream is not None:
        torch.accelerator.set_stream(stream)


class StreamContext:
    """Context: the current stream inside. None changes nothing."""

    def __init__(self, stream):
        self.stream = stream
        self._before = []

    def __enter__(self):
        if self.stream is not None:
            self._before.append((current_stream(self.stream.device), _C.current_device()))
            set_stream(self.stream)
        return self.stream

    def __exit__(self, *exc):
        if self.stream is not None:
            stream, device = self._before.pop()
            set_stream(stream)
            _C.set_device(device)
        return False


def stream(stream) -> StreamContext:
    return StreamContext(stream)
