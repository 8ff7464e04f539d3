# SPDX-License-Identifier: Apache-2.0
"""What ran: reports of launches, operators of the host."""

from torch_presil import _C

__all__ = ["host_operators", "reports", "reset_host_operators"]


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
