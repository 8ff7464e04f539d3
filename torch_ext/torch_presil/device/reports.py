# SPDX-License-Identifier: Apache-2.0
"""What ran: reports of launches, operators of the host, what the host moved."""

from torch_presil import _C

__all__ = ["host_moves", "host_operators", "reports", "reset_host_operators"]


def host_operators() -> dict:
    """Operators that ran on the host since the last reset: name -> {calls, seconds, reason}; seconds are wall time
    without waiting for the chip."""
    return _C.host_operators()


def host_moves() -> dict:
    """What the host copied, converted or packed since the last reset: kind -> {calls, bytes of the results, seconds}.

    Kinds: "copy to the device", "copy to the host", "copy between devices", "copy on the device", "conversion to
    another dtype", "conversion to another layout", "weights packed". Strict mode allows them. Copies that the device's
    queue makes (pinned memory, non_blocking) have no seconds.
    """
    return _C.host_moves()


def reset_host_operators() -> None:
    """Starts host_operators() and host_moves() anew."""
    _C.reset_host_operators()
    _C.reset_host_moves()


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
