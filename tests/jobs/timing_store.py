# SPDX-License-Identifier: Apache-2.0
"""libpresil_store from Python (presil_store.h), as far as tests look at a store or falsify it."""

import ctypes as c
import os
from pathlib import Path

LIBRARY = c.CDLL(str(Path(os.environ["PRESIL_BUILD_DIR"]) / "lib" / "libpresil_store.so"))
LIBRARY.presil_store_error.restype = c.c_char_p
ENGINES, CAUSES, COUNTERS = 5, 16, 16


class Options(c.Structure):
    _fields_ = [("size", c.c_uint32), ("flags", c.c_uint32), ("path", c.c_char_p), ("bytes", c.c_uint64)]


class Timing(c.Structure):
    _fields_ = [("size", c.c_uint32), ("segments", c.c_uint32)]
    _fields_ += [(n, c.c_uint64) for n in ("cycles", "fill", "drain", "read_bytes", "write_bytes", "read_beats")]
    _fields_ += [("write_beats", c.c_uint64), ("descriptors", c.c_uint64)]
    _fields_ += [("stalls", c.c_uint64 * CAUSES * ENGINES), ("counters", c.c_uint64 * COUNTERS)]


class Row(c.Structure):
    _fields_ = [("size", c.c_uint32), ("reserved0", c.c_uint32), ("key", c.c_uint8 * 16), ("label", c.c_char_p)]
    _fields_ += [("identity", c.c_char_p), ("uses", c.c_uint64), ("used", c.c_int64), ("timing", Timing)]


EACH = c.CFUNCTYPE(c.c_int, c.c_void_p, c.POINTER(Row))


class Store:
    """`with Store(path) as store`: one that exists."""

    def __init__(self, path):
        self.options = Options(c.sizeof(Options), 2, str(path).encode(), 0)

    def _check(self, status: int) -> None:
        if status:
            raise OSError(LIBRARY.presil_store_error().decode())

    def __enter__(self):
        self.handle = c.c_void_p()
        self._check(LIBRARY.presil_store_open(c.byref(self.options), c.byref(self.handle)))
        return self

    def __exit__(self, *_):
        LIBRARY.presil_store_close(self.handle)

    def rows(self) -> list[Row]:
        found = []

        def take(_, row):
            found.append(Row.from_buffer_copy(row.contents))
            return 0

        self._check(LIBRARY.presil_store_list(self.handle, EACH(take), None))
        for row in found:  # texts were the library's
            row.label, row.identity = b"falsified", b"falsified"
        return found

    def put(self, row: Row) -> None:
        self._check(LIBRARY.presil_store_put(self.handle, c.byref(row)))


def rows(path) -> list[Row]:
    with Store(path) as store:
        return store.rows()
