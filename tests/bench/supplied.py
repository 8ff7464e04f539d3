# SPDX-License-Identifier: Apache-2.0
"""Launches of mode `verify` that are compared with what a test supplies, in place of the model's answer: what differs
fails and leaves a bundle as any other, whose first difference is the test's."""

import contextlib
import ctypes as C
from pathlib import Path

from . import driver, kept

PUT = C.CFUNCTYPE(None, C.c_void_p, C.c_uint64, C.c_char_p, C.c_uint64)
SUPPLY = C.CFUNCTYPE(C.c_int, C.c_void_p, C.c_void_p, PUT, C.c_void_p)
SET = C.CFUNCTYPE(C.c_int, C.c_void_p, C.c_void_p, C.c_void_p)
IDENTIFY = C.CFUNCTYPE(C.c_int, C.c_void_p, C.c_void_p, C.c_void_p)


class Ops(C.Structure):
    """presil_capture_ops"""

    _fields_ = [("size", C.c_uint32), ("reserved0", C.c_uint32)]
    _fields_ += [(name, C.c_void_p) for name in ("begin", "expected", "end")] + [("supply", SUPPLY)]


class Source(C.Structure):
    """presil_capture_source"""

    _fields_ = [("size", C.c_uint32), ("reserved0", C.c_uint32), ("who", C.c_void_p)]
    _fields_ += [("set_capture", SET), ("identify", IDENTIFY)]


class Supplied:
    """answer(): (address, bytes) of all that the launch which runs should write."""

    def __init__(self, device: driver.Device, answer):
        self.device, self.answer, self.ops = device, answer, None
        self.source = Source(C.sizeof(Source), 0, device.handle.value, SET(self._set), IDENTIFY(self._identify))

    def _set(self, _who, ops, context) -> int:
        if ops:
            self.ops = Ops.from_buffer_copy(C.string_at(ops, C.sizeof(Ops)))
            self.ops.supply = SUPPLY(self._supply)
        given = C.byref(self.ops) if ops else None
        return driver.LIB.presil_set_capture(self.device.handle, given, C.c_void_p(context))

    def _identify(self, _who, info, identity) -> int:
        status = driver.LIB.presil_device_get_info(self.device.handle, C.c_void_p(info))
        return status or driver.LIB.presil_device_identify(self.device.handle, C.c_void_p(identity))

    def _supply(self, _context, _launch, put, core) -> int:
        address, data = self.answer()
        put(core, address, data, len(data))
        return 0


@contextlib.contextmanager
def failures_against(device: driver.Device, answer, folder: Path):
    """Launches inside that write something else leave bundles in the folder."""
    supplied = Supplied(device, answer)
    captured = kept.Captured(device, folder, failures=True, source=supplied.source)
    try:
        yield
    finally:
        captured.close()
