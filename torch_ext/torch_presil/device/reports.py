# SPDX-License-Identifier: Apache-2.0
"""What ran: reports of launches, operators of the host, what the host moved."""

from torch_presil import _C
from torch_presil.device._index import index_of

__all__ = ["host_moves", "host_operators", "reports", "reset_host_operators", "verified"]


def host_operators() -> dict:
    """Operators that ran on the host since the last reset: name -> {calls, seconds, reason}; seconds are wall time
    without waiting for the chip."""
    return _C.host_operators()


def host_moves() -> dict:
    """What the host copied, converted or packed since the last reset: kind -> {calls, bytes of the results, seconds}.

    Kinds: "copy to the device", "copy to the host", "copy between devices", "copy on the device", "conversion to
    another dtype", "conversion to another layout", "weights packed", "activations to the chip's layout" and
    "activations from the chip's layout" (packed bytes; presil_chip.h: activation()). Strict mode allows them. Copies
    that the device's queue makes (pinned memory, non_blocking) have no seconds.
    """
    return _C.host_moves()


def reset_host_operators() -> None:
    """Starts host_operators() and host_moves() anew."""
    _C.reset_host_operators()
    _C.reset_host_moves()


def verified(device=None) -> dict:
    """Launches in mode "verify" since the device was opened: {"compared", "differed", "not_compared"}.

    Not compared, on a chip without an executor of its own, are launches of which it is not known what they compute:
    stored and merged lists, weights that were packed in another mode, what the reference doesn't know (a report's
    "difference" says which). Waits for the device."""
    index = index_of(device)
    _C.synchronize(index)
    return _C.verified(index)


class reports:
    """Context that collects a report (dict) of every launch inside: `with torch.presil.reports() as r: ...; r.take()`.
    It begins and ends by waiting for the devices. Contexts may be nested, and entered by several threads: each collects
    for itself, whoever launched. usage: a report also has "traffic" and "memories", where the chip tells
    (docs/perf.md); that takes the host longer than planning."""

    def __init__(self, usage: bool = False):
        self._collector = _C.Collector(usage)

    def __enter__(self):
        self._wait()
        self._collector.start()
        return self

    def take(self) -> list:
        """Reports of the launches that have finished and were not taken yet, oldest first; waits for the current
        device."""
        _C.synchronize(_C.current_device())
        return self._collector.take()

    def __exit__(self, *exc):
        self._wait()
        self._collector.stop()
        return False

    @staticmethod
    def _wait() -> None:
        for i in range(_C.device_count()):
            _C.synchronize(i)
