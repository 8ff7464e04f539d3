# SPDX-License-Identifier: Apache-2.0
"""What launches would be estimated at by the others: driver/include/presil_store.h through ctypes."""

import ctypes as c
import hashlib
from pathlib import Path

from . import driver_api as d
from .launch_listener import Work


class _Timing(c.Structure):
    _fields_ = [("size", c.c_uint32), ("segments", c.c_uint32), ("cycles", c.c_uint64), ("others", c.c_uint64 * 7)]
    _fields_ += [("stalls", c.c_uint64 * d.CAUSES * d.ENGINES), ("counters", c.c_uint64 * d.COUNTERS)]


class _Row(c.Structure):
    _fields_ = [("size", c.c_uint32), ("reserved0", c.c_uint32), ("key", c.c_ubyte * 16), ("label", c.c_char_p)]
    _fields_ += [("identity", c.c_char_p), ("uses", c.c_uint64), ("used", c.c_int64)]
    _fields_ += [("timing", _Timing), ("work", Work)]


class _Estimate(c.Structure):
    _fields_ = [("size", c.c_uint32), ("neighbours", c.c_uint32), ("cycles", c.c_uint64)]
    _fields_ += [(name, c.c_double) for name in ("median_error", "error", "stalls_median", "stalls_error")]


class _Options(c.Structure):
    _fields_ = [("size", c.c_uint32), ("flags", c.c_uint32), ("path", c.c_char_p), ("bytes", c.c_uint64)]


_EACH = c.CFUNCTYPE(c.c_int, c.c_void_p, c.POINTER(_Row), c.POINTER(_Estimate))


def library() -> Path:
    """libpresil_store.so of this build, or of the installed package; it may be built without one."""
    return d.library_path().with_name("libpresil_store.so.0")


def estimates(launches: list, folder: Path) -> list:
    """launches: (key, cycles, Work) -> (cycles, estimate from the others; 0: it would be simulated)."""
    loaded = c.CDLL(str(library()))
    loaded.presil_store_error.restype = c.c_char_p
    path, store, found = str(folder / "timings.sqlite").encode(), c.c_void_p(), []

    def call(name: str, *arguments) -> None:
        if code := getattr(loaded, name)(*arguments):
            raise d.DeviceError(code, loaded.presil_store_error().decode(errors="replace"))

    call("presil_store_open", c.byref(_Options(c.sizeof(_Options), 0, path, 0)), c.byref(store))
    try:
        for key, cycles, work in launches:
            row = _Row(size=c.sizeof(_Row), label=b"launch", identity=b"conform", work=work)
            row.key[:] = hashlib.blake2b(key, digest_size=16).digest()
            row.timing.size, row.timing.segments, row.timing.cycles = c.sizeof(_Timing), 1, cycles
            call("presil_store_put", store, c.byref(row))
        each = _EACH(lambda _, row, e: found.append((row.contents.timing.cycles, e.contents.cycles)) or 0)
        call("presil_store_leave_one_out", store, each, None)
    finally:
        loaded.presil_store_close(store)
    return found
